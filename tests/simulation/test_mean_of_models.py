"""`evaluate_mean_of`: the mean of the last models is what is measured; rounds stay as they are."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.simulation.small import facts, federation
from understudy import Bernoulli, Local, fedexp, simulate

DATA = federation(sizes=(8, 12, 5), n_test=40, dtype=torch.float32)


def played(models: int, **settings):
    run = simulate(
        DATA,
        fedexp(local=Local(lr=0.5, batch_size=4)),
        model="softmax",
        availability=Bernoulli(0.7),
        rounds=6,
        evaluate_mean_of=models,
        **settings,
    )
    vectors, logs = [], []
    for log in run:
        logs.append(log)
        vectors.append(run.state.params.clone())
    return run, vectors, logs


@pytest.mark.parametrize("models", [2, 3])
def test_the_mean_of_the_last_models_is_evaluated(models):
    run, vectors, logs = played(models)
    _, alone, plain = played(1)
    for t, log in enumerate(logs):
        assert torch.equal(vectors[t], alone[t])
        mean = torch.stack(vectors[max(0, t + 1 - models) : t + 1]).mean(dim=0)
        for name, value in run.scores(mean).items():
            assert log.metrics[name] == pytest.approx(value, rel=1e-6)
    assert facts(logs[0]) == facts(plain[0])  # there is one model only
    assert logs[3].metrics["test_loss"] != plain[3].metrics["test_loss"]
    last = torch.cat([entry.flatten() for entry in run.module().parameters()])
    assert torch.equal(last, vectors[-1])


def test_models_between_two_evaluations_count():
    _, _, every = played(3)
    _, _, seldom = played(3, evaluate_every=3)
    assert seldom[5].metrics == every[5].metrics


def test_clients_are_evaluated_with_the_same_mean():
    run, vectors, logs = played(2, per_client_every=6)
    mean = torch.stack(vectors[-2:]).mean(dim=0)
    expected = run._evaluator.per_client(mean)
    assert np.array_equal(logs[-1].client_metrics["loss"], expected["loss"], equal_nan=True)
