"""FedGS by hand: four clients, two are picked, both scales of the distance."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from understudy import Arrivals, FedGS, Population, Strategy

#  0 --1-- 1 --.5-- 2 --.1-- 3, nothing else is alike
SIMILARITY = np.array([[0, 1, 0, 0], [1, 0, 0.5, 0], [0, 0.5, 0, 0.1], [0, 0, 0.1, 0]], dtype=float)


@pytest.mark.parametrize(
    ("scale", "expected"),
    [
        ("pairs", [{0, 3}, {1, 3}, {2, 3}, {0, 2}]),
        ("paper", [{0, 3}, {1, 2}, {0, 3}, {1, 2}]),
    ],
)
def test_four_clients_two_picked(scale, expected) -> None:
    """alpha = 1, N = 4, M = 2, everyone reachable.

    The similarities already span [0, 1]. Edges exp(-V^2/.1): 01: e^-10 = .0000454,
    12: e^-2.5 = .0820850, 23: e^-.1 = .9048374. Shortest paths are sums along the line,
    the longest, 03, is .9869678; divided by it:
        h01 = .000046, h02 = .083215, h03 = 1, h12 = .083169, h13 = .999954, h23 = .916785.
    s'Hs of a pair is 2h. Scale "pairs": alpha (N-1)/(M(M-1)) 2h = 3h; "paper": alpha/N 2h = h/2.
    z_k = 2 (v_k - mean v - 1/2) + 1; the value of a pair is that minus z_i + z_j.

    "pairs"
    v = (0,0,0,0): z = 0, the largest h: {0,3}.
    v = (1,0,0,1): z = (1,-1,-1,1). 03: 3 - 2 = 1; 01: .00; 02: .25; 12: .25 + 2 = 2.25;
                   13: 2.99986; 23: 2.75. {1,3}.
    v = (1,1,0,2): z = 2v - 2 = (0,0,-2,2). 01: .00; 02: 2.2496; 03: 1; 12: 2.2495; 13: .99986;
                   23: 2.7504. {2,3}.
    v = (1,1,1,3): z = 2v - 3 = (-1,-1,-1,3). 01: 2.00014; 02: 2.24965; 12: 2.24951; 03: 1;
                   13: .99986; 23: .75. {0,2}.
    "paper"
    v = (0,0,0,0): {0,3}.
    v = (1,0,0,1): 12: .0416 + 2 = 2.04; 13: .49998; 23: .458; 03: .5 - 2. {1,2}.
    v = (1,1,1,1): z = 0: {0,3}.
    v = (2,1,1,2): mean 1.5, z = 2v - 3 = (1,-1,-1,1), as in its second round: {1,2}.
    """
    strategy = Strategy(sampler=FedGS(m=2, alpha=1.0, scale=scale))
    population = Population(4, similarity=SIMILARITY)
    state = strategy.init(population, torch.zeros(1, dtype=torch.float64), seed=0)
    picked = []
    for _ in expected:
        cohort = strategy.select(state, available=np.ones(4, dtype=bool))
        picked.append(set(cohort.wanted.tolist()))
        ids = cohort.asked.tolist()
        deltas = torch.ones((len(ids), 1), dtype=torch.float64)
        strategy.apply(state, cohort, Arrivals(ids=ids, deltas=deltas, n_examples=[1] * len(ids)))
    assert picked == expected
