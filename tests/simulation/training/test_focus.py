"""FOCUS as its paper writes it, in NumPy on whole batches, against a simulation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from tests.simulation.small import federation
from understudy import Bernoulli, Local, Scaffold, Sgd, focus, simulate
from understudy.core.rng import generator
from understudy.parts.local import LAST_GRADIENT, UPDATE, reply_of

DATA = federation(sizes=(8, 8, 8, 8), shape=(3,), n_classes=2)
N, ROUNDS, STEPS, LR = 4, 12, 3, 0.3
HERE = Bernoulli(0.6)


def linear() -> nn.Module:
    return nn.Linear(3, 2).double()


def gradient(w: np.ndarray, client: int) -> np.ndarray:
    """Of the mean cross entropy of a client's examples; w is weight (2, 3), then bias (2,)."""
    x = DATA.x[DATA.clients[client]].numpy()
    labels = np.eye(2)[DATA.y[DATA.clients[client]].numpy()]
    scores = x @ w[:6].reshape(2, 3).T + w[6:]
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    error = (p / p.sum(axis=1, keepdims=True) - labels) / len(x)
    return np.concatenate([(error.T @ x).ravel(), error.sum(axis=0)])


def run(**fields):
    local = Local(lr=LR, steps=STEPS, batch_size=8)
    strategy = focus(local=local, weighting="clients", **fields)
    return simulate(
        DATA, strategy, model=linear, rounds=ROUNDS, availability=HERE, workers=1, oracle=True
    )


def test_a_simulation_is_the_algorithm_of_the_paper():
    simulated = run(server=Sgd(float(N)))
    w = simulated.start().numpy().copy()
    attendance = HERE.init(DATA.population())
    y, previous = np.zeros(8), np.zeros((N, 8))
    for t, log in enumerate(simulated):
        here = HERE.draw(attendance, t, generator(0, "availability", t))
        for i in np.flatnonzero(here):
            x, y_i = w.copy(), np.zeros(8)
            for _ in range(STEPS):
                new = gradient(x, i)
                y_i += new - previous[i]
                previous[i] = new
                x -= LR * y_i
            y += y_i
        if here.any():
            w -= LR * y
        np.testing.assert_allclose(simulated.state.params.numpy(), w, rtol=1e-10, atol=1e-12)
        if here.all():  # nobody is absent: each is represented by what it sent
            assert log.notes["oracle_error"] == pytest.approx(0, abs=1e-20)
    assert simulated.engine == "loop"


def test_only_the_loop_trains_it():
    local = Local(rule=focus().local.rule)
    assert reply_of(local) == LAST_GRADIENT
    assert reply_of(Local(rule=Scaffold())) == UPDATE
    with pytest.raises(ValueError, match="'kernels' cannot train this: clients with Focus send"):
        simulate(
            federation(dtype=torch.float32), focus(), model="softmax", rounds=1, engine="kernels"
        )
