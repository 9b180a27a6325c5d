"""Kriging: absent updates predicted from friends and from remembered deviations, one by one.

What the model has gone along a memory is taken from the models themselves: the one of now minus the
one its client started from.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tests.reference.twin import Facts, Part, Twin

TINY = 1e-30


@dataclass
class Memory:
    update: np.ndarray
    start: int
    model: np.ndarray  # its client started from


class KrigingTwin(Twin):
    """`owed` gives the requests (client, round) that are open when a round is over."""

    def __init__(
        self,
        n_clients: int,
        d: int,
        n_parameters: int,
        owed: Callable[[], set[tuple[int, int]]] = set,
        *,
        nugget: float = 0.1,
        decay: float = 0.95,
        evidence_decay: float = 0.95,
        prior: float = 2.0,
        alike: float = 0.5,
        nearest: int | None = None,
        most_models: int = 16,
    ) -> None:
        super().__init__(n_clients, d)
        self.m, self.owed = n_parameters, owed
        self.nugget, self.decay, self.evidence_decay = nugget, decay, evidence_decay
        self.prior, self.alike, self.nearest = prior, alike, nearest
        self.most_models = min(most_models, n_clients)
        self.memory: dict[int, Memory] = {}
        self.pairs: dict[frozenset[int], tuple[float, float]] = {}  # mean cosine, rounds
        self.evidence = {i: [0.0, 0.0, 0.0, 0.0] for i in range(n_clients)}
        self.length = dict.fromkeys(range(n_clients), 0.0)
        self.models: dict[int, np.ndarray] = {}
        self.waited_for: set[int] = set()
        self.share: dict[int, float] = {}
        self.n_dropped = self.n_late = 0

    # -- products over the parameters ------------------------------------------------------------

    def dot(self, x: np.ndarray, y: np.ndarray) -> float:
        return math.fsum(float(a) * float(b) for a, b in zip(x[: self.m], y[: self.m], strict=True))

    def norm(self, x: np.ndarray) -> float:
        return math.sqrt(max(self.dot(x, x), TINY))

    # -- step 1: friends -------------------------------------------------------------------------

    def expected(self, came: list[int], now: dict[frozenset[int], float]) -> Callable:
        weighted = rounds = 0.0
        for j in came:
            for k in range(self.n_clients):
                mean, count = self.pairs.get(frozenset({j, k}), (0.0, 0.0))
                weighted, rounds = weighted + mean * count, rounds + count
        usual = sum(now.values()) / max(len(now), 1)
        if rounds > 0:
            usual = weighted / rounds

        def of(j: int, k: int) -> float:
            mean, count = self.pairs.get(frozenset({j, k}), (0.0, 0.0)) if j != k else (0.0, 0.0)
            return (mean * count + self.prior * usual) / (count + self.prior)

        return of

    def friends(self, k: int, among: list[int], cosine, expected, share) -> dict[int, float]:
        """Weights of `among` for client k: the system with a multiplier for their sum."""
        if self.nearest is not None and len(among) > self.nearest:
            ordered = sorted(among, key=lambda i: (-expected(i, k), i))
            among = sorted(ordered[: self.nearest])
        n = len(among)
        total = sum(share[i] for i in among)
        mean = [share[i] / total for i in among]
        system, side = np.zeros((n + 1, n + 1)), np.ones(n + 1)
        for a, i in enumerate(among):
            for b, j in enumerate(among):
                system[a, b] = cosine(i, j) + (self.nugget if a == b else 0.0)
            system[a, n] = system[n, a] = 1.0
            side[a] = expected(i, k) + self.nugget * mean[a]
        solved = np.linalg.solve(system, side)[:n]
        kept = [max(w, 0.0) for w in solved]
        if sum(kept) == 0:
            kept = mean
        return {i: w / sum(kept) for i, w in zip(among, kept, strict=True)}

    # -- step 2: remembered deviations -----------------------------------------------------------

    def kernel(self, i: int, j: int) -> float:
        return math.exp(-0.5 * ((self.length[i] - self.length[j]) / self.alike) ** 2)

    def pooled(self, k: int, which: int, evidence) -> float:
        return sum(self.kernel(k, j) * evidence[j][which] for j in range(self.n_clients))

    def progress(self, k: int, params: np.ndarray) -> float:
        """How far the model has gone along the memory, in its lengths."""
        memory = self.memory[k]
        square = max(self.dot(memory.update, memory.update), TINY)
        return self.dot(params - memory.model, memory.update) / square

    def left(self, k: int, params: np.ndarray) -> float:
        rate = (self.pooled(k, 2, self.evidence) + 0.25) / (self.pooled(k, 3, self.evidence) + 0.25)
        return min(max(1 - min(max(rate, 0.0), 1.0) * self.progress(k, params), 0.0), 1.0)

    def fill(self, facts: Facts) -> list[Part]:
        assert facts.params is not None
        self.forget_retired(facts)
        came = sorted(facts.came)
        total = sum(facts.q[k] for k in facts.wanted)
        self.share = {k: facts.q[k] / total for k in facts.wanted}
        norms = {i: self.norm(facts.came[i]) for i in came}

        def cosine(i: int, j: int) -> float:
            return self.dot(facts.came[i], facts.came[j]) / (norms[i] * norms[j])

        pairs = {frozenset({i, j}): cosine(i, j) for i in came for j in came if i < j}
        expected = self.expected(came, pairs)
        scaled = {
            k: memory.update * (facts.lr(facts.t) / facts.lr(memory.start))
            for k, memory in self.memory.items()
        }
        left = {k: self.left(k, facts.params) for k in self.memory}
        rest = {k: left[k] * scaled[k] for k in self.memory}
        back = [i for i in came if i in self.memory]
        new = {i: list(values) for i, values in self.evidence.items()}
        if back:
            for values in new.values():
                values[2] *= self.evidence_decay
                values[3] *= self.evidence_decay
                if len(back) > 1:
                    values[0] *= self.evidence_decay
                    values[1] *= self.evidence_decay
        for j in back:
            others = [i for i in back if i != j]
            if others:
                w = self.friends(j, others, cosine, expected, facts.q)
                now = facts.came[j] - sum(w[i] * facts.came[i] for i in w)
                then = rest[j] - sum(w[i] * rest[i] for i in w)
                unit = self.dot(now, now) + self.dot(then, then) + TINY
                new[j][0] += self.dot(now, then) / unit
                new[j][1] += self.dot(then, then) / unit
            g = min(max(self.progress(j, facts.params), -20.0), 20.0)
            square = max(self.dot(scaled[j], scaled[j]), TINY)
            y = min(max(self.dot(facts.came[j], scaled[j]) / square, -1.0), 2.0)
            new[j][2] += g * (1 - y) / (1 + g * g)
            new[j][3] += g * g / (1 + g * g)
        parts: list[Part] = [(i, ("came", i), self.share[i], facts.came[i]) for i in came]
        for k in (k for k in facts.wanted if k not in facts.came):
            w = self.friends(k, came, cosine, expected, facts.q)
            for i, weight in w.items():
                parts.append((k, ("came", i), self.share[k] * weight, facts.came[i]))
            if k not in self.memory or not back:
                continue
            a = self.pooled(k, 0, new) / (self.pooled(k, 1, new) + 0.25)
            a = min(max(a, 0.0), 1.0)
            of_back = {i: w.get(i, 0.0) for i in back}
            if sum(of_back.values()) <= 1e-9:
                of_back = {i: float(facts.q[i]) for i in back}
            parts.append((k, ("memory", k), self.share[k] * a * left[k], scaled[k]))
            for i, weight in of_back.items():
                coef = -self.share[k] * a * weight / sum(of_back.values()) * left[i]
                parts.append((k, ("memory", i), coef, scaled[i]))
        self.learnt = (new, pairs)
        return parts

    def forget_retired(self, facts: Facts) -> None:
        for i in np.flatnonzero(~facts.active).tolist():
            self.memory.pop(i, None)
            self.evidence[i], self.length[i] = [0.0, 0.0, 0.0, 0.0], 0.0
            self.pairs = {pair: value for pair, value in self.pairs.items() if i not in pair}

    def learn(self, facts: Facts) -> None:
        assert facts.params is not None
        self.forget_retired(facts)
        if facts.came:
            self.evidence, pairs = self.learnt
            for pair, value in pairs.items():
                mean, count = self.pairs.get(pair, (0.0, 0.0))
                count *= self.decay
                self.pairs[pair] = ((mean * count + value) / (count + 1), count + 1)
        for i, (start, update) in sorted(facts.late.items()):
            older = i not in self.memory or start > self.memory[i].start
            self.n_late += 1
            if i in facts.came or not older:
                continue
            if start in self.models:
                self.remember(i, update, start, self.models[start])
            else:
                self.n_dropped += 1
        for i, update in facts.came.items():
            self.remember(i, update, facts.t, facts.params)
        open_now = {start for _, start in self.owed()}
        self.models = {t: w for t, w in self.models.items() if t in self.waited_for}
        if facts.t in open_now:
            if len(self.models) == self.most_models:
                del self.models[min(self.models)]
            self.models[facts.t] = facts.params.copy()
        self.waited_for = open_now

    def remember(self, i: int, update: np.ndarray, start: int, model: np.ndarray) -> None:
        self.memory[i] = Memory(update.copy(), start, model.copy())
        self.length[i] = math.log(self.norm(update))
