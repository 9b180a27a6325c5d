"""The page on Kriging and Concord beside every other method, from exported cells.

``python -m tools.concord_table docs`` (``make concord``) makes ``docs/concord.md`` of what lies in
``docs/results/concord``: `understudy export concord --to docs/results` puts it there. Blocks of the
study that are not there are named as not run. ``docs/results/concord-in-words.txt``, if it is
there, is put above the tables.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from understudy.studies.definition.builtins import built_in
from understudy.studies.statistics.export import CELLS, read
from understudy.studies.statistics.paired_tests import SIGNIFICANT, holm, interval, paired_t
from understudy.studies.statistics.text_table import number

STUDY, OURS, SCALE = "concord", "concord", "results"
WORDS, PAGE = "concord-in-words.txt", "concord.md"
LAST = 10  # evaluations at the end
LOSS_BLOCKS = ("synthetic", "synthetic_tuned")
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
}
TITLE = """\
# Kriging and Concord beside every other method

<!-- Made by `make concord` from results/concord and concord-in-words.txt: not to be edited. -->

[`concord()`](algorithms/concord.md) is [`Kriging`](algorithms/kriging.md), which predicts what
the absent would have sent, and `Concord`, a step that agrees with everyone's update. The study
`concord` runs it beside every other method of the library: the same data, attendance and local
training, seed by seed, on seeds that no setting was chosen on. The server is `Momentum(lr=1,
beta=0.5)` for every row, but where a row says "at" or "tuned".
"""
READING = """\
## How to read the tables

A cell is the mean over seeds of the last ten evaluations, and in brackets its difference to
`concord` with half a 95 % interval, paired by seed. **Bold**: the best of the column. ▲ better,
▼ worse than `concord`: p < 0.05 in the paired t-test, by Holm over all cells of the table; five
seeds at least. `full` rows have everybody present and are not tested.
"""
COMMANDS = """\
## Commands

```sh
understudy run concord --scale results --block digits      # block by block, or all without --block
understudy export concord --to docs/results
make concord                                               # this page
```
"""


@dataclass(frozen=True)
class Cell:
    """One row in one setting: a number for each seed."""

    values: dict[int, float]

    @property
    def mean(self) -> float:
        return float(np.mean(list(self.values.values())))

    def minus(self, other: Cell) -> list[float]:
        common = sorted(self.values.keys() & other.values.keys())
        return [self.values[seed] - other.values[seed] for seed in common]


@dataclass(frozen=True)
class Block:
    """One table: settings, rows, and what is measured."""

    name: str
    cells: dict[tuple[str, str], Cell]  # strategy, availability
    strategies: tuple[str, ...]
    settings: tuple[str, ...]

    @property
    def is_loss(self) -> bool:
        return self.name in LOSS_BLOCKS

    @property
    def n_seeds(self) -> int:
        return max(len(cell.values) for cell in self.cells.values())

    def p_values(self) -> dict[tuple[str, str], float]:
        """Adjusted for all comparisons with ours in the table."""
        plain: dict[tuple[str, str], float] = {}
        for (row, setting), cell in self.cells.items():
            ours = self.cells.get((OURS, setting))
            if ours is None or row == OURS or row.startswith("full"):
                continue
            common = sorted(cell.values.keys() & ours.values.keys())
            p = paired_t([cell.values[s] for s in common], [ours.values[s] for s in common])
            if p is not None:
                plain[row, setting] = p
        return dict(zip(plain, holm(list(plain.values())), strict=True)) if plain else {}

    def better(self, difference: float) -> bool:
        return difference < 0 if self.is_loss else difference > 0


def blocks_of(docs: Path) -> dict[str, Block]:
    """The exported blocks, in the study's order."""
    folder = docs / "results" / STUDY
    if not (folder / CELLS).is_file():
        return {}
    exported = read(folder)
    study = built_in(STUDY, SCALE)
    records = []
    for row in exported.rows:
        block = str(row.labels["block"])
        name = "test_loss" if block in LOSS_BLOCKS else "test_accuracy"
        points = [point[name] for point in exported.curves[row.key] if name in point]
        value = float(np.mean(points[-LAST:])) if points else float("nan")
        where = str(row.labels["availability"])
        records.append((block, str(row.labels["strategy"]), where, row.seed, value))
    frame = pd.DataFrame(records, columns=["block", "strategy", "setting", "seed", "value"])
    found = {}
    for name in [one for one in study.blocks if one in set(frame["block"])]:
        part = frame[frame["block"] == name]
        cells: dict[tuple[str, str], Cell] = {}
        for place, group in part.groupby(["strategy", "setting"], sort=False):
            row_name, setting = (str(one) for one in place)
            values = dict(zip(group["seed"].astype(int), group["value"].astype(float), strict=True))
            cells[row_name, setting] = Cell(values)
        there = {row_name for row_name, _ in cells}
        rows = tuple(row_name for row_name in study.strategies if row_name in there)
        settings = tuple(s for s in part["setting"].unique() if (OURS, s) in cells)
        found[name] = Block(name, _spread_full(cells, settings), rows, settings)
    return found


def _spread_full(
    cells: dict[tuple[str, str], Cell], settings: Sequence[str]
) -> dict[tuple[str, str], Cell]:
    """A row with everybody present has one setting of its own: it stands in every column."""
    spread = dict(cells)
    for (row, setting), cell in cells.items():
        if setting not in settings:
            spread |= {(row, other): cell for other in settings}
    return {place: cell for place, cell in spread.items() if place[1] in settings}


# -- the page --------------------------------------------------------------------------------------


def table(block: Block) -> Iterator[str]:
    """A row for each strategy, a column for each setting."""
    p = block.p_values()
    yield f"| | {' | '.join(block.settings)} |"
    yield f"| --- |{' ---: |' * len(block.settings)}"
    for row in block.strategies:
        cells = [_shown(block, row, setting, p.get((row, setting))) for setting in block.settings]
        yield f"| {row} | {' | '.join(cells)} |"


def _shown(block: Block, row: str, setting: str, p: float | None) -> str:
    cell = block.cells.get((row, setting))
    if cell is None or not np.isfinite(cell.mean):
        return "–"
    rivals = [
        other.mean
        for (name, where), other in block.cells.items()
        if where == setting and not name.startswith("full") and np.isfinite(other.mean)
    ]
    best = min(rivals) if block.is_loss else max(rivals)
    text = _number(block, cell.mean)
    text = f"**{text}**" if cell.mean == best and not row.startswith("full") else text
    if row == OURS:
        return text
    gap = interval(cell.minus(block.cells[OURS, setting]))
    half = "" if gap.half is None else f" ± {_number(block, gap.half)}"
    sign = ""
    if p is not None and p < SIGNIFICANT:
        sign = " ▲" if block.better(gap.mean) else " ▼"
    return f"{text} ({_number(block, gap.mean, signed=True)}{half}){sign}"


def _number(block: Block, value: float, *, signed: bool = False) -> str:
    return (
        number(value, 3, signed=signed) if block.is_loss else number(100 * value, 1, signed=signed)
    )


def attribution(blocks: Sequence[Block]) -> Iterator[str]:
    """What each step is worth: means over a block's settings of the difference to ours."""
    shown = [block for block in blocks if any(row in ATTRIBUTION for row in block.strategies)]
    if not shown:
        return
    yield "## What each step brings"
    yield ""
    yield "Mean over the settings of a block of the difference to `concord`, and its worst setting;"
    yield "accuracy in points, for Synthetic the loss (more is worse)."
    yield ""
    yield f"| | {' | '.join(block.name for block in shown)} |"
    yield f"| --- |{' ---: |' * len(shown)}"
    for row, words in ATTRIBUTION.items():
        cells = []
        for block in shown:
            gaps = [
                float(np.mean(block.cells[row, s].minus(block.cells[OURS, s])))
                for s in block.settings
                if (row, s) in block.cells
            ]
            if not gaps:
                cells.append("–")
                continue
            worst = max(gaps) if block.is_loss else min(gaps)
            told = [_number(block, value, signed=True) for value in (float(np.mean(gaps)), worst)]
            cells.append(f"{told[0]} (worst {told[1]})")
        yield f"| {words} (`{row}`) | {' | '.join(cells)} |"
    yield ""


def failures(blocks: Sequence[Block]) -> Iterator[str]:
    """Every cell in which a row is shown to be better."""
    lines = []
    for block in blocks:
        p = block.p_values()
        for (row, setting), value in p.items():
            gaps = block.cells[row, setting].minus(block.cells[OURS, setting])
            if value < SIGNIFICANT and block.better(float(np.mean(gaps))):
                gap = _number(block, float(np.mean(gaps)), signed=True)
                lines.append(f"* {block.name}, {setting}: `{row}` by {gap}")
    yield "## Where it is behind"
    yield ""
    if not lines:
        yield "In no cell is another row shown to be better (▲). Where it is not the best of a"
        yield "column, that can be read from the tables."
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
    yield "that sum with the true mean."
    yield ""
    yield "| setting | row | stand-ins | last updates | sum | cosine |"
    yield "| --- | --- | ---: | ---: | ---: | ---: |"
    order = list(built_in(STUDY, SCALE).strategies)
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
            cells.append(number(float(np.mean(values)), 2) if values else "–")
        yield f"| {setting} | {strategy} | {' | '.join(cells)} |"
    yield ""


def page(docs: Path) -> str:
    """The whole page."""
    blocks = blocks_of(docs)
    study = built_in(STUDY, SCALE)
    words = docs / "results" / WORDS
    lines = [TITLE]
    if words.is_file():
        lines += [words.read_text(encoding="utf-8").strip(), ""]
    missing = [name for name in study.blocks if name not in blocks]
    if missing:
        lines += [f"**Not run yet:** {', '.join(missing)}.", ""]
    shown = [block for block in blocks.values() if block.name != "errors"]
    if shown:
        lines += [*attribution(shown), *failures(shown)]
    lines += [*errors(docs)]
    if shown:
        lines += [READING]
    for block in shown:
        what = "test loss, less is better" if block.is_loss else "test accuracy, %"
        lines += [f"## {block.name}", "", f"{what}; {block.n_seeds} seeds.", "", *table(block), ""]
    lines += [COMMANDS]
    return "\n".join(lines)


def main() -> None:
    docs = Path(sys.argv[1])
    (docs / PAGE).write_text(page(docs), encoding="utf-8")


if __name__ == "__main__":
    main()
