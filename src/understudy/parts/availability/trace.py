"""`Trace`: attendance as it was recorded on devices (MobiPerf)."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from understudy.core import checks
from understudy.core.csv_files import csv_rows
from understudy.core.describe import added
from understudy.core.rng import generator
from understudy.core.shown import shown
from understudy.core.types import Bools, Floats, Ints, Population

MOST_SECONDS = 1e10  # three hundred years: clients' sessions are laid one after another
LONGEST = 100  # characters of what is quoted in a message
COLUMNS = ["device", "t_s", "state"]
Rows = Iterator[tuple[int, list[str]]]  # line number, fields
PRESENT = {"AVL_TRAIN": True, "UN_AVL": False}


class Session(NamedTuple):
    """A device is there from `start` until just before `stop`, in seconds."""

    start: float
    stop: float


class Recording(NamedTuple):
    """What a trace file holds."""

    sessions: tuple[tuple[Session, ...], ...]  # of each device, ascending, none empty
    devices: tuple[str, ...]  # their names, in the order of first mention
    end: float  # seconds: the last change of any device


def read_trace(file: str | Path) -> Recording:
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
    sessions = tuple(tuple(_sessions(known, end)) for known in changes.values())
    return Recording(sessions, tuple(changes), end)


def _found(file: Path) -> Path:
    """The file itself, or the one of that name among the data sets."""
    roots = [Path(), Path(os.environ.get("UNDERSTUDY_DATA", "data")), Path("data")]
    return next((root / file for root in roots if (root / file).is_file()), file)


def _lines(path: Path) -> list[tuple[int, str, float, bool]]:
    """(line number, device, second, there) of each line, checked."""
    if not path.is_file():
        raise FileNotFoundError(
            f"{path}: no such file, neither here nor under UNDERSTUDY_DATA nor in ./data; expected "
            f"a recorded trace, a CSV with the columns {','.join(COLUMNS)}"
        )
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


def _sessions(changes: list[tuple[float, bool]], end: float) -> list[Session]:
    """Non-empty sessions out of changes; a repeated state changes nothing."""
    sessions: list[Session] = []
    following = [second for second, _ in changes[1:]] + [end]
    for (start, here), stop in zip(changes, following, strict=True):
        if not here or stop <= start:
            continue
        if sessions and sessions[-1].stop == start:
            sessions[-1] = Session(sessions[-1].start, stop)
        else:
            sessions.append(Session(start, stop))
    return sessions


@dataclass
class TraceState:
    device: Ints  # (N,) which device of the file each client is
    # Derived from the file. All clients' sessions in one ascending array: client i's seconds are
    # shifted by i * length, so that one search finds the present session of everyone.
    _length: float  # seconds of the recording, without the dropped ones
    _starts: Floats  # (S,)
    _stops: Floats  # (S,)


@dataclass(frozen=True)
class Trace:
    """Clients come and go as recorded devices did.

    A client is there in a round if its device was at the second at which the round starts,
    t · seconds_per_round. At the recording's end it starts again.

    Parameters
    ----------
    file : str or Path
        Where it is; a relative path is looked for here, then under the environment variable
        ``UNDERSTUDY_DATA``, then in ``./data``. A CSV with the columns ``device,t_s,state``: from
        second t_s on the device's state is ``AVL_TRAIN`` (there) or ``UN_AVL`` (away).
    seconds_per_round : float
        Length of a round, > 0.
    drop_first_seconds : float
        How much of the recording's beginning is left out. The default suits the traces of
        cisco-open/flame, in which everyone is there at first.
    seed : int
        Which devices: they are dealt to the clients in a random order, each once before any is
        dealt a second time (as it must be where there are more clients than devices).
    by_name : bool
        Each client is the device of its own name; clients without names, or one that the recording
        does not have, are an error.

    Notes
    -----
    What a device would do is not known to anybody in advance, so `rates` is None: importance
    sampling, which needs them, refuses such a run. The run's own generator is not used; all
    seeds of a run meet the same attendance, another `seed` here deals other devices. Where the
    recording is no whole number of days, the hour of the day jumps when it starts again.

    References
    ----------
    The recordings this was written for are the two-state MobiPerf traces of the project
    cisco-open/flame (Apache-2.0), derived from the behaviour traces of FLASH and FedScale.
    """

    file: str | Path = "traces/mobiperf_2st_300.csv"
    seconds_per_round: float = 600
    drop_first_seconds: float = 600
    seed: int = 0
    by_name: bool = added("0.2", False)

    def __post_init__(self) -> None:
        if not isinstance(self.file, str | Path):
            raise ValueError(f"file: expected the path of a CSV file, got {self.file!r}")
        checks.number("seconds_per_round", self.seconds_per_round, low=0, low_open=True)
        checks.number("drop_first_seconds", self.drop_first_seconds, low=0)
        checks.integer("seed", self.seed, low=0)
        checks.choice("by_name", self.by_name, (True, False))

    def init(self, population: Population) -> TraceState:
        recording = read_trace(_found(Path(self.file)))
        length = recording.end - self.drop_first_seconds
        if length <= 0:
            raise ValueError(
                f"drop_first_seconds: expected less than the recording's {recording.end:g} seconds "
                f"({self.file}), got {self.drop_first_seconds!r}"
            )
        if self.by_name:
            device = _of_the_same_name(recording.devices, population, self.file)
        else:
            device = _dealt(len(recording.devices), int(population.n_clients), self.seed)
        starts, stops = [], []
        for client, which in enumerate(device):
            for session in recording.sessions[which]:
                start = max(session.start - self.drop_first_seconds, 0.0)
                stop = session.stop - self.drop_first_seconds
                if stop > start:
                    starts.append(start + client * length)
                    stops.append(stop + client * length)
        return TraceState(device, length, np.array(starts, dtype=float), np.array(stops, float))

    def draw(self, state: TraceState, t: int, rng: np.random.Generator) -> Bools:
        second = (t * self.seconds_per_round) % state._length
        now = np.arange(len(state.device)) * state._length + second
        begun = np.searchsorted(state._starts, now, side="right")
        ended = np.searchsorted(state._stops, now, side="right")
        return np.asarray(begun > ended)

    def rates(self, state: TraceState, t: int) -> None:
        return None


def _of_the_same_name(devices: tuple[str, ...], population: Population, file: str | Path) -> Ints:
    """(N,) the device of each client's own name."""
    if population.names is None:
        raise ValueError("by_name: expected clients with names, got a federation without")
    missing = [name for name in population.names if name not in devices]
    if missing:
        more = f" and {len(missing) - 1} more clients" if len(missing) > 1 else ""
        raise ValueError(f"by_name: {file} has no device {shown(missing[0])}{more}")
    return np.array([devices.index(name) for name in population.names], dtype=np.int64)


def _dealt(n_devices: int, n_clients: int, seed: int) -> Ints:
    """(N,) devices in a random order, and again in another one where they do not suffice."""
    rng = generator(seed, "availability/init")
    decks = [rng.permutation(n_devices) for _ in range(math.ceil(n_clients / n_devices))]
    return np.concatenate(decks)[:n_clients]
