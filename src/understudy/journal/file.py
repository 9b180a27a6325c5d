"""`LogFile`: the rounds of a run in a file, one line a round, and beside it what the run is."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from understudy.core.files import file_named, refuse_link, sync_folder, write_file
from understudy.core.json_lines import is_damaged, sealed
from understudy.core.types import RoundLog
from understudy.journal.codec import line_of, log_of_line
from understudy.journal.protocol import Journal
from understudy.memory.run_folder import ABOUT
from understudy.memory.tensor_stream import CheckpointError, named_faults


class LogFile(Journal):
    """Appends round logs; lines of rounds that were not committed are dropped on resume.

    What the run is, and how it ended, is in ``run.json`` beside it.

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
        self._about: dict[str, Any] = {}

    def begin(self, run: str, resolved: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
        self._about = {"run": run, "resolved": dict(resolved), "facts": dict(facts)}
        self._describe("running")

    def finish(self) -> None:
        self._describe("done")

    def fail(self, error: str) -> None:
        with suppress(OSError):  # a full disk may be what ends the run
            self._describe("failed", error)

    def _describe(self, status: str, error: str = "") -> None:
        if not self._about:
            return  # it was never begun: the run is only looked at
        about = {**self._about, "status": status, "error": error}
        write_file(self.path.with_name(ABOUT), sealed(json.dumps(about).encode()))

    def append(self, log: RoundLog) -> None:
        self._unwritten.append(sealed(line_of(log)) + b"\n")

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
            yield read_line(self.path, line, t)


def read_line(path: Path, line: bytes, t: int) -> RoundLog:
    """The log of round `t`, checked; `path` is for the error."""
    _refuse_damaged(path, line, t)
    with named_faults(_line(path, t)):
        return log_of_line(line)


def _refuse_damaged(path: Path, line: bytes, t: int) -> None:
    if is_damaged(line.removesuffix(b"\n")):
        raise CheckpointError(f"{_line(path, t)}: damaged: it does not fit its checksum")
    if not line.startswith(b'{"t": %d,' % t):
        raise CheckpointError(f"{_line(path, t)}: expected the log of round {t}")


def _line(path: Path, t: int) -> Path:
    return path.with_name(f"{path.name}, line {t + 1}")
