"""`HoeffdingRace` (FL-FDMS): friend candidates are eliminated as evidence grows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from understudy.core import checks
from understudy.core.describe import renamed
from understudy.core.types import Bools, Floats, Ints


@dataclass(frozen=True)
class HoeffdingRace:
    """When a candidate's score lags too far behind the best, it is dropped for good (§5.3).

    In round t = 1, 2, … client i leaves the candidates of k when R_kφ − R_ki ≥ Θ_t, with
    Θ_t = √((2 ln(2K²T·B_max) − 2 ln p) / (βt)) + δ_f (Theorem 2). A pair not yet seen together is
    never dropped.

    Parameters
    ----------
    threshold : {"theorem", "code"}
        "code" has 2βt under the root, and `scale` acts on the root only, as in the authors' code.
        With the theorem's own form, K = 20 and the other constants as they are, nobody can be
        eliminated before t = 76, because scores lie in [0, 1].
    scale : float
        1 is the paper's case 1, 0.5 its case 2.
    n_clients : int, optional
        K (default: those there are).
    horizon : int
        T, rounds of the whole run.
    max_friends : int
        B_max, the largest number of friends that a client can have: 3 in clusters of 4.
    beta : float
        β, lower bound on how often a pair comes together, per round.
    p : float
        Allowed probability of a wrong elimination.
    delta_f : float
        δ_f.
    """

    threshold: str = "theorem"
    scale: float = 1.0
    n_clients: int | None = None
    horizon: int = 500
    max_friends: int = renamed("batches", 3)
    beta: float = 0.5
    p: float = 0.01
    delta_f: float = 0.01

    def __post_init__(self) -> None:
        checks.choice("threshold", self.threshold, ("theorem", "code"))
        checks.number("scale", self.scale, low=0, low_open=True)
        if self.n_clients is not None:
            checks.integer("n_clients", self.n_clients, low=1)
        checks.integer("horizon", self.horizon, low=1)
        checks.integer("max_friends", self.max_friends, low=1)
        checks.number("beta", self.beta, low=0, high=1, low_open=True)
        checks.number("p", self.p, low=0, high=1, low_open=True, high_open=True)
        checks.number("delta_f", self.delta_f, low=0)

    def bound(self, t: npt.ArrayLike, n_clients: int) -> Floats:
        """Θ_t for rounds t = 1, 2, … (Theorem 2)."""
        clients = n_clients if self.n_clients is None else self.n_clients
        events = 2 * clients**2 * self.horizon * self.max_friends
        evidence = 2 * math.log(events) - 2 * math.log(self.p)
        rounds = np.asarray(t, dtype=np.float64)
        if self.threshold == "code":
            root = np.sqrt(evidence / (2 * self.beta * rounds))
            return np.asarray(self.scale * root + self.delta_f)
        root = np.sqrt(evidence / (self.beta * rounds))
        return np.asarray(self.scale * (root + self.delta_f))


@dataclass
class Screen:
    """Who may lose a candidate: the best and the lowest score among each client's candidates.

    Between two rounds the rows of those who came change, and the bound comes down. So a client
    whose lowest candidate is not yet as far behind as the bound needs no look at its row.
    """

    active: Bools  # (N,) for whom the rest was computed: who left is no rival
    best: Floats  # (N,) -infinity: no candidate
    lowest: Floats  # (N,) +infinity: no candidate

    @classmethod
    def empty(cls, active: Bools) -> Screen:
        n = len(active)
        return cls(active.copy(), np.full(n, -np.inf), np.full(n, np.inf))

    def take(self, ids: Ints, score: Floats, candidate: Bools) -> None:
        """The rows of some clients: (r, N) scores, and who is a candidate."""
        self.best[ids] = np.where(candidate, score, -np.inf).max(axis=1, initial=-np.inf)
        self.lowest[ids] = np.where(candidate, score, np.inf).min(axis=1, initial=np.inf)

    def suspects(self, bound: Floats) -> Ints:
        """Whose lowest candidate is as far behind as the smallest bound (N,) of its pairs."""
        with np.errstate(invalid="ignore"):
            return np.flatnonzero(self.best - self.lowest >= bound)


def eliminate(score: Floats, seen: Bools, removed: Bools, bound: Floats) -> Bools:
    """(r, N) who is removed from the candidates of r clients, after one more round.

    A removed candidate stays removed. `seen` excludes the client itself.
    """
    candidate = seen & ~removed
    best = np.where(candidate, score, -np.inf).max(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):  # a client without candidates has best = -inf
        gap = best - score
    return np.asarray(removed | (candidate & (gap >= bound)))
