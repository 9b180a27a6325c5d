"""A recorded trace before it is used: who would be there, when, and for how long."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from understudy.core import checks
from understudy.core.types import Bools, Floats
from understudy.parts.availability.trace import present, state_of
from understudy.parts.recordings.recording import Recording
from understudy.plots.notebook_figure import NotebookFigure
from understudy.plots.style import COLOURS, tick_rounds, titled

MOST_DEVICES, MOST_ROUNDS = 1000, 1500  # that are drawn
GREY = "#E3E6EA"


@dataclass(frozen=True)
class TraceFacts:
    """What a trace comes to."""

    n_devices: int
    n_never: int  # devices that are never there
    days: float  # of the longest recording
    share: float  # of the devices' seconds in which they are there, the mean over devices
    visit_seconds: float  # the median visit, 0 without any


def trace_facts(recording: Recording) -> TraceFacts:
    """Facts of a recording, of all its devices."""
    shares, visits = _shares(recording), _visits(recording)
    return TraceFacts(
        n_devices=len(recording.devices),
        n_never=sum(not sessions for sessions in recording.sessions),
        days=recording.end / 86_400,
        share=float(shares.mean()),
        visit_seconds=float(np.median(visits)) if len(visits) else 0.0,
    )


def trace(
    recording: Recording,
    *,
    seconds_per_round: float = 600,
    drop_first_seconds: float = 0.0,
    title: str | None = None,
) -> Figure:
    """Rounds × devices, the share that is there, lengths of visits, and how often each is there.

    Parameters
    ----------
    recording : Recording
        As `understudy.parts.recordings.kinds.read_recording` reads it.
    seconds_per_round : float
        Length of a round, > 0.
    drop_first_seconds : float
        As of `Trace`.
    title : str, optional
        Written above.

    Notes
    -----
    Devices are sorted by how often they are there. Of many some are drawn, evenly chosen in that
    order, and at most 1,500 rounds.
    """
    checks.number("seconds_per_round", seconds_per_round, low=0, low_open=True)
    checks.number("drop_first_seconds", drop_first_seconds, low=0)
    left = recording.end - drop_first_seconds
    if left <= 0:
        raise ValueError(
            f"drop_first_seconds: expected less than the recording's {recording.end:g} seconds, "
            f"got {drop_first_seconds!r}"
        )
    n_rounds = min(max(math.ceil(left / seconds_per_round), 1), MOST_ROUNDS)
    shares = _shares(recording)
    order = np.argsort(-shares, kind="stable")
    if len(order) > MOST_DEVICES:
        order = order[np.linspace(0, len(order) - 1, MOST_DEVICES).round().astype(int)]
    here = _attendance(recording, order, n_rounds, seconds_per_round, drop_first_seconds)

    figure = NotebookFigure(figsize=(8.6, 5.6), layout="constrained")
    grid = figure.subplots(2, 2, width_ratios=[2.6, 1], height_ratios=[1, 1.7])
    (counted, lengths), (table, often) = grid
    counted.sharex(table)
    counted.plot(100 * here.mean(axis=1), color=COLOURS[0], linewidth=1.2)
    counted.set_ylim(bottom=0)
    counted.set_ylabel("there, % of devices")
    table.imshow(
        here.T,
        cmap=ListedColormap([GREY, COLOURS[0]]),
        aspect="auto",
        interpolation="nearest",
        vmin=0,
        vmax=1,
    )
    table.set_xlabel(f"round of {_duration(seconds_per_round)}")
    table.set_ylabel("device, most often there first")
    tick_rounds(table.xaxis)
    tick_rounds(table.yaxis)
    visits = np.sort(_visits(recording))
    if len(visits):
        parts = np.arange(1, len(visits) + 1) / len(visits)
        lengths.plot(np.maximum(visits, 1.0) / 60, 100 * parts, color=COLOURS[0], linewidth=1.2)
    lengths.set_xscale("log")
    lengths.set_xlabel("visit, minutes")
    lengths.set_ylabel("visits not longer, %")
    often.plot(100 * shares[order], np.arange(len(order)), color=COLOURS[0], linewidth=1.2)
    often.set_ylim(len(order) - 0.5, -0.5)
    often.set_xlim(left=0)
    often.set_xlabel("of its time there, %")
    tick_rounds(often.yaxis)
    for axes in (counted, lengths, often):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color=GREY, linewidth=0.8)
        axes.set_axisbelow(True)
    titled(counted, title)
    return figure


def _attendance(
    recording: Recording, order: npt.NDArray[np.intp], n_rounds: int, seconds: float, drop: float
) -> Bools:
    """(rounds, devices) who is there at the first second of each round."""
    chosen = Recording(
        tuple(recording.sessions[i] for i in order),
        tuple(recording.devices[i] for i in order),
        tuple(recording.lengths[i] for i in order),
        tuple(recording.begins[i] for i in order),
        recording.closed,
    )
    state = state_of(chosen, np.arange(len(order)), drop=drop)
    return np.array([present(state, t * seconds) for t in range(n_rounds)])


def _shares(recording: Recording) -> Floats:
    there = [sum(stop - start for start, stop in sessions) for sessions in recording.sessions]
    return np.asarray(np.array(there, dtype=float) / np.array(recording.lengths))


def _visits(recording: Recording) -> Floats:
    return np.array(
        [stop - start for sessions in recording.sessions for start, stop in sessions], dtype=float
    )


def _duration(seconds: float) -> str:
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"
