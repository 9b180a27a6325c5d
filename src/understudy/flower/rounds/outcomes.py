"""The outcome of each client in each round: one typed record, and the file of them.

A line ends with the CRC-32 of what is before it; lines from before there were checksums are read
as they are. A line that is damaged is reported and stays where it is, and all others are read.
"""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from understudy.core import checks
from understudy.core.files import file_named, no_link_opener, refuse_link, write_file
from understudy.core.json_lines import is_damaged, is_sealed, sealed
from understudy.core.printable import printable
from understudy.core.types import Outcome
from understudy.flower.log import logger

FILE = "outcomes.jsonl"
MOST_NAMED = 5  # damaged lines in a message
_BEGINNING = re.compile(rb'\{"t": (\d+),')  # of a line
_LESS = re.compile(rb'\{(?:"(?:t(?:"(?::(?: \d*)?)?)?)?)?')  # too little of one to say anything


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
        """Keep the records of the first `n_rounds` rounds, and write after them.

        Damaged lines are kept too: of which round they are cannot be known.
        """
        self.path = path
        refuse_link(path)
        lines = _lines(path.read_bytes()) if path.exists() else []
        kept = [line for line in lines if not _is_uncommitted(line, n_rounds)]
        if words := _damage(path, kept):
            logger.warning("%s; damaged lines are kept as they are", words)
        write_file(path, b"".join(line.text + b"\n" for line in kept))

    def append(self, records: Iterable[ClientOutcome]) -> None:
        """Append a round, on disk when this returns."""
        plain = ({**asdict(one), "outcome": one.outcome.name.lower()} for one in records)
        lines = [sealed(json.dumps(one).encode()) + b"\n" for one in plain]
        with file_named(self.path), open(self.path, "ab", opener=no_link_opener) as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())


def read_outcomes(folder: str | Path) -> list[ClientOutcome]:
    """All records of a run's folder, in the order of the rounds.

    A line that is damaged, or is no outcome, is left out, with a `UserWarning` that names the file
    and the line. The last line, where it has no end, is being written or was cut short by a kill.
    """
    path = Path(folder) / FILE
    lines = [line for line in _lines(path.read_bytes()) if not line.is_cut]
    if words := _damage(path, lines):
        warnings.warn(words, stacklevel=2)
    return [line.record for line in lines if line.record is not None]


def newest_outcomes(folder: str | Path, at_most: int = 2**18) -> list[ClientOutcome]:
    """The last records of a run's folder: those in the last `at_most` bytes; none without a file.

    For whoever looks again and again while the run is written: a damaged line is passed over.
    """
    try:
        with open(Path(folder) / FILE, "rb", opener=no_link_opener) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - at_most))
            content = file.read()
    except FileNotFoundError:
        return []
    lines = _lines(content)
    return [line.record for line in lines if line.record is not None]


class _Line(NamedTuple):
    number: int  # from 1
    text: bytes  # without its end
    record: ClientOutcome | None
    fault: str = ""  # why there is no record
    is_cut: bool = False  # the last one, and not written to its end


def _lines(content: bytes) -> list[_Line]:
    *whole, last = content.split(b"\n")
    lines = [_line(number, text) for number, text in enumerate(whole, start=1)]
    if is_sealed(last):  # nothing follows a checksum but the end of its line
        lines.append(_line(len(lines) + 1, last))
    elif last:
        lines.append(_Line(len(lines) + 1, last, None, "it has no end", is_cut=True))
    return lines


def _line(number: int, text: bytes) -> _Line:
    try:
        return _Line(number, text, _record(text))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        words = " ".join(f"{type(error).__name__}: {error}"[:100].split())
        return _Line(number, text, None, printable(words))


def _record(text: bytes) -> ClientOutcome:
    if is_damaged(text):
        raise ValueError("it does not fit its checksum")
    plain = json.loads(text.decode())
    plain.pop("crc32", None)
    if not all(isinstance(plain.get(name, ""), str) for name in ("id", "detail")):
        raise ValueError("id and detail: expected texts")
    record = ClientOutcome(**{**plain, "outcome": Outcome[plain["outcome"].upper()]})
    checks.integer("t", record.t, low=0)
    checks.integer("client", record.client, low=0)
    if record.seconds is not None:
        checks.number("seconds", record.seconds)
    return record


def _is_uncommitted(line: _Line, n_rounds: int) -> bool:
    """Whether a line is of a round that will be repeated; damaged ones are not known to be."""
    if line.record is not None:
        return line.record.t >= n_rounds
    if not line.is_cut:
        return False
    begun = _BEGINNING.match(line.text)
    return float(begun[1]) >= n_rounds if begun else _LESS.fullmatch(line.text) is not None


def _damage(path: Path, lines: Sequence[_Line]) -> str:
    """What is wrong with the lines of a file, in one line; empty where nothing is."""
    bad = [line for line in lines if line.record is None]
    if not bad:
        return ""
    named = "; ".join(f"line {line.number}: no outcome ({line.fault})" for line in bad[:MOST_NAMED])
    more = f"; and {len(bad) - MOST_NAMED} more lines" if len(bad) > MOST_NAMED else ""
    return f"{path}, {named}{more}"
