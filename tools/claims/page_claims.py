"""One claim on the results page: its verdict, what it rests on, its contrasts."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tools.claims import verdicts
from tools.claims.contrast_words import contrast_words
from tools.claims.page_tables import number_words
from tools.claims.paper_claims import END, Claim
from tools.claims.paper_numbers import PaperNumbers
from tools.claims.results_book import SCALE, Book, Sizes, has_values, whole_size
from tools.claims.verdicts import Judged, Verdict
from understudy.measures import Measure, measure

SIGNS = {
    verdicts.REPRODUCED: "**reproduced**",
    verdicts.IN_PART: "**in part**",
    verdicts.MIXED: "**mixed**",
    verdicts.NOT_REPRODUCED: "**not reproduced**",
    verdicts.OPEN: "**open**",
    verdicts.NOT_RUN: "not run",
    verdicts.WITHDRAWN: "withdrawn",
}


def claim_lines(verdict: Verdict, book: Book, sizes: Sizes, papers: PaperNumbers) -> Iterator[str]:
    claim = verdict.claim
    yield f"#### {claim.id}"
    yield ""
    yield f"{SIGNS[verdict.verdict]} · {claim.words} ({claim.place})"
    yield ""
    yield f"{counts_of(verdict)}{_conditions(claim, book, sizes)}"
    if claim.reading:
        yield "A reading of ours, beside the paper's: not in the counts above."
    if verdict.beside is not None:
        yield _beside(verdict.beside)
    small = book.verdict_at_reduced_size(claim)
    if small is not None:
        yield _at_reduced_size(small, book, sizes)
    if claim.ruled_out and verdict.verdict in (verdicts.NOT_REPRODUCED, verdicts.MIXED):
        yield f"Ruled out: {claim.ruled_out}"
    if claim.all_rounds:
        yield f"Judged over all the paper's rounds only: {claim.all_rounds}."
    if claim.changed:
        yield f"Changed after these runs had been seen: {claim.changed}."
    yield f"Repeat: {command_of(claim, book, sizes)}."
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


def _beside(other: Verdict) -> str:
    """The verdict by the other measure."""
    where = "At the end (mean of the last 10 evaluated rounds)"
    if other.claim.metric != END:
        where = "By the mean over all rounds"
    told = SIGNS[other.verdict].replace("*", "")
    return f"{where}: {told}. {counts_of(other)}"


def _at_reduced_size(small: Verdict, book: Book, sizes: Sizes) -> str:
    """The verdict of cells that are not counted, as the paper's size has been run since."""
    sizes_of = [
        sizes.reduced(study, Book(book.reduced).picked(small.claim, study))
        for study in small.claim.studies
    ]
    size = "; ".join(dict.fromkeys(sizes_of))
    told = SIGNS[small.verdict].replace("*", "")
    return f"At a reduced size ({size}): {told}. {counts_of(small)}"


def command_of(claim: Claim, book: Book, sizes: Sizes) -> str:
    """What runs the cells of a claim."""
    words = []
    for study in claim.studies:
        scales = sizes.scales(study, book.picked(claim, study)) or [SCALE]
        picks = [pick for contrast in claim.contrasts for pick in contrast.picks]
        blocks = {str(pick.labels["block"]) for pick in picks
                  if pick.study == study and "block" in pick.labels}  # fmt: skip
        chosen = "".join(f" --block {block}" for block in sorted(blocks))
        words += [f"`understudy run {study} --scale {scale}{chosen}`" for scale in scales]
    return ", ".join(words)


def counts_of(verdict: Verdict) -> str:
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
        sizes.reduced(study, book.picked(claim, study))
        for study in claim.studies
        if study in book.studies
    ]
    size = "; ".join(dict.fromkeys(words for words in reduced if words))
    whole = "; ".join(dict.fromkeys(whole_size(study) for study in claim.studies))
    sentences = [f"Reduced: {size}." if size else f"{whole}."]
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
    ends = f"{number_words(low, unit, sign=sign)} to {number_words(high, unit, sign=sign)}"
    cells = [contrast_words(contrast, claim), f"{number_words(mean, unit, sign=sign)}{mark}", ends]
    if told:
        own = contrast.paper if is_value else papers_own
        number = "" if own is None else f"{number_words(own * scale, unit, sign=sign)}{mark}"
        within = f" ± {number_words(contrast.tolerance * scale, unit)}" if is_value else ""
        cells.append(f"{number}{within}")
    status = judged.status
    if judged.status == verdicts.OPEN:
        status += ": diverged" if judged.diverged else ": equal numbers" if judged.equal else ""
    return f"| {' | '.join([*cells, status])} |"
