"""The rounds of a run as columns: read once, and from then on only what is new."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from understudy.core.printable import one_line
from understudy.core.types import Floats, Outcome, RoundLog
from understudy.journal.follow import Rounds, follow
from understudy.representation import ClientFacts, Thresholds, Voice, Warnings
from understudy.representation.representation import ASKED, WANTED, Representation

Bytes = npt.NDArray[np.uint8]

# A cell of the map is one byte: the outcome, counted from 1, in the lower half, and in the upper
# half what represented the client. 0: the client had no number yet. `static/cells.js` is its other
# half.
SILENT, FRESH, FRIEND, MIXTURE, REMEMBERED = 0, 1, 2, 3, 4
CODES = {
    Voice.FRESH: FRESH,
    Voice.REMEMBERED: REMEMBERED,  # and more for older ones
    Voice.OTHERS: FRIEND,
    Voice.MIXTURE: MIXTURE,
    Voice.NOBODY: SILENT,
}
CAME = Outcome.CAME + 1  # in the lower half
MEASURED = "metric "  # before the name of a measure
MAIN = ("accuracy", "loss")  # the measure that lists show: the first that there is
PACE = 20  # rounds whose mean length tells how long the others will take
SECONDS = "seconds"  # that a round took, where it says so
AGES = (1, 2, 4, 8, 16)  # rounds: the least age of each class of remembered updates
ANSWERED = (Outcome.CAME, Outcome.LATE, Outcome.ERROR, Outcome.RESTARTED, Outcome.REFUSED)
MOST_REFUSALS = 200  # the newest that are kept


class RefusalSeen(NamedTuple):
    """A refused arrival, in words."""

    t: int
    client: int  # −1: an id that nobody has
    who: str
    reason: str
    detail: str


class Columns:
    """What pages show of a run's rounds; grows as the run does.

    Parameters
    ----------
    place : Rounds
        Where the rounds are read.
    """

    def __init__(self, place: Rounds) -> None:
        self.place, self.lock = place, threading.Lock()
        self.epoch = 0  # counts how often the run began again, or replaced rounds that were read
        self.facts, self._limits = ClientFacts(), Thresholds()
        self.resolved: Mapping[str, Any] = {}  # the run's settings
        self.seconds: Mapping[int, Mapping[int, float]] = {}  # round → client → until its answer
        self._clear()

    def _clear(self) -> None:
        self.n, self.n_clients = 0, 0
        self._cells = np.zeros((0, 0), dtype=np.uint8)
        self._numbers: dict[str, list[float]] = {}
        self._last: tuple[bytes, float, tuple[float, ...]] | None = None
        self.seen = np.zeros(0, dtype=np.int64)  # the round its last update is of; −1: none yet
        self.answered = np.zeros(0, dtype=np.int64)  # the round of its last answer, of any kind
        self.pending = np.zeros(0, dtype=np.int64)  # the round it was asked in; −1: it owes nothing
        self.joined = np.zeros(0, dtype=np.int64)
        self.refusals: deque[RefusalSeen] = deque(maxlen=MOST_REFUSALS)
        self.client_metrics: dict[str, Floats] = {}
        self.newest: RoundLog | None = None
        self.warnings = Warnings(self.facts, self._limits)

    @property
    def counted(self) -> Representation:
        """By what each client was represented so far."""
        return self.warnings.representation

    @property
    def n_bytes(self) -> int:
        """What it keeps in memory, about."""
        return self._cells.nbytes + 8 * self.n * len(self._numbers) + 50 * self.n_clients

    def tell(self, facts: Mapping[str, Any]) -> None:
        """What the journal keeps of the clients by now, for the words of warnings."""
        limits = Thresholds.told(facts)
        if limits != self.warnings.limits:  # of another run, or given to the run when it resumed
            with self.lock:
                self._limits = limits
                self.epoch += self.n > 0
                self._clear()
        self.facts = self.warnings.facts = ClientFacts.told(facts, self.resolved)

    def update(self, seconds: float = math.inf) -> None:
        """Read what came since; all again where the rounds that were read are no more the same.

        After so many seconds the rest is left for the next time: what is there can be shown.
        """
        end = time.monotonic() + seconds
        with self.lock:
            if self.n and not self._is_continued():
                self._clear()
                self.epoch += 1
            for log in follow(self.place, self.n):
                self._add(log)
                if time.monotonic() > end:
                    break

    def _is_continued(self) -> bool:
        """Whether the last round that was read is still there as it was.

        A live run that is killed and resumed plays its last rounds again, and they differ.
        """
        newest = next(iter(follow(self.place, self.n - 1)), None)
        return newest is not None and _told(newest) == self._last

    # -- reading -------------------------------------------------------------------------------

    def cells(self, first: int = 0, last: int | None = None) -> Bytes:
        """(rounds, N) the map's cells."""
        return self._cells[first : self.n if last is None else min(last, self.n), : self.n_clients]

    @property
    def names(self) -> list[str]:
        """Of the columns of numbers."""
        return list(self._numbers)

    def numbers(self, name: str, first: int = 0) -> Floats:
        """One number a round; NaN where a round has none."""
        return np.array(self._numbers[name][first:], dtype=np.float64)

    def known(self, name: str) -> Floats:
        """The numbers of those rounds that have one."""
        values = self.numbers(name)
        return np.asarray(values[np.isfinite(values)])

    @property
    def main_measure(self) -> tuple[str, str] | None:
        """What lists show of a run: accuracy or loss, and the name of its column."""
        for kind in MAIN:
            for name in self.names:
                if name.startswith(MEASURED) and name.endswith(kind):
                    return kind, name
        return None

    def pace(self) -> float | None:
        """Mean seconds of the last rounds; None where they do not tell."""
        known = np.array(self._numbers.get(SECONDS, [])[-PACE:])
        known = known[np.isfinite(known)]
        return float(known.mean()) if len(known) else None

    # -- a round more --------------------------------------------------------------------------

    def _add(self, log: RoundLog) -> None:
        n_clients = len(log.outcome)
        self._make_room(n_clients)
        came = log.outcome == Outcome.CAME
        late = log.outcome == Outcome.LATE
        self.warnings.add(log, self.seconds.get(log.t))
        speaks = self._speaks()
        # the outcomes of a damaged file may be anything; 15 is "unknown" to the page
        outcome = np.where((log.outcome >= 0) & (log.outcome < 14), log.outcome, 14) + 1
        self._cells[self.n, :n_clients] = (speaks << 4) | outcome.astype(np.uint8)
        self.seen[:n_clients][came | late] = log.t
        self.answered[:n_clients][np.isin(log.outcome, ANSWERED)] = log.t
        asked_in_vain = log.outcome == Outcome.MISSING
        pending = self.pending[:n_clients]
        pending[asked_in_vain & (pending < 0)] = log.t
        pending[came | late | (log.outcome == Outcome.ERROR)] = -1
        # of one that restarted nothing comes any more
        pending[(log.outcome == Outcome.REFUSED) | (log.outcome == Outcome.RESTARTED)] = -1
        for one in log.refusals:
            known = isinstance(one.id, int | np.integer) and 0 <= int(str(one.id)) < n_clients
            number = int(str(one.id)) if known else -1
            self.refusals.append(
                RefusalSeen(log.t, number, one_line(one.id), one.reason.value, one.detail)
            )
        for name, values in log.client_metrics.items():
            self.client_metrics[name] = np.asarray(values, dtype=np.float64)
        self._count(log, came, speaks)
        self.newest, self._last = log, _told(log)
        self.n += 1

    def _make_room(self, n_clients: int) -> None:
        more = n_clients - self.n_clients
        if more > 0:
            self.n_clients = n_clients
            self.seen = np.pad(self.seen, (0, more), constant_values=-1)
            self.answered = np.pad(self.answered, (0, more), constant_values=-1)
            self.pending = np.pad(self.pending, (0, more), constant_values=-1)
            self.joined = np.pad(self.joined, (0, more), constant_values=self.n)
        rows, width = self._cells.shape
        if self.n >= rows or n_clients > width:
            grown = np.zeros((max(64, rows, 2 * self.n), max(width, n_clients)), dtype=np.uint8)
            grown[:rows, :width] = self._cells
            self._cells = grown

    def _speaks(self) -> Bytes:
        """(N,) what represented each client in the round that was added last."""
        counted = self.counted
        codes = np.array([CODES[voice] for voice in Voice], dtype=np.uint8)[counted.voice]
        age = np.maximum(counted.age, 1)
        remembered = REMEMBERED + np.searchsorted(AGES, age, side="right") - 1
        found: Bytes = np.where(counted.voice == Voice.REMEMBERED, remembered, codes)
        return found.astype(np.uint8)

    def _count(self, log: RoundLog, came: npt.NDArray[np.bool_], speaks: Bytes) -> None:
        absent, became = ~came, np.bincount(log.outcome.clip(0), minlength=len(Outcome))
        ages = log.t - self.seen[self.seen >= 0]
        row: dict[str, float] = {
            "clock": log.clock,
            "came": float(came.sum()),
            "wanted": float(became[WANTED].sum()),
            "asked": float(became[ASKED].sum()),
            "late": float(became[Outcome.LATE]),
            "refused": float(len(log.refusals)),
            "represented": float((speaks[absent] != SILENT).sum()),
            "left out": float((speaks[absent] == SILENT).sum()),
            "age, mean": float(ages.mean()) if len(ages) else math.nan,
            "age, largest": float(ages.max()) if len(ages) else math.nan,
            SECONDS: log.timings.get("round", math.nan),
            "megabytes up": log.megabytes_up,
            "megabytes down": log.megabytes_down,
        }
        row |= {f"{MEASURED}{name}": value for name, value in log.metrics.items()}
        row |= {f"note {name}": value for name, value in log.notes.items()}
        if log.errors is not None and np.isfinite(log.errors).any():
            row["substitution error"] = float(np.nanmean(log.errors))
        for name in row:
            self._numbers.setdefault(name, [math.nan] * self.n)
        for name, column in self._numbers.items():
            column.append(float(row.get(name, math.nan)))


def _told(log: RoundLog) -> tuple[bytes, float, tuple[float, ...]]:
    """What tells a round from another of the same number."""
    return log.outcome.tobytes(), log.clock, tuple(_finite(log.metrics))


def _finite(metrics: Mapping[str, float]) -> list[float]:
    """NaN is not equal to itself."""
    return [value for value in metrics.values() if math.isfinite(value)]
