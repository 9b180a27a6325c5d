"""What clients weigh: by examples or alike, and what is told of claims that count less."""

from __future__ import annotations

import numpy as np

from understudy.core import checks
from understudy.core.claims import without_gaps
from understudy.core.roles import Sampler
from understudy.core.types import Floats, Ints
from understudy.server.state import ServerState

EXAMPLES, CLIENTS = WEIGHTINGS = ("examples", "clients")


class DefaultWeighting(str):
    """A weighting that was not given: it is resolved again where the sampler is replaced."""

    __slots__ = ()


DEFAULT_WEIGHTING = DefaultWeighting(EXAMPLES)


def is_default(weighting: str) -> bool:
    """Whether a strategy has its weighting because it was given none."""
    return isinstance(weighting, DefaultWeighting)


def resolved_weighting(given: str, sampler: Sampler) -> str:
    """What is given; by default by examples, unless the sampler draws by them already."""
    if is_default(given):
        drawn = getattr(sampler, "draws_by_examples", False)
        return DefaultWeighting(CLIENTS if drawn else EXAMPLES)
    checks.choice("weighting", given, WEIGHTINGS)
    return given


def base_weights(state: ServerState, weighting: str) -> Floats:
    """(N,) n_i or 1 by `weighting`; an unknown n_i is a usual one, a retired client 0."""
    if weighting == "clients":
        base = np.ones(state.n_clients)
    else:
        claimed = ~state.population.confirmed
        one_vote = state.made_by.ignores_claims
        base = without_gaps(state.believed_examples(), claimed, one_vote=one_vote).copy()
    base[~state.active] = 0.0
    return base


def claim_notes(state: ServerState, came: Ints, weighting: str) -> dict[str, float]:
    """What became of claims in this round; nothing where all of them count as they were made."""
    counted = state.believed_examples()
    if state.made_by.ignores_claims:
        ignored = ~(counted[came] >= state.n_examples[came]) & ~np.isnan(state.n_examples[came])
        told = weighting == "examples" and ignored.any()
        return {"claims_ignored": float(ignored.sum())} if told else {}
    cut = state.active & (counted < state.n_examples)
    if not cut.any():
        return {}
    return {"claims_capped": float(cut.sum()), "claims_cap": float(counted[cut].max())}
