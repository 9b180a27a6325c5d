"""Shapley values: games worked out by hand, the axioms, and the game of clients' updates."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.played import clusters, played
from understudy import Failure, LastRoundsAway, Local, Sgd, fdms, fedar, fedavg, inverse_time
from understudy import mifa as mifa_strategy
from understudy import stale as stale_strategy
from understudy.analysis.shapley import remembers, shapley, shapley_values
from understudy.studies.definition.cell import Task

NUMBERS = st.floats(-10, 10, allow_nan=False)


def in_all_orders(value, players) -> np.ndarray:
    """The definition: what each adds, averaged over all n! orders."""
    gains = np.zeros(len(players))
    orders = list(permutations(range(len(players))))
    for order in orders:
        joined = frozenset()
        for i in order:
            gains[i] += value(joined | {players[i]}) - value(joined)
            joined |= {players[i]}
    return gains / len(orders)


@st.composite
def games(draw, least=1, most=5):
    n = draw(st.integers(least, most))
    table = {
        frozenset(coalition): draw(NUMBERS)
        for size in range(n + 1)
        for coalition in combinations(range(n), size)
    }
    return table, list(range(n))


def test_the_glove_game():
    """Two have a left glove, one a right one; a pair is worth 1.

    In the 6 orders the right glove makes the pair whenever it is not first: 4 of 6. Else the first
    left glove after it does: each of the two in one order.
    """

    def pair(who):
        return float("right" in who and len(who) > 1)

    found = shapley_values(pair, ["left", "other left", "right"])
    np.testing.assert_allclose(found.values, [1 / 6, 1 / 6, 2 / 3], rtol=1e-14)
    assert found.exact
    assert found.total == 1
    assert not found.errors.any()


def test_the_airport_game():
    """A runway costs what the largest aircraft needs: 1, 2 or 3.

    All three share the first part (1/3 each), two the second (1/2 each), one the third.
    """
    found = shapley_values(lambda who: float(max(who, default=0)), [1, 2, 3])
    np.testing.assert_allclose(found.values, [1 / 3, 1 / 3 + 1 / 2, 1 / 3 + 1 / 2 + 1], rtol=1e-14)


def test_in_an_additive_game_everyone_is_worth_their_own():
    worth = {"a": 1.5, "b": -2.0, "c": 0.25}
    found = shapley_values(lambda who: 7 + sum(worth[i] for i in who), list(worth))
    np.testing.assert_allclose(found.values, list(worth.values()), atol=1e-14)
    assert found.total == -0.25


@given(games())
def test_exact_values_are_the_mean_over_all_orders(game):
    table, players = game
    found = shapley_values(table.__getitem__, players)
    np.testing.assert_allclose(found.values, in_all_orders(table.__getitem__, players), atol=1e-11)


@given(games(), st.integers(2, 9))
def test_values_sum_to_what_all_are_worth(game, samples):
    table, players = game
    total = table[frozenset(players)] - table[frozenset()]
    sampled = shapley_values(
        table.__getitem__, players, samples=samples, rng=np.random.default_rng(0)
    )
    for found in (shapley_values(table.__getitem__, players), sampled):
        assert found.total == total
        assert found.values.sum() == pytest.approx(total, abs=1e-10)


@given(games(least=2))
def test_players_who_add_the_same_are_worth_the_same(game):
    table, players = game
    swapped = {0: 1, 1: 0}

    def value(who):
        return table[who] + table[frozenset(swapped.get(i, i) for i in who)]

    values = shapley_values(value, players).values
    assert values[0] == pytest.approx(values[1], abs=1e-11)


@given(games(), NUMBERS)
def test_a_player_who_adds_nothing_is_worth_nothing(game, alone):
    table, players = game
    idle, solo = len(players), len(players) + 1

    def value(who):
        return table[who - {idle, solo}] + (alone if solo in who else 0)

    found = shapley_values(value, [*players, idle, solo])
    assert found.values[idle] == pytest.approx(0, abs=1e-11)
    assert found.values[solo] == pytest.approx(alone, abs=1e-11)
    sampled = shapley_values(value, [*players, idle, solo], samples=3, rng=np.random.default_rng(1))
    assert sampled.values[idle] == 0


def test_samples_agree_with_the_exact_values_within_their_errors():
    """Eight players, 400 orders: all within 4 standard errors, which shrink as 1/√samples."""
    rng = np.random.default_rng(3)
    weight = rng.uniform(0, 1, 8)

    def value(who):
        return float(np.sqrt(sum(weight[i] for i in who)) + (0 in who and 1 in who))

    players = list(range(8))
    exact = shapley_values(value, players)
    few = shapley_values(value, players, samples=100, rng=np.random.default_rng(0))
    many = shapley_values(value, players, samples=1600, rng=np.random.default_rng(0))
    assert not many.exact
    for found in (few, many):
        assert (np.abs(found.values - exact.values) <= 4 * found.errors).all()
    np.testing.assert_allclose(few.errors / many.errors, 4, rtol=0.25)
    assert many.errors.max() < 0.02


def test_the_standard_error_is_that_of_the_orders_drawn():
    """Two players, v = 1 for both together: whoever joins last adds 1, as a coin decides.

    With k of m orders ending in player 0: mean k/m, s² = m/(m−1) · k/m · (1 − k/m).
    """
    found = shapley_values(
        lambda who: float(len(who) == 2), [0, 1], samples=50, rng=np.random.default_rng(5)
    )
    share = found.values[0]
    assert 0 < share < 1
    np.testing.assert_allclose(found.errors, np.sqrt(share * (1 - share) / 49), rtol=1e-12)


def test_a_coalition_is_valued_once():
    asked = []

    def value(who):
        asked.append(who)
        return float(len(who))

    shapley_values(value, list(range(4)), samples=30, rng=np.random.default_rng(0))
    assert len(asked) == len(set(asked)) <= 16


def test_more_than_ten_players_are_sampled():
    found = shapley_values(
        lambda who: float(len(who)), list(range(11)), rng=np.random.default_rng(0)
    )
    assert not found.exact
    np.testing.assert_array_equal(found.values, 1)


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="players"):
        shapley_values(lambda who: 0.0, [1, 1])
    with pytest.raises(ValueError, match="rng"):
        shapley_values(lambda who: 0.0, [1, 2], samples=2)
    with pytest.raises(ValueError, match="samples"):
        shapley_values(lambda who: 0.0, [1, 2], samples=1, rng=np.random.default_rng(0))


# -- of clients ------------------------------------------------------------------------------------

LOCAL = Local(lr=0.2, epochs=1, batch_size=10)


def task_of(strategy, rounds_away=2, rounds=5, **arguments) -> Task:
    return Task(
        data=clusters(5, 5),
        model="softmax",
        strategy=strategy,
        rounds=rounds,
        availability=LastRoundsAway(0, rounds_away, rounds),
        seed=4,
        **arguments,
    )


def coalition_scores(task, weights_of):
    """Accuracy of each coalition's model, from updates trained and remembered by this test.

    `weights_of(members, ages)` are the coefficients of a coalition's members.
    """
    run = task.open(workers=1)
    everyone = np.arange(run.federation.n_clients)
    rounds, remembered, ages = iter(run), {}, {}
    for t in range(task.rounds):
        before = run.state.params.clone()
        deltas = run.train(before, everyone, t).deltas.clone()
        log = next(rounds)
        for client in everyone:
            if log.outcome[client] == 0:
                remembered[client], ages[client] = deltas[client], t
    table = {}
    for size in range(len(everyone) + 1):
        for members in combinations(everyone.tolist(), size):
            params = before.double()
            for client, weight in zip(members, weights_of(members, ages), strict=True):
                params += weight * remembered[client].double()
            table[frozenset(members)] = run.scores(params.to(before.dtype))["test_accuracy"]
    return table


def plain_mean(members, ages):
    return np.full(len(members), 1 / max(1, len(members)))


def decaying(members, ages):
    """MIFA's η_t/η_s with η_t = η₀/(t+1), in round 4."""
    return [(ages[i] + 1) / 5 / len(members) for i in members]


def rectified(members, ages):
    """FedAR's ψ = (τ+1)^ρ beside it, ρ = 0.5; half a server step."""
    return [0.5 * (5 - ages[i]) ** 0.5 * (ages[i] + 1) / 5 / len(members) for i in members]


@pytest.mark.parametrize(
    ("strategy", "weights_of"),
    [
        (stale_strategy(local=LOCAL), plain_mean),
        (stale_strategy(local=Local(lr=0.5, schedule=inverse_time, batch_size=10)), decaying),
        (mifa_strategy(local=Local(lr=0.5, schedule=inverse_time, batch_size=10)), decaying),
        (
            fedar(
                rho=0.5,
                local=Local(lr=0.5, schedule=inverse_time, batch_size=10),
                server=Sgd(lr=0.5),
            ),
            rectified,
        ),
    ],
    ids=["stale", "stale with a decaying step", "mifa", "fedar"],
)
def test_the_last_round_of_a_memory_taken_apart(strategy, weights_of):
    task = task_of(strategy)
    assert remembers(task)
    table = coalition_scores(task, weights_of)
    expected = in_all_orders(table.__getitem__, list(range(5)))
    logs, found = played(shapley, task)
    assert np.abs(expected).max() > 0.01
    np.testing.assert_allclose(found.arrays["shapley"], expected, atol=2e-3)
    # all together made the last model, nobody the one before
    gained = logs[-1].metrics["test_accuracy"] - logs[-2].metrics["test_accuracy"]
    assert found.metrics["shapley_total"] == pytest.approx(gained, abs=2e-3)
    lost = logs[-2].metrics["test_loss"] - logs[-1].metrics["test_loss"]
    assert found.metrics["shapley_loss_total"] == pytest.approx(lost, abs=1e-4)
    assert found.metrics["shapley_efficiency_gap"] < 1e-12
    assert found.metrics["shapley_client"] == found.arrays["shapley"][0]
    others = found.arrays["shapley"][1:].mean()
    assert found.metrics["shapley_mean_others"] == pytest.approx(others)
    share = found.metrics["shapley_client_share"] * found.metrics["shapley_total"]
    assert share == pytest.approx(found.metrics["shapley_client"])


def test_without_a_memory_it_is_the_round_after_the_last():
    task = task_of(fedavg(local=LOCAL))
    assert not remembers(task)
    run = task.open(workers=1)
    list(run)
    params, everyone = run.state.params, np.arange(5)
    deltas = run.train(params, everyone, task.rounds).deltas
    table = {}
    for size in range(6):
        for members in combinations(range(5), size):
            step = deltas[list(members)].mean(dim=0) if members else 0
            table[frozenset(members)] = run.scores(params + step)["test_accuracy"]
    _, found = played(shapley, task)
    expected = in_all_orders(table.__getitem__, list(range(5)))
    np.testing.assert_allclose(found.arrays["shapley"], expected, atol=2e-3)


def test_what_cannot_be_taken_back_is_not_taken_for_a_memory():
    assert not remembers(task_of(stale_strategy("model", local=LOCAL)))
    assert not remembers(task_of(stale_strategy(local=LOCAL), delay=Failure(0.1)))
    assert not remembers(task_of(fdms(local=LOCAL)))


def test_a_client_that_was_never_seen_is_worth_nothing():
    task = task_of(stale_strategy(local=LOCAL), rounds_away=5)
    _, found = played(shapley, task)
    assert found.metrics["shapley_client"] == 0
    assert found.arrays["shapley"][1:].any()


def test_a_round_without_contributions_has_no_game():
    """MIFA waits for client 0, which never comes."""
    _, found = played(shapley, task_of(mifa_strategy(local=LOCAL), rounds_away=5))
    assert not found.arrays["shapley"].any()
    assert found.metrics["shapley_total"] == 0
    assert "shapley_client_share" not in found.metrics


def test_a_round_whose_log_is_not_whole_is_not_taken_back():
    def of_a_cut_log(run, task):
        run.last = replace(run.last, totals=run.last.by_source)
        return shapley(run, task)

    with pytest.raises(ValueError, match="more contributions than its log keeps"):
        played(of_a_cut_log, task_of(stale_strategy(local=LOCAL)))


def test_a_resumed_run_finds_the_same_to_the_bit(tmp_path):
    task = task_of(stale_strategy(local=LOCAL))
    _, whole = played(shapley, task, folder=tmp_path / "whole")
    run = task.open(workers=1, folder=tmp_path / "broken")
    for log in run:
        if log.t == 3:
            break
    run.close()
    logs, resumed = played(shapley, task, folder=tmp_path / "broken")
    _, again = played(shapley, task, folder=tmp_path / "broken")  # all rounds were played before
    assert [log.t for log in logs] == [0, 1, 2, 3, 4]
    for found in (resumed, again):
        assert found.metrics == whole.metrics
        np.testing.assert_array_equal(found.arrays["shapley"], whole.arrays["shapley"])


def test_many_clients_are_sampled_with_errors():
    task = Task(
        data=clusters(12, 3), model="softmax", strategy=stale_strategy(local=LOCAL), rounds=2
    )
    logs, found = played(shapley, task)
    assert (found.arrays["shapley_loss_error"] > 0).all()
    lost = logs[-2].metrics["test_loss"] - logs[-1].metrics["test_loss"]
    assert found.arrays["shapley_loss"].sum() == pytest.approx(lost, abs=1e-4)
    assert "shapley_client" not in found.metrics  # nobody is scripted
