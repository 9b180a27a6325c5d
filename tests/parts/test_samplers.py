"""Who is picked, how often, and what is refused."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from understudy import (
    FDMS,
    MIFA,
    Arrivals,
    Blind,
    ByData,
    Capped,
    Everyone,
    FedAR,
    FedAvgIS,
    FedGS,
    FedVARP,
    Ignore,
    KeepAsking,
    Median,
    OldestFirst,
    Population,
    PowerOfChoice,
    Stale,
    Strategy,
    TrimmedMean,
    Uniform,
    fedgs,
    mdsample,
)
from understudy.core.rng import generator
from understudy.graph import (
    NoiseAnswers,
    cosine_similarity,
    functional_similarity,
    graph_distances,
    update_similarity,
)

CHANCE = 1e-4  # p-value below which a fixed seed would be too strange


def start(sampler, population, *, d: int = 3, seed: int = 0, **fields):
    strategy = Strategy(sampler=sampler, **fields)
    return strategy, strategy.init(population, torch.zeros(d, dtype=torch.float64), seed=seed)


def own_update(client: int, d: int) -> torch.Tensor:
    """Neighbours point to nearly the same direction: cos(0.3 |i - j|) and a common part."""
    row = torch.full((d,), 0.1, dtype=torch.float64)
    row[0], row[1] = np.cos(0.3 * client), np.sin(0.3 * client)
    return row


def pass_round(strategy, state, cohort, ids=(), **facts) -> None:
    """The round of `cohort`: `ids` come, each with its own update."""
    d = len(state.params)
    deltas = [own_update(int(client), d) for client in ids]
    strategy.apply(state, cohort, Arrivals(list(ids), deltas, **facts))


def everyone(state) -> np.ndarray:
    return np.ones(state.n_clients, dtype=bool)


def picks(sampler, population, rounds, *, available=None, seed: int = 0, **asked):
    """(rounds, N) the weight of each client in each round; nobody answers."""
    strategy, state = start(sampler, population, seed=seed)
    table = np.zeros((rounds, population.n_clients))
    for t in range(rounds):
        here = everyone(state) if available is None else available
        cohort = strategy.select(state, here, **asked)
        table[t, cohort.wanted] = cohort.weight
        pass_round(strategy, state, cohort)
    return table


# -- Everyone, Uniform, ByData -------------------------------------------------------------------


def test_everyone_is_wanted_and_the_reachable_are_asked() -> None:
    strategy, state = start(Everyone(), Population(4))
    cohort = strategy.select(state, [True, False, True, False])
    assert cohort.wanted.tolist() == [0, 1, 2, 3]
    assert cohort.asked.tolist() == [0, 2]
    assert cohort.weight.tolist() == [1, 1, 1, 1]


def test_uniform_is_uniform_among_the_reachable() -> None:
    """3 of the 8 reachable, 500 rounds. Picks of a round exclude each other, which makes counts
    vary less than chi-square supposes: the variance is (1 − 3/8) of it."""
    here = np.arange(10) % 5 != 4
    table = picks(Uniform(3), Population(10), 500, available=here)
    assert (table.sum(axis=1) == 3).all()
    assert set(np.unique(table)) == {0, 1}
    counts = table.sum(axis=0)
    assert (counts[~here] == 0).all()
    statistic = ((counts[here] - 187.5) ** 2 / 187.5).sum() / (1 - 3 / 8) * 7 / 8
    assert statistic < 29.9  # the 1e-4 quantile of chi-square with 7 degrees of freedom
    assert len({tuple(row) for row in table}) > 40  # of 56 subsets


def test_uniform_draws_other_clients_with_another_seed() -> None:
    one, same, other = (picks(Uniform(3), Population(10), 20, seed=s) for s in (1, 1, 2))
    assert (one == same).all()
    assert (one != other).any()


def test_by_data_draws_in_proportion_to_examples() -> None:
    examples = np.array([1.0, 2, 3, 4, 10, 30])
    table = picks(ByData(5), Population(6, n_examples=examples), 600)
    assert (table.sum(axis=1) == 5).all()  # m draws, with replacement: weights are multiplicities
    counts = table.sum(axis=0)
    assert chisquare(counts, 3000 * examples / examples.sum()).pvalue > CHANCE
    assert chisquare(counts, np.full(6, 500)).pvalue < 1e-12  # it is not uniform
    # how often client 5, with p = .6, is drawn k times of 5: binomial
    drawn = np.bincount(table[:, 5].astype(int), minlength=6)
    expected = (
        600 * np.array([1, 5, 10, 10, 5, 1]) * 0.6 ** np.arange(6) * 0.4 ** np.arange(5, -1, -1)
    )
    assert chisquare(drawn, expected).pvalue > CHANCE


def test_by_data_draws_among_the_reachable_only() -> None:
    examples = np.array([1.0, 2, 3, 4])
    here = np.array([True, False, True, False])
    table = picks(ByData(4), Population(4, n_examples=examples), 300, available=here)
    counts = table.sum(axis=0)
    assert counts[[1, 3]].tolist() == [0, 0]
    assert chisquare(counts[[0, 2]], [300, 900]).pvalue > CHANCE


def test_by_data_takes_the_mean_where_a_size_is_not_known() -> None:
    """n = (2, 6, ?): the unknown is 4, so p = (1/6, 1/2, 1/3)."""
    population = Population(3, n_examples=[2, 6, np.nan])
    counts = picks(ByData(6), population, 300).sum(axis=0)
    assert chisquare(counts, [300, 900, 600]).pvalue > CHANCE
    alike = picks(ByData(6), Population(3), 300).sum(axis=0)
    assert chisquare(alike, [600, 600, 600]).pvalue > CHANCE


def test_drawn_twice_counts_twice() -> None:
    """The step is Σ (times drawn) Δ_i / Σ (times drawn) over those who came."""
    strategy, state = start(ByData(5), Population(3, n_examples=[1, 1, 1]), seed=3)
    cohort = strategy.select(state, everyone(state))
    assert cohort.weight.sum() == 5
    assert cohort.weight.max() >= 2
    came = cohort.asked
    deltas = torch.eye(3, dtype=torch.float64)[came]
    strategy.apply(state, cohort, Arrivals(came, deltas, n_examples=[7.0] * len(came)))
    expected = np.zeros(3)
    expected[cohort.wanted] = cohort.weight / 5
    np.testing.assert_allclose(state.params.numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("sampler", [ByData(), Blind(ByData()), Blind(Blind(ByData(3)))], ids=repr)
def test_by_data_is_not_weighed_by_examples_again(sampler) -> None:
    with pytest.raises(ValueError, match="weighting: expected 'clients' with ByData"):
        Strategy(sampler=sampler, weighting="examples")
    Strategy(sampler=sampler, weighting="clients")
    with pytest.raises(ValueError, match="weighting: expected 'clients' with ByData"):
        mdsample(weighting="examples")


def test_nobody_is_picked_where_nobody_can_be_reached() -> None:
    for sampler in (Uniform(2), ByData(2), OldestFirst(2), FedGS(2), PowerOfChoice(2)):
        strategy, state = start(sampler, Population(4))
        cohort = strategy.select(state, np.zeros(4, dtype=bool))
        assert cohort.wanted.tolist() == []
        assert cohort.asked.tolist() == []


def test_blind_picks_as_if_all_were_reachable() -> None:
    """It asks only those who are; who is picked does not depend on who is there."""
    here = np.arange(10) < 5
    for inner in (Uniform(4), ByData(4), OldestFirst(4), FedGS(4)):
        strategy, state = start(Blind(inner), Population(10))
        cohort = strategy.select(state, here)
        plain, other = start(inner, Population(10))
        assert cohort.wanted.tolist() == plain.select(other, np.ones(10, bool)).wanted.tolist()
        assert cohort.asked.tolist() == [i for i in cohort.wanted if i < 5]
    table = picks(Blind(Uniform(4)), Population(10), 60, available=here)
    assert (table.sum(axis=0) > 0).all()


# -- PowerOfChoice -------------------------------------------------------------------------------


def test_power_of_choice_takes_the_largest_losses_of_the_reachable() -> None:
    losses = np.array([3.0, 9.0, 1.0, 7.0, 5.0])
    strategy, state = start(PowerOfChoice(2), Population(5))
    cohort = strategy.select(state, everyone(state), losses=lambda ids: losses[ids])
    assert cohort.wanted.tolist() == [1, 3]
    cohort = strategy.select(state, [True, False, True, True, True], losses=lambda i: losses[i])
    assert cohort.wanted.tolist() == [3, 4]


def test_power_of_choice_without_losses_says_what_to_do() -> None:
    strategy, state = start(PowerOfChoice(2), Population(5))
    with pytest.raises(ValueError, match=re.escape("losses: PowerOfChoice(losses='asked') needs")):
        strategy.select(state, everyone(state))
    with pytest.raises(ValueError, match=re.escape("losses='last'")):
        strategy.select(state, everyone(state))


def test_power_of_choice_refuses_losses_of_another_shape() -> None:
    strategy, state = start(PowerOfChoice(2), Population(5))
    with pytest.raises(ValueError, match=r"losses: expected shape \(5,?\), got \(4,\)"):
        strategy.select(state, everyone(state), losses=lambda ids: np.ones(4))


def test_infinite_and_undefined_losses_come_first() -> None:
    """A model that diverged on a client does worst there."""
    losses = np.array([3.0, np.nan, 1e300, np.inf, -np.inf])
    strategy, state = start(PowerOfChoice(2), Population(5))
    cohort = strategy.select(state, everyone(state), losses=lambda ids: losses[ids])
    assert cohort.wanted.tolist() == [1, 3]
    strategy, state = start(PowerOfChoice(4), Population(5))
    cohort = strategy.select(state, everyone(state), losses=lambda ids: losses[ids])
    assert cohort.wanted.tolist() == [0, 1, 2, 3]


def test_ties_of_losses_are_broken_by_chance() -> None:
    losses = np.array([5.0, 1, 1, 1, 1])
    table = picks(PowerOfChoice(2), Population(5), 400, losses=lambda ids: losses[ids])
    counts = table.sum(axis=0)
    assert counts[0] == 400
    assert chisquare(counts[1:], [100] * 4).pvalue > CHANCE


def test_last_losses_never_seen_first() -> None:
    """Two of six a round, everyone comes: all are seen in three rounds; then the largest loss."""
    strategy, state = start(PowerOfChoice(2, losses="last"), Population(6))
    reported = np.array([0.5, 4.0, 2.0, 3.0, 0.1, 1.0])
    seen: list[int] = []
    for _ in range(3):
        cohort = strategy.select(state, everyone(state))
        assert not set(cohort.wanted.tolist()) & set(seen)
        seen += cohort.wanted.tolist()
        pass_round(strategy, state, cohort, cohort.asked, losses=reported[cohort.asked])
    assert sorted(seen) == list(range(6))
    cohort = strategy.select(state, everyone(state))
    assert cohort.wanted.tolist() == [1, 3]
    # client 1 gets better, 3 does not come: its last loss stays
    pass_round(strategy, state, cohort, [1], losses=[0.2])
    assert strategy.select(state, everyone(state)).wanted.tolist() == [2, 3]


def test_a_loss_that_is_not_told_leaves_the_last_one() -> None:
    strategy, state = start(PowerOfChoice(1.0, losses="last"), Population(3))
    cohort = strategy.select(state, everyone(state))
    pass_round(strategy, state, cohort, [0, 1], losses=[3.0, 1.0])
    pass_round(strategy, state, strategy.select(state, everyone(state)), [0, 1, 2])
    one = strategy.select(state, everyone(state))
    pass_round(strategy, state, one, [0, 1, 2], losses=[np.nan, 2.0, "unknown"])
    assert state.sampler.loss.tolist() == [3.0, 2.0, np.inf]


def test_candidates_are_drawn_by_examples_and_only_they_are_asked() -> None:
    examples = np.array([1.0, 1, 1, 1, 16])
    asked: list[list[int]] = []

    def losses(ids):
        asked.append(sorted(np.asarray(ids).tolist()))
        return np.asarray(ids, dtype=float)

    table = picks(
        PowerOfChoice(1, candidates=1), Population(5, n_examples=examples), 400, losses=losses
    )
    assert all(len(ids) == 1 for ids in asked)
    assert chisquare(table.sum(axis=0), 400 * examples / 20).pvalue > CHANCE
    asked.clear()
    table = picks(PowerOfChoice(1, candidates=3), Population(5), 50, losses=losses)
    assert all(len(set(ids)) == 3 for ids in asked)
    assert [row.argmax() for row in table] == [max(ids) for ids in asked]
    # never fewer candidates than are wanted
    table = picks(PowerOfChoice(3, candidates=1), Population(5), 5, losses=losses)
    assert (table.sum(axis=1) == 3).all()


# -- OldestFirst ---------------------------------------------------------------------------------


def test_oldest_first_rotates() -> None:
    """7 clients, 2 a round: everyone waits 3 or 4 rounds, and is picked in the first 4."""
    table = picks(OldestFirst(2), Population(7), 60)
    assert (table.sum(axis=1) == 2).all()
    for client in range(7):
        turns = np.flatnonzero(table[:, client])
        assert turns[0] <= 3
        assert set(np.diff(turns)) == {3, 4}


def test_who_could_not_be_reached_longest_comes_first() -> None:
    strategy, state = start(OldestFirst(2), Population(6))
    without = np.arange(6) != 4
    for _ in range(9):
        pass_round(strategy, state, strategy.select(state, without))
    strategy.grow(state, Population(7))  # a newcomer was never picked either
    cohort = strategy.select(state, everyone(state))
    assert cohort.wanted.tolist() == [4, 6]


def test_oldest_first_counts_those_who_did_not_come() -> None:
    strategy, state = start(OldestFirst(3), Population(6))
    first = strategy.select(state, everyone(state)).wanted
    pass_round(strategy, state, strategy.select(state, everyone(state)))
    second = strategy.select(state, everyone(state)).wanted
    assert sorted([*first, *second]) == list(range(6))


# -- FedGS ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [1, 3, 0.5, 10])
def test_fedgs_without_distance_balances_the_counts(m) -> None:
    """α = 0: the least picked first; counts never differ by more than one."""
    strategy, state = start(FedGS(m, alpha=0), Population(10))
    for _ in range(25):
        pass_round(strategy, state, strategy.select(state, everyone(state)))
        counts = state.sampler.counts
        assert counts.max() - counts.min() <= 1
        assert counts.var() <= 0.25
    assert counts.sum() == 25 * strategy.sampler.count(10)


def test_fedgs_with_distance_still_balances_the_counts() -> None:
    rng = np.random.default_rng(4)
    population = Population(10, features=rng.normal(size=(10, 3)))
    strategy, state = start(FedGS(3, alpha=1), population)
    for _ in range(60):
        pass_round(strategy, state, strategy.select(state, everyone(state)))
    assert state.sampler.counts.sum() == 180
    assert state.sampler.counts.var() <= 1


def test_fedgs_catches_up_with_those_who_were_away() -> None:
    strategy, state = start(FedGS(2, alpha=0), Population(6))
    for _ in range(4):
        pass_round(strategy, state, strategy.select(state, np.arange(6) < 4))
    assert state.sampler.counts.tolist() == [2, 2, 2, 2, 0, 0]
    for _ in range(2):
        cohort = strategy.select(state, everyone(state))
        assert cohort.wanted.tolist() == [4, 5]
        pass_round(strategy, state, cohort)
    assert state.sampler.counts.tolist() == [2] * 6


def test_fedgs_picks_the_farthest_of_equally_often_picked() -> None:
    """Two groups of two alike clients: of each round's two, one is of either group."""
    labels = np.array([[9.0, 0], [8, 1], [0, 9], [1, 8]])
    strategy, state = start(FedGS(2, alpha=1), Population(4, label_counts=labels))
    for _ in range(12):
        cohort = strategy.select(state, everyone(state))
        assert (cohort.wanted < 2).sum() == 1
        pass_round(strategy, state, cohort)
    assert state.sampler.counts.tolist() == [6, 6, 6, 6]


def test_newcomers_of_fedgs_start_where_the_others_are() -> None:
    """In round t with M of N: a count of t·M/N, here 12·2/8 = 3 for the newcomers; the six old
    clients have 12·2/6 = 4. So the newcomers are caught up with in a round, not picked for ever."""
    strategy, state = start(FedGS(2, alpha=0), Population(6))
    for _ in range(12):
        pass_round(strategy, state, strategy.select(state, everyone(state)))
    strategy.grow(state, Population(8))
    assert state.sampler.counts.tolist() == [4] * 6 + [3] * 2
    cohort = strategy.select(state, everyone(state))
    assert cohort.wanted.tolist() == [6, 7]
    pass_round(strategy, state, cohort)
    after = np.zeros(8)
    for _ in range(8):
        cohort = strategy.select(state, everyone(state))
        after[cohort.wanted] += 1
        pass_round(strategy, state, cohort)
    assert after.tolist() == [2] * 8


def test_graph_of_updates_is_refined_as_clients_are_first_seen() -> None:
    """H is made of the first updates of those seen so far, and made anew only when one more is."""
    strategy, state = start(FedGS(6, graph="updates"), Population(6), d=4)

    def distances():
        strategy.select(state, everyone(state))
        return state.sampler._distance

    def by_hand(clients):
        similarity = np.full((6, 6), np.nan)
        rows = [own_update(client, 4) for client in clients]
        similarity[np.ix_(clients, clients)] = update_similarity(rows)
        np.fill_diagonal(similarity, 1.0)
        return graph_distances(similarity, "code")

    nothing = distances()
    off = nothing[~np.eye(6, dtype=bool)]
    assert np.ptp(off) == 0  # everyone is as far from everyone
    pass_round(strategy, state, strategy.select(state, everyone(state)), [0, 1, 4])
    some = distances()
    np.testing.assert_allclose(some, by_hand([0, 1, 4]))
    assert some[0, 1] < some[0, 4]  # neighbours are alike
    assert not np.array_equal(some, nothing)
    pass_round(strategy, state, strategy.select(state, everyone(state)), [0, 1])
    assert distances() is some  # nothing new
    pass_round(strategy, state, strategy.select(state, everyone(state)), [5, 2])
    more = distances()
    assert more is not some
    np.testing.assert_allclose(more, by_hand([0, 1, 2, 4, 5]))


def test_graph_of_answers_to_noise_is_that_of_equation_12() -> None:
    """Softmax models of the first round: H is that of `functional_similarity` of theirs."""
    module, inputs = torch.nn.Linear(3, 2), torch.randn(9, 3, generator=torch.Generator())
    answers = NoiseAnswers.like(module, inputs, seed=5)
    assert answers.width == 2
    sampler = FedGS(4, graph="functional", answers=answers)
    strategy, state = start(sampler, Population(4), d=8)
    before = state.params.clone()
    pass_round(strategy, state, strategy.select(state, everyone(state)), [0, 1, 3])
    strategy.select(state, everyone(state))
    models = [before + own_update(k, 8) if k != 2 else None for k in range(4)]
    expected = functional_similarity(module, models, inputs, generator(5, "graph/noise"))
    np.testing.assert_allclose(state.sampler._distance, graph_distances(expected, "code"))
    assert state.sampler.first.known.tolist() == [True, True, False, True]
    # a late first model is not known: what it started from is gone
    pass_round(strategy, state, strategy.select(state, everyone(state)), [2], start_round=[0])
    assert not state.sampler.first.known[2]
    # a first answer stays
    kept = state.sampler.first.get(0).clone()
    pass_round(strategy, state, strategy.select(state, everyone(state)), [0])
    assert torch.equal(state.sampler.first.get(0), kept)


def test_answers_are_given_only_with_a_functional_graph() -> None:
    answers = NoiseAnswers.like(torch.nn.Linear(3, 2), torch.eye(3))
    with pytest.raises(ValueError, match=r"answers: expected .* with graph='auto'"):
        FedGS(answers=answers)
    with pytest.raises(TypeError, match="answers: expected NoiseAnswers or None, got 3"):
        FedGS(graph="functional", answers=3)


def test_a_late_first_update_is_taken_into_the_graph() -> None:
    strategy, state = start(FedGS(3, graph="updates"), Population(3))
    pass_round(strategy, state, strategy.select(state, everyone(state)), [0])
    pass_round(strategy, state, strategy.select(state, everyone(state)), [1], start_round=[0])
    assert state.sampler.first.known.tolist() == [True, True, False]


def test_graph_of_labels_is_refined_as_clients_tell_theirs() -> None:
    labels = np.full((4, 2), np.nan)
    labels[0] = [9, 1]
    strategy, state = start(FedGS(4, graph="labels"), Population(4, label_counts=labels))
    strategy.select(state, everyone(state))
    before = state.sampler._distance
    told = np.array([[1.0, 9], [8, 2]])
    cohort = strategy.select(state, everyone(state))
    pass_round(strategy, state, cohort, [1, 2], label_counts=told)
    strategy.select(state, everyone(state))
    after = state.sampler._distance
    labels[[1, 2]] = told
    np.testing.assert_allclose(after, graph_distances(cosine_similarity(labels), "code"))
    assert not np.array_equal(before, after)
    assert after[0, 2] < after[0, 1]


@pytest.mark.parametrize("edges", ["code", "paper"])
def test_the_graph_is_made_of_what_was_asked_for(edges) -> None:
    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(5, 3)), rng.integers(1, 9, (5, 4)).astype(float)
    ready = np.corrcoef(rng.normal(size=(5, 3)))
    known = Population(5, features=features, label_counts=labels, similarity=ready)
    expected = {
        "auto": ready,
        "similarity": ready,
        "features": cosine_similarity(features),
        "labels": cosine_similarity(labels),
    }
    for graph, similarity in expected.items():
        strategy, state = start(FedGS(2, graph=graph, edges=edges), known)
        strategy.select(state, everyone(state))
        np.testing.assert_allclose(state.sampler._distance, graph_distances(similarity, edges))


@pytest.mark.parametrize(
    ("graph", "field"),
    [("similarity", "similarity"), ("features", "features"), ("labels", "label_counts")],
)
def test_a_graph_of_what_is_not_known_is_refused(graph, field) -> None:
    with pytest.raises(ValueError, match=re.escape(f"needs Population({field}=...)")):
        start(FedGS(graph=graph), Population(5))


def test_more_than_30000_clients_are_refused_unless_there_is_no_graph() -> None:
    for sampler in (FedGS(5), Blind(FedGS(5))):
        with pytest.raises(ValueError, match=r"at most 30000 clients.*got 30001; alpha=0"):
            start(sampler, Population(30_001))
    strategy, state = start(FedGS(5, alpha=0), Population(30_001))
    first = strategy.select(state, everyone(state))
    assert len(first.wanted) == 5
    pass_round(strategy, state, first)
    assert not set(strategy.select(state, everyone(state)).wanted) & set(first.wanted)
    start(FedGS(5), Population(30_000))  # the border itself is allowed


def test_one_of_many_and_all_of_few() -> None:
    strategy, state = start(FedGS(1), Population(5))
    assert len(strategy.select(state, everyone(state)).wanted) == 1
    strategy, state = start(FedGS(7), Population(5))
    assert strategy.select(state, everyone(state)).wanted.tolist() == [0, 1, 2, 3, 4]
    assert strategy.select(state, np.arange(5) == 3).wanted.tolist() == [3]


def test_fedgs_weighs_by_examples() -> None:
    """Eq. 18: n_k-weighted over the picked. Updates (1, 0) and (0, 2), n = 3 and 1."""
    strategy = fedgs(m=2)
    state = strategy.init(Population(2, n_examples=[3, 1]), torch.zeros(2, dtype=torch.float64))
    cohort = strategy.select(state, everyone(state))
    deltas = torch.tensor([[1.0, 0], [0, 2]], dtype=torch.float64)
    strategy.apply(state, cohort, Arrivals([0, 1], deltas))
    assert state.params.tolist() == pytest.approx([0.75, 0.5])


# -- parts that do not fit each other ------------------------------------------------------------


@pytest.mark.parametrize(
    ("inner", "why"),
    [
        (FedVARP(), "signed"),
        (Stale("model"), "signed"),
        (FedAR(), "not normalised"),
        (FedAvgIS(), "not normalised"),
    ],
    ids=repr,
)
def test_capped_is_refused_around_what_does_not_sum_to_one(inner, why) -> None:
    with pytest.raises(ValueError, match=re.escape(f"got {inner!r}, which is {why}")):
        Capped(inner)
    with pytest.raises(ValueError, match=re.escape(f"got {inner!r}, which is {why}")):
        Capped(inner, 0.5)


@pytest.mark.parametrize("inner", [Ignore(), Stale(), FDMS(), MIFA(), Capped(FDMS())], ids=repr)
def test_capped_goes_around_what_sums_to_one(inner) -> None:
    assert Capped(inner, 0.2).inner is inner


@pytest.mark.parametrize("aggregator", [Median(), TrimmedMean(0.1)], ids=repr)
@pytest.mark.parametrize("compensator", [FedVARP(), Stale("model")], ids=repr)
def test_robust_aggregators_are_refused_with_signed_coefficients(aggregator, compensator) -> None:
    name = type(aggregator).__name__
    with pytest.raises(ValueError, match=f"aggregator: {name} .* must not be negative"):
        Strategy(compensator=compensator, aggregator=aggregator)


def test_importance_sampling_without_probabilities_says_how_to_give_them() -> None:
    with pytest.raises(ValueError, match=re.escape("give Population(p=...)")):
        start(Everyone(), Population(3), compensator=FedAvgIS())


@pytest.mark.parametrize("graph", ["labels", "features", "similarity", "updates"])
def test_fedgs_is_exact_up_to_a_number_of_clients_and_sparse_above(graph) -> None:
    """On both sides of the threshold: with as many neighbours as clients, the same distances."""
    n, rng = 12, np.random.default_rng(1)
    features = rng.dirichlet(np.full(4, 0.3), size=n)
    population = Population(
        n, label_counts=features * 100, features=features, similarity=cosine_similarity(features)
    )
    distances, notes = [], []
    for exact_up_to in (n, n - 1):
        sampler = FedGS(4, graph=graph, exact_up_to=exact_up_to, neighbours=n)
        strategy, state = start(sampler, population)
        for _ in range(3):
            cohort = strategy.select(state, everyone(state))
            deltas = [own_update(int(client), 3) for client in cohort.wanted]
            applied = strategy.apply(state, cohort, Arrivals(cohort.wanted, deltas))
        distances.append(state.sampler._distance)
        notes.append(applied.notes)
        np.testing.assert_equal(state.sampler.counts.sum(), 12)
    np.testing.assert_allclose(distances[0], distances[1], atol=1e-6)
    assert "sparse_neighbours" not in notes[0]
    assert notes[1]["sparse_neighbours"] == n


def test_wrappers_pass_on_what_a_sampler_tells() -> None:
    inner = FedGS(2, exact_up_to=3, neighbours=2)
    population = Population(5, features=np.eye(5))
    for sampler in (Blind(inner), KeepAsking(Blind(inner))):
        strategy, state = start(sampler, population)
        cohort = strategy.select(state, everyone(state))
        deltas = torch.zeros(len(cohort.asked), 3, dtype=torch.float64)
        applied = strategy.apply(state, cohort, Arrivals(cohort.asked, deltas))
        assert applied.notes["sparse_neighbours"] == 2


def test_fedgs_says_what_its_graph_may_be() -> None:
    with pytest.raises(ValueError, match="exact_up_to"):
        FedGS(exact_up_to=3001)
    with pytest.raises(ValueError, match="neighbours"):
        FedGS(neighbours=0)
