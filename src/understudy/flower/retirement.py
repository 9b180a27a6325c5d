"""Requests to retire clients, in a file of the run's folder that a running server reads."""

from __future__ import annotations

import json
import os
from pathlib import Path

from understudy.core.brief import shown
from understudy.core.files import file_named, no_link_opener, sync_folder
from understudy.core.json_lines import is_damaged, is_sealed, sealed
from understudy.core.printable import is_printable
from understudy.flower.clients.roster import Roster
from understudy.memory.run_folder import STATE
from understudy.memory.tensor_stream import CheckpointError, named_faults
from understudy.server import checkpoint

# A JSON object with a client's id and a checksum in each line: no damage retires somebody else.
# Lines from before there were checksums are the id as it is.
FILE = "retired"
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
    lines = [sealed(json.dumps({"id": client_id}).encode()) + b"\n" for client_id in client_ids]
    with file_named(folder / FILE), open(folder / FILE, "a+b", opener=no_link_opener) as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                lines.insert(0, b"\n")  # a line before was cut short
        file.writelines(lines)
        file.flush()
        os.fsync(file.fileno())
    sync_folder(folder)


def requested_retirements(folder: Path | None) -> list[str]:
    """Ids in the folder's file, complete lines only; a damaged line is an error that names it."""
    if folder is None or not os.path.lexists(path := folder / FILE):
        return []
    if not path.is_file():
        came = "a folder" if path.is_dir() else "something else"
        raise CheckpointError(f"{path}: expected a file with ids of clients to retire, got {came}")
    *lines, last = path.read_bytes().split(b"\n")
    if is_sealed(last):  # only the end of the line is missing, or damaged
        lines.append(last)
    ids = [_client_id(path, number, line) for number, line in enumerate(lines, start=1)]
    return [client_id for client_id in ids if client_id]


def _client_id(path: Path, number: int, line: bytes) -> str:
    """Whom a line names."""
    try:
        if line.startswith(b"{") or is_sealed(line):
            client_id = json.loads(line.decode())["id"]
            if is_damaged(line) or not is_sealed(line):
                raise ValueError("it does not fit its checksum")
            is_id = isinstance(client_id, str)
        else:
            client_id = line.removesuffix(b"\r").decode()
            is_id = is_printable(client_id)
        if not is_id:
            raise ValueError("it is no text")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CheckpointError(
            f"{path}, line {number}: damaged: expected the id of a client to retire, got "
            f"{shown(line)} ({shown(str(error))}); remove the line, and retire that client again"
        ) from error
    return str(client_id)
