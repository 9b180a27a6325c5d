"""A run's own folder as a study: its rounds in a store that is made where it is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from understudy._version import __version__
from understudy.core.json_lines import is_damaged, is_sealed
from understudy.journal.follow import follow
from understudy.memory.run_folder import ABOUT
from understudy.memory.writer_lock import is_held
from understudy.studies.definition.names import KEY_DIGITS
from understudy.studies.store.live import LIVE, LiveCell, about_runs, called_by
from understudy.studies.store.schema import StoreError
from understudy.studies.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from understudy.studies.definition.cell import Cell

STUDIES = {"live": LIVE, "simulation": "a simulation"}  # what a run is called


def is_run_folder(folder: Path) -> bool:
    """Whether a live federation or `simulate` has kept its run here."""
    return (folder / ABOUT).is_file()


def refresh(folder: Path) -> str:
    """Bring the store in a run's folder up to date; the name of its study."""
    about = _about(folder / ABOUT)
    study = "live" if about["resolved"]["data"]["class"] == "live" else "simulation"
    run, n_rounds = about["run"][:KEY_DIGITS], sum(1 for _ in follow(folder))
    status = about["status"]
    if status == "running" and not is_held(folder / "server" / "lock"):
        status = "stopped"  # killed: it can be resumed
    with suppress(StoreError), Store.open(folder) as store:
        for cell in store.cells(study):
            is_same = cell.key == run and (cell.status, cell.rounds) == (status, n_rounds)
            told = cell.facts == about["facts"] and store.resolved(run) == about["resolved"]
            if is_same and told and status != "failed":  # it may have failed again, otherwise
                return study
    labels = {"strategy": called_by(about["resolved"])}
    cells = [LiveCell(run, labels, int(about["resolved"]["seed"]))]
    with Store.open(folder, write=True) as store:
        told = about_runs(study, STUDIES[study])
        store.save_study(study, told, cast("Sequence[Cell]", cells), __version__)
        # read again: all logs at once are many times what the store keeps of them
        rounds = follow(folder)
        store.begin_anew(run, about["resolved"], about["facts"], __version__, rounds)
        if status == "done":
            store.finish(run)
        elif status == "failed":
            store.fail(run, about["error"])
        elif status == "stopped":
            store.stop(run)
    return study


def _about(path: Path) -> Mapping[str, Any]:
    text = path.read_bytes()
    if not is_sealed(text) or is_damaged(text):
        raise StoreError(f"{path}: damaged: it does not fit its checksum")
    about: Mapping[str, Any] = json.loads(text)
    return about
