"""The outcome of each client in each round: one typed record, and the file of them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from understudy.core.files import file_named, no_link_opener, refuse_link, write_file
from understudy.core.types import Outcome
from understudy.memory.tensor_stream import CheckpointError

FILE = "outcomes.jsonl"


@dataclass(frozen=True)
class ClientOutcome:
    """The outcome of one client in one round."""

    t: int
    client: int  # its number
    id: str  # what it is called
    outcome: Outcome
    detail: str = ""  # for a person: the error, the reason of a refusal
    seconds: float | None = None  # until its answer was there


class OutcomeFile:
    """Appends records, one line each; those of rounds that were not committed are dropped."""

    def __init__(self, path: Path, n_rounds: int) -> None:
        """Keep the records of the first `n_rounds` rounds, and write after them."""
        self.path = path
        refuse_link(path)
        lines = path.read_bytes().splitlines(True) if path.exists() else []
        write_file(path, b"".join(line for line in lines if _round(line) < n_rounds))

    def append(self, records: Iterable[ClientOutcome]) -> None:
        """Append a round, on disk when this returns."""
        lines = [
            json.dumps({**asdict(record), "outcome": record.outcome.name.lower()}) + "\n"
            for record in records
        ]
        with (
            file_named(self.path),
            open(self.path, "a", encoding="utf-8", opener=no_link_opener) as file,
        ):
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())


def read_outcomes(folder: str | Path) -> list[ClientOutcome]:
    """All records of a run's folder, in the order of the rounds."""
    records, path = [], Path(folder) / FILE
    for number, line in enumerate(path.read_bytes().splitlines(keepends=True), start=1):
        if not line.endswith(b"\n"):
            break  # being written, or cut short by a kill
        try:
            plain = json.loads(line)
            records.append(ClientOutcome(**{**plain, "outcome": Outcome[plain["outcome"].upper()]}))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            words = f"{type(error).__name__}: {error}"
            raise CheckpointError(f"{path}, line {number}: no outcome ({words})") from error
    return records


def _round(line: bytes) -> float:
    try:
        return float(json.loads(line)["t"])
    except (ValueError, KeyError, TypeError):  # the last one, cut short by a kill
        return float("inf")
