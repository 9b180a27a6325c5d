"""Generalized FedAvg, Amplified SCAFFOLD and FOCUS by hand, one parameter."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.golden.run import play
from understudy import (
    Arrivals,
    Extrapolated,
    GeneralizedFedAvg,
    Momentum,
    Population,
    Sgd,
    Strategy,
    amplified_scaffold,
    focus,
)
from understudy.parts.local import Local


def test_a_period_of_two_rounds() -> None:
    """eta = 3. x: 0, 1 | 1 + 2 = 3, amplified: 9 | nobody, 9 - 1 = 8, amplified: 9 - 3 = 6 | 10."""
    script = [{0: [1.0]}, {0: [2.0]}, {}, {0: [-1.0]}, {0: [4.0]}]
    steps, _ = play(Strategy(server=GeneralizedFedAvg(2, 3.0)), 1, script, d=1)
    assert np.cumsum(np.ravel(steps)) == pytest.approx([1, 9, 9, 6, 10], rel=1e-12)


def test_a_period_that_ends_without_anybody() -> None:
    """eta = 3. x: 0, 1 | nobody comes in rounds 1 to 4 | round 5: from 3 * 1 = 3 on, 3 + 1 = 4, and
    5 ends a period: 3 + 3 * 1 = 6. What comes in rounds 6 and 7 is amplified as always: 7, 8, 12.
    """
    script = [{0: [1.0]}, {}, {}, {}, {}, {0: [1.0]}, {0: [1.0]}, {0: [1.0]}]
    steps, _ = play(Strategy(server=GeneralizedFedAvg(2, 3.0)), 1, script, d=1)
    assert np.cumsum(np.ravel(steps)) == pytest.approx([1, 1, 1, 1, 1, 6, 7, 12], rel=1e-12)


def test_within_another_server_the_rounds_are_known() -> None:
    """One row has eta = 1 (FedExP's 1/2, at least 1). Round 1 is empty: 1, then 2 * 1 + 1 = 3."""
    server = Extrapolated(GeneralizedFedAvg(2, 2.0), epsilon=0)
    steps, _ = play(Strategy(server=server), 1, [{0: [1.0]}, {}, {0: [1.0]}], d=1)
    assert np.cumsum(np.ravel(steps)) == pytest.approx([1, 1, 3], rel=1e-12)


def test_the_inner_server_steps_in_between() -> None:
    """Momentum .5: m = 2, then 1; x = 2, then 3 amplified by 2: 6."""
    server = GeneralizedFedAvg(2, 2.0, Momentum(beta=0.5))
    steps, _ = play(Strategy(server=server), 1, [{0: [2.0]}, {0: [0.0]}], d=1)
    assert np.cumsum(np.ravel(steps)) == pytest.approx([2, 6], rel=1e-12)


def rounds(strategy: Strategy, script, n_steps: int):
    """What is sent down to clients 0 and 1 before each round, and the model after it."""
    state = strategy.init(Population(2), torch.zeros(1, dtype=torch.float64), seed=0)
    sent, models = [], []
    for came in script:
        cohort = strategy.select(state, available=np.ones(2, dtype=bool))
        assert cohort.correction is not None
        sent.append([cohort.correction(i).item() for i in range(2)])
        ids = sorted(came)
        deltas = torch.tensor([[came[i]] for i in ids], dtype=torch.float64)
        ones = [1] * len(ids)
        arrivals = Arrivals(ids, deltas, n_examples=ones, n_steps=[n_steps] * len(ids))
        strategy.apply(state, cohort, arrivals)
        models.append(state.params.item())
    return sent, models


def test_variates_of_amplified_scaffold() -> None:
    """eta = .1, two local steps, P = 2; only client 0 comes in the first period.

    Its gradients: -1/.1 = -10 in two steps, then 3/.1 = 30: mean (-10 + 30)/4 = 5. G = 5/2.
    Second period: sent are G - G_0 = -2.5 and G - G_1 = 2.5. Client 1 sends 2 in both rounds: each
    -20 - 2 * 2.5 = -25, mean -50/4 = -12.5; G = (5 - 12.5)/2 = -3.75.
    Model, eta 2: 1, -2 amplified to -4; -2, 0 amplified to -4 + 2 * 4 = 4.
    """
    strategy = amplified_scaffold(2, 2.0, local=Local(lr=0.1))
    script = [{0: 1.0}, {0: -3.0}, {1: 2.0}, {1: 2.0}, {}]
    sent, models = rounds(strategy, script, n_steps=2)
    assert sent == [[0, 0], [0, 0], [-2.5, 2.5], [-2.5, 2.5], [-8.75, 8.75]]
    assert models == pytest.approx([1, -4, -2, 4, 4], rel=1e-12)


def test_an_empty_round_ends_a_period_of_variates() -> None:
    """Client 0's gradients are -10 in two steps: mean -5, G = -5/2, known from round 2 on."""
    strategy = amplified_scaffold(2, 2.0, local=Local(lr=0.1))
    sent, models = rounds(strategy, [{0: 1.0}, {}, {0: 0.0}], n_steps=2)
    assert sent == [[0, 0], [0, 0], [2.5, -2.5]]
    assert models == pytest.approx([1, 1, 2], rel=1e-12)


def test_what_travels_in_focus() -> None:
    """eta = .1, the paper's step, which is N = 2 here; replies are -eta y_i.

    Round 0: y_0 = 4: g_0 = 4, y = 4, w = -.4.
    Round 1: y_0 = -1, y_1 = 2: g = (3, 2), y = 4 - 1 + 2 = 5, w = -.9.
    Round 2: y_1 = 1: g_1 = 3, y = 6, w = -1.5.
    """
    strategy = focus(local=Local(lr=0.1), server=Sgd(2.0), weighting="clients")
    script = [{0: -0.4}, {0: 0.1, 1: -0.2}, {1: -0.1}, {}]
    sent, models = rounds(strategy, script, n_steps=1)
    assert np.array(sent) == pytest.approx(np.array([[0, 0], [-4, 0], [-3, -2], [-3, -3]]))
    assert models == pytest.approx([-0.4, -0.9, -1.5, -1.5], rel=1e-12)
