"""Traces of FLASH: what phones reported of themselves, as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from understudy.core.shown import shown
from understudy.parts.recordings.recording import Recording, Session, existing, joined

REFERENCE = datetime(2020, 1, 2)  # second 0 of a run: a midnight, as in FLASH's code
LONGEST = 60  # characters of what is quoted in a message
WHAT = "a trace of FLASH, JSON: {device: {messages: lines of time, tab, state}}"
# state → what it says of charging, wifi, locked; the others say nothing of these
CHANGES: dict[str, tuple[str, bool] | None] = {
    "battery_charged_on": ("charging", True),
    "battery_charged_off": ("charging", False),
    "wifi": ("wifi", True),
    **dict.fromkeys(("2g", "3g", "4g", "5g", "unknown"), ("wifi", False)),
    "screen_lock": ("locked", True),
    "screen_unlock": ("locked", False),
    **dict.fromkeys(("screen_on", "screen_off", "battery_low", "battery_okay"), None),
    **dict.fromkeys(("phone_on", "phone_off"), None),
}


def read_flash(file: str | Path) -> Recording:
    """Read a trace of FLASH.

    A device is there while it is locked, charging and on wifi. It starts again after its own last
    message. Before its first messages nothing is known of it, and it is away; what it was when it
    fell silent it remains until it starts again.

    References
    ----------
    Yang et al., Characterizing Impacts of Heterogeneity in Federated Learning upon Large-Scale
    Smartphone Data, WWW 2021.
    """
    path = existing(file, WHAT)
    devices = _devices(path)
    sessions, lengths, begins = [], [], []
    for name, device in devices.items():
        messages = device.get("messages") if isinstance(device, dict) else None
        if not isinstance(messages, str):
            raise ValueError(f"{path}, device {_short(name)}: expected messages, a text; {WHAT}")
        changes = sorted(_changes(messages, f"{path}, device {_short(name)}"), key=_second)
        if not changes or changes[-1][0] <= changes[0][0]:
            raise ValueError(
                f"{path}, device {_short(name)}: expected messages of at least two different times"
            )
        begin, end = changes[0][0], changes[-1][0]
        sessions.append(joined(_sessions(changes, begin, end), closed=True))
        lengths.append(end - begin)
        begins.append(begin)
    return Recording(tuple(sessions), tuple(devices), tuple(lengths), tuple(begins), True)


def _devices(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: expected {WHAT}; {error}") from error
    if not isinstance(content, dict) or not content:
        raise ValueError(f"{path}: expected {WHAT}, got {_short(content)}")
    return content


def _changes(messages: str, where: str) -> Iterator[tuple[float, str]]:
    """(second, state) of each line."""
    for number, line in enumerate(messages.split("\n"), start=1):
        if not line.strip():
            continue
        time, tab, state = line.strip().partition("\t")
        state = state.strip().lower()
        try:
            moment = datetime.fromisoformat(time.strip())
            second = (moment - REFERENCE).total_seconds()
        except (ValueError, TypeError):  # no time, or one with a zone
            moment, second = None, 0.0
        if moment is None or not tab or not (state in CHANGES or _is_level(state)):
            raise ValueError(
                f"{where}, message {number}: expected YYYY-mm-dd HH:MM:SS, a tab and a state "
                f"(battery_charged_on, wifi, screen_lock, 80%, …), got {_short(line)}"
            )
        yield second, state


def _is_level(state: str) -> bool:
    return state.endswith("%") and state[:-1].replace(".", "", 1).isdigit()


def _sessions(changes: list[tuple[float, str]], begin: float, end: float) -> Iterator[Session]:
    """When a device is ready, both ends included, in seconds since its first message."""
    is_now = {"charging": False, "wifi": False, "locked": False}
    since: float | None = None
    for second, state in changes:
        change = CHANGES.get(state)
        if change is None:
            continue
        is_now[change[0]] = change[1]
        ready = all(is_now.values())
        if ready and since is None:
            since = second
        elif not ready and since is not None:
            yield Session(since - begin, second - begin)
            since = None
    if since is not None:
        yield Session(since - begin, end - begin)


def _second(change: tuple[float, str]) -> float:
    return change[0]


def _short(value: object) -> str:
    return shown(value, LONGEST)
