"""What clients weigh in a round, and what is told of those whose claims count less."""

from __future__ import annotations

import numpy as np

from understudy.core.claims import without_gaps
from understudy.core.types import Floats, Ints
from understudy.server.state import ServerState


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
