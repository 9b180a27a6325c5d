"""The page on Kriging and Concord beside every other method, from exported cells.

``python -m tools.concord_table docs`` (``make concord``) makes ``docs/concord.md`` of what lies in
``docs/results/concord``: `understudy export concord --to docs/results` puts it there. Blocks of the
study that are not there are named as not run. ``docs/results/concord-in-words.txt``, if it is
there, is put above the tables.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from tools.concord_cells import (
    STUDY,
    TUNED,
    Block,
    block_names,
    blocks_of,
    is_full,
    strategy_names,
)
from understudy.studies.statistics.export import CELLS, read
from understudy.studies.statistics.paired_tests import SIGNIFICANT, interval
from understudy.studies.statistics.text_table import number

WORDS, PAGE = "concord-in-words.txt", "concord.md"
NOTHING = "–"
FIXED = "Momentum(lr=1, beta=0.5)"
TUNED_WORDS = (
    "The server of a row is the one of sixteen that has the least validation loss in all settings "
    "of the table together, on three other seeds."
)
ERRORS = (
    "oracle_stand_in_error_known",
    "oracle_last_update_error",
    "oracle_stand_ins_error_relative",
    "oracle_cosine",
)
ATTRIBUTION = {  # what is taken away, or put on something else
    "kriging": "without step 3: Kriging, plain sum",
    "concord unbounded": "without the bound",
    "dropout + concord": "step 3 alone, over those who came",
    "fdms + concord": "step 3 over FDMS's friends",
    "stale + concord": "step 3 over last updates",
    "fedvarp + concord": "step 3 over FedVARP's stand-ins",
    "kriging + fedmgda": "FedMGDA+ in place of step 3",
    "kriging + fedfv": "FedFV in place of step 3",
    "kriging + scaffold": "SCAFFOLD's correction in place of step 3",
    "concord + scaffold": "with SCAFFOLD's correction as well",
}
TITLE = """\
# Kriging and Concord beside every other method

<!-- Made by `make concord` from results/concord and concord-in-words.txt: not to be edited. -->

[`concord()`](algorithms/concord.md) is [`Kriging`](algorithms/kriging.md), which predicts what
the absent would have sent, and `Concord`, a step that agrees with everyone's update. The study
`concord` runs it beside every other method of the library: the same data, attendance and local
training, seed by seed, on seeds that no setting was chosen on.
"""
SHORT = """\
## In short

Each setting's best rival: of the published methods, whatever is made of `Kriging` or `Concord` left
aside, the one with the best mean on the very seeds shown, which favours it. Differences are rival
minus `concord`, with half a 95 % interval: below 0 the rival is behind, for Synthetic, whose
numbers are losses, above 0. ▲ the rival is shown to be better, ▼ worse, by the tests of the tables
further down; without a sign nothing is shown.
"""
READING = """\
## How to read the tables

A cell is the mean over seeds of the last ten evaluations, and in brackets its difference to
`concord` (in a tuned table, to `concord tuned`) with half a 95 % interval, paired by seed.
**Bold**: the best of the column. ▲ better, ▼ worse than that row: p < 0.05 in the paired t-test,
by Holm over all cells of the table; five seeds at least. `full` rows have everybody present and
are not tested. † a run ended no better than a guess, below 15 %.
"""
COMMANDS = """\
## Commands

```sh
understudy run concord --scale results --block digits      # block by block, or all without --block
understudy export concord --to docs/results
make concord                               # this page
```
"""


# -- the page --------------------------------------------------------------------------------------


def in_short(blocks: Sequence[Block]) -> Iterator[str]:
    """Ours beside the best rival of each setting, the tuned tables first."""
    yield SHORT
    for tuned in (True, False):
        part = [block for block in blocks if block.is_tuned == tuned]
        compared = [line for block in part for line in _beside_the_best(block)]
        if not compared:
            continue
        yield _counted(part, tuned)
        yield ""
        yield "| data | setting | `concord` | best rival | rival − `concord` | all present |"
        yield "| --- | --- | ---: | --- | ---: | ---: |"
        yield from compared
        yield ""


def _beside_the_best(block: Block) -> Iterator[str]:
    for setting in block.settings:
        rival = block.best(setting, block.rivals)
        ours = block.cells[block.ours, setting]
        if rival is None or ours.diverged:
            continue
        full = block.cells.get(("full", setting))
        mean = _number(block, block.cells[rival, setting].mean)
        gap = _gap(block, rival, setting) + _sign(block, rival, setting)
        cells = [_number(block, ours.mean), f"`{rival}` {mean}", gap]
        cells.append(NOTHING if full is None or full.diverged else _number(block, full.mean))
        yield f"| {block.name} | {setting} | {' | '.join(cells)} |"


def _counted(blocks: Sequence[Block], tuned: bool) -> str:
    """In how many settings the best rival is behind, level, ahead."""
    ahead = shown_worse = shown_better = n = 0
    for block in blocks:
        for setting in block.settings:
            rival = block.best(setting, block.rivals)
            if rival is None or block.cells[block.ours, setting].diverged:
                continue
            gap = np.mean(block.cells[rival, setting].minus(block.cells[block.ours, setting]))
            is_shown = block.p_values.get((rival, setting), 1.0) < SIGNIFICANT
            better = block.better(float(gap))
            n += 1
            ahead += better
            shown_better += is_shown and better
            shown_worse += is_shown and not better
    head = (
        f"**The server of each row tuned.** {TUNED_WORDS}"
        if tuned
        else f'**One server for all**, `{FIXED}`, but where a row says "at".'
    )
    return (
        f"{head} The best rival's mean is ahead of `concord`'s in {ahead} of {n} settings; it is "
        f"shown to be better in {shown_better}, and worse in {shown_worse}."
    )


def table(block: Block) -> Iterator[str]:
    """A row for each strategy, a column for each setting."""
    picked = "| server " if block.servers else ""
    yield f"| {picked}| {' | '.join(block.settings)} |"
    yield f"| --- |{' --- |' if picked else ''}{' ---: |' * len(block.settings)}"
    for row in block.strategies:
        cells = [_shown(block, row, setting) for setting in block.settings]
        if picked:
            cells.insert(0, block.servers.get(row, FIXED))
        yield f"| {row} | {' | '.join(cells)} |"


def _shown(block: Block, row: str, setting: str) -> str:
    cell = block.cells.get((row, setting))
    if cell is None:
        return NOTHING
    if cell.diverged:
        return "diverged"
    text = _number(block, cell.mean)
    others = [other for other in block.strategies if not is_full(other)]
    best = block.best(setting, others)
    if best is not None and not is_full(row) and cell.mean == block.cells[best, setting].mean:
        text = f"**{text}**"
    if cell.collapsed:
        text = f"{text} †"
    ours = block.cells[block.ours, setting]
    if row == block.ours or ours.diverged:
        return text
    return f"{text} ({_gap(block, row, setting)}){_sign(block, row, setting)}"


def _gap(block: Block, row: str, setting: str) -> str:
    """Difference to ours, with half an interval."""
    return _difference(block, block.cells[row, setting].minus(block.cells[block.ours, setting]))


def _difference(block: Block, gaps: Sequence[float]) -> str:
    gap = interval(gaps)
    half = "" if gap.half is None else f" ± {_number(block, gap.half)}"
    return f"{_number(block, gap.mean, signed=True)}{half}"


def _sign(block: Block, row: str, setting: str) -> str:
    """Which of the two is shown to be better, if one is."""
    if block.p_values.get((row, setting), 1.0) >= SIGNIFICANT:
        return ""
    gaps = block.cells[row, setting].minus(block.cells[block.ours, setting])
    return " ▲" if block.better(float(np.mean(gaps))) else " ▼"


def _number(block: Block, value: float, *, signed: bool = False) -> str:
    digits, scale = (3, 1) if block.is_loss else (1, 100)
    return number(scale * value, digits, signed=signed)


def rivals(blocks: Sequence[Block]) -> Iterator[str]:
    """Every published method beside ours, over all settings of a block at once."""
    rows = dict.fromkeys(row.removesuffix(TUNED) for block in blocks for row in block.rivals)
    order = [row for row in strategy_names() if row in rows]
    yield "## Rival by rival"
    yield ""
    yield "Rival minus `concord` (where rows are tuned, minus `concord tuned`), mean over all"
    yield "settings of a block, with half a 95 % interval over seeds; accuracy in points, for"
    yield "Synthetic the loss (more is worse). No correction for looking at many rivals."
    yield ""
    yield f"| | {' | '.join(block.name for block in blocks)} |"
    yield f"| --- |{' ---: |' * len(blocks)}"
    for row in order:
        cells = [_over_settings(block, _as_in(block, row) or row) for block in blocks]
        yield f"| `{row}` | {' | '.join(cells)} |"
    yield ""


def _over_settings(block: Block, row: str) -> str:
    if any((row, s) not in block.cells for s in block.settings):
        return NOTHING
    if any(block.cells[one, s].diverged for one in (row, block.ours) for s in block.settings):
        return "diverged"
    gaps = [block.cells[row, s].minus(block.cells[block.ours, s]) for s in block.settings]
    return _difference(block, [float(np.mean(of_seed)) for of_seed in zip(*gaps, strict=True)])


def attribution(blocks: Sequence[Block]) -> Iterator[str]:
    """What each step is worth: means over a block's settings of the difference to ours."""
    shown = [block for block in blocks if any(_as_in(block, row) for row in ATTRIBUTION)]
    if not shown:
        return
    yield "## What each step brings"
    yield ""
    yield "Mean over the settings of a block of the difference to `concord` (where rows are tuned,"
    yield "to `concord tuned`, from rows that are), and its worst setting; accuracy in points, for"
    yield "Synthetic the loss (more is worse)."
    yield ""
    yield f"| | {' | '.join(block.name for block in shown)} |"
    yield f"| --- |{' ---: |' * len(shown)}"
    for row, words in ATTRIBUTION.items():
        cells = [_brings(block, _as_in(block, row)) for block in shown]
        yield f"| {words} (`{row}`) | {' | '.join(cells)} |"
    yield ""


def _as_in(block: Block, row: str) -> str | None:
    """What a row is called in a block, if it is there."""
    name = row + TUNED if block.is_tuned else row
    return name if name in block.strategies else None


def _brings(block: Block, row: str | None) -> str:
    there = [s for s in block.settings if row is not None and (row, s) in block.cells]
    if row is None or not there:
        return NOTHING
    if any(block.cells[one, s].diverged for one in (row, block.ours) for s in there):
        return "diverged"
    gaps = [float(np.mean(block.cells[row, s].minus(block.cells[block.ours, s]))) for s in there]
    worst = max(gaps) if block.is_loss else min(gaps)
    told = [_number(block, value, signed=True) for value in (float(np.mean(gaps)), worst)]
    return f"{told[0]} (worst {told[1]})"


def failures(blocks: Sequence[Block]) -> Iterator[str]:
    """Every cell in which a row is shown to be better."""
    lines = []
    for block in blocks:
        for (row, setting), p in block.p_values.items():
            gap = float(np.mean(block.cells[row, setting].minus(block.cells[block.ours, setting])))
            if p < SIGNIFICANT and block.better(gap):
                told = _number(block, gap, signed=True)
                lines.append(f"* {block.name}, {setting}: `{row}` by {told}")
    yield "## Where it is shown to be behind"
    yield ""
    if not lines:
        yield "In no cell is another row shown to be better (▲): neither a rival nor a variant of"
        yield "our own. That is not the same as being the best of every column."
    yield from lines
    yield ""


def collapses(blocks: Sequence[Block]) -> Iterator[str]:
    """How many runs of each row ended no better than a guess."""
    lines = []
    for block in blocks:
        counts: dict[int, list[str]] = {}
        for row in block.strategies:
            cells = [block.cells[row, s] for s in block.settings if (row, s) in block.cells]
            cells = cells[:1] if is_full(row) else cells  # the same runs in each column
            counts.setdefault(sum(len(cell.collapsed) for cell in cells), []).append(row)
        if counts.keys() != {0}:
            told = (
                f"{n}: {', '.join(f'`{row}`' for row in counts[n])}" for n in sorted(counts) if n
            )
            runs = block.n_seeds * len(block.settings)
            lines.append(f"* {block.name}, of {runs} runs of each row: {'; '.join(told)}")
    if lines:
        yield "## Runs that collapsed"
        yield ""
        yield "Runs whose last evaluation is no better than a guess, below 15 %, on data with ten"
        yield "classes: rows that are not named have none."
        yield ""
        yield from lines
        yield ""


def errors(docs: Path) -> Iterator[str]:
    """How good the predictions are, from the block with the oracle."""
    folder = docs / "results" / STUDY
    if not (folder / CELLS).is_file():
        return
    rows = [row for row in read(folder).rows if row.labels["block"] == "errors"]
    if not rows:
        return
    yield "## The predictions' error, and the last update's"
    yield ""
    yield "Mean over rounds and seeds, relative to the true updates' squared norm: of single"
    yield "stand-ins of clients whose last update is among their rows, of these last updates by"
    yield "themselves in the same rounds, and of the share-weighted sum of all; and the cosine of"
    yield "that sum with the true mean. Each row follows its own model, so that a row's stand-ins"
    yield "are to be read beside the last updates of the same row."
    yield ""
    yield "| setting | row | stand-ins | last updates | sum | cosine |"
    yield "| --- | --- | ---: | ---: | ---: | ---: |"
    order = strategy_names()
    places = sorted(
        {(str(row.labels["availability"]), str(row.labels["strategy"])) for row in rows},
        key=lambda place: (place[0], order.index(place[1])),
    )
    for setting, strategy in places:
        mine = [
            row.measures
            for row in rows
            if (row.labels["availability"], row.labels["strategy"]) == (setting, strategy)
        ]
        cells = []
        for name in ERRORS:
            values = [measures[name] for measures in mine if name in measures]
            cells.append(number(float(np.mean(values)), 2) if values else NOTHING)
        yield f"| {setting} | {strategy} | {' | '.join(cells)} |"
    yield ""


def not_run(blocks: Mapping[str, Block]) -> Iterator[str]:
    """Which blocks are missing, or are not whole."""
    missing = [name for name in block_names() if name not in blocks]
    if missing:
        yield f"**Not run yet:** {', '.join(missing)}."
        yield ""
    for block in blocks.values():
        if block.lacking:
            yield f"**{block.name} was not run to its end.** Not there, or not whole: " + (
                ", ".join(f"`{row}`" for row in block.lacking) + "."
            )
            yield ""


def page(docs: Path) -> str:
    """The whole page."""
    blocks = blocks_of(docs)
    shown = [block for block in blocks.values() if block.name != "errors"]
    shown.sort(key=lambda block: not block.is_tuned)
    words = docs / "results" / WORDS
    lines = [TITLE, *not_run(blocks)]
    if shown:
        lines += [*in_short(shown)]
    if words.is_file():
        lines += [words.read_text(encoding="utf-8").strip(), ""]
    if shown:
        lines += [*rivals(shown), *attribution(shown), *failures(shown), *collapses(shown)]
    lines += [*errors(docs)]
    if shown:
        lines += [READING]
    for block in shown:
        what = "test loss, less is better" if block.is_loss else "test accuracy, %"
        server = (
            TUNED_WORDS
            if block.is_tuned
            else f'The server of every row is `{FIXED}`, but where it says "at".'
        )
        lines += [
            f"## {block.name}",
            "",
            f"{what.capitalize()}; {block.n_seeds} seeds. {server}",
            "",
        ]
        lines += [*table(block), ""]
    lines += [COMMANDS]
    return "\n".join(lines)


def main(docs: Path) -> None:
    """``python -m tools.concord_table docs``"""
    (docs / PAGE).write_text(page(docs), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
