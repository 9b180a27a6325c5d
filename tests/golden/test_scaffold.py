"""SCAFFOLD by hand: the variates of a client that comes again and again."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from understudy import Arrivals, Local, Population, Scaffold, Strategy


def test_variates_of_two_clients() -> None:
    """Two clients, eta = .1, one local step, only client 0 comes, with 1, 2, 4.

    c_0 <- c_0 - c - D/(K eta), c <- c + (change of c_0)/2; c - c_i is what travels.
    Round 0: both 0.
        c_0 = 0 - 0 - 10 = -10, c = 0 - 10/2 = -5.
    Round 1: c - c_0 = 5, c - c_1 = -5.
        c_0 = -10 + 5 - 20 = -25, c = -5 - 15/2 = -12.5.
    Round 2: c - c_0 = 12.5, c - c_1 = -12.5.
        K = 2: c_0 = -25 + 12.5 - 4/.2 = -32.5, c = -12.5 - 7.5/2 = -16.25.
    Round 3: c - c_0 = 16.25, c - c_1 = -16.25.
    """
    strategy = Strategy(local=Local(lr=0.1, rule=Scaffold()))
    state = strategy.init(Population(2), torch.zeros(1, dtype=torch.float64), seed=0)
    sent = []
    for delta, n_steps in [(1.0, 1), (2.0, 1), (4.0, 2), (0.0, 1)]:
        cohort = strategy.select(state, available=np.ones(2, dtype=bool))
        assert cohort.correction is not None
        sent.append([cohort.correction(0).item(), cohort.correction(1).item()])
        deltas = torch.tensor([[delta]], dtype=torch.float64)
        arrivals = Arrivals(ids=[0], deltas=deltas, n_examples=[1], n_steps=[n_steps])
        strategy.apply(state, cohort, arrivals)
    expected = [[0, 0], [5, -5], [12.5, -12.5], [16.25, -16.25]]
    assert np.ravel(sent) == pytest.approx(np.ravel(expected), rel=1e-12)
