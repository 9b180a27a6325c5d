"""Leads a strategy and the twins of its parts through the same random rounds."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

import numpy as np
import torch

from tests.reference.rounds import Round, random_rounds
from tests.reference.twin import Twin
from understudy import Arrivals, Capped, Median, Population, Strategy, TrimmedMean

N, D = 9, 7
RTOL, ATOL = 1e-5, 1e-10


@dataclass
class Weights:
    """n_i as the server counts them: the last one reported, if the population or a cap allows it.

    Unknown = the mean of the known, or their median where some of these are only claims, or the
    lower median where a claim is one vote.
    """

    weighting: str
    n_examples: np.ndarray  # (N,) the last one told, NaN: unknown
    given: np.ndarray  # (N,) by the population, NaN: not given
    factor: float  # times the median: what a claim counts at most
    one_vote: bool  # a claim is no weight at all

    def base(self, active: np.ndarray) -> np.ndarray:
        n = len(self.n_examples)
        if self.weighting == "clients":
            values = [1.0] * n
        else:
            counted = [self.counted(i, active) for i in range(n)]
            known = [x for x in counted if x is not None]
            claims = [i for i in range(n) if counted[i] is not None and np.isnan(self.given[i])]
            if not known:
                usual = 1.0
            elif self.one_vote:
                usual = statistics.median_low(known)
            elif claims:
                usual = statistics.median(known)
            else:
                usual = sum(known) / len(known)
            values = [usual if x is None else x for x in counted]
        return np.array([values[i] if active[i] else 0.0 for i in range(n)])

    def counted(self, i: int, active: np.ndarray) -> float | None:
        told, given = float(self.n_examples[i]), float(self.given[i])
        if np.isnan(told):
            return None
        if self.one_vote:
            return None if np.isnan(given) else min(told, given)
        if not np.isnan(given):
            return told
        heard = [x for x, here in zip(self.n_examples, active, strict=True) if here]
        median = statistics.median_low([float(x) for x in heard if not np.isnan(x)])
        return min(told, self.factor * median)


@dataclass
class Play:
    """One strategy, followed from the outside: what is owed, who is active, what is known."""

    strategy: Strategy
    seed: int
    n_parameters: int | None = None
    n_known: bool = True
    reach: float = 0.75
    rtol: float = RTOL
    owed: set[tuple[int, int]] = field(default_factory=set)  # (client, round it was asked in)
    n_late: int = 0
    updates_before: list[int] = field(default_factory=list)
    corrections: dict[int, np.ndarray] = field(default_factory=dict)  # as sent in this round

    def __post_init__(self) -> None:
        rng = np.random.default_rng([20240, self.seed])
        self.rounds = list(random_rounds(rng, N, D, reach=self.reach))
        self.active = np.ones(N, dtype=bool)
        first = self.rounds[0].n_examples.copy()
        if not self.n_known:
            first[::2] = np.nan
        parts = (self.strategy.aggregator, self.strategy.compensator)
        self.weights = Weights(
            self.strategy.weighting,
            n_examples=first.copy(),
            given=first.copy(),
            factor=self.strategy.claim_factor,
            one_vote=any(isinstance(part, Median | TrimmedMean | Capped) for part in parts),
        )
        start = torch.from_numpy(rng.normal(size=D))
        self.state = self.strategy.init(
            Population(N, n_examples=first, p=self.rounds[0].p),
            start,
            seed=self.seed,
            n_parameters=self.n_parameters,
        )

    def params(self) -> np.ndarray:
        return self.state.params.numpy().copy()

    def retire(self, client: int) -> None:
        self.strategy.retire(self.state, client)
        self.active[client] = False
        self.owed = {(i, s) for i, s in self.owed if i != client}

    def lr(self, t: int) -> float:
        """A schedule counts the updates of the model, not the rounds."""
        return self.strategy.local.lr * self.strategy.local.schedule(self.updates_before[t])

    def select(self, now: Round):
        cohort = self.strategy.select(
            self.state, now.available, p=now.p, losses=lambda ids: now.losses[np.asarray(ids)]
        )
        if cohort.correction is not None:
            self.corrections = {
                int(i): cohort.correction(int(i)).numpy().copy() for i in cohort.asked
            }
        return cohort

    def attendance(self, now: Round, cohort):
        """Who comes, and which older updates arrive: at most one a client."""
        assert set(cohort.asked) <= set(cohort.wanted)
        assert all(now.available[i] and self.active[i] for i in cohort.asked)
        came = {int(i): now.deltas[i].copy() for i in cohort.asked if now.shows_up[i]}
        pending = {(int(i), int(s)) for i, s in cohort.pending}
        late = {}
        for i, s in sorted(self.owed & pending):
            if now.delivers_late[i]:
                late[i] = (s, self.rounds[s].deltas[i].copy())  # the newest it owes
        self.owed -= {(i, s) for i, (s, _) in late.items()}
        self.owed |= {(int(i), now.t) for i in cohort.asked if int(i) not in came}
        self.n_late += len(late)
        return came, late

    def arrivals(self, now: Round, came, late) -> Arrivals:
        sent = [(i, now.t, delta) for i, delta in came.items()]
        sent += [(i, s, delta) for i, (s, delta) in late.items()]
        for i, _, _ in sent:
            self.weights.n_examples[i] = now.n_examples[i]
        ids = [i for i, _, _ in sent]
        return Arrivals(
            ids=ids,
            deltas=[torch.from_numpy(delta.copy()) for _, _, delta in sent],
            n_examples=[now.n_examples[i] for i in ids],
            n_steps=[int(now.n_steps[i]) for i in ids],
            losses=[now.losses[i] for i in ids],
            start_round=[s for _, s, _ in sent],
        )

    def q(self, cohort) -> np.ndarray:
        q = self.weights.base(self.active)
        for i, weight in zip(cohort.wanted, cohort.weight, strict=True):
            q[i] *= weight
        return q

    def against(self, twin: Twin, *, guard=None, combine=None, server=None, retire=None):
        """Every round must do what the twins do. `combine` replaces the weighted sum."""
        stepped = 0
        for now in self.rounds:
            self.updates_before.append(stepped)
            if retire is not None and now.t == retire[0]:
                self.retire(retire[1])
            before = self.params()
            cohort = self.select(now)
            came, late = self.attendance(now, cohort)
            arrivals = self.arrivals(now, came, late)
            applied = self.strategy.apply(self.state, cohort, arrivals)
            assert applied.refusals == (), [str(refusal) for refusal in applied.refusals]
            if guard is not None:
                came, late = guard.guard(came, late)
            update = twin.round(
                now.t,
                cohort.wanted.tolist(),
                came,
                self.q(cohort),
                base=self.weights.base(self.active),
                lr=self.lr,
                p=now.p,
                active=self.active,
                late=late,
                params=before,
            )
            if update is not None and combine is not None:
                if hasattr(combine, "look"):
                    combine.look(now, came)
                update = combine(twin.parts)
            if update is not None and hasattr(server, "look"):
                server.look(now, came, self.q(cohort), twin.parts)
            after = self.params()
            if update is None:
                assert not applied.stepped, f"round {now.t}: a step where none was due"
                np.testing.assert_array_equal(after, before)
            else:
                assert applied.stepped, f"round {now.t}: no step"
                expected = (
                    before + update if server is None else server.step(before, update, stepped)
                )
                np.testing.assert_allclose(
                    after - before,
                    expected - before,
                    rtol=self.rtol,
                    atol=ATOL,
                    err_msg=f"round {now.t}",
                )
                stepped += 1
            yield now, cohort, applied
        assert stepped >= 15
        assert self.n_late >= 3

    def run(self, twin: Twin, **options) -> None:
        for _ in self.against(twin, **options):
            pass
