"""Traces of two states as CSV files: `device,t_s,state`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from understudy.core.csv_files import csv_rows
from understudy.core.shown import shown
from understudy.parts.recordings.recording import (
    MOST_SECONDS,
    Recording,
    Session,
    existing,
    joined,
)

LONGEST = 100  # characters of what is quoted in a message
COLUMNS = ["device", "t_s", "state"]
Rows = Iterator[tuple[int, list[str]]]  # line number, fields
PRESENT = {"AVL_TRAIN": True, "UN_AVL": False}


def read_two_state(file: str | Path) -> Recording:
    """Read a CSV `device,t_s,state`, state AVL_TRAIN or UN_AVL from that second on.

    A device is away before its first line, and as its last line says until the recording ends. Of
    lines with the same second the last counts.
    """
    changes: dict[str, list[tuple[float, bool]]] = {}
    for line, device, second, here in _lines(Path(file)):
        known = changes.setdefault(device, [])
        if known and second < known[-1][0]:
            raise ValueError(
                f"{file}, line {line}: expected times of device {device!r} in ascending order, "
                f"got {second:g} after {known[-1][0]:g}"
            )
        known.append((second, here))
    end = max((known[-1][0] for known in changes.values()), default=0.0)
    sessions = tuple(_sessions(known, end) for known in changes.values())
    n = len(changes)
    return Recording(sessions, tuple(changes), (end,) * n, (0.0,) * n)


def _lines(path: Path) -> list[tuple[int, str, float, bool]]:
    """(line number, device, second, there) of each line, checked."""
    path = existing(path, f"a recorded trace, a CSV with the columns {','.join(COLUMNS)}")
    result = _rows(csv_rows(path), path)
    if not result:
        raise ValueError(f"{path}: expected at least one line after the header, got none")
    return result


def _rows(rows: Rows, path: Path) -> list[tuple[int, str, float, bool]]:
    _, first = next(rows, (1, []))
    header = [name.strip() for name in first]
    if header != COLUMNS:
        raise ValueError(
            f"{path}, line 1: expected the header {','.join(COLUMNS)}, got {_shown(header)}"
        )
    return [(line, *_checked(row, f"{path}, line {line}")) for line, row in rows]


def _shown(fields: list[str]) -> str:
    return shown(",".join(fields), LONGEST)


def _checked(row: list[str], where: str) -> tuple[str, float, bool]:
    fields = [field.strip() for field in row]
    if len(fields) != len(COLUMNS):
        raise ValueError(f"{where}: expected {','.join(COLUMNS)}, got {_shown(row)}")
    device, time, state = fields
    if not device or not device.isprintable():
        raise ValueError(f"{where}: expected the name of a device, got {_shown(row)}")
    try:
        second = float(time)
    except ValueError:
        second = math.nan
    if not 0 <= second <= MOST_SECONDS:
        raise ValueError(
            f"{where}: expected t_s to be a number of seconds >= 0 and <= {MOST_SECONDS:g}, got "
            f"{_shown([time])}"
        )
    if state not in PRESENT:
        raise ValueError(
            f"{where}: expected state to be {' or '.join(PRESENT)}, got {_shown([state])}"
        )
    return device, second, PRESENT[state]


def _sessions(changes: list[tuple[float, bool]], end: float) -> tuple[Session, ...]:
    """Sessions out of changes; a repeated state changes nothing."""
    following = [second for second, _ in changes[1:]] + [end]
    return joined(
        Session(start, stop) for (start, here), stop in zip(changes, following, strict=True) if here
    )
