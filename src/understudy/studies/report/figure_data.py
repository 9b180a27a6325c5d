"""What the pictures of a study are drawn from, and what a picture is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from understudy import plots
from understudy.core.types import RoundLog
from understudy.measures import evaluated_rounds, measure
from understudy.representation import Warnings
from understudy.studies.definition.cell import Label
from understudy.studies.report.stand_ins import by_round
from understudy.studies.statistics.frames import rows_of_clients
from understudy.studies.statistics.groups import Group, groups_of
from understudy.studies.statistics.text_table import heading_of, label_word
from understudy.studies.store.store import Store, StoredCell

LONGEST_NAME = 120  # characters of a file's name, without its ending
LARGEST_SHARE = "largest_share"  # note of a round: the largest share any one row has in it
KEPT = ("t", "oracle_error_relative", LARGEST_SHARE)  # of a table of rounds, beside metrics
MOST_GROUPS = 4  # groups, or strategies, that get one of the pictures but for curves


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure with its place in a report.

    Parameters
    ----------
    name : str
        Of its files.
    section : str
        What pictures of its kind are about.
    figure : Figure
        The picture itself.
    caption : str
        How to read it.
    cell : str
        The key of the cell whose attendance it shows; empty: it shows something else.
    """

    name: str
    section: str
    figure: Figure
    caption: str
    cell: str = ""


class FigureData:
    """The cells of a study that are shown: those that are done; where none is, those that began.

    Parameters
    ----------
    store : Store
        Where rounds and arrays are.
    study : str
        Which study of it.
    runs : DataFrame
        Its results, one row per cell in the study's order.
    """

    def __init__(self, store: Store, study: str, runs: pd.DataFrame) -> None:
        cells = store.cells(study)
        done = [cell.status == "done" for cell in cells]
        chosen = [
            place
            for place, cell in enumerate(cells)
            if (done[place] if any(done) else cell.rounds > 0)
        ]
        self.store, self.about = store, store.study(study).about
        self.cells = [cells[place] for place in chosen]
        self.runs = runs.iloc[chosen].reset_index(drop=True)
        self.groups = groups_of(self.cells)
        self.styles = plots.styles([cell.labels["strategy"] for cell in cells])
        self.unfinished = "" if any(done) else " No cell is done yet."
        self.told: dict[str, list[str]] = {}  # section → what stands in place of flat pictures
        self._rounds: dict[str, pd.DataFrame] = {}
        self._stand_ins: dict[str, pd.DataFrame] = {}
        self._warnings: dict[str, Warnings] = {}

    @cached_property
    def most_seeds(self) -> int:
        """Seeds of the strategy that has most, within one group."""
        counts = [
            sum(self.cells[place].labels["strategy"] == strategy for place in group.cells)
            for group in self.groups
            for strategy in {self.cells[place].labels["strategy"] for place in group.cells}
        ]
        return max(counts, default=0)

    @cached_property
    def other_metrics(self) -> list[str]:
        """Of a study without accuracy or loss: its own first metric."""
        frame = self.rounds_of(self.groups[0])
        own = [str(name) for name in frame.columns if str(name).startswith("test_")]
        return [name for name in own if frame[name].notna().any()][:1]

    def measured(self, metric: str) -> bool:
        return any(
            metric in rounds and bool(rounds[metric].notna().any())
            for rounds in (self.rounds_in(cell) for cell in self.cells)
        )

    def rounds_in(self, cell: StoredCell) -> pd.DataFrame:
        if cell.key not in self._rounds:
            frame = self.store.rounds(cell.key)
            kept = [name for name in frame.columns if name in KEPT or str(name).startswith("test_")]
            self._rounds[cell.key] = frame[kept]
        return self._rounds[cell.key]

    def stand_ins_in(self, cell: StoredCell) -> pd.DataFrame:
        """What represented the absent, by round."""
        if cell.key not in self._stand_ins:
            warnings = Warnings.told(cell.facts, self.store.resolved(cell.key))
            self._warnings[cell.key] = warnings

            def logs() -> Iterator[RoundLog]:
                for log in self.store.logs(cell.key):  # read once, for both
                    warnings.add(log)
                    yield log

            self._stand_ins[cell.key] = by_round(logs())
        return self._stand_ins[cell.key]

    def warnings_in(self, cell: StoredCell) -> Warnings:
        """Who was left out of a run."""
        self.stand_ins_in(cell)
        return self._warnings[cell.key]

    def cells_of(self, group: Group) -> list[StoredCell]:
        return [self.cells[place] for place in group.cells]

    def is_pooled(self, cell: StoredCell) -> bool:
        """Whether all its data were in one place: a reference without clients."""
        return bool(self.store.resolved(cell.key).get("pooled"))

    def firsts(self, group: Group) -> list[StoredCell]:
        """The first seed of each strategy, of a few."""
        firsts: dict[Any, StoredCell] = {}
        for cell in self.cells_of(group):
            firsts.setdefault(cell.labels["strategy"], cell)
        return list(firsts.values())

    def rounds_of(self, group: Group, *, pooled: bool = True) -> pd.DataFrame:
        """Rounds of a group's cells; of those with all data in one place only if asked for."""
        cells = self.cells_of(group)
        if not pooled:
            cells = [one for one in cells if not self.is_pooled(one)]
        frames = [
            self.rounds_in(cell).assign(strategy=cell.labels["strategy"], seed=cell.seed)
            for cell in cells
        ]
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()

    def clients_of(self, group: Group) -> pd.DataFrame:
        return pd.concat(
            [
                rows_of_clients(self.store, cell).assign(
                    strategy=cell.labels["strategy"], seed=cell.seed
                )
                for cell in self.cells_of(group)
            ],
            ignore_index=True,
        )

    def runs_of(self, members: list[Group]) -> pd.DataFrame:
        """Rows of the runs of some groups, each once."""
        places = sorted({place for group in members for place in group.cells})
        return self.runs.iloc[places]

    def is_flat(
        self,
        section: str,
        group: Group,
        values: pd.Series[Any],
        words: str,
        where: str = "in every round",
    ) -> bool:
        """Whether a picture of these values shows one number only; a sentence then tells it.

        Parameters
        ----------
        section : str
            Whose picture it is.
        group : Group
            The sentence says of which.
        values : Series
            All that the picture would show.
        words : str
            The measure: its words begin the sentence.
        where : str
            Where that number is met.
        """
        known = values.dropna()
        if known.nunique() != 1:
            return False
        how = measure(words, evaluated_rounds(self.runs))
        shown = f"{known.iloc[0] * how.scale:g}{' %' * (how.unit == '%')}"
        title = title_of(group)
        self.tell(
            section,
            f"{how.long_words[:1].upper()}{how.long_words[1:]}: {shown} {where}"
            f"{' of ' + title if title else ''}.",
        )
        return True

    def tell(self, section: str, sentence: str) -> None:
        """Put a sentence into a section, once."""
        sentences = self.told.setdefault(section, [])
        if sentence not in sentences:
            sentences.append(sentence)

    def drawn(
        self,
        kind: str,
        section: str,
        group: Group,
        draw: partial[Figure],
        caption: str,
        strategy: Label = None,
        most: int = MOST_GROUPS,
    ) -> Picture:
        """A picture of a group, or of one strategy in it, with its name, title and caption.

        `most` groups have such a picture; the caption tells how many have none.
        """
        values = [group.labels[name] for name in group.varying]
        title = title_of(group) if strategy is None else titled(title_of(group), strategy)
        left = len(self.groups) - most
        caption += f" {left} more groups are not shown." if left > 0 else ""
        return Picture(file_name(kind, *values), section, draw(title=title or None), caption)


def title_of(group: Group) -> str:
    """What tells a group from the others, in words; empty where it is the only one."""
    return heading_of((name, group.labels[name]) for name in group.varying)


def titled(title: str | None, strategy: Any) -> str:
    """A title that begins with a strategy."""
    return f"{strategy}, {title}" if title else str(strategy)


def file_name(*words: Any) -> str:
    """Words as the name of a file: letters, digits, dots and dashes."""
    text = "-".join(label_word(word) for word in words if word is not None)
    return re.sub(r"[^\w.−]+", "-", text).replace("−", "-").strip("-.")[:LONGEST_NAME]


def with_own_names(pictures: Iterable[Picture]) -> Iterator[Picture]:
    """The same pictures; the second of two that would be one file is numbered.

    Labels that differ in a slash or in capital letters only have the same name on some disks.
    """
    seen: set[str] = set()
    for picture in pictures:
        name, number = picture.name, 1
        while name.casefold() in seen:
            number += 1
            name = f"{picture.name}-{number}"
        seen.add(name.casefold())
        yield replace(picture, name=name)
