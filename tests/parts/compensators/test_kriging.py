"""Kriging beyond its twin: late updates, many clients, buffers, what is kept and for how long."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from understudy import Arrivals, Concord, FixedDropout, Kriging, Local, Population, Strategy
from understudy.parts.compensators.kriging.friends import expected_cosines, weights_of_friends
from understudy.parts.compensators.kriging.start_models import AT_MOST
from understudy.simulation import clustered_digits, simulate
from understudy.testing import play, updates_for

EVERYONE = np.ones(3, dtype=bool)


def started(n: int = 3, d: int = 4, **fields):
    strategy = Strategy(compensator=Kriging(), weighting="clients", **fields)
    return strategy, strategy.init(Population(n), torch.zeros(d, dtype=torch.float64), seed=0)


def round_of(strategy, state, requests):
    """Everyone is asked; (client, round its update began) arrive."""
    cohort = strategy.select(state, np.ones(state.n_clients, dtype=bool))
    return strategy.apply(state, cohort, updates_for(requests, state.params))


def test_a_late_update_has_the_progress_since_it_began() -> None:
    strategy, state = started()
    models = []
    for t in range(5):
        models.append(state.params.clone())
        late = [(2, 1)] if t == 4 else []
        round_of(strategy, state, [(0, t), (1, t), *late])
    update = updates_for([(2, 1)], state.params).deltas[0]
    moved = state.params - models[1]
    known = state.compensator
    assert known.progress[2] == pytest.approx(float(moved @ update / (update @ update)))
    assert known.length[2] == pytest.approx(float(update.norm().log()))
    assert known.memory.last_seen[2] == 1


def test_a_fresh_update_wins_over_a_late_one_and_an_older_one_is_not_kept() -> None:
    strategy, state = started()
    for t in range(3):
        round_of(strategy, state, [(0, t), (1, t)])
    round_of(strategy, state, [(0, 3), (2, 3), (2, 1)])
    before = state.params.clone()
    assert state.compensator.memory.last_seen.tolist() == [3, 2, 3]
    round_of(strategy, state, [(0, 4), (2, 2)])
    assert state.compensator.memory.last_seen.tolist() == [4, 2, 3]
    assert not torch.equal(before, state.params)


def test_models_are_kept_while_somebody_may_answer_and_no_more_than_a_few() -> None:
    n = 20
    strategy, state = started(n=n)
    for t in range(AT_MOST + 4):
        round_of(strategy, state, [(client, t) for client in range(1, n)])  # 0 never answers
    kept = state.compensator.models
    assert sorted(kept.rounds[kept.rounds >= 0]) == list(range(4, AT_MOST + 4))
    applied = round_of(strategy, state, [(1, AT_MOST + 4), (0, 2)])
    assert applied.notes["late_dropped"] == 1
    assert not state.compensator.memory.rows.known[0]
    strategy.retire(state, 0)
    requests = [(client, state.t) for client in range(1, n)]
    for _ in range(2):
        round_of(strategy, state, [(client, state.t) for client, _ in requests])
    pending = set(state.pending[:, 1].tolist())
    assert set(kept.rounds[kept.rounds >= 0].tolist()) <= pending | {state.t - 1}


def test_where_all_come_that_were_asked_no_model_is_kept() -> None:
    strategy, state = started()
    for t in range(4):
        cohort = strategy.select(state, np.array([True, True, t % 2 == 0]))
        requests = [(int(client), t) for client in cohort.asked]
        strategy.apply(state, cohort, updates_for(requests, state.params))
    assert (state.compensator.models.rounds == -1).all()
    assert not state.compensator.models.rows.known.any()


def test_a_client_never_seen_is_its_friends_at_the_mean_cosine() -> None:
    """Two came, alike to it by what is known: their mean, and no memory."""
    strategy, state = started()
    round_of(strategy, state, [(0, 0), (1, 0)])
    applied = round_of(strategy, state, [(0, 1), (1, 1)])
    told = applied.contributions
    of_2 = told.ids == 2
    assert told.coef[of_2] == pytest.approx([1 / 6, 1 / 6])
    assert told.source[of_2].tolist() == [0, 1]


def test_friends_in_few_small_systems_are_near_those_of_all() -> None:
    """Five groups of 30; sixteen nearest of 150 against all: the predictions hardly differ."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(5, 40))
    group = np.arange(200) % 5
    rows = centres[group] + rng.normal(size=(200, 40))
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    came, absent = np.arange(150), np.arange(150, 200)
    cosine, expected = unit[came] @ unit[came].T, unit[absent] @ unit[came].T
    mean = np.full(150, 1 / 150)
    whole = weights_of_friends(cosine, expected, mean, 0.1)
    near = weights_of_friends(cosine, expected, mean, 0.1, nearest=16)
    for weights in (whole, near):
        assert (weights >= 0).all()
        np.testing.assert_allclose(weights.sum(axis=1), 1)
    assert ((near > 0).sum(axis=1) <= 16).all()
    error = [np.square(unit[absent] - w @ unit[came]).sum(axis=1).mean() for w in (whole, near)]
    assert error[1] < 1.15 * error[0]


def test_without_itself_nobody_is_its_own_friend() -> None:
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(7, 5))
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    cosine = unit @ unit.T
    for nearest in (None, 3):
        weights = weights_of_friends(
            cosine, cosine, np.full(7, 1 / 7), 0.1, itself=True, nearest=nearest
        )
        assert (np.diag(weights) == 0).all()
        np.testing.assert_allclose(weights.sum(axis=1), 1)


def test_pairs_never_seen_have_the_mean_of_all_or_of_this_round() -> None:
    nothing = np.zeros((2, 3))
    now = np.array([[1.0, 0.4], [0.4, 1.0]])
    np.testing.assert_allclose(expected_cosines(nothing, nothing, now, 2.0), 0.4)
    cosine = np.array([[0.0, 0.0, 0.9], [0.0, 0.0, 0.0]])
    together = np.array([[0.0, 0.0, 2.0], [0.0, 0.0, 0.0]])
    found = expected_cosines(cosine, together, now, 2.0)
    np.testing.assert_allclose(found, 0.9)


class Normed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.norm = nn.Linear(64, 16), nn.BatchNorm1d(16)
        self.outer = nn.Linear(16, 10)

    def forward(self, x):
        return self.outer(torch.relu(self.norm(self.inner(x.flatten(1)))))


def test_a_model_with_batch_norm_learns_and_its_variances_stay_variances() -> None:
    strategy = Strategy(
        compensator=Kriging(), aggregator=Concord(), local=Local(lr=0.05, epochs=1, batch_size=16)
    )
    data = clustered_digits(n_clients=10, n_clusters=5, per_client=48, seed=1)
    run = simulate(data, strategy, model=Normed, availability=FixedDropout(0.5), rounds=12, seed=1)
    told = list(run)
    variance = run.module().norm.running_var
    assert bool((variance > 0).all())
    assert float(variance.max()) < 100
    assert told[-1].metrics["test_accuracy"] > 0.5
    assert max(log.notes["extrapolation"] for log in told) > 1.2


def test_nobody_moves() -> None:
    strategy, state = started(aggregator=Concord())
    for t in range(4):
        ids = [0, 1, 2] if t % 2 == 0 else [0, 1]
        cohort = strategy.select(state, EVERYONE)
        applied = strategy.apply(state, cohort, Arrivals(ids, torch.zeros(len(ids), 4).double()))
        assert applied.stepped
    assert state.params.tolist() == [0.0] * 4


def test_a_round_is_the_same_whether_or_not_its_rows_were_looked_at_before() -> None:
    """`learn` recomputes what `fill` found; the products that it keeps are of that round alone."""
    states = []
    for looks in (False, True):
        strategy, state = started(n=6)
        for seed in range(8):
            if looks:
                cohort = strategy.select(state, np.ones(6, dtype=bool))
                other = updates_for([(1, state.t), (4, state.t)], state.params)
                before = strategy.fill(state, cohort, other)
                assert len(before.contributions)
                state._open = False
            play(strategy, state, seed, late=False)
        states.append(state)
    first, second = states
    assert torch.equal(first.params, second.params)
    assert np.array_equal(first.compensator.progress, second.compensator.progress)
    assert np.array_equal(first.compensator.agreement, second.compensator.agreement)
