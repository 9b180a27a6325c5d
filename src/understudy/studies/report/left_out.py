"""Who was left out of the runs of a study, in the words of their warnings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from understudy.representation.facts import joined
from understudy.studies.report.figure_data import MOST_GROUPS, FigureData, title_of, titled

MOST_WARNINGS = 20  # lines
MOST_OF_A_RUN = 3  # of them


@dataclass(frozen=True)
class LeftOut:
    """Warnings of a study's first seeds, and how many more there are."""

    lines: tuple[str, ...]
    more: int


def left_out(data: FigureData) -> LeftOut | None:
    """What is told of each strategy's first seed; None where nobody was left out."""
    found: dict[tuple[str, str], list[str]] = {}  # group and warning → strategies
    more = 0
    for group in data.groups[:MOST_GROUPS]:
        for cell in data.firsts(group):
            if data.is_pooled(cell):
                continue
            warnings = list(data.warnings_in(cell))
            more += max(0, len(warnings) - MOST_OF_A_RUN)
            for one in warnings[:MOST_OF_A_RUN]:
                who = str(cell.labels["strategy"])
                found.setdefault((title_of(group), str(one)), []).append(who)
    if not found:
        return None
    lines = [_line(data, title, text, who) for (title, text), who in found.items()]
    return LeftOut(tuple(lines[:MOST_WARNINGS]), more + max(0, len(lines) - MOST_WARNINGS))


def _line(data: FigureData, title: str, text: str, who: Sequence[str]) -> str:
    told = joined(who)
    return f"{told if len(data.groups) == 1 else titled(title, told)}: {text}."
