"""FedExP by hand: the factor of three rounds, from fresh rows and from all of them."""

from __future__ import annotations

import pytest

from tests.golden.run import play
from understudy import Extrapolated, Sgd, Stale, Strategy

SCRIPT = [{0: [3.0, 0.0], 1: [0.0, 4.0]}, {0: [2.0, 0.0]}, {}, {0: [0.0, 6.0], 1: [0.0, -6.0]}]


def factors(**settings) -> list[float]:
    server = Extrapolated(**{"epsilon": 0.25, **settings})
    _, applied = play(Strategy(compensator=Stale(), server=server), 2, SCRIPT)
    assert [one.stepped for one in applied] == [True, True, False, True]
    return [one.notes["server_factor"] for one in applied if one.stepped]


def test_factor_of_fresh_rows() -> None:
    """p = 1/2 each where both came, eps = 1/4, scale 1.

    Round 0: (9 + 16)/2 = 12.5 over |(1.5, 2)|^2 + 1/4 = 6.25 + .25: 25/13.
    Round 1: one row, 4 over 4.25, below 1: 1. Round 2: nobody, no step.
    Round 3: they cancel, 36 over 0 + 1/4 = 144.
    """
    assert factors(scale=1.0) == pytest.approx([25 / 13, 1, 144], rel=1e-12)
    # half of it, as in the paper: 25/26 is below 1
    assert factors() == pytest.approx([1, 1, 72], rel=1e-12)


def test_factor_of_all_rows() -> None:
    """Round 1 with the remembered (0, 4): (4 + 16)/2 = 10 over |(1, 2)|^2 + 1/4 = 5.25."""
    assert factors(rows="all", scale=1.0) == pytest.approx([25 / 13, 10 / 5.25, 144], rel=1e-12)


def test_damped_factor_is_a_mean_of_logarithms() -> None:
    """damping 1/2: weights 1; 1/3, 2/3; 1/7, 2/7, 4/7 of the steps so far."""
    first = 25 / 13
    expected = [first, first ** (1 / 3), first ** (1 / 7) * 144 ** (4 / 7)]
    assert factors(scale=1.0, damping=0.5) == pytest.approx(expected, rel=1e-12)


def test_the_step_is_the_factor_times_the_inner_step() -> None:
    """Round 0: 25/13 times 2 times the mean (1.5, 2)."""
    server = Extrapolated(Sgd(2.0), scale=1.0, epsilon=0.25)
    steps, _ = play(Strategy(server=server), 2, SCRIPT[:1])
    assert steps[0] == pytest.approx([75 / 13, 100 / 13], rel=1e-12)


def test_one_extrapolation_is_enough() -> None:
    with pytest.raises(ValueError, match="inner: expected a server that needs no rows"):
        Extrapolated(Extrapolated())


def test_no_update_at_all_and_no_epsilon() -> None:
    """0/0 is no reason to extrapolate."""
    server = Extrapolated(epsilon=0.0)
    _, applied = play(Strategy(server=server), 2, [{0: [0.0, 0.0], 1: [0.0, 0.0]}])
    assert applied[0].notes["server_factor"] == 1
