"""After being asked: failures, speeds and links, deadlines, the clock."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import binom

from understudy.core.rng import generator
from understudy.core.types import Cohort, Population
from understudy.parts.delay import (
    Combined,
    Deadline,
    Delay,
    Failure,
    Latency,
    round_seconds,
    tell_of_cohort,
)
from understudy.parts.local import Local
from understudy.server.state import leaves

INF = math.inf
THREE = Population(3, n_examples=[100, 25, 30])
EXACT = Latency(
    step_seconds=0.5, step_spread=0, download_mbit=8, upload_mbit=2, link_spread=0, jitter=0
)


def delays(
    part, population, t=0, asked=None, seed=0, n_params=1_000_000, local=None, correction=None
):
    state = part.init(population, n_params, local or Local(steps=4))
    asked = np.arange(population.n_clients) if asked is None else np.asarray(asked)
    nobody, weight = np.zeros((0, 2), dtype=np.int64), np.ones(len(asked))
    tell_of_cohort(part, state, Cohort(t, asked, weight, asked, nobody, correction=correction))
    return part.delay(state, asked, t, generator(seed, "delay", t))


@pytest.mark.parametrize("part", [Failure(), Latency(), Deadline(), Combined()], ids=repr)
def test_each_part_plays_the_role(part):
    assert isinstance(part, Delay)
    state = part.init(THREE, 10, Local())
    for place, value in leaves(state):
        assert isinstance(value, np.ndarray | int | float), place
    seconds = part.delay(state, np.array([2, 0]), 5, generator(0, "delay", 5))
    assert seconds.shape == (2,)
    assert seconds.dtype == np.float64
    assert (seconds >= 0).all()
    everyone = part.delay(state, np.arange(3), 5, generator(0, "delay", 5))
    np.testing.assert_array_equal(seconds, everyone[[2, 0]])  # whoever else is asked
    nobody = part.delay(state, np.zeros(0, dtype=np.int64), 5, generator(0, "delay", 5))
    assert nobody.shape == (0,)


def test_failures_are_as_frequent_as_stated():
    """2,000 rounds of 5 clients at p = 0.2; who does not fail answers at once."""
    seconds = np.array([delays(Failure(0.2), Population(5), t) for t in range(2000)])
    failed = np.isinf(seconds)
    assert (seconds[~failed] == 0).all()
    count = failed.sum(axis=0)
    assert (count >= binom.ppf(5e-7, 2000, 0.2)).all()
    assert (count <= binom.ppf(1 - 5e-7, 2000, 0.2)).all()
    assert (delays(Failure(0), Population(100)) == 0).all()
    assert np.isinf(delays(Failure(1), Population(100))).all()


def test_latency_by_hand():
    """d = 1,000,000 numbers of 32 bits = 32 Mbit: down at 8 Mbit/s 4 s, up at 2 Mbit/s 16 s.

    Four steps of half a second: 2 s. Together 22 s.
    """
    np.testing.assert_allclose(delays(EXACT, THREE), 22)


@pytest.mark.parametrize(
    ("part", "seconds"),
    [
        (EXACT, 26),
        (Deadline(EXACT, 10), 26),
        (Combined(Failure(0), EXACT), 26),
        (Combined(EXACT, Deadline(EXACT, 10)), 52),
    ],
    ids=repr,
)
def test_a_correction_travels_down_beside_the_model(part, seconds):
    """22 s as above, and another 32 Mbit down at 8 Mbit/s: 4 s more."""
    found = delays(part, THREE, correction=lambda client: torch.zeros(3))
    np.testing.assert_allclose(found, seconds)


def test_a_delay_need_not_care_what_is_sent():
    class Bare:
        deadline = INF

        def init(self, population, n_params, local):
            return None

        def delay(self, state, asked, t, rng):
            return np.full(len(asked), 3.0)

    assert isinstance(Bare(), Delay)
    np.testing.assert_array_equal(delays(Bare(), THREE), 3)
    np.testing.assert_allclose(delays(Deadline(Bare(), 10), THREE), 3)
    np.testing.assert_allclose(delays(Combined(Bare(), EXACT), THREE), 25)


def test_latency_counts_the_steps_of_epochs_and_growing_batches():
    """n = 100, 25, 30; two epochs. B = 10: 2·(10, 3, 3) steps; in round 2 B = 30: 2·(4, 1, 1)."""
    local = Local(epochs=2, batch_size=10, batch_growth=1)
    np.testing.assert_allclose(delays(EXACT, THREE, local=local), [20 + 10, 20 + 3, 20 + 3])
    np.testing.assert_allclose(delays(EXACT, THREE, 2, local=local), [20 + 4, 20 + 1, 20 + 1])
    with pytest.raises(ValueError, match=r"Latency needs population.n_examples.*Local\(steps=…\)"):
        delays(EXACT, Population(3), local=local)
    assert len(delays(EXACT, Population(3))) == 3  # a fixed number of steps needs no sizes


def test_speeds_and_links_are_drawn_once_with_the_stated_spread():
    """sd of ln speed = 0.7 over 5,000 clients, standard error 0.7/√10,000 = 0.007; median kept."""
    population, part = Population(5000), Latency(step_spread=0.7, link_spread=0.3, seed=4)
    state = part.init(population, 10, Local(steps=1))
    speed, link = np.log(state.step_seconds / 0.05), np.log(state.link)
    assert abs(speed.std() - 0.7) < 0.035
    assert abs(link.std() - 0.3) < 0.015
    assert abs(np.median(speed)) < 5 * 1.2533 * 0.7 / math.sqrt(5000)
    assert abs(np.corrcoef(speed, link)[0, 1]) < 5 / math.sqrt(5000)
    again = part.init(population, 10, Local(steps=1))
    np.testing.assert_array_equal(state.step_seconds, again.step_seconds)
    fewer = part.init(Population(7), 10, Local(steps=1))
    np.testing.assert_array_equal(state.link[:7], fewer.link)
    other = Latency(seed=5).init(population, 10, Local(steps=1))
    assert not np.array_equal(state.step_seconds, other.step_seconds)


def test_a_slow_client_is_slow_and_a_fast_link_is_fast():
    """Speed and link of each client taken from the state: 4·s_i + (4 + 16)/l_i seconds."""
    part = Latency(0.5, 0.7, download_mbit=8, upload_mbit=2, link_spread=0.7, jitter=0, seed=1)
    state = part.init(THREE, 1_000_000, Local(steps=4))
    expected = 4 * state.step_seconds + 20 / state.link
    np.testing.assert_allclose(delays(part, THREE), expected)
    assert np.ptp(expected) > 1


def test_jitter_is_drawn_anew_in_each_round_at_its_address():
    part = Latency(0.5, 0, download_mbit=8, upload_mbit=2, link_spread=0, jitter=0.2)
    population = Population(4000)
    factor = np.log(delays(part, population) / 22)
    assert abs(factor.mean()) < 5 * 0.2 / math.sqrt(4000)
    assert abs(factor.std() - 0.2) < 5 * 0.2 / math.sqrt(8000)
    np.testing.assert_array_equal(delays(part, population), delays(part, population))
    assert not np.array_equal(delays(part, population), delays(part, population, t=1))
    assert not np.array_equal(delays(part, population), delays(part, population, seed=1))


def test_a_deadline_leaves_seconds_as_they_are_and_says_when_to_close():
    part = Deadline(latency=EXACT, seconds=10)
    assert part.deadline == 10
    np.testing.assert_allclose(delays(part, THREE), 22)
    assert Deadline(Deadline(EXACT, 5), 10).deadline == 5
    assert Failure().deadline == Latency().deadline == INF
    assert Combined(Failure(), part).deadline == 10


def test_combined_delays_add_up():
    """Failure draws first, then the latency with the generator's next numbers."""
    both = Combined(Failure(0.5), EXACT)
    seconds = delays(both, Population(40))
    np.testing.assert_array_equal(np.isinf(seconds), np.isinf(delays(Failure(0.5), Population(40))))
    np.testing.assert_allclose(seconds[np.isfinite(seconds)], 22)
    np.testing.assert_allclose(delays(Combined(EXACT, EXACT), THREE), 44)


@pytest.mark.parametrize(
    ("seconds", "deadline", "lasts"),
    [
        ([1, 4, 2.5], 10, 4),  # everyone has answered: no need to wait
        ([1, 4, 10], 10, 10),
        ([1, 4, 11], 10, 10),
        ([1, INF], 10, 10),  # nobody knows that it will never come
        ([], 10, 10),  # nobody to ask: the time passes all the same
        ([1, 400], INF, 400),
        ([1, INF], INF, 1),
        ([INF], INF, 0),
        ([], INF, 0),
    ],
)
def test_round_seconds(seconds, deadline, lasts):
    assert round_seconds(np.array(seconds, dtype=float), deadline) == lasts


def test_time_to_accuracy_by_hand():
    """Two clients of 22 s and a straggler of 70 s, three rounds.

    Deadline 30: the first round lasts 30 s (the straggler is missed);
    without a deadline it lasts 70 s.
    """
    seconds = np.array([22.0, 22.0, 70.0])
    assert round_seconds(seconds, 30) == 30
    assert round_seconds(seconds) == 70


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Failure(1.5), "p: expected a number in .0, 1., got 1.5"),
        (lambda: Latency(step_seconds=-1), "step_seconds: .* got -1"),
        (lambda: Latency(upload_mbit=0), "upload_mbit: .* got 0"),
        (lambda: Latency(jitter=-0.1), "jitter: .* got -0.1"),
        (lambda: Deadline(seconds=0), "seconds: .* got 0"),
    ],
)
def test_wrong_parameters_fail_at_construction(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_a_class_instead_of_a_part_is_refused():
    with pytest.raises(TypeError, match=r"latency: .*write Latency\(\), with parentheses"):
        Deadline(latency=Latency)
    with pytest.raises(TypeError, match="second: expected a part with init, delay, got 3"):
        Combined(Failure(), 3)
