"""`FedAvgIS`, `HorvitzThompson`: each update divided by its p, or weighted as its sampler says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from understudy.core.types import Contributions, RoundEnd, Setup


@dataclass(frozen=True)
class FedAvgIS:
    """Importance sampling: (1/N) Σ_{i∈A} Δ_i / p_i, with known probabilities of coming p_i.

    Notes
    -----
    Unbiased where everyone reachable is asked. p comes from ``select(…, p=…)`` or, without it,
    from ``Population(p=…)``. A client that came although its p is 0 in this round is left out,
    and counted in the note ``is_impossible``.

    References
    ----------
    The baseline "FedAvg with importance sampling" of Gu et al. (MIFA), 2021, and of FedAR, 2024.
    """

    signed = False
    normalised = False

    def init(self, setup: Setup) -> None:
        if setup.population.p is None:
            raise ValueError(
                "FedAvgIS: needs each client's probability of coming; give Population(p=...), "
                "and where it changes from round to round select(..., p=...) too"
            )

    def fill(self, state: None, end: RoundEnd) -> Contributions:
        assert end.p is not None
        came, p = end.came, end.p[end.came]
        possible = p > 0
        coef = (
            end.base[came] / end.base.sum() * np.divide(1, p, where=possible, out=np.zeros_like(p))
        )
        rows = np.flatnonzero(possible)
        notes = {"is_impossible": float((~possible).sum())} if not possible.all() else {}
        return Contributions.of((came[rows], end.fresh(), rows, coef[rows]), notes=notes)

    def learn(self, state: None, end: RoundEnd, step: torch.Tensor | None) -> Mapping[str, float]:
        return {}


@dataclass(frozen=True)
class HorvitzThompson:
    """The sampler's weights as they are: Σ_{i∈A} v_i n_i Δ_i / Σ_j n_j, with v_i i's weight.

    Where v_i is one over the probability that i is picked, as with `F3AST`, this is unbiased;
    `Ignore` divides by Σ_{i∈A} v_i n_i in place of the sum over all clients.

    Notes
    -----
    With a sampler whose weights are 1 (`Everyone`, `Uniform`) the step shrinks with the share of
    those who come. n_j is 1 with ``weighting="clients"``.

    References
    ----------
    Horvitz and Thompson, A Generalization of Sampling Without Replacement From a Finite Universe,
    1952.
    """

    signed = False
    normalised = False

    def init(self, setup: Setup) -> None:
        return None

    def fill(self, state: None, end: RoundEnd) -> Contributions:
        came = end.came
        coef = end.q[came] / end.base.sum()
        return Contributions.of((came, end.fresh(), np.arange(len(came)), coef))

    def learn(self, state: None, end: RoundEnd, step: torch.Tensor | None) -> Mapping[str, float]:
        return {}
