"""The rounds of a live federation in the store of studies, so that what reads one reads both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from understudy._version import __version__
from understudy.core.types import RoundLog
from understudy.journal.protocol import Journal
from understudy.studies.definition.names import KEY_DIGITS, why_no_study_name
from understudy.studies.store.schema import StoreError
from understudy.studies.store.store import Store

if TYPE_CHECKING:
    from understudy.studies.definition.cell import Cell, Label


LIVE = "a live federation"
# the parts of a strategy, and which FedAvg has
PLAIN = (
    ("compensator", "Ignore"),
    ("local", "rule", "Plain"),
    ("aggregator", "Linear"),
    ("server", "Sgd"),
    ("sampler", "Everyone"),
)


@dataclass(frozen=True)
class LiveCell:
    """A live run's place in its study: what the store keeps of a cell."""

    key: str
    labels: Mapping[str, Label]
    seed: int


def about_runs(study: str, shows: str = LIVE) -> Mapping[str, Any]:
    """What the store says of a study of runs that nobody wrote a file for."""
    return {"title": study, "shows": shows, "live": shows == LIVE}


def called_by(resolved: Mapping[str, Any]) -> str:
    """What a strategy is called by its settings: by the first part that is not FedAvg's."""
    strategy = resolved["strategy"]
    for *path, plain in PLAIN:
        part: Any = strategy
        for name in path:
            part = part.get(name) if isinstance(part, Mapping) else None
        known = part.get("class") if isinstance(part, Mapping) else None
        if known is not None and known != plain:
            return str(known).lower()
    return "fedavg"


class LiveLog(Journal):
    """A journal for `understudy.flower.UnderstudyStrategy`: each round goes into a runs folder.

    Parameters
    ----------
    folder : path
        The runs folder, absolute: the working directory of a ServerApp is Flower's.
    study : str
        The study that the run belongs to; runs that are there stay.
    strategy : str, optional
        What tables and pictures call the run's strategy; by default its first part that is not
        FedAvg's.
    labels : mapping, optional
        Others that tell runs of the study apart.
    """

    def __init__(
        self,
        folder: str | Path,
        study: str = "live",
        strategy: str | None = None,
        labels: Mapping[str, Label] | None = None,
    ) -> None:
        self.folder, self.study = Path(folder).expanduser(), study
        if not self.folder.is_absolute():
            raise ValueError(f"folder: expected an absolute path, got {str(folder)!r}")
        why_not = why_no_study_name(study)
        if why_not is not None:
            raise ValueError(f"study: {why_not}")
        self._strategy, self._labels = strategy, dict(labels or {})
        self._store: Store | None = None
        self._key = ""
        self._unwritten: list[RoundLog] = []

    def begin(self, run: str, resolved: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
        """A run begins, resumes, or has other clients than before."""
        if self._store is None:
            self._store = Store.open(self.folder, write=True)
        self._key = run[:KEY_DIGITS]
        label = self._strategy or called_by(resolved)
        cell = LiveCell(self._key, {"strategy": label, **self._labels}, int(resolved["seed"]))
        self._save_study(self._store, cell)
        self._store.begin(self._key, resolved, facts, __version__)

    def _save_study(self, store: Store, cell: LiveCell) -> None:
        """The study with this run in it, in its old place or at the end."""
        about = about_runs(self.study)
        known: list[LiveCell] = []
        try:
            about = store.study(self.study).about
            known = [LiveCell(one.key, one.labels, one.seed) for one in store.cells(self.study)]
        except StoreError:
            pass  # the first run of it
        keys = [one.key for one in known]
        if cell.key in keys:
            known[keys.index(cell.key)] = cell
        else:
            known.append(cell)
        # of a cell, the store keeps just these three
        store.save_study(self.study, about, cast("Sequence[Cell]", known), __version__)

    def append(self, log: RoundLog) -> None:
        """One more round."""
        self._unwritten.append(log)

    def flush(self) -> None:
        """Return when all rounds are on disk."""
        if self._unwritten:
            assert self._store is not None
            self._store.add_rounds(self._key, self._unwritten)
            self._unwritten = []

    def finish(self) -> None:
        """All rounds are finished."""
        if self._store is not None:
            self._store.finish(self._key)
            self._close()

    def fail(self, error: str) -> None:
        """The run ended with an error, and can be resumed."""
        if self._store is not None:
            self._store.fail(self._key, error)
            self._close()

    def _close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None
