"""Protocols of published experiments: each formula by hand, then how often clients come."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from understudy import (
    Always,
    Arriving,
    Bernoulli,
    Cyclic,
    Departing,
    LabelDirichlet,
    LabelHalves,
    Markov,
    MinSeparation,
    OwnCycle,
    Population,
    RoundRobin,
    Sine,
    Staircase,
    Study,
    registry,
)
from understudy.core.describe import describe
from understudy.core.rng import generator
from understudy.parts.availability import (
    fedau_bernoulli,
    fedau_cyclic,
    fedau_markov,
    fedawe_interleaved,
    fedawe_sine,
    fedawe_staircase,
    wang_ji_groups,
)
from understudy.testing import check_availability, draw_availability, example_population

# C = 4; shares (1, 0, 0, 0), (½, ½, 0, 0), (0, ¼, ¼, ½), (0, 0, 0, 1)
FOUR = Population(4, label_counts=[[9, 0, 0, 0], [5, 5, 0, 0], [0, 2, 2, 4], [0, 0, 0, 7]])
SHARES = np.array([[1, 0, 0, 0], [0.5, 0.5, 0, 0], [0, 0.25, 0.25, 0.5], [0, 0, 0, 1]])
PROTOCOLS = [
    fedau_bernoulli(),
    fedau_markov(),
    fedau_cyclic(),
    fedawe_sine(),
    fedawe_staircase(),
    fedawe_interleaved(),
    wang_ji_groups(),
    wang_ji_groups(n_groups=2, rounds_each=3),
    Arriving(),
    Departing(remaining=0),
    RoundRobin(),
    RoundRobin(present=3, overlap=2, rounds_each=4),
    MinSeparation(),
    MinSeparation(5, fedau_markov(mean=0.5)),
    MinSeparation(2, Always()),
]


def rates(availability, population, t=0):
    return availability.rates(availability.init(population), t)


def attendance(availability, population, rounds, seed=0):
    """(rounds, N) of 0 and 1."""
    state = availability.init(population)
    drawn = [availability.draw(state, t, generator(seed, "a", t)) for t in range(rounds)]
    return np.array(drawn).astype(int)


def assert_binomial(frequency, expected, n):
    """Each count lies where all but 1e-6 of its binomial's probability does."""
    count = np.rint(np.asarray(frequency) * n)
    assert (count >= binom.ppf(5e-7, n, expected)).all(), (frequency, expected)
    assert (count <= binom.ppf(1 - 5e-7, n, expected)).all(), (frequency, expected)


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=repr)
def test_keeps_the_contract_of_its_role(protocol):
    check_availability(protocol)
    check_availability(protocol, example_population(5))


# -- probabilities by labels -----------------------------------------------------------------------


def test_label_dirichlet_is_fedau_s_formula():
    """max(.02, .1 · 4 · Σ share q): q is drawn once, at an address."""
    q = generator(3, "availability/labels").dirichlet(np.full(4, 0.1))
    expected = [max(0.02, 0.4 * sum(s * w for s, w in zip(row, q, strict=True))) for row in SHARES]
    given = LabelDirichlet(seed=3).of(FOUR)
    np.testing.assert_allclose(given, expected, rtol=1e-12)
    np.testing.assert_allclose(rates(fedau_bernoulli(seed=3), FOUR), expected, rtol=1e-12)
    assert not np.allclose(LabelDirichlet(seed=4).of(FOUR), given)


def test_label_dirichlet_has_the_mean_where_labels_are_balanced():
    """One client for each label: the mean of C · mean · q(y) over labels is `mean`, for any q."""
    one_each = Population(50, label_counts=np.eye(50))
    given = LabelDirichlet(mean=0.1, concentration=5.0, p_min=1e-9).of(one_each)
    assert math.isclose(given.mean(), 0.1)
    alike = Population(3, label_counts=np.ones((3, 7)))
    np.testing.assert_allclose(LabelDirichlet(mean=0.3).of(alike), 0.3)
    assert LabelDirichlet(mean=1.0, concentration=0.01).of(one_each).max() == 1.0  # cut


def test_label_halves_is_fedawe_s_formula():
    """Σ share u; u in [0, 1] for labels 0 and 1, in [0, ½] for 2 and 3."""
    u = generator(5, "availability/labels").random(4) * [1, 1, 0.5, 0.5]
    np.testing.assert_allclose(LabelHalves(seed=5).of(FOUR), SHARES @ u, rtol=1e-12)
    many = Population(2000, label_counts=np.eye(2000))
    given = LabelHalves().of(many)
    # means of uniforms: ½ and ¼, standard errors (1/√12)/√1000 and half of it
    assert abs(given[:1000].mean() - 0.5) < 5 / math.sqrt(12_000)
    assert abs(given[1000:].mean() - 0.25) < 2.5 / math.sqrt(12_000)
    assert given[1000:].max() <= 0.5


@pytest.mark.parametrize("chances", [LabelDirichlet(), LabelHalves()])
def test_labels_must_be_known(chances):
    words = f"{type(chances).__name__} needs population.label_counts"
    with pytest.raises(ValueError, match=words):
        Bernoulli(chances).init(Population(3))


# -- processes -------------------------------------------------------------------------------------


def test_markov_with_comes_back_by_hand():
    """b = .05: p = .1 leaves with a = .05 · 9 = .45; p = ½ with .05; p = .02: 2.45 > 1, so a = 1.

    Then b = .02/.98. One step after presence: 1 − a; after absence: b.
    """
    for p, leaves, back in [(0.1, 0.45, 0.05), (0.5, 0.05, 0.05), (0.02, 1.0, 0.02 / 0.98)]:
        mode = Markov(p, comes_back=0.05)
        state = mode.init(Population(400))
        np.testing.assert_allclose(mode.rates(state, 0), p)
        here = mode.draw(state, 0, generator(0, "a", 0))
        assert here.any()
        np.testing.assert_allclose(mode.rates(state, 1), np.where(here, 1 - leaves, back))


def test_markov_of_chances_is_each_client_s_own_chain():
    own = LabelDirichlet(mean=0.4, concentration=1.0)
    p = own.of(FOUR)
    both = Markov(own, comes_back=0.2)
    state = both.init(FOUR)
    here = both.draw(state, 0, generator(0, "a", 0))
    for client in range(4):
        alone = Markov(float(p[client]), comes_back=0.2)
        chain = alone.init(FOUR)
        chain.now, chain.t = here.astype(float), 0
        np.testing.assert_allclose(both.rates(state, 3)[client], alone.rates(chain, 3)[client])


def test_markov_sessions_too_short_for_a_client_s_own_p_are_refused():
    with pytest.raises(ValueError, match=r"session: expected at least p/\(1 - p\) = 9"):
        Markov(LabelDirichlet(mean=0.9), session=5).init(
            Population(2, label_counts=np.ones((2, 3)))
        )
    with pytest.raises(ValueError, match="memory: each client has its own"):
        _ = Markov(LabelDirichlet()).memory


def test_own_cycle_by_hand():
    """p = .3 of a cycle of 10: three rounds in a row, from a start of each client's own."""
    population = Population(200)
    here = attendance(OwnCycle(0.3, cycle=10), population, 40)
    np.testing.assert_array_equal(here.reshape(4, 10, 200).sum(axis=1), 3)
    begins = ((here[1:] == 1) & (here[:-1] == 0)).sum(axis=0)
    assert set(begins.tolist()) <= {3, 4}  # one visit a cycle
    # starts are uniform: a share .3 is there in round 0, as in any other
    assert_binomial(here[0].mean(), 0.3, 200)
    assert attendance(OwnCycle(0.001, cycle=10), population, 10).sum(axis=0).tolist() == [1] * 200
    assert attendance(OwnCycle(1.0, cycle=7), population, 9).all()


@pytest.mark.parametrize("protocol", [fedau_bernoulli, fedau_markov, fedau_cyclic])
def test_fedau_s_three_have_the_same_shares_in_the_long_run(protocol):
    """Over the seeds of the run (the cyclic one: over a cycle) p_i of all rounds."""
    p = LabelDirichlet(mean=0.3, concentration=1.0).of(FOUR)
    mode = protocol(mean=0.3, concentration=1.0)
    if protocol is fedau_cyclic:
        here = attendance(mode, FOUR, 100).mean(axis=0)
        np.testing.assert_allclose(here, p, atol=0.005)  # rounded to hundredths
        return
    frequency = draw_availability(mode, FOUR, [0, 6], seeds=1500)
    for row in frequency:
        assert_binomial(row, p, 1500)


def test_sine_by_hand():
    """.3 sin(2πt/20) + .7: .7 at 0, 1 at 5, .7 at 10, .4 at 15; below the cut 0."""
    for t, factor in {0: 0.7, 5: 1.0, 10: 0.7, 15: 0.4, 20: 0.7, 35: 0.4}.items():
        np.testing.assert_allclose(rates(Sine(0.5), FOUR, t), 0.5 * factor)
    cut = Sine(0.2, cut=0.1)
    np.testing.assert_allclose(rates(cut, FOUR, 10), 0.14)
    np.testing.assert_array_equal(rates(cut, FOUR, 15), 0.0)  # .08
    halves = LabelHalves(seed=2).of(FOUR)
    np.testing.assert_allclose(rates(fedawe_sine(seed=2), FOUR, 5), halves)
    interleaved = rates(fedawe_interleaved(seed=2), FOUR, 15)
    np.testing.assert_allclose(interleaved, np.where(0.4 * halves < 0.1, 0, 0.4 * halves))


def test_staircase_by_hand():
    """Ten rounds of p, ten of .4 p, and again."""
    for t, factor in {0: 1, 9: 1, 10: 0.4, 19: 0.4, 20: 1, 39: 0.4}.items():
        np.testing.assert_allclose(rates(Staircase(0.5), FOUR, t), 0.5 * factor)
    halves = LabelHalves(seed=2).of(FOUR)
    np.testing.assert_allclose(rates(fedawe_staircase(seed=2), FOUR, 12), 0.4 * halves)


@pytest.mark.parametrize("mode", [fedawe_sine(seed=2), fedawe_staircase(), fedawe_interleaved()])
def test_frequencies_are_the_rates(mode):
    rounds = [0, 5, 15]
    frequency = draw_availability(mode, FOUR, rounds, seeds=1500)
    for position, t in enumerate(rounds):
        assert_binomial(frequency[position], rates(mode, FOUR, t), 1500)


def test_groups_by_labels():
    """Commonest labels 2, 0, 1, 0, 2, 1: in order 1 3 | 2 5 | 0 4."""
    counts = np.eye(3)[[2, 0, 1, 0, 2, 1]] * 5 + 1
    here = attendance(Cyclic(3, 2, by="labels"), Population(6, label_counts=counts), 7)
    first, second, third = [0, 1, 0, 1, 0, 0], [0, 0, 1, 0, 0, 1], [1, 0, 0, 0, 1, 0]
    np.testing.assert_array_equal(here, [first, first, second, second, third, third, first])
    many = attendance(wang_ji_groups(), example_population(25), 500)
    np.testing.assert_array_equal(many.sum(axis=1), 5)  # a fifth, always
    np.testing.assert_array_equal(many.sum(axis=0), 100)  # 100 of 500 rounds each
    assert describe(Cyclic(3)) == {"class": "Cyclic", "n_groups": 3, "rounds_each": 1}


def test_arrivals_and_departures_by_hand():
    """Two from the start; from round 2 on one more every three rounds."""
    here = attendance(Arriving(2, start=2, every=3), Population(4), 7).sum(axis=1)
    np.testing.assert_array_equal(here, [2, 2, 3, 3, 3, 4, 4])
    here = attendance(Departing(1, start=1, every=2, at_once=2), Population(4), 6)
    np.testing.assert_array_equal(here.sum(axis=1), [4, 2, 2, 1, 1, 1])
    np.testing.assert_array_equal(here[1], [1, 1, 0, 0])
    assert not attendance(Departing(0, start=0, every=1, at_once=9), Population(4), 3).any()
    assert attendance(Arriving(0.5, start=0, at_once=1), Population(4), 1).sum() == 3


def test_round_robin_by_hand():
    """DPFL's picture: windows of two, one of them overlaps, two rounds each."""
    here = attendance(RoundRobin(2, 1, rounds_each=2), Population(4), 8)
    np.testing.assert_array_equal(
        here[::2], [[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1], [1, 0, 0, 1]]
    )
    np.testing.assert_array_equal(here[::2], here[1::2])
    shares = attendance(RoundRobin(0.5, 0.0), Population(8), 2)
    np.testing.assert_array_equal(shares, [[1] * 4 + [0] * 4, [0] * 4 + [1] * 4])


@pytest.mark.parametrize("rest", [0, 1, 4])
def test_minimum_separation(rest):
    """Never twice within R rounds; a share p/(1 + R p) of all rounds."""
    p = 0.6
    here = attendance(MinSeparation(rest, Bernoulli(p)), Population(40), 2000)
    for lag in range(1, rest + 1):
        assert not (here[lag:] & here[:-lag]).any()
    share = p / (1 + rest * p)
    # renewals: the variance of a count is at most that of independent rounds
    assert abs(here.mean() - share) < 6 * math.sqrt(share / here.size)
    np.testing.assert_array_equal(
        here[0], attendance(Bernoulli(p), Population(40), 1)[0]
    )  # as without the wrapper, until somebody rests


def test_a_round_drawn_again_is_the_same():
    mode = MinSeparation(2, Bernoulli(0.5))
    state = mode.init(Population(30))
    for t in range(8):
        before = mode.rates(state, t)
        here = mode.draw(state, t, generator(0, "a", t))
        np.testing.assert_array_equal(mode.rates(state, t), before)
        np.testing.assert_array_equal(mode.draw(state, t, generator(0, "a", t)), here)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Bernoulli("half"), r"p: expected a number in .0, 1., got 'half', and no value"),
        (lambda: Bernoulli(LabelDirichlet), "p: expected a number"),
        (lambda: Markov(comes_back=0), "comes_back: .* got 0"),
        (lambda: LabelDirichlet(mean=0), "mean: .* got 0"),
        (lambda: LabelDirichlet(concentration=0), "concentration: .* got 0"),
        (lambda: LabelDirichlet(p_min=0), "p_min: .* got 0"),
        (lambda: LabelHalves(first=1.2), "first: .* got 1.2"),
        (lambda: OwnCycle(cycle=0), "cycle: .* got 0"),
        (lambda: Sine(amplitude=0.6), "amplitude: .* got 0.6"),
        (lambda: Staircase(low=2), "low: .* got 2"),
        (lambda: Cyclic(by="labels"), "by: expected n_groups with 'labels'"),
        (lambda: Cyclic(2, by="sizes"), "by: expected one of 'ids', 'labels', got 'sizes'"),
        (lambda: Arriving(-1), "initial: .* got -1"),
        (lambda: Arriving(9).draw(Arriving(9).init(Population(3)), 0, None), "initial: .* <= 3"),
        (lambda: Departing(at_once=0), "at_once: .* got 0"),
        (lambda: RoundRobin(present=0), "present: .* got 0"),
        (lambda: RoundRobin(3, 3), "overlap: .* <= 2, got 3"),
        (lambda: MinSeparation(-1), "rounds: .* got -1"),
        (lambda: MinSeparation(1, Bernoulli), "inner: expected a part"),
    ],
)
def test_wrong_parameters_are_named(make, words):
    with pytest.raises((ValueError, TypeError), match=words):
        make()


def test_a_study_names_them():
    """A name for each protocol, and a table for each client's own p, with the run's seed."""
    study = Study(
        name="protocols",
        data={"name": "digits", "partition": "dirichlet", "n_clients": 4},
        model="softmax",
        strategies={"fedavg": "fedavg"},
        availability={
            "fedau": {"name": "fedau_markov", "seed": "run"},
            "own": {"name": "bernoulli", "p": {"name": "label_halves", "first": 0.9}},
            "rest": {"name": "min_separation", "rounds": 1, "inner": "fedawe_sine"},
            "two at first": {"name": "arriving", "initial": 2},
        },
        rounds=2,
        seeds=[0, 7],
    )
    made = {
        (cell.labels["availability"], cell.seed): cell.task.availability for cell in study.cells()
    }
    assert made["fedau", 7] == fedau_markov(seed=7)
    assert made["own", 0] == Bernoulli(LabelHalves(first=0.9))
    assert type(made["two at first", 0].initial) is int  # clients, no share
    assert made["rest", 0] == MinSeparation(1, fedawe_sine())
    assert {"fedau_cyclic", "round_robin"} <= set(registry.AVAILABILITY)
