"""What FedScale and REFL recorded of devices, as pickles: when they are there, how fast they are.

Read by `read_plain_pickle`, which runs nothing that is in them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from understudy.core.plain_pickle import read_plain_pickle
from understudy.core.shown import shown
from understudy.core.types import Floats
from understudy.parts.recordings.recording import (
    MOST_SECONDS,
    Recording,
    Session,
    existing,
    joined,
)

LONGEST = 60  # characters of what is quoted in a message
AVAILABILITY = "a trace of FedScale, a pickle: {id: {active: […], inactive: […], finish_time: …}}"
CAPACITIES = (
    "capacities of FedScale, a pickle: {id: {computation: ms a sample, communication: kbps}}"
)


def read_fedscale(file: str | Path) -> Recording:
    """Read when devices were there: while active[k] ≤ s mod finish_time ≤ inactive[k] for some k.

    References
    ----------
    Lai et al., FedScale: Benchmarking Model and System Performance of Federated Learning at Scale,
    ICML 2022. Abdelmoniem et al., REFL: Resource-Efficient Federated Learning, EuroSys 2023.
    """
    path = existing(file, AVAILABILITY)
    sessions, lengths = [], []
    devices = _entries(path, AVAILABILITY)
    for name, device in devices.items():
        where = f"{path}, device {shown(name, LONGEST)}"
        end = _number(device, "finish_time", where, low=0)
        active, inactive = (_seconds(device, key, where) for key in ("active", "inactive"))
        if len(active) != len(inactive):
            raise ValueError(
                f"{where}: expected as many times in inactive as in active, got {len(inactive)} "
                f"and {len(active)}"
            )
        visits = (
            Session(start, min(stop, end))
            for start, stop in zip(active, inactive, strict=True)
            if start <= end
        )
        sessions.append(joined(visits, closed=True))
        lengths.append(end)
    names = tuple(str(name) for name in devices)
    return Recording(tuple(sessions), names, tuple(lengths), (0.0,) * len(names), True)


class Capacities(NamedTuple):
    """How fast devices are."""

    sample_seconds: Floats  # (devices,) of one example, forwards
    kilobits: Floats  # (devices,) a second


def read_capacities(file: str | Path) -> Capacities:
    """Read how fast devices compute and send."""
    path = existing(file, CAPACITIES)
    rows = []
    for name, device in _entries(path, CAPACITIES).items():
        where = f"{path}, device {shown(name, LONGEST)}"
        rows.append(
            [_number(device, key, where, low=0) for key in ("computation", "communication")]
        )
    table = np.array(rows, dtype=np.float64)
    return Capacities(table[:, 0] / 1000, table[:, 1])


def _entries(path: Path, what: str) -> dict[Any, dict[str, Any]]:
    content = read_plain_pickle(path)
    if type(content) is not dict or not content:
        raise ValueError(f"{path}: expected {what}, got {shown(content, LONGEST)}")
    for name, device in content.items():
        if type(device) is not dict:
            where = f"{path}, device {shown(name, LONGEST)}"
            raise ValueError(f"{where}: expected {what}, got {shown(device, LONGEST)}")
    return content


def _number(device: dict[str, Any], key: str, where: str, *, low: float) -> float:
    value: Any = device.get(key)
    if type(value) not in (int, float) or not low < value <= MOST_SECONDS:
        raise ValueError(
            f"{where}: expected {key}, a number > {low:g}, got {shown(value, LONGEST)}"
        )
    return float(value)


def _seconds(device: dict[str, Any], key: str, where: str) -> list[float]:
    values = device.get(key)
    if type(values) is not list or not all(
        type(value) in (int, float) and 0 <= value <= MOST_SECONDS for value in values
    ):
        raise ValueError(
            f"{where}: expected {key}, a list of seconds, got {shown(values, LONGEST)}"
        )
    return [float(value) for value in values]
