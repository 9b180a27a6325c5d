"""Logs of rounds: how one is made, shown as a row, and kept in a file, one line a round."""

from __future__ import annotations

import ast
import base64
import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, overload

import numpy as np

from understudy.core.files import file_named, refuse_link, sync_folder
from understudy.core.inflate import inflated, n_elements
from understudy.core.json_lines import is_damaged, sealed
from understudy.core.types import Applied, Outcome, Reason, Refusal, RoundLog
from understudy.memory.tensor_stream import CheckpointError, named_faults


class Ledger(Protocol):
    """Where the logs of a run are kept."""

    def append(self, log: RoundLog) -> None: ...

    def flush(self) -> None:
        """Come back when all logs are safe: then the state that follows them is committed."""

    def stored(self, at_most: int) -> Iterator[RoundLog]:
        """The logs of the rounds that were played before."""


def log_of(applied: Applied, notes: Mapping[str, float], **measured: Any) -> RoundLog:
    """A round's log: what the server says of it, more notes, and what was measured."""
    return RoundLog(
        t=applied.t,
        outcome=applied.outcome,
        refusals=applied.refusals,
        ids=applied.contributions.ids,
        source=applied.contributions.source,
        coef=applied.contributions.coef,
        notes={**applied.notes, **notes},
        **measured,
    )


def row_of(log: RoundLog) -> dict[str, float]:
    """A log as a row of a table: who came, clock, megabytes, metrics and notes."""
    return {
        "t": log.t,
        "came": float((log.outcome == Outcome.CAME).sum()),
        "clock": log.clock,
        "megabytes_up": log.megabytes_up,
        "megabytes_down": log.megabytes_down,
        "refused": len(log.refusals),
        **log.metrics,
        **log.notes,
    }


LARGE = 4096  # bytes of a log's arrays from which on it is kept compressed


class KeptLogs(Sequence[RoundLog]):
    """The logs of a run, in memory; large ones are compressed, and unpacked when asked for.

    Methods that remember everyone log 25 bytes for each client: of 10,000 clients and 1,000 rounds
    that is 250 MB, and less than 60 MB compressed.
    """

    def __init__(self) -> None:
        self._kept: list[RoundLog | bytes] = []

    def keep(self, log: RoundLog) -> None:
        """One more round."""
        small = sum(array.nbytes for array in _arrays(log)) < LARGE
        self._kept.append(log if small else json.dumps(packed(log)).encode())

    def __len__(self) -> int:
        return len(self._kept)

    @overload
    def __getitem__(self, index: int) -> RoundLog: ...

    @overload
    def __getitem__(self, index: slice) -> list[RoundLog]: ...

    def __getitem__(self, index: int | slice) -> RoundLog | list[RoundLog]:
        if isinstance(index, slice):
            return [_log(kept) for kept in self._kept[index]]
        return _log(self._kept[index])

    def __repr__(self) -> str:
        return f"<logs of {len(self)} round{'s' * (len(self) != 1)}>"


def _log(kept: RoundLog | bytes) -> RoundLog:
    return unpacked(json.loads(kept)) if isinstance(kept, bytes) else kept


def _arrays(log: RoundLog) -> list[np.ndarray[Any, Any]]:
    values = [*vars(log).values(), *log.client_metrics.values()]
    return [value for value in values if isinstance(value, np.ndarray)]


class LogFile:
    """Appends round logs; lines of rounds that were not committed are dropped on resume.

    A line ends with the CRC-32 of what is before it; lines from before there were checksums are
    read as they are. A line that is damaged or not where it belongs is an error that names it.
    """

    def __init__(self, path: Path, n_rounds: int) -> None:
        """Keep the first `n_rounds` lines of what is there, and write after them."""
        self.path, self.n_stored = path, n_rounds
        refuse_link(path)
        if not path.exists():
            path.touch()
            sync_folder(path.parent)  # else a power cut may leave a state without its logs
        size = 0
        with open(path, "rb") as file:
            for t in range(n_rounds):
                line = file.readline()
                if not line.endswith(b"\n"):
                    raise CheckpointError(
                        f"{path}: expected the logs of {n_rounds} rounds, got fewer: {t}"
                    )
                _refuse_damaged(path, line, t)
                size += len(line)
        os.truncate(path, size)
        self._size = size  # of the lines that are known to be on the disk
        self._unwritten: list[bytes] = []

    def append(self, log: RoundLog) -> None:
        self._unwritten.append(sealed(json.dumps(packed(log)).encode()) + b"\n")

    def flush(self) -> None:
        """Force to the disk: what is done before the state that follows is committed."""
        if self._unwritten:
            lines = b"".join(self._unwritten)
            with file_named(self.path), open(self.path, "ab") as file:
                # the disk was full and part of it was written: what is there is written over
                file.truncate(self._size)
                file.write(lines)
                file.flush()
                os.fsync(file.fileno())
            self._size += len(lines)
            self._unwritten = []

    def stored(self, at_most: int) -> Iterator[RoundLog]:
        """The logs that were there at the beginning."""
        offset = 0
        for t in range(min(self.n_stored, at_most)):
            with open(self.path, "rb") as file:  # not kept open: a reader may never come back
                file.seek(offset)
                line = file.readline()
            offset += len(line)
            yield _read(self.path, line, t)


def read_logs(path: Path) -> Iterator[RoundLog]:
    """The logs of a file that may be growing: all whose lines are complete."""
    with open(path, "rb") as file:
        for t, line in enumerate(file):
            if line.endswith(b"\n"):
                yield _read(path, line, t)


def _read(path: Path, line: bytes, t: int) -> RoundLog:
    _refuse_damaged(path, line, t)
    with named_faults(_line(path, t)):
        return unpacked(json.loads(line))


def _refuse_damaged(path: Path, line: bytes, t: int) -> None:
    if is_damaged(line.removesuffix(b"\n")):
        raise CheckpointError(f"{_line(path, t)}: damaged: it does not fit its checksum")
    if not line.startswith(b'{"t": %d,' % t):
        raise CheckpointError(f"{_line(path, t)}: expected the log of round {t}")


def _line(path: Path, t: int) -> Path:
    return path.with_name(f"{path.name}, line {t + 1}")


_NESTED = ("refusals", "client_metrics")


def packed(log: RoundLog) -> dict[str, Any]:
    """A log as plain data; arrays as compressed text."""
    plain = {name: value for name, value in vars(log).items() if name not in _NESTED}
    data = {name: _text(value) for name, value in plain.items()}
    refused = [(repr(r.id), r.reason.value, r.detail) for r in log.refusals]
    clients = {name: _text(values) for name, values in log.client_metrics.items()}
    return {**data, "refusals": refused, "client_metrics": clients}


def unpacked(data: dict[str, Any]) -> RoundLog:
    """What `packed` made plain."""
    skipped = (*_NESTED, "crc32")
    fields = {name: _value(value) for name, value in data.items() if name not in skipped}
    fields["refusals"] = tuple(
        Refusal(_id(who), Reason(reason), detail) for who, reason, detail in data["refusals"]
    )
    clients = data["client_metrics"]
    fields["client_metrics"] = {name: _value(values) for name, values in clients.items()}
    return RoundLog(**fields)


def _id(written: str) -> object:
    try:
        return ast.literal_eval(written)
    except (SyntaxError, ValueError):  # an object of somebody's: its words remain
        return written


def _text(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        body = base64.b64encode(zlib.compress(value.tobytes(), 1)).decode()
        return {"array": body, "dtype": str(value.dtype), "shape": list(value.shape)}
    if isinstance(value, dict):
        return {name: float(number) for name, number in value.items()}
    return value


def _value(value: Any) -> Any:
    if isinstance(value, dict) and "array" in value:
        dtype, shape = np.dtype(value["dtype"]), value["shape"]
        size = n_elements(shape, dtype.itemsize) * dtype.itemsize
        raw = inflated(base64.b64decode(value["array"]), size)
        return np.frombuffer(raw, dtype=dtype).reshape(shape).copy()
    return value
