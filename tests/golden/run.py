"""Plays a short script of rounds through the public API."""

from __future__ import annotations

import numpy as np
import torch

from understudy import Arrivals, Population, Strategy


def play(strategy: Strategy, n_clients: int, script, *, n_examples=None, p=None, d: int = 2):
    """`script`: one {client: update} per round. Returns the server's steps and what `apply` gave.

    Everyone can be reached; who is not in a round's dictionary does not answer.
    """
    examples = [1.0] * n_clients if n_examples is None else n_examples
    population = Population(n_clients, n_examples=np.array(examples, dtype=float), p=p)
    state = strategy.init(population, torch.zeros(d, dtype=torch.float64), seed=0)
    steps, applied = [], []
    for came in script:
        before = state.params.clone()
        cohort = strategy.select(state, available=np.ones(n_clients, dtype=bool))
        ids = sorted(came)
        deltas = torch.tensor([came[i] for i in ids], dtype=torch.float64).reshape(len(ids), d)
        arrivals = Arrivals(ids=ids, deltas=deltas, n_examples=[examples[i] for i in ids])
        applied.append(strategy.apply(state, cohort, arrivals))
        steps.append((state.params - before).tolist())
    return steps, applied
