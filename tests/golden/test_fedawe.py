"""FedAWE by hand: models that clients resume from, and steps that grow with absence."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.golden.run import play
from understudy import Arrivals, FedAWE, Momentum, Population, Sgd, Strategy

SCRIPT = [{0: (1, 0)}, {1: (2, 0)}, {0: (1, 0), 1: (1, 0)}, {}, {0: (2, 0), 2: (1, 0)}]


@pytest.mark.parametrize(
    ("compensator", "weighting", "expected"),
    [
        (FedAWE(model="last"), "clients", [1, 3, 0, 0, 2.5]),
        (FedAWE(model="last"), "examples", [1, 3, 0, 0, 2]),
        (FedAWE(clip=0.5, model="last"), "clients", [0.5, 0, 0.5, 0, 0]),
        (FedAWE(eta=0.5, model="last"), "clients", [0.5, 1.5, 0, 0, 1.25]),
        (FedAWE(), "clients", [1 / 3, 4 / 3, 1, 0, 3]),
        (FedAWE(), "examples", [1 / 4, 1, 3 / 4, 0, 3.5]),
    ],
    ids=["alike", "by examples", "clipped", "half", "mean", "mean by examples"],
)
def test_three_clients(compensator, weighting, expected) -> None:
    """From w_0 = 0: w is the mean of x_i plus the mean of (t - tau_i) D_i, over those who came.

    t=0, 0 with 1:         0 + 1 * 1 = 1, one more.                              x = (1, 0, 0)
    t=1, 1 with 2:         it starts at 0: 0 + 2 * 2 = 4, three more.            x = (1, 4, 0)
    t=2, 0 and 1 with 1:   (1 + 4)/2 + (2 * 1 + 1 * 1)/2 = 4, none.              x = (4, 4, 0)
    t=3, nobody:           no step, x stays.
    t=4, 0 and 2, 2 and 1: (4 + 0)/2 + (2 * 2 + 5 * 1)/2 = 6.5, 2.5 more.

    Examples (1, 1, 2):  t=4: (4 + 2 * 0)/3 + (4 + 2 * 5)/3 = 6, two more.

    Clipped to .5:  t=0: 0 + .5.  t=1: 0 + .5: none.  t=2: .5 + .5 = 1.  t=4: (1 + 0)/2 + .5 = 1.

    eta_g = 1/2: all models are half of the first case's, and so are the steps.

    The mean of x, from 0: 1/3, 5/3, 8/3, 8/3, and (6.5 + 4 + 6.5)/3 = 17/3; by examples, with
    shares (1/4, 1/4, 1/2): 1/4, 5/4, 2, 2, and (6 + 4 + 2 * 6)/4 = 22/4.
    """
    strategy = Strategy(compensator=compensator, weighting=weighting)
    steps, applied = play(strategy, 3, SCRIPT, n_examples=[1.0, 1.0, 2.0])
    np.testing.assert_allclose(np.array(steps)[:, 0], expected, rtol=1e-12, atol=1e-15)
    if compensator.clip is not None:
        factors = [one.notes.get("fedawe_clipped") for one in applied]
        assert factors == pytest.approx([1 / 2, 1 / 8, 1 / 3, None, 1 / 9])


def test_who_starts_where_and_a_newcomer_starts_from_the_present() -> None:
    """Two clients; 0 comes with 4 in round 0: w = 4. A third joins.

    Round 1: 0 starts from 4, 1 from w_0 = 0, 2 from 4. All come with 1: the mean of the models is
    8/3; 0 and 2 count once (2 joined before round 1), 1 twice: 8/3 + (1 + 2 + 1)/3 = 4.
    """
    strategy = Strategy(compensator=FedAWE(model="last"))
    state = strategy.init(Population(2), torch.zeros(1, dtype=torch.float64), seed=0)
    cohort = strategy.select(state, [True, True])
    assert [cohort.start(i).item() for i in (0, 1)] == [0, 0]
    strategy.apply(state, cohort, Arrivals([0], torch.full((1, 1), 4.0, dtype=torch.float64)))
    strategy.grow(state, Population(3))
    cohort = strategy.select(state, [True] * 3)
    assert [cohort.start(i).item() for i in range(3)] == [4, 0, 4]
    ones = torch.ones((3, 1), dtype=torch.float64)
    strategy.apply(state, cohort, Arrivals([0, 1, 2], ones))
    assert state.params.item() == pytest.approx(4, rel=1e-12)
    cohort = strategy.select(state, [True] * 3)
    assert [cohort.start(i).item() for i in range(3)] == pytest.approx([4] * 3)


def test_the_clients_models_are_the_same_whatever_the_server_keeps() -> None:
    states = []
    for model in ("mean", "last"):
        strategy = Strategy(compensator=FedAWE(model=model))
        state = strategy.init(Population(3), torch.zeros(1, dtype=torch.float64), seed=0)
        for came in SCRIPT:
            cohort = strategy.select(state, [True] * 3)
            deltas = torch.tensor([[came[i][0]] for i in sorted(came)], dtype=torch.float64)
            strategy.apply(state, cohort, Arrivals(sorted(came), deltas.reshape(len(came), 1)))
        start = strategy.select(state, [True] * 3).start
        states.append([start(i).item() for i in range(3)])
    assert states == [pytest.approx([6.5, 4, 6.5])] * 2


def test_a_servers_step_is_eta_and_the_mean_is_its_model() -> None:
    """Sgd(2) is eta_g = 2; with any optimizer the mean of all clients' models is the server's."""
    steps, _ = play(Strategy(compensator=FedAWE(), server=Sgd(2.0)), 3, SCRIPT)
    doubled, _ = play(Strategy(compensator=FedAWE(eta=2.0)), 3, SCRIPT)
    np.testing.assert_allclose(steps, doubled, rtol=1e-12)
    strategy = Strategy(compensator=FedAWE(), server=Momentum(lr=1.0, beta=0.5))
    state = strategy.init(Population(3), torch.zeros(1, dtype=torch.float64), seed=0)
    for came in SCRIPT:
        cohort = strategy.select(state, [True] * 3)
        deltas = torch.tensor([[came[i][0]] for i in sorted(came)], dtype=torch.float64)
        strategy.apply(state, cohort, Arrivals(sorted(came), deltas.reshape(len(came), 1)))
        start = strategy.select(state, [True] * 3).start
        models = [start(i).item() for i in range(3)]
        assert np.mean(models) == pytest.approx(state.params.item(), rel=1e-12)


@pytest.mark.parametrize("model", ["mean", "last"])
def test_with_everybody_there_it_is_fedavg(model) -> None:
    rng = np.random.default_rng(0)
    script = [dict(enumerate(rng.normal(size=(3, 2)).tolist())) for _ in range(4)]
    steps, _ = play(Strategy(compensator=FedAWE(model=model)), 3, script)
    plain, _ = play(Strategy(), 3, script)
    np.testing.assert_allclose(steps, plain, rtol=1e-12, atol=1e-14)
