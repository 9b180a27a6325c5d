"""Requests to retire clients, in a file of the run's folder that a running server reads."""

from __future__ import annotations

import os
from pathlib import Path

from understudy.core.files import no_link_opener, sync_folder
from understudy.flower.clients.roster import Roster
from understudy.memory.run_folder import STATE
from understudy.memory.tensor_stream import named_faults
from understudy.server import checkpoint

FILE = "retired"  # one client id a line
MOST_SHOWN = 20  # ids in an error message


def request_retirement(folder: str | Path, *client_ids: str) -> None:
    """Ask the server of a live federation to retire clients.

    A running server does so before its next round, otherwise the next run does when it starts:
    the clients are not asked again, and what is remembered of them is erased.

    Parameters
    ----------
    folder : path
        The run's folder, as given to `UnderstudyStrategy`.
    *client_ids : str
        Clients of the run.
    """
    folder = Path(folder)
    path = folder / "server" / STATE
    if not path.is_file():
        raise ValueError(f"{folder}: expected the folder of a live federation, found no state")
    stored = checkpoint.numbers_of(path.parent)
    if "extra.roster" not in stored:
        raise ValueError(
            f"{folder}: expected the folder of a live federation, found a run that has no client "
            "ids, such as a simulation's"
        )
    with named_faults(path):
        roster = Roster.from_json(stored["extra.roster"])
    for client_id in client_ids:
        if roster.number(client_id) is None:
            known = ", ".join(client.id for client in roster.clients[:MOST_SHOWN])
            more = ", ..." if len(roster) > MOST_SHOWN else ""
            raise ValueError(f"{client_id!r}: expected the id of a client: {known}{more}")
    with open(folder / FILE, "a", encoding="utf-8", opener=no_link_opener) as file:
        file.writelines(f"{client_id}\n" for client_id in client_ids)
        file.flush()
        os.fsync(file.fileno())
    sync_folder(folder)


def requested_retirements(folder: Path | None) -> list[str]:
    """Ids in the folder's file, complete lines only."""
    if folder is None or not (folder / FILE).is_file():
        return []
    text = (folder / FILE).read_text(encoding="utf-8")
    return [line.rstrip("\n") for line in text.splitlines(keepends=True) if line.endswith("\n")]
