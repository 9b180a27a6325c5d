"""The page of results: verdicts on the papers' claims, with the numbers they rest on.

``python -m tools.claims.results_page docs`` makes ``docs/results.md`` and its pictures from
``docs/claims.toml`` and the files below ``docs/results``, byte for byte the same on every run.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np

from tools.claims import verdicts
from tools.claims.paper_claims import Claim, Contrast, Side, read_claims
from tools.claims.paper_numbers import PaperNumbers
from tools.claims.results_book import PAPER, SCALE, Book, RowGroup, Sizes, has_values, row_groups
from tools.claims.results_pictures import overview, pictures
from tools.claims.verdicts import Judged, Verdict
from understudy.core.intervals import half_width
from understudy.measures import Measure, measure
from understudy.studies.definition.builtins import NAMES, listed
from understudy.studies.statistics.export import Row

SIGNS = {
    verdicts.REPRODUCED: "**reproduced**",
    verdicts.IN_PART: "**in part**",
    verdicts.MIXED: "**mixed**",
    verdicts.NOT_REPRODUCED: "**not reproduced**",
    verdicts.OPEN: "**open**",
    verdicts.NOT_RUN: "not run",
    verdicts.WITHDRAWN: "withdrawn",
}
OF_ALL = ("accuracy_best", "accuracy_last", "accuracy_last10", "loss_best", "loss_last")
TITLE = """\
# Results

<!-- Made by `make results` from claims.toml, paper-numbers/ and results/*/: not to be edited. -->

What the papers claim, and what runs of the built-in studies say to it.
"""
RULE = """\
## How it is judged

The claims were written down first, in [claims.toml](claims.toml); each is a set of *contrasts*,
numbers that are positive where the claim is right, one for each seed:

| kind | contrast |
| --- | --- |
| order | A − B |
| trend | difference of two gains A − B |
| near | A − B + 2 points: A is not worse than B by more than that |
| value | the mean of ours within the paper's ± tolerance (2 points; 10 % of losses and F1) |

A contrast **holds** when its mean is significantly above 0, is **contradicted** when it is
significantly below 0, and is **open** otherwise. Significantly: the 90 % t-interval of the mean
over at least three seeds lies on one side of 0 (within a claim corrected by Holm), and from five
seeds on an exact sign-flip test says so too, at 5 %. Where all numbers are equal, that test
alone decides.
A value holds when the interval of our mean lies within the paper's ± tolerance and is
contradicted when it lies outside; it is judged at the paper's own size only. A claim is
**reproduced** when all its contrasts hold ("mostly": more than half of them, and none is
contradicted; "the best": one contrast for each rival, its own hyper-parameter being fixed
beforehand), **in part** when some hold and none is contradicted, **mixed** when some hold and
some are contradicted, **not reproduced** when none holds and one is contradicted, and **open**
when none is decided; then the seeds are given that a power of 80 % would take, (2.5 s/d̄)² + 2,
or that no effect is seen (the mean is below its standard error). A run that diverged has no
number, and a contrast in which it takes part is open. Where no run of a seed reaches the accuracy
that a claim on speed names, its contrast of that seed is 0. A claim that the paper's own numbers
do not bear out is **withdrawn**: a test holds every other claim to the papers' curves and tables
(`paper-numbers/`), and the column *paper's own* shows the contrast there, over as many rounds
as ours have. A verdict against a paper is as welcome as one for it; it is one on our runs, at the
size and in the reading that it names.

Cells are in `results/<study>/cells.csv`, curves in `curves.csv` beside it. After the command that
each verdict names: `understudy export STUDY --to docs/results`, then `make results`.
"""
IN_SHORT = "in-short.txt"  # ten lines for those who read no further, beside the results
OVERVIEW = "verdicts.svg"


def write_page(docs: str | Path) -> Path:
    """Write ``results.md`` and its pictures into the folder of the documentation."""
    folder = Path(docs)
    claims, book, papers = read_all(folder)
    drawn = pictures(book, papers)
    for study in sorted(book.studies):
        for old in (folder / "results" / study).glob("*.svg"):
            if (study, old.name) not in drawn:
                old.unlink()
    for (study, name), content in drawn.items():
        (folder / "results" / study / name).write_bytes(content)
    counts = _counted([book.verdict(claim, Sizes()) for claim in claims])
    (folder / "results" / OVERVIEW).write_bytes(overview(counts, verdicts.VERDICTS))
    page = folder / "results.md"
    words = text(claims, book, list(drawn), papers, in_short(folder))
    page.write_text(words, encoding="utf-8", newline="\n")
    return page


def read_all(folder: Path) -> tuple[tuple[Claim, ...], Book, PaperNumbers]:
    """All that the page is made of, but for the lines that begin it."""
    papers = PaperNumbers.read(folder / "paper-numbers")
    return read_claims(folder / "claims.toml"), Book.read(folder / "results"), papers


def in_short(folder: Path) -> str:
    """The lines that begin the page, which are written by hand."""
    path = folder / "results" / IN_SHORT
    return path.read_text(encoding="utf-8").strip() if path.is_file() else ""


def text(
    claims: Sequence[Claim],
    book: Book,
    drawn: Sequence[tuple[str, str]] = (),
    papers: PaperNumbers | None = None,
    lines: str = "",
) -> str:
    """The page."""
    sizes = Sizes()
    judged = [book.verdict(claim, sizes) for claim in claims]
    page = [TITLE, "## In short", "", f"![verdicts by paper](results/{OVERVIEW})", ""]
    page += [lines, ""] if lines else []
    page += [*_summary(judged), RULE]
    for paper, of_paper in groupby(judged, key=lambda verdict: _paper(verdict.claim)):
        page += _of_paper(paper, list(of_paper), book, sizes, drawn, papers or PaperNumbers())
    return "\n".join(page).rstrip() + "\n"


def _paper(claim: Claim) -> str:
    """The name of a paper: what the place begins with."""
    return claim.place.partition(",")[0].partition(" (")[0]


def _counted(judged: Sequence[Verdict]) -> dict[str, list[int]]:
    """Claims of each paper by verdict."""
    papers = dict.fromkeys(_paper(verdict.claim) for verdict in judged)
    return {
        paper: [
            sum(one.verdict == kind and _paper(one.claim) == paper for one in judged)
            for kind in verdicts.VERDICTS
        ]
        for paper in papers
    }


def _summary(judged: Sequence[Verdict]) -> Iterator[str]:
    yield f"| paper | claims | {' | '.join(verdicts.VERDICTS)} |"
    yield "| --- |" + " ---: |" * (1 + len(verdicts.VERDICTS))
    for paper, counts in _counted(judged).items():
        yield f"| {paper} | {sum(counts)} | {' | '.join(map(str, counts))} |"
    yield ""


def _of_paper(
    paper: str,
    judged: Sequence[Verdict],
    book: Book,
    sizes: Sizes,
    drawn: Sequence[tuple[str, str]],
    papers: PaperNumbers,
) -> Iterator[str]:
    yield f"## {paper}"
    yield ""
    aside = (verdicts.NOT_RUN, verdicts.WITHDRAWN)
    run = [verdict for verdict in judged if verdict.verdict not in aside]
    for study in dict.fromkeys(verdict.claim.study for verdict in run):
        mine = [verdict for verdict in run if verdict.claim.study == study]
        yield from _of_study(study, mine, book, sizes, drawn, papers)
    withdrawn = [verdict.claim for verdict in judged if verdict.verdict == verdicts.WITHDRAWN]
    if withdrawn:
        yield f"### {paper}: withdrawn"
        yield ""
        yield "| claim | place | why |"
        yield "| --- | --- | --- |"
        for claim in withdrawn:
            yield f"| {claim.words} | {claim.place} | {claim.withdrawn} |"
        yield ""
    waiting = [verdict for verdict in judged if verdict.verdict == verdicts.NOT_RUN]
    if waiting:
        yield f"### {paper}: not run"
        yield ""
        yield "Hours are those of two cores, counted for each claim by itself: at scale `results`,"
        yield "and for numbers of a paper, which are judged at its own size only, at scale `paper`."
        yield ""
        yield "| | claim | place | study | hours |"
        yield "| --- | --- | --- | --- | ---: |"
        for verdict in waiting:
            yield _waiting(verdict.claim, book, sizes)
        yield ""


def _waiting(claim: Claim, book: Book, sizes: Sizes) -> str:
    hours = sizes.hours(sizes.missing(claim, book, PAPER if has_values(claim) else SCALE))
    words = "under 0.1" if hours < 0.1 else f"{hours:.1f}" if hours < 10 else f"{hours:,.0f}"
    study = claim.study if claim.block is None else f"{claim.study} ({claim.block})"
    return f"| {claim.id} | {claim.words} | {claim.place} | {study} | {words} |"


def _of_study(
    study: str,
    judged: Sequence[Verdict],
    book: Book,
    sizes: Sizes,
    drawn: Sequence[tuple[str, str]],
    papers: PaperNumbers,
) -> Iterator[str]:
    known = {one.name: one for one in listed()} if study in NAMES else {}
    yield f"### {study}"
    yield ""
    if study in known:
        yield f"{known[study].title}: {known[study].shows}."
        yield ""
    for metric in dict.fromkeys(verdict.claim.metric for verdict in judged):
        yield from _table(metric, list(book.studies[study].rows))
    for owner, name in drawn:
        if owner == study:
            yield f"![{name.removesuffix('.svg').replace('-', ' ')}](results/{study}/{name})"
            yield ""
    if papers.has_curves(study):
        yield "Thin dashed lines are the paper's own curves, as read from its figures."
        yield ""
    for verdict in judged:
        yield from _claim(verdict, book, sizes, papers)


# -- what was measured -----------------------------------------------------------------------------


def _table(metric: str, rows: Sequence[Row]) -> Iterator[str]:
    """Means and 95 % intervals: a row for each strategy, a column for each group."""
    known = [row for row in rows if metric in row.measures]
    if not known:
        return
    rows = list(rows) if metric in OF_ALL else [row for row in rows if _has(row, metric, known)]
    shown = measure(metric)
    groups = row_groups(rows)
    yield f"{shown.head[0].upper()}{shown.head[1:]}: mean over seeds ± half of its 95 % interval."
    yield ""
    yield f"| strategy | {' | '.join(_group_words(group) for group in groups)} |"
    yield "| --- |" + " ---: |" * len(groups)
    for strategy in dict.fromkeys(str(row.labels["strategy"]) for row in rows):
        cells = [
            _mean([row for row in group.rows if row.labels["strategy"] == strategy], metric, shown)
            for group in groups
        ]
        yield f"| {strategy} | {' | '.join(cells)} |"
    yield ""


def _has(row: Row, metric: str, known: Sequence[Row]) -> bool:
    """Whether a row was asked for a measure: it has it, or the same with another seed has."""
    return any(row.labels == other.labels for other in known)


def _group_words(group: RowGroup) -> str:
    words = [
        str(value) if name in ("block", "availability") else f"{name} {value:g}"
        if isinstance(value, float) else f"{name} {value}"
        for name, value in group.labels.items()
    ]  # fmt: skip
    return ", ".join(words) or "all"


def _mean(rows: Sequence[Row], metric: str, shown: Measure) -> str:
    if not rows:
        return ""
    values = np.array([row.measures.get(metric, math.nan) * shown.scale for row in rows])
    known = values[np.isfinite(values)]
    diverged = len(values) - len(known)
    if not len(known):
        return "diverged"
    words = _number(float(known.mean()), shown)
    if len(known) >= verdicts.FEWEST_SEEDS:
        words += f" ± {_number(float(half_width(known)), shown)}"
    return f"{words} ({diverged} diverged)" if diverged else words


def _number(value: float, shown: Measure, *, sign: bool = False) -> str:
    """Two decimals for percents and points, else three significant digits."""
    if not math.isfinite(value):
        return "–"
    decimals = 2
    if shown.scale == 1:
        size = math.floor(math.log10(abs(value))) if value else 0
        decimals = min(max(0, 2 - size), 6)
    return f"{value:{'+' if sign else ''}.{decimals}f}".replace("-", "−")


# -- claims ----------------------------------------------------------------------------------------


def _claim(verdict: Verdict, book: Book, sizes: Sizes, papers: PaperNumbers) -> Iterator[str]:
    claim = verdict.claim
    yield f"#### {claim.id}"
    yield ""
    yield f"{SIGNS[verdict.verdict]} · {claim.words} ({claim.place})"
    yield ""
    yield f"{_counts(verdict)}{_conditions(claim, book, sizes)}"
    if claim.ruled_out and verdict.verdict in (verdicts.NOT_REPRODUCED, verdicts.MIXED):
        yield f"Ruled out: {claim.ruled_out}"
    yield f"Repeat: {_command(claim)}."
    yield ""
    shown = measure(claim.metric)
    own = [
        papers.contrast(claim, judged.contrast, book.rounds(judged.contrast))
        for judged in verdict.contrasts
    ]
    told = any(number is not None for number in own) or has_values(claim)
    head = ["contrast", "mean", "90 % interval", *(["paper's own"] if told else [])]
    yield f"| {' | '.join([*head, ''])} |"
    yield "| --- |" + " ---: |" * (len(head) - 1) + " --- |"
    for judged, number in zip(verdict.contrasts, own, strict=True):
        yield _contrast(judged, claim, shown, number, told)
    yield ""


def _command(claim: Claim) -> str:
    """What runs the cells of a claim."""
    words = []
    for study in claim.studies:
        picks = [pick for contrast in claim.contrasts for pick in contrast.picks]
        blocks = {str(pick.labels["block"]) for pick in picks
                  if pick.study == study and "block" in pick.labels}  # fmt: skip
        chosen = "".join(f" --block {block}" for block in sorted(blocks))
        words.append(f"`understudy run {study} --scale results{chosen}`")
    return ", ".join(words)


def _counts(verdict: Verdict) -> str:
    n = len(verdict.contrasts)
    counts = [
        f"{verdict.count(status)} {word}"
        for status, word in (
            (verdicts.HOLDS, "hold" if verdict.count(verdicts.HOLDS) != 1 else "holds"),
            (verdicts.CONTRADICTED, "contradicted"),
            (verdicts.OPEN, "open"),
        )
        if verdict.count(status)
    ]
    words = f"Of {n} contrasts {', '.join(counts)}" if n > 1 else f"One contrast: {counts[0]}"
    words += f"; {verdict.n_seeds} seeds."
    if verdict.n_diverged:
        where = "a contrast" if verdict.n_diverged == 1 else f"{verdict.n_diverged} contrasts"
        words += f" In {where} a run diverged and has no number."
    elif verdict.count(verdicts.OPEN):
        words += _power(verdict)
    return words


def _power(verdict: Verdict) -> str:
    """The seeds that would decide what is open, as far as an effect is seen."""
    needed = list(verdict.seeds_needed.values())
    seen = [n for n in needed if math.isfinite(n)]
    if not seen:
        return " No effect seen." if len(needed) == 1 else " In the open ones no effect is seen."
    words = f" A power of 80 % would take {max(seen):,.0f} seeds"
    if len(seen) < len(needed):
        words += f"; in {len(needed) - len(seen)} of the open ones no effect is seen"
    return f"{words}."


def _conditions(claim: Claim, book: Book, sizes: Sizes) -> str:
    """At which size, with what fixed, in which readings."""
    reduced = [
        sizes.reduced(study, [row for row in book.picked(claim) if row in book.studies[study].rows])
        for study in claim.studies
        if study in book.studies
    ]
    size = "; ".join(dict.fromkeys(words for words in reduced if words))
    sentences = [f"Reduced: {size}." if size else "At the paper's own size."]
    if claim.fixed:
        sentences.append(f"Fixed beforehand: {claim.fixed}.")
    if claim.target is not None:
        sentences.append(f"Target: {claim.target:.0%}.")
    if claim.readings:
        sentences.append(f"Read: {'; '.join(claim.readings)}.")
    return " " + " ".join(sentences)


def _contrast(
    judged: Judged, claim: Claim, shown: Measure, papers_own: float | None, told: bool
) -> str:
    contrast = judged.contrast
    ratio, is_value = contrast.told_as == "ratio", contrast.kind == "value"
    scale = 100.0 if ratio else shown.scale
    unit = Measure("", "", scale=scale)
    sign = ratio or not is_value
    mark = " %" if ratio else ""
    mean, low, high = (value * scale for value in (judged.mean, judged.low, judged.high))
    ends = f"{_number(low, unit, sign=sign)} to {_number(high, unit, sign=sign)}"
    cells = [_words(contrast, claim), f"{_number(mean, unit, sign=sign)}{mark}", ends]
    if told:
        own = contrast.paper if is_value else papers_own
        number = "" if own is None else f"{_number(own * scale, unit, sign=sign)}{mark}"
        within = f" ± {_number(contrast.tolerance * scale, unit)}" if is_value else ""
        cells.append(f"{number}{within}")
    status = judged.status
    if judged.status == verdicts.OPEN:
        status += ": diverged" if judged.diverged else ": equal numbers" if judged.equal else ""
    return f"| {' | '.join([*cells, status])} |"


def _words(contrast: Contrast, claim: Claim) -> str:
    """A contrast for people; labels that all its sides share come last."""
    shared = _shared(contrast)
    names = [_side(side, contrast, shared) for side in contrast.sides]
    if all(set(pick.labels) <= set(shared) for pick in contrast.picks):
        shared.pop("strategy", None)  # told as the side's own name
    hidden = () if _has_blocks(claim) else ("block",)
    where = ", ".join(_label(name, value) for name, value in shared.items() if name not in hidden)
    where = f" ({where})" if where else ""
    if contrast.kind == "order":
        better = "below" if claim.better == "lower" else "above"
        factor = f"{contrast.factor:g} × " if contrast.factor != 1 else ""
        return f"{names[0]} {better} {factor}{names[1]}{_margin(contrast, claim)}{where}"
    if contrast.kind == "trend":
        return _trend(contrast, where)
    if contrast.kind == "near":
        shown = measure(claim.metric)
        within = f"{contrast.within * shown.scale:g} {shown.unit_of_difference}".rstrip()
        return f"{names[0]} within {within} of {names[1]}{where}"
    joined = {"": names[0], "difference": " − ".join(names), "ratio": " over ".join(names)}
    return f"{joined[contrast.told_as]}{where}"


def _has_blocks(claim: Claim) -> bool:
    """Whether contrasts differ in their block: then it has to be told."""
    picks = (pick for contrast in claim.contrasts for pick in contrast.picks)
    return len({pick.labels.get("block") for pick in picks}) > 1


def _trend(contrast: Contrast, where: str) -> str:
    ends = contrast.picks[0], contrast.picks[2]
    differing = [
        name for name in ends[0].labels if ends[0].labels[name] != ends[1].labels.get(name)
    ]
    there, here = (
        ", ".join([_label(name, end.labels[name]) for name in differing if name in end.labels])
        or end.study
        for end in ends
    )
    first, second = (str(pick.labels["strategy"]) for pick in contrast.picks[:2])
    return f"{first} over {second}, more at {there} than at {here}{where}"


def _margin(contrast: Contrast, claim: Claim) -> str:
    if not contrast.margin:
        return ""
    shown = measure(claim.metric)
    return (
        f" by {_number(contrast.margin * shown.scale, shown)} {shown.unit_of_difference}".rstrip()
    )


def _shared(contrast: Contrast) -> dict[str, str | float | bool]:
    """Labels that all sides have alike."""
    first, *others = contrast.picks
    return {
        name: value
        for name, value in first.labels.items()
        if all(pick.labels.get(name) == value for pick in others)
    }


def _side(side: Side, contrast: Contrast, shared: dict[str, str | float | bool]) -> str:
    if isinstance(side, float):
        shown = measure(contrast.picks[0].metric)
        return f"{side * shown.scale:g} {shown.unit}".rstrip()
    own = {name: value for name, value in side.labels.items() if name not in shared}
    words = [_label(name, value) for name, value in own.items()]
    if len({pick.study for pick in contrast.picks}) > 1:
        words.append(side.study)
    if len({pick.metric for pick in contrast.picks}) > 1:
        words.append(measure(side.metric).words)
    return ", ".join(words) or str(side.labels.get("strategy", measure(side.metric).words))


def _label(name: str, value: str | float | bool) -> str:
    if name in ("strategy", "availability", "block"):
        return str(value)
    return f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"


def main(arguments: Iterable[str]) -> None:
    """``python -m tools.claims.results_page docs``"""
    for folder in arguments:
        print(write_page(folder))


if __name__ == "__main__":
    main(sys.argv[1:] or ["docs"])
