"""Who can be reached: exact numbers, kept groups, and frequencies against the stated rates."""

import itertools
import re
from dataclasses import fields

import numpy as np
import pytest
from scipy.stats import binom

import understudy
from understudy import registry
from understudy.core.describe import describe
from understudy.core.rng import generator
from understudy.core.types import Population
from understudy.parts.availability import (
    Always,
    Bernoulli,
    FixedDropout,
    VanishingDropout,
    fdms_dropout,
)
from understudy.parts.recordings.two_state import read_two_state
from understudy.parts.schedules import InverseRoot, InverseRootHorizon


def draws(availability, population, rounds, seed=0):
    """(len(rounds), N) attendance."""
    state = availability.init(population)
    return np.array(
        [availability.draw(state, t, generator(seed, "availability", t)) for t in rounds]
    )


def assert_frequencies(present, rates, n):
    """Each client's count lies where all but 1e-6 of a binomial's probability does."""
    low, high = binom.ppf(5e-7, n, rates), binom.ppf(1 - 5e-7, n, rates)
    assert (present >= low).all(), (present / n, rates)
    assert (present <= high).all(), (present / n, rates)


def test_always_means_everyone():
    population = Population(4)
    assert draws(Always(), population, range(5)).all()
    np.testing.assert_array_equal(Always().rates(Always().init(population), 3), np.ones(4))


def test_bernoulli_draws_its_probabilities_once_from_its_own_seed():
    population = Population(500)
    state = Bernoulli(p_min=0.3, seed=7).init(population)
    assert state.p.min() >= 0.3
    assert state.p.max() <= 1.0
    # a uniform mean of 0.65 with standard deviation 0.7/sqrt(12 * 500) = 0.009, five of them
    assert abs(state.p.mean() - 0.65) < 0.045
    again, other = (Bernoulli(p_min=0.3, seed=seed).init(population) for seed in (7, 8))
    np.testing.assert_array_equal(state.p, again.p)
    assert not np.array_equal(state.p, other.p)
    np.testing.assert_array_equal(Bernoulli(p_min=0.3, seed=7).rates(state, 0), state.p)


def test_bernoulli_with_one_probability_for_everyone():
    availability, population = Bernoulli(0.2), Population(30)
    rates = availability.rates(availability.init(population), 4)
    np.testing.assert_array_equal(rates, np.full(30, 0.2))
    assert_frequencies(draws(availability, population, range(2000)).sum(axis=0), rates, 2000)
    assert draws(Bernoulli(1), Population(5), range(50)).all()
    assert not draws(Bernoulli(0), Population(5), range(50)).any()


def test_fedars_form_is_described_as_before_the_other_was_added():
    """A field that was added is not told while it has its default: cells keep their keys."""
    told = describe(Bernoulli(p_min=0.1))
    told = {name: value for name, value in told.items() if value is not None}
    assert told == {"class": "Bernoulli", "p_min": 0.1, "seed": 0}
    (added,) = [item for item in fields(Bernoulli) if "added" in item.metadata]
    assert (added.name, added.default) == ("p", None)


def test_bernoulli_is_told_one_of_two_things():
    expected = (
        "Bernoulli: expected either p, the probability of everyone, or p_min, where each client's "
        "is drawn from [p_min, 1], got "
    )
    for given, came in {(): "neither", (0.3, 0.1): "p=0.3 and p_min=0.1"}.items():
        with pytest.raises(ValueError, match=re.escape(expected + came)):
            Bernoulli(*given)


def test_bernoulli_frequencies_are_its_rates():
    availability, population = Bernoulli(p_min=0.05), Population(30)
    rates = availability.rates(availability.init(population), 0)
    assert_frequencies(draws(availability, population, range(2000)).sum(axis=0), rates, 2000)


def test_bernoulli_rounds_are_independent_of_each_other():
    """Neighbouring rounds agree as often as independent ones: mean of p² + (1 - p)²."""
    availability, population = Bernoulli(p_min=0.2), Population(40)
    p = availability.init(population).p
    attendance = draws(availability, population, range(1000))
    agree = (attendance[1:] == attendance[:-1]).mean()
    expected = (p**2 + (1 - p) ** 2).mean()
    # standard deviation below 0.5 / sqrt(39960) = 0.0025; neighbours share rounds, hence twice it
    assert abs(agree - expected) < 0.025


def test_bernoulli_may_leave_a_round_empty_and_reaches_everyone_at_one():
    assert not draws(Bernoulli(p_min=0.0, seed=3), Population(1), range(200)).all()
    assert (~draws(Bernoulli(p_min=0.0, seed=3), Population(2), range(200))).all(axis=1).any()
    assert draws(Bernoulli(p_min=1.0), Population(5), range(50)).all()


@pytest.mark.parametrize(
    ("alpha", "n_clients", "missing"),
    [(0.0, 20, 0), (0.3, 20, 6), (0.5, 20, 10), (0.7, 20, 14), (0.33, 7, 2), (1.0, 5, 5)],
)
def test_exactly_round_alpha_n_are_missing(alpha, n_clients, missing):
    attendance = draws(FixedDropout(alpha), Population(n_clients), range(40))
    np.testing.assert_array_equal((~attendance).sum(axis=1), missing)


def test_round_0_is_full_only_if_it_is_to_be():
    population = Population(20)
    full, not_full = FixedDropout(0.7, first_round_full=True), FixedDropout(0.7)
    assert draws(full, population, [0]).all()
    assert draws(not_full, population, [0]).sum() == 6
    np.testing.assert_array_equal(full.rates(full.init(population), 0), np.ones(20))
    np.testing.assert_allclose(full.rates(full.init(population), 1), 0.3)
    np.testing.assert_allclose(not_full.rates(not_full.init(population), 0), 0.3)


def test_fixed_dropout_alone_is_plain_absence():
    """α N of all clients in every round, also the first, whatever groups there are."""
    availability, population = FixedDropout(0.7), Population(20, groups=np.arange(20) // 4)
    assert availability == FixedDropout(0.7, keep_one_per_group=False, first_round_full=False)
    attendance = draws(availability, population, range(200))
    np.testing.assert_array_equal(attendance.sum(axis=1), 6)
    by_group = attendance.reshape(-1, 5, 4).any(axis=2)
    assert not by_group.all(axis=1).all()
    np.testing.assert_allclose(availability.rates(availability.init(population), 0), 0.3)
    np.testing.assert_array_equal(attendance, draws(availability, Population(20), range(200)))


def test_vanishing_dropout_by_hand():
    """20 clients, α = ½: 10/√(t + 1) is 10, 7.07, 5.77, 5 and, at t = 399, ½, rounded to even: 0;
    10/(t + 1) is 10, 5, 3.33."""
    attendance = draws(VanishingDropout(0.5), Population(20), [0, 1, 2, 3, 399])
    np.testing.assert_array_equal(20 - attendance.sum(axis=1), [10, 7, 6, 5, 0])
    attendance = draws(VanishingDropout(0.5, power=1), Population(20), range(3))
    np.testing.assert_array_equal(20 - attendance.sum(axis=1), [10, 5, 3])
    availability = VanishingDropout(0.5)
    np.testing.assert_allclose(availability.rates(availability.init(Population(20)), 1), 13 / 20)


def test_inverse_root():
    """1/√(t/period + 1): 1, then a half at t = 3 periods."""
    assert [InverseRoot()(t) for t in (0, 30, 80)] == pytest.approx([1, 1 / 2, 1 / 3])
    assert InverseRoot(1)(3) == 1 / 2


def test_inverse_root_horizon():
    """1/√25 in every round."""
    assert [InverseRootHorizon(25)(t) for t in (0, 1, 99)] == [0.2] * 3


def test_fdms_dropout_is_a_fixed_dropout_with_both_options():
    """The same class, so that a cell or a checkpoint of before is found again under its name."""
    made = fdms_dropout(0.7)
    assert made == FixedDropout(0.7, keep_one_per_group=True, first_round_full=True)
    assert describe(made) == {
        "class": "FixedDropout", "alpha": 0.7, "keep_one_per_group": True,
        "first_round_full": True, "counts": "compositions",
    }  # fmt: skip
    assert describe(made) != describe(FixedDropout(0.7))
    assert registry.AVAILABILITY["fdms_dropout"] is understudy.fdms_dropout is fdms_dropout
    with pytest.raises(ValueError, match=r"alpha: expected a number in .0, 1., got 2"):
        fdms_dropout(2)


UNEQUAL = np.array([5, 5, 9, 9, 9, 9, 9, 9, 9, 2, 2, 2])  # groups of 2, 7 and 3


def test_every_group_keeps_one():
    population = Population(12, groups=UNEQUAL)
    attendance = draws(FixedDropout(0.75, keep_one_per_group=True), population, range(1, 200))
    np.testing.assert_array_equal(attendance.sum(axis=1), 3)
    for group in (2, 5, 9):
        np.testing.assert_array_equal(attendance[:, group == UNEQUAL].sum(axis=1), 1)


def compositions(sizes, total):
    """All vectors of counts, tried one by one."""
    every = itertools.product(*(range(1, size + 1) for size in sizes))
    return np.array([counts for counts in every if sum(counts) == total])


def test_rates_by_compositions_by_hand():
    """Groups of 2, 7 and 3 (in the order 2, 3, 7 of their names: 3, 2, 7), 6 of 12 present.

    (n of the 3, n of the 2, n of the 7), sum 6: 1+1+4, 1+2+3, 2+1+3, 2+2+2, 3+1+2, 3+2+1: six,
    whose means are 12/6 = 2, 9/6 = 1.5 and 15/6 = 2.5. Divided by the sizes: 2/3, 3/4, 5/14.
    """
    availability = fdms_dropout(alpha=0.5)
    rates = availability.rates(availability.init(Population(12, groups=UNEQUAL)), 1)
    np.testing.assert_allclose(rates, [3 / 4] * 2 + [5 / 14] * 7 + [2 / 3] * 3, rtol=1e-12)


@pytest.mark.parametrize(("present", "spread"), [(14, 0.0283), (10, 0.0495), (6, 0.0222)])
def test_the_papers_clusters_are_as_uneven_as_the_authors_code_makes_them(present, spread):
    """20 clients in 5 clusters of 4, α = .3, .5, .7: E Σ_c (n_c/S − 1/5)² over compositions."""
    counts = compositions([4] * 5, present)
    expected = ((counts / present - 0.2) ** 2).sum(axis=1).mean()
    assert expected == pytest.approx(spread, abs=5e-5)
    groups = np.repeat(np.arange(5), 4)
    drawn = draws(fdms_dropout(1 - present / 20), Population(20, groups=groups), range(1, 4001))
    np.testing.assert_array_equal(drawn.sum(axis=1), present)
    found = drawn.reshape(-1, 5, 4).sum(axis=2)
    assert found.min() >= 1
    squares = ((found / present - 0.2) ** 2).sum(axis=1)
    # a mean of 4,000 draws: five of its standard errors
    assert abs(squares.mean() - expected) < 5 * squares.std() / np.sqrt(4000) + 1e-12


def test_all_compositions_are_equally_likely():
    every = compositions([3, 2, 7], 6)
    drawn = draws(fdms_dropout(0.5), Population(12, groups=UNEQUAL), range(1, 6001))
    found = np.stack([drawn[:, UNEQUAL == group].sum(axis=1) for group in (2, 5, 9)], axis=1)
    frequency = (found[:, None, :] == every[None]).all(axis=2).sum(axis=0)
    assert frequency.sum() == 6000
    assert_frequencies(frequency, np.full(len(every), 1 / len(every)), 6000)


def test_more_compositions_than_a_float_can_count():
    """300 groups of 12, 1,800 of 3,600 present: E n_c = 6 for each by symmetry, a rate of 1/2."""
    availability = fdms_dropout(0.5)
    population = Population(3600, groups=np.repeat(np.arange(300), 12))
    state = availability.init(population)
    np.testing.assert_allclose(availability.rates(state, 1), 0.5, rtol=1e-9)
    counts = availability.draw(state, 1, np.random.default_rng(0)).reshape(300, 12).sum(axis=1)
    assert (counts.sum(), counts.min() >= 1) == (1800, True)


def test_without_groups_the_counts_of_groups_do_not_matter():
    one, other = (fdms_dropout(0.5, counts=counts) for counts in ("compositions", "clients"))
    rounds = range(1, 30)
    np.testing.assert_array_equal(
        draws(one, Population(9), rounds), draws(other, Population(9), rounds)
    )


def test_descriptions_of_before_are_those_of_counts_by_clients():
    assert "counts" not in describe(FixedDropout(0.5, counts="clients"))
    assert describe(FixedDropout(0.5))["counts"] == "compositions"


def test_rates_with_groups_by_hand():
    """P = 6 present of N = 12 in G = 3 groups: 1/s + (1 - 1/s)(6 - 3)/(12 - 3).

    s = 2: 1/2 + 1/6 = 2/3;  s = 7: 1/7 + 2/7 = 3/7;  s = 3: 1/3 + 2/9 = 5/9. They sum to
    4/3 + 3 + 5/3 = 6.
    """
    availability = fdms_dropout(alpha=0.5, counts="clients")
    rates = availability.rates(availability.init(Population(12, groups=UNEQUAL)), 1)
    np.testing.assert_allclose(rates, [2 / 3] * 2 + [3 / 7] * 7 + [5 / 9] * 3)


@pytest.mark.parametrize("counts", ["compositions", "clients"])
def test_frequencies_with_groups_are_the_rates(counts):
    availability = fdms_dropout(alpha=0.5, counts=counts)
    population = Population(12, groups=UNEQUAL)
    rates = availability.rates(availability.init(population), 1)
    present = draws(availability, population, range(1, 6001)).sum(axis=0)
    assert_frequencies(present, rates, 6000)


def test_groups_count_only_when_asked_for():
    population = Population(12, groups=UNEQUAL)
    availability = FixedDropout(alpha=0.75)
    attendance = draws(availability, population, range(1, 400))
    np.testing.assert_array_equal(attendance.sum(axis=1), 3)
    assert (attendance[:, UNEQUAL == 5].sum(axis=1) == 0).any()
    np.testing.assert_allclose(availability.rates(availability.init(population), 1), 0.25)


def test_each_client_its_own_group_means_nobody_is_missing():
    availability, population = fdms_dropout(alpha=0.0), Population(3, groups=[0, 1, 2])
    assert draws(availability, population, range(3)).all()
    np.testing.assert_allclose(availability.rates(availability.init(population), 1), 1.0)


def test_groups_that_cannot_all_be_kept_are_an_error_with_the_numbers():
    with pytest.raises(ValueError, match=r"10 of 12 clients missing.*3 groups \[2, 5, 9\]"):
        fdms_dropout(alpha=0.8).init(Population(12, groups=UNEQUAL))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Bernoulli(p_min=1.5), "p_min: expected a number in .0, 1., got 1.5"),
        (lambda: Bernoulli(1.5), "^p: expected a number in .0, 1., got 1.5"),
        (lambda: Bernoulli(0.5, seed=-1), "seed: expected a whole number >= 0, got -1"),
        (lambda: FixedDropout(alpha=-0.1), "alpha: expected a number in .0, 1., got -0.1"),
        (lambda: FixedDropout(counts="even"), "counts: expected .*'compositions'.* got 'even'"),
        (lambda: FixedDropout(keep_one_per_group="yes"), "keep_one_per_group: .* got 'yes'"),
    ],
)
def test_wrong_parameters_fail_at_construction(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_a_draw_depends_on_its_address_alone():
    availability, population = FixedDropout(0.5), Population(10)
    backwards = draws(availability, population, [3, 2, 1])[::-1]
    np.testing.assert_array_equal(draws(availability, population, [1, 2, 3]), backwards)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"device,t_s,state\n\xff\xfe,1,AVL_TRAIN\n", "expected a CSV file in UTF-8"),
        (b"device,t_s,state\n" + b"a" * 200_000 + b",1,AVL_TRAIN\n", "expected a CSV file"),
        (b"device,t_s,state\na,1e300,AVL_TRAIN\n", "<= 1e+10, got '1e300'"),
        (b"device,t_s,state\na,1," + b"x" * 100_000 + b"\n", "expected state to be"),
        (b"x" * 100_000, "line 1: expected the header"),
        (b"device,t_s,state\na,1,UN_AVL\n\xfc,2,UN_AVL\n", "line 3: expected a CSV file in UTF-8"),
        (b"device,t_s,state\n" + b"a" * 200_000 + b",1,UN_AVL\n", "line 2: expected a CSV file"),
        (b"device,t_s,state\na,1,UN_AVL\na\x00,2,UN_AVL\n", "line 3: expected a CSV file, got a"),
        (b"\xff\xfed\x00e\x00", "line 1: expected a CSV file in UTF-8, got the byte 0xff"),
        (b"device,t_s,state\n,1,UN_AVL\n", "line 2: expected the name of a device"),
        (b'device,t_s,state\n"a\nb",1,UN_AVL\n', "line 3: expected the name of a device"),
        (b"device,t_s,state\na,1,UN_AVL,4\n", "line 2: expected device,t_s,state"),
        (b"device,t_s,state\na,nan,UN_AVL\n", "line 2: expected t_s to be a number"),
        (b"device,device,state\n", "line 1: expected the header device,t_s,state"),
        (b"," * 1_000_000, "line 1: expected the header device,t_s,state"),
        (b"", "line 1: expected the header"),
        (b"device,t_s,state\n", "expected at least one line after the header"),
    ],
)
def test_a_trace_that_is_none_is_a_short_error_that_names_the_file(tmp_path, content, words):
    path = tmp_path / "trace.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"trace\.csv") as refused:
        read_two_state(path)
    assert words in str(refused.value)
    assert len(str(refused.value)) < 500
