"""The skewed, sticky, periodic and recorded availabilities: formulas by hand, then frequencies."""

import csv
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from understudy.core.rng import generator
from understudy.core.types import Population
from understudy.parts.availability import (
    Bernoulli,
    Cyclic,
    Diurnal,
    LabelBernoulli,
    LessDataFirst,
    LogNormal,
    Markov,
    MoreDataFirst,
    SinLogNormal,
    Trace,
    YCycle,
    YMaxFirst,
)
from understudy.parts.availability.skewed import draw_somebody, repeated_rates
from understudy.parts.recordings.two_state import read_two_state
from understudy.server.state import leaves
from understudy.testing import check_availability, draw_availability, example_population

FOUR = Population(
    4,
    n_examples=[100, 50, 25, 10],
    # C = 5; the smallest labels are 0, 1, 2, 4
    label_counts=[[9, 0, 0, 0, 1], [0, 5, 5, 0, 0], [0, 0, 2, 2, 2], [0, 0, 0, 0, 7]],
)
MODES = [
    MoreDataFirst(),
    LessDataFirst(),
    YMaxFirst(),
    YCycle(),
    LogNormal(),
    SinLogNormal(),
    LabelBernoulli(),
    Markov(),
    Markov(p=0.2, session=8),
    Markov(p=0.5, session=1),
    Cyclic(),
    Cyclic(n_groups=3, rounds_each=2),
    Diurnal(),
]


def rates(availability, population, t=0):
    return availability.rates(availability.init(population), t)


def chances(availability, population, t):
    return availability.chances(availability.init(population), t)


def attendance(availability, population, rounds, seed=0):
    """(len(rounds), N) of bool."""
    state = availability.init(population)
    return np.array(
        [availability.draw(state, t, generator(seed, "availability", t)) for t in rounds]
    )


def assert_binomial(frequency, expected, n):
    """Each count lies where all but 1e-6 of its binomial's probability does."""
    count = np.rint(np.asarray(frequency) * n)
    assert (count >= binom.ppf(5e-7, n, expected)).all(), (frequency, expected)
    assert (count <= binom.ppf(1 - 5e-7, n, expected)).all(), (frequency, expected)


@pytest.mark.parametrize("mode", MODES, ids=repr)
def test_keeps_the_contract_of_its_role(mode):
    check_availability(mode)
    check_availability(mode, FOUR if mode != Cyclic() else example_population(3))


@pytest.mark.parametrize("mode", MODES, ids=repr)
def test_state_is_arrays_and_numbers(mode):
    for place, value in leaves(mode.init(example_population())):
        assert isinstance(value, np.ndarray | int | float), place


# -- FedGS's modes ---------------------------------------------------------------------------------


def test_more_data_first_by_hand():
    """n = 100, 50, 25, 10: (n/100)^β. β = 1/2: 1, √½, ½, √0.1; β = 0.9: 1, 2^−0.9, 4^−0.9, …"""
    np.testing.assert_allclose(rates(MoreDataFirst(0.5), FOUR), [1, 0.70711, 0.5, 0.31623], 1e-4)
    np.testing.assert_allclose(
        rates(MoreDataFirst(), FOUR), [1, 2**-0.9, 4**-0.9, 10**-0.9], rtol=1e-12
    )
    np.testing.assert_array_equal(rates(MoreDataFirst(0), FOUR), 1)


def test_less_data_first_by_hand():
    """n^−β / 10^−β = (10/n)^β. β = 1: 1/10, 1/5, 2/5, 1; β = 0.9: those to the power of 0.9."""
    np.testing.assert_allclose(rates(LessDataFirst(1), FOUR), [0.1, 0.2, 0.4, 1])
    np.testing.assert_allclose(
        rates(LessDataFirst(), FOUR), [0.125893, 0.234924, 0.438387, 1], rtol=1e-5
    )


def test_y_max_first_by_hand():
    """0.9 · min/4 + 0.1 for smallest labels 0, 1, 2, 4: 0.1, 0.325, 0.55, 1."""
    np.testing.assert_allclose(chances(YMaxFirst(), FOUR, 0), [0.1, 0.325, 0.55, 1.0])
    np.testing.assert_allclose(chances(YMaxFirst(0.5), FOUR, 3), [0.5, 0.625, 0.75, 1.0])


def test_label_bernoulli_by_hand():
    """p_min + (1 − p_min) · min/4; the formula of YMaxFirst(1 − p_min)."""
    np.testing.assert_allclose(rates(LabelBernoulli(0.1), FOUR), [0.1, 0.325, 0.55, 1.0])
    np.testing.assert_allclose(rates(LabelBernoulli(0.5), FOUR), chances(YMaxFirst(0.5), FOUR, 0))


def test_y_cycle_over_its_period():
    """C = 5, T = 50: label y has rounds 10 y .. 10 y + 9; clients hold {0,4} {1,2} {2,3,4} {4}."""
    turns = {0: [1, 0, 0, 0], 1: [0, 1, 0, 0], 2: [0, 1, 1, 0], 3: [0, 0, 1, 0], 4: [1, 0, 1, 1]}
    mode = YCycle(0.9)
    for t in range(100):
        expected = np.where(turns[(t % 50) // 10], 1.0, 0.1)
        np.testing.assert_allclose(chances(mode, FOUR, t), expected, err_msg=f"round {t}")


@given(n_classes=st.integers(1, 13), t=st.integers(0, 400))
def test_y_cycle_is_the_papers_inequality_without_rounding(n_classes, t):
    """Who holds y alone is on iff y/C < r ≤ (y + 1)/C, r = (1 + t mod T)/T, in exact fractions."""
    period = 10 * n_classes
    r = Fraction(1 + t % period, period)
    expected = [Fraction(y, n_classes) < r <= Fraction(y + 1, n_classes) for y in range(n_classes)]
    population = Population(n_classes, label_counts=np.eye(n_classes))
    np.testing.assert_array_equal(chances(YCycle(1.0), population, t), expected)


def test_log_normal_by_hand():
    """β = ½: ln c = z ln 2 with z standard normal, so c/max c = 2^(z − max z)."""
    z = generator(3, "availability/init").normal(size=4)
    np.testing.assert_allclose(rates(LogNormal(0.5, seed=3), FOUR), 2 ** (z - z.max()))
    np.testing.assert_array_equal(rates(LogNormal(0, seed=3), FOUR), 1)
    other = rates(LogNormal(0.5, seed=4), FOUR)
    assert not np.allclose(other, rates(LogNormal(0.5, seed=3), FOUR))


@pytest.mark.parametrize("beta", [0.1, 0.5, 0.9])
def test_log_normal_has_the_stated_width(beta):
    """sd of ln c is ln 1/(1 − β), with standard error sd/√(2n); 68.27 % lie within one sd."""
    n = 20_000
    logarithm = np.log(rates(LogNormal(beta), Population(n)))
    width = math.log(1 / (1 - beta))
    assert abs(logarithm.std() - width) < 5 * width / math.sqrt(2 * n)
    within = (np.abs(logarithm - logarithm.mean()) < width).mean()
    assert abs(within - 0.6827) < 5 * math.sqrt(0.6827 * 0.3173 / n)


def test_sin_log_normal_over_a_day():
    """Times 0.4 sin(2π (1 + t mod 24)/24) + 0.5.

    t = 0: 0.4 sin 15° + 0.5 = 0.60353;  1: 0.4 · ½ + 0.5 = 0.7;  5: 0.9;  11: 0.5;  13: 0.3;
    17: 0.1;  23: 0.5;  and round 24 is round 0 again.
    """
    mode = SinLogNormal(0.5, seed=3)
    base = rates(LogNormal(0.5, seed=3), FOUR)
    factors = {0: 0.60353, 1: 0.7, 5: 0.9, 11: 0.5, 13: 0.3, 17: 0.1, 23: 0.5, 24: 0.60353, 41: 0.1}
    for t, factor in factors.items():
        np.testing.assert_allclose(chances(mode, FOUR, t), base * factor, rtol=1e-5)
    day = [chances(mode, FOUR, t).max() for t in range(24)]
    assert math.isclose(sum(day), 12.0)  # the sine sums to zero over a day
    assert int(np.argmax(day)) == 5
    assert int(np.argmin(day)) == 17


@pytest.mark.parametrize("mode", [MoreDataFirst(), LessDataFirst(), LogNormal(0.6, seed=1)])
def test_frequencies_of_modes_in_which_somebody_always_comes(mode):
    frequency = draw_availability(mode, FOUR, [0, 2], seeds=2000)
    assert_binomial(frequency, rates(mode, FOUR), 2000)


@pytest.mark.parametrize("mode", [YMaxFirst(0.99), YCycle(), SinLogNormal(seed=1)])
def test_frequencies_of_modes_that_repeat_an_empty_draw(mode):
    """p_k / (1 − Π(1 − p)) each, and nobody's absence leaves a round empty."""
    population = Population(3, label_counts=[[1, 0, 0], [1, 1, 0], [2, 0, 1]])
    rounds = [0, 12, 17]
    frequency = draw_availability(mode, population, rounds, seeds=2000)
    for position, t in enumerate(rounds):
        p = chances(mode, population, t)
        assert_binomial(frequency[position], p / (1 - np.prod(1 - p)), 2000)
    assert attendance(mode, population, range(300)).any(axis=1).all()


def test_repeated_rates_by_hand():
    """Two coins: three of four outcomes count, in two of them the first is there. Tiny p: 1/N."""
    np.testing.assert_allclose(repeated_rates(np.array([0.5, 0.5])), 2 / 3)
    np.testing.assert_allclose(repeated_rates(np.full(4, 1e-18)), 1 / 4)
    np.testing.assert_allclose(repeated_rates(np.array([1.0, 0.3])), [1.0, 0.3])
    np.testing.assert_allclose(repeated_rates(np.array([0.2, 0.0])), [1.0, 0.0])


def test_an_empty_draw_is_repeated_with_the_next_numbers():
    p = np.array([0.05, 0.02])
    rng, twin = generator(1, "availability", 4), generator(1, "availability", 4)
    tries = 0
    here = np.zeros(2, dtype=bool)
    while not here.any():
        here, tries = twin.random(2) <= p, tries + 1
    assert tries > 1
    np.testing.assert_array_equal(draw_somebody(p, rng, "mode"), here)
    assert rng.random() == twin.random()


def test_rounds_nobody_can_come_in_are_errors_that_name_the_mode():
    zeros = Population(2, label_counts=[[3, 0], [1, 2]])  # both hold label 0: p = 0 at β = 1
    mode = YMaxFirst(beta=1)
    with pytest.raises(ValueError, match="YMaxFirst: no client can ever come"):
        mode.draw(mode.init(zeros), 0, generator(0, "availability", 0))
    unheld = Population(2, label_counts=[[3, 0], [1, 0]])
    cycle = YCycle(beta=1)
    with pytest.raises(ValueError, match=r"YCycle \(round 10\): no client can ever come"):
        cycle.draw(cycle.init(unheld), 10, generator(0, "availability", 10))
    with pytest.raises(ValueError, match=r"a mode: no client came in 10000 draws.*1e-12"):
        draw_somebody(np.array([1e-12]), generator(0, "availability", 0), "a mode")


NAN = float("nan")


@pytest.mark.parametrize(
    ("mode", "population", "words"),
    [
        (MoreDataFirst(), Population(2), "MoreDataFirst needs population.n_examples.*n_examples="),
        (LessDataFirst(), Population(2, n_examples=[1, NAN]), "that of client 1 is unknown"),
        (YMaxFirst(), Population(2), "YMaxFirst needs population.label_counts.*label_counts="),
        (YCycle(), Population(1, label_counts=[[0, 0]]), "YCycle needs .* client 0 has"),
        (LabelBernoulli(), Population(1, label_counts=[[4]]), "at least two classes.* of 1"),
        (YMaxFirst(), Population(2, label_counts=[[1, 1], [NAN, NAN]]), "client 1 has"),
        (Cyclic(), Population(3), r"Cyclic needs population.groups.*Cyclic\(n_groups=4\)"),
        (Cyclic(n_groups=5), Population(3), "n_groups: expected at most .* 3, got 5"),
    ],
)
def test_what_is_not_known_is_an_error_that_says_how_to_give_it(mode, population, words):
    with pytest.raises(ValueError, match=words):
        mode.init(population)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: MoreDataFirst(-0.1), "beta: expected a number in .0, inf., got -0.1"),
        (lambda: YMaxFirst(1.1), "beta: expected a number in .0, 1., got 1.1"),
        (lambda: LogNormal(1.0), "beta: expected a number in .0, 1., got 1.0"),
        (lambda: SinLogNormal(seed=-2), "seed: .* got -2"),
        (lambda: LabelBernoulli(2), "p_min: .* got 2"),
        (lambda: Markov(p=0), "p: expected a number in .0, 1., got 0"),
        (lambda: Markov(session=0.5), "session: .* got 0.5"),
        (lambda: Markov(p=0.9, session=5), r"session: expected at least p/\(1 - p\) = 9 .* got 5"),
        (lambda: Cyclic(0), "n_groups: .* got 0"),
        (lambda: Cyclic(rounds_each=0), "rounds_each: .* got 0"),
        (lambda: Diurnal(low=0.5, high=0.4), "high: expected a number in .0.5, 1., got 0.4"),
        (lambda: Diurnal(period=0), "period: .* got 0"),
        (lambda: Trace("x.csv", seconds_per_round=0), "seconds_per_round: .* got 0"),
        (lambda: Trace(7), "file: expected the path of a CSV file, got 7"),
    ],
)
def test_wrong_parameters_fail_at_construction(make, words):
    with pytest.raises(ValueError, match=words):
        make()


# -- Markov ----------------------------------------------------------------------------------------


def test_markov_rates_by_hand():
    """p = ¼, session = 2: leaves with a = ½, comes back with b = ½ · ¼/¾ = 1/6."""
    mode = Markov(p=0.25, session=2)
    state = mode.init(Population(50))
    np.testing.assert_array_equal(mode.rates(state, 0), 0.25)
    here = mode.draw(state, 0, generator(0, "availability", 0))
    assert here.any()
    assert not here.all()
    np.testing.assert_allclose(mode.rates(state, 1), np.where(here, 1 / 2, 1 / 6))
    # two steps: ½·½ + ½·1/6 = 1/3 from there, 1/6·½ + 5/6·1/6 = 2/9 from away
    np.testing.assert_allclose(mode.rates(state, 2), np.where(here, 1 / 3, 2 / 9))
    assert math.isclose(mode.memory, 1 / 3)


def test_markov_round_that_was_drawn_can_be_asked_for_again():
    mode, population = Markov(0.4, 6), Population(30)
    state = mode.init(population)
    for t in range(5):
        before = mode.rates(state, t)
        here = mode.draw(state, t, generator(0, "availability", t))
        np.testing.assert_array_equal(mode.rates(state, t), before)
        np.testing.assert_array_equal(mode.draw(state, t, generator(0, "availability", t)), here)
        np.testing.assert_array_equal(mode.rates(state, t), before)
    with pytest.raises(ValueError, match="t: expected round 4 or a later one, got 3"):
        mode.rates(state, 3)


def test_markov_is_stationary():
    """In rounds 0, 1, 6 of 60 runs, each of 50 clients is there with probability p."""
    frequency = draw_availability(Markov(0.3, 7), Population(50), [0, 1, 6], seeds=60)
    assert_binomial(frequency.mean(axis=1), np.full(3, 0.3), 60 * 50)


@pytest.mark.parametrize(("p", "session"), [(0.3, 7), (0.6, 1.5), (0.5, 2)])
def test_markov_autocorrelation_and_session_length(p, session):
    """Correlation 1 − 1/(session (1 − p)), to the power of the lag; visits last `session` rounds.

    1,000 rounds of 80 clients; rounds are correlated for about (1 + ρ)/(1 − ρ) of them, ≤ 9.
    """
    mode = Markov(p, session)
    here = attendance(mode, Population(80), range(1000)).astype(float)
    away = here - p
    for lag in (1, 2, 3):
        correlation = (away[lag:] * away[:-lag]).mean() / (p * (1 - p))
        # five standard errors of at most 9 / sqrt(80,000)
        assert abs(correlation - mode.memory**lag) < 5 * 9 / math.sqrt(80_000), lag
    begun = ((here[1:] == 1) & (here[:-1] == 0)).sum()
    # visits are geometric: a mean of about begun of them has standard deviation < session/√begun
    assert abs(here[1:].sum() / begun - session) < 6 * session / math.sqrt(begun)


def test_markov_limits():
    """p = 1: always; session = 1/(1 − p): independent; p = ½, session = 1: alternating."""
    assert attendance(Markov(1.0, 3), Population(5), range(20)).all()
    independent = Markov(0.75, 4)
    state = independent.init(Population(6))
    for t in range(4):
        np.testing.assert_allclose(independent.rates(state, t), 0.75)
        independent.draw(state, t, generator(0, "availability", t))
    turns = attendance(Markov(0.5, 1), Population(6), range(10))
    np.testing.assert_array_equal(turns[1:], ~turns[:-1])


# -- periodic --------------------------------------------------------------------------------------


def test_cyclic_by_hand():
    """Seven clients in three blocks of 3, 2, 2; two rounds each; then the first again."""
    here = attendance(Cyclic(n_groups=3, rounds_each=2), Population(7), range(7)).astype(int)
    first, second, third = [1, 1, 1, 0, 0, 0, 0], [0, 0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 0, 1, 1]
    np.testing.assert_array_equal(here, [first, first, second, second, third, third, first])


def test_cyclic_follows_the_populations_groups():
    population = Population(5, groups=[9, 2, 9, 4, 2])
    here = attendance(Cyclic(), population, range(4)).astype(int)
    np.testing.assert_array_equal(
        here, [[0, 1, 0, 0, 1], [0, 0, 0, 1, 0], [1, 0, 1, 0, 0], [0, 1, 0, 0, 1]]
    )
    np.testing.assert_array_equal(rates(Cyclic(), population, 1), [0, 0, 0, 1, 0])


def test_diurnal_by_hand():
    """spread = 0, 0.1 .. 0.9: peak 0.9 in round 0, 0.5 at six and eighteen, 0.1 at midnight."""
    mode = Diurnal(spread=0)
    for t, expected in {0: 0.9, 4: 0.7, 6: 0.5, 12: 0.1, 18: 0.5, 24: 0.9}.items():
        np.testing.assert_allclose(rates(mode, Population(3), t), expected)


def test_diurnal_phases_are_spread_and_frequencies_match():
    population, mode = Population(400), Diurnal(spread=0.5, seed=2)
    phase = mode.init(population).phase
    assert phase.min() >= 0
    assert phase.max() < 0.5
    assert abs(phase.mean() - 0.25) < 5 * 0.5 / math.sqrt(12 * 400)
    few = Population(4)
    frequency = draw_availability(mode, few, [0, 7], seeds=2000)
    for position, t in enumerate([0, 7]):
        assert_binomial(frequency[position], rates(mode, few, t), 2000)
    # all around the globe the number of those who are there hardly changes
    globe = Diurnal(spread=1)
    assert np.ptp([rates(globe, population, t).mean() for t in range(24)]) < 0.15


# -- recorded devices ------------------------------------------------------------------------------

TINY = """device,t_s,state
a,0,AVL_TRAIN
a,10,UN_AVL
b,0,AVL_TRAIN
b,10,UN_AVL
b,20,AVL_TRAIN
a,30,AVL_TRAIN
a,40,AVL_TRAIN
a,50,UN_AVL
b,60,UN_AVL
b,60,AVL_TRAIN
c,15,UN_AVL
a,70,AVL_TRAIN
b,90,UN_AVL
"""


@pytest.fixture
def tiny(tmp_path):
    path = tmp_path / "tiny.csv"
    path.write_text(TINY)
    return path


def test_a_trace_as_sessions(tiny):
    """A repeated state changes nothing, away for no time is not away, the last state lasts."""
    recording = read_two_state(tiny)
    assert recording.devices == ("a", "b", "c")
    assert recording.end == 90
    assert recording.sessions == (((0, 10), (30, 50), (70, 90)), ((0, 10), (20, 90)), ())


def test_trace_by_hand(tiny):
    """Ten seconds dropped, 80 left, rounds of 20: seconds 10, 30, 50, 70, then 10 again.

    a: away (its session ends at 10), there (from 30), away (until 50), there (from 70);
    b: away, there, there, there;  c: never.
    """
    mode = Trace(tiny, seconds_per_round=20, drop_first_seconds=10)
    population = Population(3)
    device = mode.init(population).device
    assert sorted(device) == [0, 1, 2]
    expected = {0: [0, 1, 0, 1], 1: [0, 1, 1, 1], 2: [0, 0, 0, 0]}
    here = attendance(mode, population, range(8)).astype(int)
    for client, which in enumerate(device):
        np.testing.assert_array_equal(here[:, client], expected[int(which)] * 2)
    assert mode.rates(mode.init(population), 0) is None
    check_availability(mode)


def test_devices_are_dealt_evenly_and_by_seed(tiny):
    mode = Trace(tiny, drop_first_seconds=0, seed=5)
    assert np.bincount(mode.init(Population(7)).device).max() == 3
    assert np.bincount(mode.init(Population(7)).device).min() == 2
    # more clients leave the first ones who they are
    np.testing.assert_array_equal(
        mode.init(Population(2)).device, mode.init(Population(7)).device[:2]
    )
    dealt = {
        tuple(Trace(tiny, drop_first_seconds=0, seed=seed).init(Population(3)).device)
        for seed in range(30)
    }
    assert len(dealt) == 6


def naive_presence(path, second):
    """{device: there at `second`}: the state of its last line up to then."""
    there = {}
    with open(path, newline="") as source:
        for row in csv.DictReader(source):
            there.setdefault(row["device"], False)
            if float(row["t_s"]) <= second:
                there[row["device"]] = row["state"] == "AVL_TRAIN"
    return there


def test_the_recorded_phones_against_a_naive_reading(data_root):
    path = data_root / "traces" / "mobiperf_2st_300.csv"
    if not path.is_file():
        pytest.skip("UNDERSTUDY_DATA has no traces/mobiperf_2st_300.csv")
    mode = Trace(path, seconds_per_round=1000, seed=1)
    population = Population(300)
    state = mode.init(population)
    names = read_two_state(path).devices
    assert len(names) == 300
    rounds = [0, 1, 17, 100, 333, 535, 536, 1000]  # 535,663 s: from round 536 on again
    here = attendance(mode, population, rounds)
    for row, t in zip(here, rounds, strict=True):
        there = naive_presence(path, 600 + (t * 1000) % 535_663)
        np.testing.assert_array_equal(row, [there[names[i]] for i in state.device])
    week = attendance(mode, population, range(535))
    assert 0.13 < week.mean() < 0.19  # about 16 % are there


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "line 1: expected the header device,t_s,state, got ''"),
        ("id,when,what\n", "line 1: expected the header device,t_s,state, got 'id,when,what'"),
        ("device,t_s,state\n", "expected at least one line after the header"),
        ("device,t_s,state\na,0,UN_AVL\n\na,5\n", "line 4: expected device,t_s,state, got 'a,5'"),
        ("device,t_s,state\na,soon,UN_AVL\n", "line 2: expected t_s to be .*, got 'soon'"),
        (
            "device,t_s,state\na,-1,UN_AVL\n",
            "line 2: expected t_s to be .*>= 0 and <= 1e.10, got '-1'",
        ),
        ("device,t_s,state\na,nan,UN_AVL\n", "line 2: expected t_s to be .*, got 'nan'"),
        ("device,t_s,state\na,0,ON\n", "line 2: expected state to be AVL_TRAIN or UN_AVL, .*'ON'"),
        (
            "device,t_s,state\na,9,UN_AVL\nb,1,UN_AVL\na,8,AVL_TRAIN\n",
            "line 4: expected times of device 'a' in ascending order, got 8 after 9",
        ),
    ],
)
def test_a_bad_trace_is_an_error_with_its_line(tmp_path, text, words):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=words):
        Trace(path).init(Population(2))


def test_a_missing_or_too_short_trace(tmp_path, tiny):
    with pytest.raises(FileNotFoundError, match=r"nowhere.csv: no such file.*device,t_s,state"):
        Trace(tmp_path / "nowhere.csv").init(Population(2))
    with pytest.raises(ValueError, match=r"drop_first_seconds: expected less than .* 90 seconds"):
        Trace(tiny).init(Population(2))


# -- addresses -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mode", [SinLogNormal(), YCycle(), LabelBernoulli(), Diurnal(), Bernoulli(p_min=0.1)], ids=repr
)
def test_a_draw_depends_on_its_address_alone(mode):
    backwards = attendance(mode, FOUR, [9, 5, 1])[::-1]
    np.testing.assert_array_equal(attendance(mode, FOUR, [1, 5, 9]), backwards)
