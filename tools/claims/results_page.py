"""The page of results: verdicts on the papers' claims, with the numbers they rest on.

``python -m tools.claims.results_page docs`` makes ``docs/results.md`` and its pictures from
``docs/claims.toml`` and the files below ``docs/results``, byte for byte the same on every run, and
renews the table of verdicts in the ``README.md`` beside that folder.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

from tools.claims import verdicts
from tools.claims.page_claims import claim_lines
from tools.claims.page_figures import Figure, figure_lines, hours_of, read_figures
from tools.claims.page_readings import readings_lines
from tools.claims.page_tables import table
from tools.claims.paper_claims import Claim, read_claims
from tools.claims.paper_figures import caption
from tools.claims.paper_numbers import PaperNumbers
from tools.claims.results_book import (
    NOT_ITS_OWN,
    PAPER,
    SCALE,
    WHOLE,
    Book,
    Sizes,
    has_values,
)
from tools.claims.results_pictures import overview, pictures
from tools.claims.verdicts import Verdict
from understudy.studies.definition.builtins import NAMES, listed

TITLE = """\
# Results

<!-- Made by `make results` from claims.toml, paper-numbers/ and results/*/: not to be edited. -->

What the papers claim, and what runs of the built-in studies say to it.
"""
RULE = """\
## How it is judged

The claims are in [claims.toml](claims.toml), most of them written down before the runs that judge
them. After a first campaign, whose cells are not used, 21 of them went from final to mean accuracy,
a threshold from α = 1 to 2 and a factor from 2 to 1.75, two were withdrawn and two got another
metric; one that was changed after its present runs says so. Each is a set of
*contrasts*, numbers that are positive where the claim is right, one for each seed:

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
alone decides, corrected by Holm like the others; runs that are equal to the bit are near each
other, whatever their number. A claim on the mean accuracy over the rounds is told at their end
too, and judged there where the runs have the paper's length.
A value holds when the interval of our mean lies within the paper's ± tolerance and is
contradicted when it lies outside; values, and orders that take a number of the paper, are judged
at the paper's own size only. A claim is
**reproduced** when all its contrasts hold ("mostly": more than half of them, and none is
contradicted; "the best": one contrast for each rival, its own hyper-parameter being fixed
beforehand), **in part** when some hold and none is contradicted, **mixed** when some hold and
some are contradicted, **not reproduced** when none holds and one is contradicted, and **open**
when none is decided; then the seeds are given that a power of 80 % would take, (2.5 s/d̄)² + 2,
or that no effect is seen (the mean is below its standard error). A run that diverged has no
number, and a contrast in which it takes part is open. Where no run of a seed reaches the accuracy
that a claim on speed names, its contrast of that seed is 0. A claim that the paper's own numbers
do not bear out is **withdrawn**: a test holds every other claim to the papers' curves and tables
(`paper-numbers/`; over fewer rounds than the paper's a contrast may be half a point off, as curves
are read from figures), and the column *paper's own* shows the contrast there, over as many rounds
as ours have. A verdict against a paper is as welcome as one for it; it is one on our runs, at the
size and in the reading that it names.

Where the paper's own size has been run too, it alone is judged, and the reduced runs are told
beside it. Cells are in `results/<study>/cells.csv`, curves in `curves.csv` beside it, and what the
papers' figures need of clients in `clients.csv` and `scores.csv`. After the command that each
verdict names: `understudy export STUDY --to docs/results`, then `make results`.
"""
IN_SHORT = "in-short.txt"  # ten rows for those who read no further, beside the results
OVERVIEW = "verdicts.svg"
ASIDE = (verdicts.NOT_RUN, verdicts.WITHDRAWN)
README_TABLE = re.compile(r"(<!-- verdicts: made by `make results` -->\n).*?(<!-- -->)", re.S)
REDUCED = "reduced"
FIGURES = "paper-figures.toml"


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
    sizes = Sizes()
    counts = counted(judged_claims(claims, book, sizes), book, sizes)
    (folder / "results" / OVERVIEW).write_bytes(overview(counts, verdicts.VERDICTS))
    page = folder / "results.md"
    figures = read_figures(folder / FIGURES)
    words = text(claims, book, list(drawn), papers, in_short(folder), figures)
    page.write_text(words, encoding="utf-8", newline="\n")
    readme = folder.absolute().parent / "README.md"
    if readme.is_file():
        words = with_verdicts(readme.read_text(encoding="utf-8"), counts)
        readme.write_text(words, encoding="utf-8", newline="\n")
    return page


def with_verdicts(readme: str, counts: dict[str, list[int]]) -> str:
    """The README with a table of these verdicts, of each paper at its own size and reduced."""
    table = "\n".join(_table(counts))
    return README_TABLE.sub(lambda found: f"{found[1]}\n{table}\n\n{found[2]}", readme)


def read_all(folder: Path) -> tuple[tuple[Claim, ...], Book, PaperNumbers]:
    """All that the page is made of, but for the lines that begin it."""
    papers = PaperNumbers.read(folder / "paper-numbers")
    book = Book.read(folder / "results").paper_size_first(Sizes())
    return read_claims(folder / "claims.toml"), book, papers


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
    figures: Sequence[Figure] = (),
) -> str:
    """The page."""
    sizes = Sizes()
    judged = judged_claims(claims, book, sizes)
    page = [TITLE, "## In short", "", f"![verdicts by paper](results/{OVERVIEW})", ""]
    page += [lines, ""] if lines else []
    n_readings = sum(claim.reading for claim in claims)
    page += [*_summary(counted(judged, book, sizes), n_readings)]
    page += [*figure_lines(figures, book, sizes), RULE]
    for paper, of_paper in groupby(judged, key=lambda verdict: _paper(verdict.claim)):
        page += _of_paper(paper, list(of_paper), book, sizes, drawn, papers or PaperNumbers())
    return "\n".join(page).rstrip() + "\n"


def judged_claims(claims: Sequence[Claim], book: Book, sizes: Sizes) -> list[Verdict]:
    return [book.for_claim(claim).verdict(claim, sizes) for claim in claims]


def _paper(claim: Claim) -> str:
    """The name of a paper: what the place begins with."""
    return claim.place.partition(",")[0].partition(" (")[0]


def counted(judged: Sequence[Verdict], book: Book, sizes: Sizes) -> dict[str, list[int]]:
    """The papers' claims by verdict, of each paper at its own size and at a reduced one.

    What was not run or is withdrawn has no size, and is counted with the reduced.
    """
    counts: dict[str, list[int]] = {}
    for one in judged:
        if not one.claim.reading:
            paper = _paper(one.claim)
            whole = NOT_ITS_OWN.get(paper, WHOLE)
            is_whole = one.verdict not in ASIDE and not sizes.smaller(
                one.claim, book.for_claim(one.claim)
            )
            for size in (whole, REDUCED):
                counts.setdefault(f"{paper}, {size}", [0] * len(verdicts.VERDICTS))
            row = counts[f"{paper}, {whole if is_whole else REDUCED}"]
            row[verdicts.VERDICTS.index(one.verdict)] += 1
    return counts


def _table(counts: dict[str, list[int]]) -> Iterator[str]:
    yield f"| paper | claims | {' | '.join(verdicts.VERDICTS)} |"
    yield "| --- |" + " ---: |" * (1 + len(verdicts.VERDICTS))
    for paper, row in counts.items():
        yield f"| {paper} | {sum(row)} | {' | '.join(map(str, row))} |"


def _summary(counts: dict[str, list[int]], n_readings: int) -> Iterator[str]:
    yield from _table(counts)
    yield ""
    yield f"{n_readings} more are readings of ours beside the papers' claims, and are not counted."
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
    run = [verdict for verdict in judged if verdict.verdict not in ASIDE]
    for study in dict.fromkeys(verdict.claim.study for verdict in run):
        mine = [verdict for verdict in run if verdict.claim.study == study]
        yield from _of_study(study, mine, book, sizes, drawn, papers)
    yield from readings_lines(paper, book, sizes)
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
        yield "and at scale `paper` for numbers of a paper, and for what needs all its rounds."
        yield ""
        yield "| | claim | place | study | hours |"
        yield "| --- | --- | --- | --- | ---: |"
        for verdict in waiting:
            yield _waiting(verdict.claim, book, sizes)
        yield ""


def _waiting(claim: Claim, book: Book, sizes: Sizes) -> str:
    at_paper_size = has_values(claim) or claim.all_rounds
    words = hours_of(sizes.hours(sizes.missing(claim, book, PAPER if at_paper_size else SCALE)))
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
        yield from table(metric, list(book.studies[study].rows))
    for owner, name in drawn:
        if owner == study:
            yield f"![{name.removesuffix('.svg').replace('-', ' ')}](results/{study}/{name})"
            yield ""
            if words := caption(study, name):
                yield words
                yield ""
    if papers.has_curves(study):
        yield "Thin dashed lines are the paper's own curves, where its figures have them."
        yield ""
    for verdict in judged:
        yield from claim_lines(verdict, book.for_claim(verdict.claim), sizes, papers)


def main(arguments: Iterable[str]) -> None:
    """``python -m tools.claims.results_page docs``"""
    for folder in arguments:
        print(write_page(folder))


if __name__ == "__main__":
    main(sys.argv[1:] or ["docs"])
