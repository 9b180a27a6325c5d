"""A run as lists show it, and what its study is called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.core.printable import one_line
from understudy.journal.follow import Rounds

if TYPE_CHECKING:
    from understudy.flower.rounds.outcomes import ClientOutcome

MOST_ABOVE = 3  # names of folders that tell studies apart


@dataclass(frozen=True)
class RunInfo:
    """A run as lists show it."""

    id: str  # says nothing of where it is
    study_id: str
    study: str
    title: str
    labels: Mapping[str, Any]
    seed: int
    status: str  # waiting, running, stopped, done, failed, damaged
    error: str
    rounds: int
    n_rounds: int | None  # that it is to have, where that is known
    is_live: bool
    changed: float  # seconds since 1970; 0: not known
    place: Rounds = field(repr=False)
    folder: Path = field(repr=False)
    key: str = ""  # in the store; empty: the run's own folder
    facts: Mapping[str, Any] = field(default_factory=dict, repr=False)
    resolved: Mapping[str, Any] = field(default_factory=dict, repr=False)
    above: str = ""  # names of folders that tell its study from others of the same name

    @property
    def called(self) -> str:
        """What lists call its study."""
        return f"{self.above}/{self.study}" if self.above else self.study

    @property
    def strategy(self) -> str:
        """What lists and legends call it."""
        return str(self.labels.get("strategy", self.study))

    def told_outcomes(self) -> list[ClientOutcome]:
        """What a live federation has written of its clients' answers lately, beside the rounds."""
        if not self.is_live or self.key or find_spec("flwr") is None:
            return []  # whoever only looks need not have Flower
        from understudy.flower.rounds.outcomes import newest_outcomes

        return newest_outcomes(self.folder)


@dataclass(frozen=True)
class Trouble:
    """A folder that holds no runs, or none that can be read, and why."""

    name: str
    words: str
    is_empty: bool = False  # nothing is wrong: no run has begun there


def opaque(*parts: object) -> str:
    """What a run is called in addresses: the same after a restart, and no path."""
    return sha256("\n".join(map(str, parts)).encode(errors="surrogateescape")).hexdigest()[:16]


def told_apart(runs: list[RunInfo]) -> list[RunInfo]:
    """Studies of the same name, with the folders in front of it in which they differ."""
    by_name: dict[str, dict[str, Path]] = {}
    for run in runs:
        is_own = run.study == own_name(run.folder)
        above = run.folder.parent.parent if is_own else run.folder
        by_name.setdefault(run.study, {})[run.study_id] = above
    found: dict[str, str] = {}
    for folders in by_name.values():
        for depth in range(1, MOST_ABOVE + 1 if len(folders) > 1 else 1):
            names = {
                study: "/".join(part for part in folder.parts[-depth:] if part != folder.anchor)
                for study, folder in folders.items()
            }
            found |= names
            if len(set(names.values())) == len(names):
                break
    return [
        replace(run, above=one_line(found[run.study_id], 80)) if run.study_id in found else run
        for run in runs
    ]


def own_name(folder: Path) -> str:
    """A live run's folder is mostly called "run": the one above tells which."""
    return one_line("/".join(folder.parts[-2:]), 80)
