"""`Oort` (Lai et al., 2021): clients of large loss that are fast enough, and some never seen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.core import checks
from understudy.core.types import Floats, Ints, RoundEnd, RoundStart, Setup
from understudy.parts.samplers.power_of_choice import asked_losses, reported
from understudy.parts.samplers.uniform import check_m, count_of, known_sizes

FLAT, STEEP = 0.1, 5.0  # changes of utility, relative, at which the pacer waits longer, and shorter


@dataclass
class OortState:
    loss: Floats  # (N,) last reported, infinite where never
    seconds: Floats  # (N,) that the last answer took, NaN where not known
    last: Ints  # (N,) round of the last report, from 1; 0 never
    percentile: float  # of the seconds, up to which a client is fast enough
    before: float  # sum of the mean utilities of the pacer's window before this one
    now: float  # and of this one so far


@dataclass(frozen=True)
class Oort:
    """Oort's participant selection: exploit clients of large utility, explore those never seen.

    A client's utility is n_i times its mean loss, clipped and brought to [0, 1], plus √(0.1 ln R /
    L_i), with R the round and L_i the one it reported last in; times (T/t_i)^α if its answer took
    t_i > T seconds. (1 − ε) m clients are drawn in proportion to it among those that reach `cutoff`
    of the utility of the last of as many best; ε m are drawn by chance among those never seen.

    Parameters
    ----------
    m : int, float or None
        As in `Uniform`.
    epsilon, decay, epsilon_min : float
        ε = max(epsilon · decay^t, epsilon_min) in round t.
    alpha : float
        α ≥ 0, the penalty on slow clients.
    percentile : float
        T is this percentile of the seconds that are known, at first.
    window : int
        Rounds after which the pacer moves the percentile, by `pace`: up where the utility of those
        exploited changed by less than a tenth, down where by more than the fivefold.
    pace : float
        Points of a percentile.
    clip : float
        Utilities above this quantile count as it.
    cutoff : float
        In (0, 1].
    losses : {"last", "asked"}
        What each client reported last; or what ``select(…, losses=…)`` says of the present model,
        as in `PowerOfChoice`: then nobody is to be explored.

    Notes
    -----
    The paper's statistical utility is n_i √(mean of squared losses), over a client's examples; a
    server hears their mean. Whether a client is fast is known once it has answered, in a simulation
    with a `Latency` and in live federations; where no seconds are known nobody is slow.

    T, the pacer, and utilities in [0, 1] are as in the authors' code; the paper adds the second
    term to the utility as it is, and paces T in seconds. `cutoff` 0.95 is the paper's c, where the
    code has 0.05; `clip` and `epsilon_min` are the paper's too. The code draws those to explore
    by their size; here by chance. Clients are not excluded after many picks (off by default in the
    code), and there is no fairness term.

    References
    ----------
    Lai, Zhu, Madhyastha and Chowdhury, Oort: Efficient Federated Learning via Guided Participant
    Selection, OSDI 2021 (algorithm 1, equations 1 and 2).
    """

    m: int | float | None = None
    epsilon: float = 0.9
    decay: float = 0.98
    epsilon_min: float = 0.2
    alpha: float = 2.0
    percentile: float = 30.0
    window: int = 20
    pace: float = 5.0
    clip: float = 0.95
    cutoff: float = 0.95
    losses: str = "last"

    def __post_init__(self) -> None:
        check_m("m", self.m)
        checks.number("epsilon", self.epsilon, low=0, high=1)
        checks.number("decay", self.decay, low=0, high=1, low_open=True)
        checks.number("epsilon_min", self.epsilon_min, low=0, high=1)
        checks.number("alpha", self.alpha, low=0)
        checks.number("percentile", self.percentile, low=0, high=100, low_open=True)
        checks.integer("window", self.window, low=1)
        checks.number("pace", self.pace, low=0, high=100)
        checks.number("clip", self.clip, low=0, high=1)
        checks.number("cutoff", self.cutoff, low=0, high=1, low_open=True)
        checks.choice("losses", self.losses, ("last", "asked"))

    def count(self, n_active: int) -> int:
        return count_of(self.m, n_active)

    def init(self, setup: Setup) -> OortState:
        n = setup.population.n_clients
        return OortState(
            loss=np.full(n, np.inf),
            seconds=np.full(n, np.nan),
            last=np.zeros(n, dtype=np.int64),
            percentile=float(self.percentile),
            before=0.0,
            now=0.0,
        )

    def pick(self, state: OortState, start: RoundStart) -> tuple[Ints, Floats]:
        shuffled = start.rng.permutation(np.flatnonzero(start.available))
        m = min(self.count(int(start.active.sum())), len(shuffled))
        loss = state.loss[shuffled]
        if self.losses == "asked" and len(shuffled):
            loss = asked_losses("Oort", start, shuffled)
        seen, unseen = shuffled[np.isfinite(loss)], shuffled[~np.isfinite(loss)]
        exploit = min(int(m * (1 - self.exploring(start.t)) + 1e-9), len(seen))
        explore = min(m - exploit, len(unseen))  # where too few are unseen, more are exploited
        score = self.scores(state, start, seen, loss[np.isfinite(loss)])
        best = self._drawn(score, m - explore, start.rng)
        return np.concatenate([seen[best], unseen[:explore]]), np.ones(m)

    def exploring(self, t: int) -> float:
        """ε of round `t`."""
        return max(self.epsilon * self.decay**t, min(self.epsilon_min, self.epsilon))

    def scores(self, state: OortState, start: RoundStart, ids: Ints, loss: Floats) -> Floats:
        """(len(ids),) utilities (equation 2), of clients whose losses are known."""
        if not len(ids):
            return np.zeros(0)
        utility = known_sizes(start.population)[ids] * loss
        ordered = np.sort(utility)
        most = ordered[min(int(len(ordered) * self.clip), len(ordered) - 1)]
        least = ordered[0] - 0.001 * abs(ordered[0])
        score = (np.minimum(utility, most) - least) / max(float(ordered[-1] - least), 1e-4)
        score += np.sqrt(0.1 * np.log(start.t + 1) / np.maximum(state.last[ids], 1))
        seconds, enough = state.seconds[ids], self.fast_enough(state)
        slow = seconds > enough  # NaN is not
        score[slow] *= (enough / seconds[slow]) ** self.alpha
        return np.asarray(score)

    def fast_enough(self, state: OortState) -> float:
        """T, the seconds that an answer may take without a penalty."""
        known = np.sort(state.seconds[np.isfinite(state.seconds)])
        if state.percentile >= 100 or not len(known):
            return float("inf")
        return float(known[min(int(len(known) * state.percentile / 100), len(known) - 1)])

    def _drawn(self, score: Floats, k: int, rng: np.random.Generator) -> Ints:
        """Places of k drawn in proportion to their scores, of those near the k best."""
        if not k:
            return np.zeros(0, dtype=np.int64)
        good = np.flatnonzero(score >= self.cutoff * np.sort(score)[-k])
        p = np.maximum(score[good], 1e-12)
        return good[rng.choice(len(good), size=k, replace=False, p=p / p.sum())]

    def learn(self, state: OortState, end: RoundEnd) -> None:
        exploited = end.came[np.isfinite(state.loss[end.came])]
        for ids, losses in reported(end):
            state.loss[ids], state.last[ids] = losses, end.t + 1
        for arrivals in (end.late, end.arrivals):
            if arrivals.seconds is not None and len(arrivals):
                seconds = np.asarray(arrivals.seconds, dtype=np.float64)
                told = np.isfinite(seconds)
                state.seconds[np.asarray(arrivals.ids)[told]] = seconds[told]
        if len(exploited):
            size = known_sizes(end.population)[exploited]
            state.now += float((size * state.loss[exploited]).mean())
        self._pace(state, end.t + 1)

    def _pace(self, state: OortState, rounds: int) -> None:
        """After each window: let slower clients in where utility is used up."""
        if rounds % self.window:
            return
        if rounds >= 2 * self.window:
            change = abs(state.now - state.before)
            if change <= FLAT * state.before:
                state.percentile = min(100.0, state.percentile + self.pace)
            elif change >= STEEP * state.before:
                state.percentile = max(float(self.pace), state.percentile - self.pace)
        state.before, state.now = state.now, 0.0
