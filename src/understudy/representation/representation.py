"""`Representation`: by what each client was represented in the rounds of a run, as they come."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from understudy.core.types import Floats, Ints, Outcome, RoundLog
from understudy.representation.voices import Voice, took_a_step, voices

# Late: asked in an earlier round, and counted there.
WANTED = [outcome for outcome in Outcome if outcome not in (Outcome.LATE, Outcome.NOT_WANTED)]
ASKED = [outcome for outcome in WANTED if outcome is not Outcome.UNAVAILABLE]
FAILED = [Outcome.ERROR, Outcome.RESTARTED]


class Heard(NamedTuple):
    """By what one client was represented: shares of the rounds with a step since it is known."""

    client: int
    came: float  # of all rounds
    fresh: float
    remembered: float
    age: float  # mean over the rounds it was remembered in; NaN where there are none
    others: float  # another client's update, or a mixture
    nobody: float


class Representation:
    """Counts over rounds, which are added one by one; N numbers each, clients may join on the way.

    Attributes
    ----------
    n_rounds, n_steps : int
        Rounds that were added, and those of them in which the model took a step.
    n_cut : int
        Rounds of which only the largest of each client's stand-ins are kept.
    there, steps : (N,) ints
        Rounds, and rounds with a step, since a client has a number.
    became : (N, 8) ints
        Rounds in which a client had each `Outcome`.
    voiced : (N, 5) ints
        Rounds with a step in which a client was represented by each `Voice`. The mean of those who
        came represents nobody that never came.
    voice : (N,) ints
        `Voice` in the last round.
    age : (N,) ints
        How many rounds before the last one the newest known update of a client began; -1: none.
    gap : (N,) ints
        Steps since the last that a client was represented in; all, where it never was.
    away : (N,) ints
        Rounds since the last in which a client came.
    gaps, in_gaps, aways, in_aways : (N,) ints
        Gaps that have ended, and how many steps they took together; the same for times away.
    since : (N, 8) ints
        Rounds with each `Outcome` since a client came last.
    spoken_for, spoke : (N,) ints
        Rounds in which another's row (or a mixture) represented a client, and how often its row
        represented another one.
    metrics : dict
        Last measure of each client, (N,) by name.

    Notes
    -----
    A log does not say how old a remembered row is. It is taken from when its client last came, or,
    after a late arrival, was last asked before: what it is where memories keep late updates.
    """

    def __init__(self) -> None:
        self.n_rounds = self.n_steps = self.n_cut = 0
        self.last: int | None = None  # the round that was added last
        self.there = self.steps = self.gap = self.away = np.zeros(0, dtype=np.int64)
        self.gaps = self.in_gaps = self.aways = self.in_aways = np.zeros(0, dtype=np.int64)
        self.spoken_for = self.spoke = np.zeros(0, dtype=np.int64)
        self.age = self.known_from = self.asked_in = np.full(0, -1, dtype=np.int64)
        self.age_sum = np.zeros(0, dtype=np.int64)
        self.voice = np.zeros(0, dtype=np.int8)
        self.became = self.since = np.zeros((0, len(Outcome)), dtype=np.int64)
        self.voiced = np.zeros((0, len(Voice)), dtype=np.int64)
        self.metrics: Mapping[str, Floats] = {}

    @classmethod
    def of(cls, logs: Iterable[RoundLog]) -> Representation:
        """Of all these rounds."""
        found = cls()
        for log in logs:
            found.add(log)
        return found

    def add(self, log: RoundLog) -> None:
        """One more round."""
        n, t = len(log.outcome), int(log.t)
        self._grow(n)
        self.n_rounds += 1
        self.n_cut += log.totals is not None
        self.last = t
        self.there += 1
        everyone, came = np.arange(n), log.outcome == Outcome.CAME
        self.became[everyone, log.outcome] += 1
        self.aways += came & (self.away > 0)
        self.in_aways += np.where(came, self.away, 0)
        self.away = np.where(came, 0, self.away + 1)

        self.voice = voices(log)
        late, missing = log.outcome == Outcome.LATE, log.outcome == Outcome.MISSING
        self.age = np.where(self.known_from < 0, -1, t - self.known_from)
        self.age[came] = 0
        # a mean of those who came holds nothing of a client that never came
        self.voice[(self.voice == Voice.MIXTURE) & (self.came == 0)] = Voice.NOBODY
        represented = self.voice != Voice.NOBODY
        if took_a_step(log):
            self.n_steps += 1
            self.steps += 1
            self.voiced[everyone, self.voice] += 1
            remembered = self.voice == Voice.REMEMBERED
            self.age_sum[remembered] += np.maximum(self.age[remembered], 0)
            self.gaps += represented & (self.gap > 0)
            self.in_gaps += np.where(represented, self.gap, 0)
            self.gap = np.where(represented, 0, self.gap + 1)
        self.since[everyone, log.outcome] += 1
        self.since[came] = 0
        # a memory takes a late update in after the round, so that it speaks from the next one on
        self.known_from[late] = np.maximum(self.known_from[late], self.asked_in[late])
        self.known_from[came] = t
        self.asked_in[missing] = t

        others = (log.ids != log.source) & (log.coef != 0)
        spoken_for = np.zeros(n, dtype=np.bool_)
        spoken_for[log.ids[others]] = True  # once a round, by however many
        self.spoken_for += spoken_for
        speakers, _, times = log.by_source
        self.spoke[speakers[speakers >= 0]] += times[speakers >= 0]
        if log.client_metrics:
            self.metrics = log.client_metrics

    def _grow(self, n: int) -> None:
        more = n - len(self.there)
        if more <= 0:
            return
        counts = ("there", "steps", "gap", "away", "spoken_for", "spoke", "age_sum", "voice")
        ended = ("gaps", "in_gaps", "aways", "in_aways")
        for name in (*counts, *ended, "age", "known_from", "asked_in"):
            fill = -1 if name in ("age", "known_from", "asked_in") else 0
            grown = np.pad(getattr(self, name), (0, more), constant_values=fill)
            setattr(self, name, grown)
        for name in ("became", "since", "voiced"):
            setattr(self, name, np.pad(getattr(self, name), ((0, more), (0, 0))))

    # -- what it comes to ----------------------------------------------------------------------

    @property
    def n_clients(self) -> int:
        """N."""
        return len(self.there)

    @property
    def came(self) -> Ints:
        """(N,) rounds in which a client's own update came in time."""
        return self.became[:, Outcome.CAME]

    @property
    def wanted(self) -> Ints:
        """(N,) rounds in which a client was wanted."""
        return np.asarray(self.became[:, WANTED].sum(axis=1))

    @property
    def shares(self) -> Floats:
        """(N, 5) share of the steps in which a client was represented by each `Voice`."""
        return np.asarray(self.voiced / np.maximum(self.steps, 1)[:, None])

    @property
    def attendance(self) -> Floats:
        """(N,) share of the rounds in which a client came."""
        return np.asarray(self.came / np.maximum(self.there, 1))

    def counts(self) -> dict[str, Ints]:
        """(N,) sums as a store keeps them.

        `wanted`, `asked`, `came`, `late` and `refused` are rounds in which the client was so;
        `stood_in_for_it` rounds in which another's row (or a mixture) represented it;
        `spoke_for_others` how often its row represented another client, over all rounds.
        """
        return {
            "wanted": self.wanted,
            "asked": np.asarray(self.became[:, ASKED].sum(axis=1)),
            "came": self.came,
            "late": self.became[:, Outcome.LATE],
            "refused": self.became[:, Outcome.REFUSED],
            "stood_in_for_it": self.spoken_for,
            "spoke_for_others": self.spoke,
        }

    def heard(self, client: int) -> Heard:
        """By what one client was represented."""
        shares, remembered = self.shares[client], int(self.voiced[client, Voice.REMEMBERED])
        return Heard(
            client,
            float(self.attendance[client]),
            float(shares[Voice.FRESH]),
            float(shares[Voice.REMEMBERED]),
            float(self.age_sum[client] / remembered) if remembered else np.nan,
            float(shares[Voice.OTHERS] + shares[Voice.MIXTURE]),
            float(shares[Voice.NOBODY]),
        )

    def least(self, at_most: int = 5, gone: Container[int] = ()) -> list[Heard]:
        """Clients that nothing represented in the largest share of the steps.

        Parameters
        ----------
        at_most : int
            How many; the largest share first.
        gone : container of int
            Clients that have left: they are not counted.
        """
        nobody = self.shares[:, Voice.NOBODY]
        order = np.lexsort((self.attendance, -nobody))
        short = (k for k in order.tolist() if nobody[k] > 0 and k not in gone)
        return [self.heard(k) for k, _ in zip(short, range(at_most), strict=False)]
