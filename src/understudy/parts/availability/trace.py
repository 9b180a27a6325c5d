"""`Trace` (two states, MobiPerf), `FlashTrace`, `FedScaleTrace`: attendance as it was recorded."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from understudy.core import checks
from understudy.core.describe import added
from understudy.core.rng import generator
from understudy.core.shown import shown
from understudy.core.types import Bools, Floats, Ints, Population
from understudy.parts.recordings.fedscale import read_fedscale
from understudy.parts.recordings.flash import read_flash
from understudy.parts.recordings.recording import Recording, found
from understudy.parts.recordings.two_state import read_two_state


@dataclass
class TraceState:
    device: Ints  # (N,) which device of the file each client is
    # Derived from the file. All clients' sessions in one ascending array: client i's seconds are
    # shifted by i * _apart, so that one search finds the present session of everyone.
    _apart: float
    _lengths: Floats  # (N,) seconds of a client's recording, without the dropped ones
    _begins: Floats  # (N,) second of the run at which it begins
    _starts: Floats  # (S,)
    _stops: Floats  # (S,)
    _closed: bool  # whether clients are still there at the second of a stop


def state_of(recording: Recording, device: Ints, *, drop: float = 0.0) -> TraceState:
    """`device` (N,) of each client; `drop` seconds of each recording's beginning are left out."""
    apart = recording.end - drop + (1.0 if recording.closed else 0.0)
    starts, stops = [], []
    for client, which in enumerate(device):
        for session in recording.sessions[which]:
            start, stop = max(session.start - drop, 0.0), session.stop - drop
            if stop > start or (recording.closed and stop == start):
                starts.append(start + client * apart)
                stops.append(stop + client * apart)
    return TraceState(
        device,
        apart,
        np.array(recording.lengths)[device] - drop,
        np.array(recording.begins)[device],
        np.array(starts, dtype=float),
        np.array(stops, dtype=float),
        recording.closed,
    )


def present(state: TraceState, second: float) -> Bools:
    """(N,) who is there at this second of the run."""
    own = (second - state._begins) % state._lengths
    now = np.arange(len(state.device)) * state._apart + own
    begun = np.searchsorted(state._starts, now, side="right")
    ended = np.searchsorted(state._stops, now, side="left" if state._closed else "right")
    return np.asarray(begun > ended)


def dealt(n_devices: int, n_clients: int, seed: int) -> Ints:
    """(N,) devices in a random order, and again in another one where they do not suffice."""
    rng = generator(seed, "availability/init")
    decks = [rng.permutation(n_devices) for _ in range(math.ceil(n_clients / n_devices))]
    return np.concatenate(decks)[:n_clients]


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
        _check(self.file, "a CSV file", self.seconds_per_round, self.seed)
        checks.number("drop_first_seconds", self.drop_first_seconds, low=0)
        checks.integer("seed", self.seed, low=0)
        checks.choice("by_name", self.by_name, (True, False))

    def init(self, population: Population) -> TraceState:
        recording = read_two_state(found(self.file))
        if recording.end <= self.drop_first_seconds:
            raise ValueError(
                f"drop_first_seconds: expected less than the recording's {recording.end:g} seconds "
                f"({self.file}), got {self.drop_first_seconds!r}"
            )
        if self.by_name:
            device = _of_the_same_name(recording.devices, population, self.file)
        else:
            device = dealt(len(recording.devices), int(population.n_clients), self.seed)
        return state_of(recording, device, drop=self.drop_first_seconds)

    def draw(self, state: TraceState, t: int, rng: np.random.Generator) -> Bools:
        return present(state, t * self.seconds_per_round)

    def rates(self, state: TraceState, t: int) -> None:
        return None


@dataclass(frozen=True)
class FlashTrace:
    """Clients come and go as FLASH's phones did: there while locked, charging and on wifi.

    Parameters
    ----------
    file : str or Path
        Where it is, found as by `Trace`: JSON ``{device: {messages: …}}``, each message a line
        with a time, a tab and a state.
    seconds_per_round : float
        Length of a round, > 0. Round 0 is at midnight of January 2nd, 2020, FLASH's reference.
    seed : int
        Which devices, as of `Trace`.

    Notes
    -----
    After its last message a device starts again with its first, whatever others do, as in FLASH's
    code; so hours of the day drift apart where recordings are no whole days. Unlike there a device
    that is ready when its messages end is there until then, and devices that are never ready are
    kept: they never come. `rates` is None, as of `Trace`.

    References
    ----------
    Yang et al., Characterizing Impacts of Heterogeneity in Federated Learning upon Large-Scale
    Smartphone Data, WWW 2021.
    """

    file: str | Path = "traces/state_traces.json"
    seconds_per_round: float = 600
    seed: int = 0

    def __post_init__(self) -> None:
        _check(self.file, "a JSON file", self.seconds_per_round, self.seed)

    def init(self, population: Population) -> TraceState:
        recording = read_flash(found(self.file))
        device = dealt(len(recording.devices), int(population.n_clients), self.seed)
        return state_of(recording, device)

    def draw(self, state: TraceState, t: int, rng: np.random.Generator) -> Bools:
        return present(state, t * self.seconds_per_round)

    def rates(self, state: TraceState, t: int) -> None:
        return None


@dataclass(frozen=True)
class FedScaleTrace:
    """Clients come and go as FedScale's and REFL's devices: active[k] ≤ s mod finish ≤ inactive[k].

    Parameters
    ----------
    file : str or Path
        Where it is, found as by `Trace`: a pickle ``{id: {active, inactive, finish_time, …}}``.
        Nothing in it is run: anything but plain data is refused.
    seconds_per_round : float
        Length of a round, > 0. Round 0 is at second 0 of all devices.
    seed : int
        Which devices, as of `Trace`.

    Notes
    -----
    Each device starts again after its own finish_time. `rates` is None, as of `Trace`.

    References
    ----------
    Lai et al., FedScale: Benchmarking Model and System Performance of Federated Learning at Scale,
    ICML 2022. Abdelmoniem et al., REFL: Resource-Efficient Federated Learning, EuroSys 2023.
    """

    file: str | Path = "device_info/client_behave_trace"
    seconds_per_round: float = 600
    seed: int = 0

    def __post_init__(self) -> None:
        _check(self.file, "a pickle", self.seconds_per_round, self.seed)

    def init(self, population: Population) -> TraceState:
        recording = read_fedscale(found(self.file))
        device = dealt(len(recording.devices), int(population.n_clients), self.seed)
        return state_of(recording, device)

    def draw(self, state: TraceState, t: int, rng: np.random.Generator) -> Bools:
        return present(state, t * self.seconds_per_round)

    def rates(self, state: TraceState, t: int) -> None:
        return None


def _check(file: object, what: str, seconds_per_round: float, seed: int) -> None:
    if not isinstance(file, str | Path):
        raise ValueError(f"file: expected the path of {what}, got {file!r}")
    checks.number("seconds_per_round", seconds_per_round, low=0, low_open=True)
    checks.integer("seed", seed, low=0)


def _of_the_same_name(devices: tuple[str, ...], population: Population, file: str | Path) -> Ints:
    """(N,) the device of each client's own name."""
    if population.names is None:
        raise ValueError("by_name: expected clients with names, got a federation without")
    missing = [name for name in population.names if name not in devices]
    if missing:
        more = f" and {len(missing) - 1} more clients" if len(missing) > 1 else ""
        raise ValueError(f"by_name: {file} has no device {shown(missing[0])}{more}")
    return np.array([devices.index(name) for name in population.names], dtype=np.int64)
