"""`understudy doctor RUNS`: whether what a runs folder holds is what was written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from understudy.commands.findings import Finding


def check_runs(runs: Path) -> Iterator[Finding]:
    """Findings over the database, the checkpoints and the models of a runs folder.

    Nothing is changed but the schema of an older database.
    """
    from understudy.studies.store.schema import StoreError
    from understudy.studies.store.store import Store

    keys: dict[str, str] = {}
    try:
        with Store.open(runs) as store:
            broken = store.broken_pages()
            words = "; ".join(broken) if broken else "whole"
            yield Finding("database", "pages", not broken, words)
            for study in store.studies():
                for cell in store.cells(study.name):
                    if cell.key not in keys:
                        keys[cell.key] = cell.status
                        damage, unverified = store.damage(cell.key), store.unverified(cell.key)
                        yield Finding(
                            *("rounds", cell.key, not damage),
                            damage or _rounds(cell.rounds, unverified),
                        )
    except StoreError as error:
        yield Finding("database", "tables", False, str(error))
    yield from _files(runs, keys)


def _rounds(n: int, unverified: int) -> str:
    if unverified:
        return f"{n} rounds, {unverified} of them not verified: stored before there were checksums"
    return f"{n} rounds, verified"


def _files(runs: Path, keys: dict[str, str]) -> Iterator[Finding]:
    from understudy.memory.run_folder import STATE
    from understudy.server.checkpoint import verify
    from understudy.studies.store.model_files import cells_folder, has_model, is_verified

    folder = cells_folder(runs)
    if not folder.is_dir():
        return
    for cell in sorted(folder.iterdir()):
        if (cell / "server" / STATE).is_file():
            yield _verified("checkpoints", cell.name, verify, cell / "server")
    for key, status in keys.items():
        if status == "done" and not has_model(runs, key):
            yield Finding("models", key, False, "the cell is done, and its model is not there")
        elif status == "done":
            yield _verified("models", key, is_verified, folder / key)


def _verified(kind: str, name: str, verify: Callable[[Path], bool], folder: Path) -> Finding:
    from understudy.memory.tensor_stream import CheckpointError

    try:
        whole = verify(folder)
    except (CheckpointError, OSError) as error:
        return Finding(kind, name, False, str(error))
    words = "verified" if whole else "not verified: written before there were checksums"
    return Finding(kind, name, True, words)
