"""Requests about clients, in files of the run's folder that a running server reads."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from understudy.core.files import file_named, no_link_opener, sync_folder
from understudy.core.json_lines import is_damaged, is_sealed, sealed
from understudy.core.shown import shown
from understudy.flower.clients.roster import Roster
from understudy.flower.clients.vanished import why_not_matched
from understudy.memory.run_folder import STATE
from understudy.memory.tensor_stream import CheckpointError, named_faults
from understudy.server import checkpoint

# A JSON object with ids of clients and a checksum in each line: no damage retires somebody else.
FILE = "retired"
SAME = "same_as"
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
    _roster_with(Path(folder), client_ids)
    _append(Path(folder) / FILE, ({"id": client_id} for client_id in client_ids))


def request_same_as(folder: str | Path, new: str, old: str) -> None:
    """Tell the server of a live federation that a client is one that had vanished.

    Before the next round, or when the next run starts, the vanished client continues under the id
    and the node of the new one, with its number and all that is remembered of it. What was
    remembered of the new one is erased.

    Parameters
    ----------
    folder : path
        The run's folder, as given to `UnderstudyStrategy`.
    new : str
        The id that the client has now.
    old : str
        The id that it had: one of a key or a node that lasted until its SuperNode ended.
    """
    roster = _roster_with(Path(folder), (new, old))
    if why_not := why_not_matched(roster, new, old):
        raise ValueError(f"{new!r} cannot be the same client as {old!r}: {why_not}")
    path = Path(folder) / SAME
    for other, same in requested_matches(Path(folder)).items():
        if same == old and other != new and roster.number(other) is not None:
            raise ValueError(
                f"{new!r} cannot be the same client as {old!r}: {other!r} is to continue it, by a "
                f"line of {path}; remove that line if it is wrong"
            )
    _append(path, [{"new": new, "old": old}])


def requested_retirements(folder: Path | None) -> list[str]:
    """Ids in the folder's file, complete lines only; a damaged line is an error that names it."""
    return [client_id for (client_id,) in _requests(folder, FILE, "id") if client_id]


def requested_matches(folder: Path | None) -> dict[str, str]:
    """New id → the one that it had; a damaged line is an error that names it."""
    return dict(_requests(folder, SAME, "new", "old"))


def _roster_with(folder: Path, client_ids: Iterable[str]) -> Roster:
    """The clients of a run, these among them."""
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
        if roster.now(client_id) is None:
            known = ", ".join(client.id for client in roster.clients[:MOST_SHOWN])
            more = ", ..." if len(roster) > MOST_SHOWN else ""
            raise ValueError(f"{client_id!r}: expected the id of a client: {known}{more}")
    return roster


def _append(path: Path, requests: Iterable[dict[str, str]]) -> None:
    lines = [sealed(json.dumps(one).encode()) + b"\n" for one in requests]
    with file_named(path), open(path, "a+b", opener=no_link_opener) as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                lines.insert(0, b"\n")  # a line before was cut short
        file.writelines(lines)
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)


def _requests(folder: Path | None, name: str, *keys: str) -> list[list[str]]:
    """The ids in each line of a file, in the order of `keys`."""
    if folder is None or not os.path.lexists(path := folder / name):
        return []
    if not path.is_file():
        came = "a folder" if path.is_dir() else "something else"
        raise CheckpointError(f"{path}: expected a file with ids of clients, got {came}")
    *lines, last = path.read_bytes().split(b"\n")
    if is_sealed(last):  # only the end of the line is missing, or damaged
        lines.append(last)
    return [_ids(path, number, line, keys) for number, line in enumerate(lines, start=1) if line]


def _ids(path: Path, number: int, line: bytes, keys: tuple[str, ...]) -> list[str]:
    """Whom a line names."""
    try:
        plain = json.loads(line.decode())
        ids = [plain[key] for key in keys]
        if is_damaged(line) or not is_sealed(line):
            raise ValueError("it does not fit its checksum")
        if not all(isinstance(one, str) for one in ids):
            raise ValueError("it is no text")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        what = "to retire" if path.name == FILE else "and of the one that it is the same as"
        raise CheckpointError(
            f"{path}, line {number}: damaged: expected the id of a client {what}, got "
            f"{shown(line)} ({shown(str(error))}); remove the line, and make that request again"
        ) from error
    return ids
