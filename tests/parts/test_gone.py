"""Clients that are gone, by number and by name."""

from __future__ import annotations

import numpy as np
import pytest

from understudy import Bernoulli, Gone, Outcome, Population, Study, fedavg, simulate
from understudy.core.describe import describe
from understudy.core.rng import generator
from understudy.parts.availability import Always, leave_one_out
from understudy.simulation import Federation
from understudy.testing import check_availability, example_population

NAMED = Population(3, names=("north", "south", "west"))


def drawn(availability, population=NAMED, rounds=6) -> np.ndarray:
    state = availability.init(population)
    draw = (availability.draw(state, t, generator(0, "availability", t)) for t in range(rounds))
    return np.array(list(draw))


def hospitals() -> Federation:
    rng = np.random.default_rng(0)
    who = np.repeat(["north", "south", "west"], 20)
    return Federation.from_arrays(rng.normal(size=(60, 3)), np.arange(60) % 2, clients=who)


@pytest.mark.parametrize("clients", [["south"], [1], np.array([1]), (np.int64(1),)])
def test_numbers_and_names_mean_the_same(clients):
    came = drawn(Gone(clients))
    assert not came[:, 1].any()
    assert came[:, [0, 2]].all()


def test_others_come_as_without_it_and_it_leaves_when_told():
    inner = Bernoulli(0.5)
    plain, came = drawn(inner, rounds=40), drawn(Gone(["west"], since=7, inner=inner), rounds=40)
    np.testing.assert_array_equal(came[:, :2], plain[:, :2])
    np.testing.assert_array_equal(came[:7, 2], plain[:7, 2])
    assert plain[7:, 2].any()
    assert not came[7:, 2].any()


def test_rates_are_zero_for_those_who_are_gone():
    gone = Gone([0], since=2, inner=Bernoulli(0.5))
    state = gone.init(NAMED)
    np.testing.assert_array_equal(gone.rates(state, 1), [0.5, 0.5, 0.5])
    np.testing.assert_array_equal(gone.rates(state, 2), [0.0, 0.5, 0.5])
    check_availability(gone, example_population(3))


def test_a_simulation_knows_the_names_of_its_federation():
    run = simulate(hospitals(), fedavg(), model="softmax", rounds=3, availability=Gone(["south"]))
    outcomes = np.array([log.outcome for log in run])
    assert (outcomes[:, 1] == Outcome.UNAVAILABLE).all()
    assert (outcomes[:, [0, 2]] == Outcome.CAME).all()


def test_one_availability_for_each_client():
    modes = leave_one_out(hospitals(), since=2)
    assert list(modes) == ["nobody gone", "without north", "without south", "without west"]
    assert modes["without west"] == Gone(("west",), 2)
    assert modes["nobody gone"] == Always()
    assert list(leave_one_out(Population(2))) == [
        "nobody gone",
        "without client 0",
        "without client 1",
    ]


def test_a_study_takes_it_from_a_table_as_from_python():
    def cell(availability):
        study = Study(
            name="s",
            data=hospitals(),
            model="softmax",
            strategies={"fedavg": "fedavg"},
            availability={"mode": availability},
            rounds=1,
            seeds=1,
        )
        return study.cells()[0]

    table = {"name": "gone", "clients": ["west", 0], "since": 1, "inner": "always"}
    assert cell(table).task.availability == Gone(["west", 0], since=1)
    assert cell(table).key == cell(Gone(["west", 0], since=1)).key
    assert cell(table).key != cell(Gone(["west"], since=1)).key


def test_bad_arguments_are_named():
    with pytest.raises(TypeError, match="clients: expected a list of numbers or names, got 'west'"):
        Gone("west")
    with pytest.raises(ValueError, match="clients: expected at least one number or name"):
        Gone()
    with pytest.raises(ValueError, match="clients: expected each of them once"):
        Gone([1, 1])
    with pytest.raises(ValueError, match=r"clients: .*>= 0, got True"):
        Gone([True])
    with pytest.raises(ValueError, match=r"since: .*got -1"):
        Gone([0], since=-1)
    with pytest.raises(ValueError, match=r"clients: .*<= 2, got 3"):
        Gone([3]).init(NAMED)
    with pytest.raises(ValueError, match="no client named 'wst'; did you mean 'west'"):
        Gone(["wst"]).init(NAMED)
    with pytest.raises(ValueError, match="have no names, got 'west'"):
        Gone(["west"]).init(Population(3))
    with pytest.raises(ValueError, match="2 clients are named 'a'"):
        Gone(["a"]).init(Population(2, names=("a", "a")))
    with pytest.raises(ValueError, match="names: expected 2 of them"):
        Population(2, names=("a",))


def test_clients_that_nobody_has_seen_before_a_round() -> None:
    gone = Gone([0], until=3, inner=Bernoulli(1.0))
    state = gone.init(Population(3))
    rng = np.random.default_rng(0)
    assert [bool(gone.draw(state, t, rng)[0]) for t in range(5)] == [False] * 3 + [True] * 2
    assert [float(gone.rates(state, t)[0]) for t in (2, 3)] == [0.0, 1.0]
    assert all(gone.draw(state, t, rng)[1:].all() for t in range(5))
    assert "until" not in describe(Gone([0]))
    with pytest.raises(ValueError, match="until: expected"):
        Gone([0], since=4, until=3)
