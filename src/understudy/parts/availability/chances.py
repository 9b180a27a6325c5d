"""`LabelDirichlet` (FedAU), `LabelHalves` (FedAWE): who comes seldom is decided by the labels.

Values that give each client its own probability, for every availability that has a `p`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.core import checks
from understudy.core.rng import generator
from understudy.core.roles import Chances
from understudy.core.types import Floats, Population
from understudy.parts.availability.facts import label_shares


def check_chances(name: str, p: object, *, low_open: bool = False) -> None:
    """Refuse what is neither a probability nor gives one to each client."""
    if isinstance(p, Chances) and not isinstance(p, type):
        return
    try:
        checks.number(name, p, low=0, high=1, low_open=low_open)
    except ValueError as error:
        raise ValueError(f"{error}, and no value with `of`, such as LabelDirichlet()") from None


def chances_of(p: float | Chances, population: Population) -> Floats:
    """(N,) each client's probability."""
    n = int(population.n_clients)
    if not isinstance(p, Chances):
        return np.full(n, float(p))
    return checks.probabilities(f"{type(p).__name__}.of", p.of(population), n)


@dataclass(frozen=True)
class LabelDirichlet:
    """p_i = max(p_min, mean · C · Σ_y share_i(y) q(y)), with q ~ Dirichlet(concentration).

    A few labels get nearly all of the weight, and clients that hold little of them come seldom.
    C is the number of classes; the mean over clients is about `mean` where labels are balanced.

    Parameters
    ----------
    mean : float
        Probability of a client that holds all labels alike, in (0, 1].
    concentration : float
        Of the Dirichlet law, > 0; the smaller, the fewer labels have the weight.
    p_min : float
        No client comes more seldom, in (0, 1].
    seed : int
        Which q: two runs with different seeds of their own still meet the same clients.

    Notes
    -----
    Needs `Population.label_counts`. Where mean · C > 1 a probability may be more than 1 and is cut
    there. The defaults are those of FedAU's experiments (250 clients).

    References
    ----------
    Wang & Ji, A Lightweight Method for Tackling Unknown Participation Statistics in Federated
    Averaging, ICLR 2024.
    """

    mean: float = 0.1
    concentration: float = 0.1
    p_min: float = 0.02
    seed: int = 0

    def __post_init__(self) -> None:
        checks.number("mean", self.mean, low=0, high=1, low_open=True)
        checks.number("concentration", self.concentration, low=0, low_open=True)
        checks.number("p_min", self.p_min, low=0, high=1, low_open=True)
        checks.integer("seed", self.seed, low=0)

    def of(self, population: Population) -> Floats:
        shares = label_shares(population, "LabelDirichlet")
        n_classes = shares.shape[1]
        rng = generator(self.seed, "availability/labels")
        q = rng.dirichlet(np.full(n_classes, float(self.concentration)))
        return np.asarray(np.clip(self.mean * n_classes * (shares @ q), self.p_min, 1.0))


@dataclass(frozen=True)
class LabelHalves:
    """p_i = Σ_y share_i(y) u(y), u(y) uniform in [0, first] or, for the later labels, [0, second].

    Parameters
    ----------
    first, second : float
        The most that a label of the first half (of an odd number, the larger half) or of the second
        brings along, in [0, 1].
    seed : int
        Which u: two runs with different seeds of their own still meet the same clients.

    Notes
    -----
    Needs `Population.label_counts`. A client whose labels all drew little may come next to never.

    References
    ----------
    Xiang et al., Efficient Federated Learning against Heterogeneous and Non-stationary Client
    Unavailability, NeurIPS 2024.
    """

    first: float = 1.0
    second: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        checks.number("first", self.first, low=0, high=1)
        checks.number("second", self.second, low=0, high=1)
        checks.integer("seed", self.seed, low=0)

    def of(self, population: Population) -> Floats:
        shares = label_shares(population, "LabelHalves")
        n_classes = shares.shape[1]
        most = np.where(np.arange(n_classes) < (n_classes + 1) // 2, self.first, self.second)
        u = most * generator(self.seed, "availability/labels").random(n_classes)
        return np.minimum(shares @ u, 1.0)
