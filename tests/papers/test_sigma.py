"""σ's and bounds of a real run, against its own logs and updates trained by hand."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from tests.analysis.played import clusters, played
from understudy import Exponential, HoeffdingRace, Local, fdms, fdms_dropout, fedavg
from understudy.papers import bounds
from understudy.papers.sigma import sigma
from understudy.studies.definition.cell import Task

LOCAL = Local(lr=0.1, schedule=Exponential(0.8), epochs=1, batch_size=10)


def task_of(strategy, **arguments) -> Task:
    settings = {"rounds": 6, "availability": fdms_dropout(0.5), "oracle": True, **arguments}
    return Task(data=clusters(), model="softmax", strategy=strategy, seed=2, **settings)


@pytest.fixture(scope="module")
def of_fdms():
    return played(sigma, task_of(fdms(local=LOCAL)))


def test_squares_are_the_oracle_s_divided_by_the_step(of_fdms):
    logs, found = of_fdms
    step = np.array([0.1 * 0.8**t for t in range(6)])
    far = np.array([log.notes["sigma_p"] for log in logs]) / step**2
    near = np.array([log.notes["sigma_f"] for log in logs]) / step**2
    error = np.array([log.notes["oracle_error"] for log in logs]) / step**2
    np.testing.assert_array_equal(found.arrays["sigma_t"], range(6))
    np.testing.assert_allclose(found.arrays["sigma_p"], far, rtol=1e-12)
    np.testing.assert_allclose(found.arrays["sigma_f"], near, rtol=1e-12)
    np.testing.assert_allclose(found.arrays["sigma_ratio"], near / far, rtol=1e-12)
    assert found.metrics["sigma_p"] == pytest.approx(far.mean())
    assert found.metrics["sigma_f"] == pytest.approx(near.mean())
    assert found.metrics["sigma_ratio"] == pytest.approx((near / far).mean())
    assert found.metrics["sigma_ratio_max"] == pytest.approx((near / far).max())
    assert found.metrics["psi"] == pytest.approx(error.mean())
    assert found.metrics["psi_bar"] == pytest.approx(far.max() / 4)  # half are missing
    assert found.metrics["psi_star"] == pytest.approx(near.max() / 4)


def test_bounds_hold_and_friends_are_nearer(of_fdms):
    _, found = of_fdms
    metrics = found.metrics
    assert 0 < metrics["psi"] <= metrics["psi_bar"]
    assert metrics["psi"] <= metrics["psi_fdms"] <= metrics["psi_bar"] * (1 + 2 * 6)
    assert metrics["sigma_ratio_max"] < 1


def test_beta_and_delta_come_from_what_was_seen(of_fdms):
    logs, found = of_fdms
    came = np.array([log.outcome == 0 for log in logs], dtype=int)
    together = came.T @ came
    pairs = ~np.eye(6, dtype=bool)
    beta = together[pairs].min() / 6
    assert found.metrics["measured_alpha"] == 0.5
    assert found.metrics["measured_beta"] == pytest.approx(beta)
    delta = found.metrics["measured_delta_min"]
    expected = bounds.misidentification(6, beta, delta, 6)
    assert found.metrics["misidentification"] == pytest.approx(expected)
    learnt = bounds.learning(6, beta, delta, 6)
    star, bar = found.metrics["psi_star"], found.metrics["psi_bar"]
    assert found.metrics["psi_fdms"] == pytest.approx(star + bar * learnt)
    absence = found.metrics["friend_absence"]
    assert absence == 0  # one of each cluster is always there
    relaxed = star + absence * bar + (1 - absence) * bar * learnt
    assert found.metrics["psi_relaxed"] == pytest.approx(relaxed)


def test_delta_min_by_hand():
    """Scores of the pairs, client by client, with the groups of the data."""
    task = task_of(fdms(local=LOCAL))
    run = task.open(workers=1)
    gaps = []
    for log in run:
        if log.t == 5:
            score = run.state.compensator.score.gather(np.arange(6)).numpy()
            groups = run.federation.groups
            for k in range(6):
                friends = [score[k, i] for i in range(6) if i != k and groups[i] == groups[k]]
                others = [score[k, i] for i in range(6) if groups[i] != groups[k]]
                gaps.append(min(friends) - max(others))
            found = sigma(run, task)
    assert found.metrics["measured_delta_min"] == pytest.approx(min(gaps))


def test_in_one_local_step_the_squares_are_those_of_gradients():
    """Δ/η_L is then minus the gradient at the first model, whatever η_L is."""
    found = {}
    for lr in (0.1, 0.001):
        local = Local(lr=lr, steps=1, batch_size=20)
        task = task_of(fedavg(local=local), rounds=1)
        _, found[lr] = played(sigma, task)
        run = task.open(workers=1)
        gradients = run.train(run.start(), np.arange(6), 0).deltas.double().numpy() / lr
        far = max(((a - b) ** 2).sum() for a, b in combinations(gradients, 2))
        assert found[lr].metrics["sigma_p"] == pytest.approx(far, rel=1e-3)
    first, second = found[0.1].metrics, found[0.001].metrics
    assert first["sigma_p"] == pytest.approx(second["sigma_p"], rel=1e-3)
    assert first["sigma_f"] == pytest.approx(second["sigma_f"], rel=1e-3)


def test_without_friends_to_learn_only_the_constants_are_found():
    _, found = played(sigma, task_of(fedavg(local=LOCAL)))
    assert {"sigma_f", "sigma_p", "psi", "psi_bar", "psi_star"} <= found.metrics.keys()
    assert not {"measured_beta", "psi_fdms", "misidentification"} & found.metrics.keys()


def test_without_a_pair_of_friends_there_is_no_sigma_f():
    task = task_of(fdms(local=LOCAL)).changed(data=clusters(4, 4))
    _, found = played(sigma, task.changed(availability=fdms_dropout(0.0)))
    assert "sigma_f" not in found.metrics
    assert "psi_star" not in found.metrics
    assert found.metrics["psi"] == pytest.approx(0, abs=1e-9)  # everyone came
    assert np.isnan(found.arrays["sigma_f"]).all()
    assert found.metrics["psi_bar"] == 0


def test_pairs_that_left_the_race_do_not_count_for_beta():
    """Who has dropped each other is no longer counted, however often both come."""
    race = HoeffdingRace("code", scale=0.02, beta=1.0, delta_f=0.0)
    task = task_of(fdms(race=race, local=LOCAL), rounds=10, availability=fdms_dropout(1 / 6))
    run = task.open(workers=1)
    for log in run:
        if log.t == 9:
            found = sigma(run, task)
            state = run.state.compensator
            removed = state.removed.gather(np.arange(6)).numpy() != 0
            count = state.count.gather(np.arange(6)).numpy()
    over = removed & removed.T
    pairs = ~np.eye(6, dtype=bool)
    assert over.any()
    assert count[pairs & over].min() < count[pairs & ~over].min()
    assert found.metrics["measured_beta"] == count[pairs & ~over].min() / 10


def test_the_logs_of_rounds_played_before_count_too(tmp_path):
    task = task_of(fdms(local=LOCAL))
    _, whole = played(sigma, task)
    run = task.open(workers=1, folder=tmp_path / "run")
    for log in run:
        if log.t == 2:
            break
    run.close()
    _, resumed = played(sigma, task, folder=tmp_path / "run")
    assert resumed.metrics == whole.metrics
    np.testing.assert_array_equal(resumed.arrays["sigma_p"], whole.arrays["sigma_p"])


def test_a_run_without_the_oracle_is_refused():
    with pytest.raises(ValueError, match="oracle"):
        played(sigma, task_of(fdms(local=LOCAL), oracle=False))
