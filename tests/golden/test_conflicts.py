"""FedMGDA+ and FedFV by hand: two clients that disagree."""

from __future__ import annotations

import pytest

from tests.golden.run import play
from understudy import FedFV, FedMGDA, FedVARP, Ignore, Stale, Strategy


@pytest.mark.parametrize(
    ("epsilon", "length", "expected"),
    [
        (0.0, "unit", (0.6, 0.2)),
        (0.1, "unit", (0.44, 0.28)),
        (0.1, "mean", (1.54, 0.98)),
        (1.0, "unit", (0.2, 0.4)),
    ],
)
def test_fedmgda(epsilon, length, expected) -> None:
    """Shares 3/4 and 1/4, unit updates (1, 0) and (-.6, .8) of lengths 3 and 5.

    epsilon 0: .75 (1, 0) + .25 (-.6, .8) = (.6, .2).
    The shortest mixture has equal weights, as |g_0| = |g_1|: (.2, .4). Weights within .1 of the
    shares: at most that far, .65 (1, 0) + .35 (-.6, .8) = (.44, .28).
    Mean length .75 * 3 + .25 * 5 = 3.5.
    """
    strategy = Strategy(aggregator=FedMGDA(epsilon, length))
    steps, _ = play(strategy, 2, [{0: [3.0, 0.0], 1: [-3.0, 4.0]}], n_examples=[3, 1])
    assert steps[0] == pytest.approx(expected, rel=1e-10)


def test_fedmgda_of_updates_that_did_not_move() -> None:
    """A zero update has no direction: the other one counts, at the mean of 4 and 0."""
    strategy = Strategy(aggregator=FedMGDA())
    steps, _ = play(strategy, 2, [{0: [0.0, 4.0], 1: [0.0, 0.0]}, {0: [0.0, 0.0]}])
    assert steps[0] == pytest.approx([0, 2], rel=1e-12)
    assert steps[1] == [0, 0]


def test_fedfv_projects_each_off_the_other() -> None:
    """g_0 = (2, 0), g_1 = (-1, 1), product -2; no losses are known: order 0, 1.

    alpha 0: g_0 + 2/2 g_1 = (1, 1), g_1 + 2/4 g_0 = (0, 1), mean (.5, 1), as long as the plain mean
    (.5, .5): times sqrt(.5/1.25).
    """
    script = [{0: [2.0, 0.0], 1: [-1.0, 1.0]}]
    steps, applied = play(Strategy(aggregator=FedFV(alpha=0)), 2, script)
    assert steps[0] == pytest.approx([0.5 * 0.4**0.5, 0.4**0.5], rel=1e-12)
    assert applied[0].notes["conflicts"] == 0.5


def test_fedfv_leaves_those_with_the_largest_losses() -> None:
    """alpha .1: ceil(1 * .9) = 1, the last of the order keeps (-1, 1): mean (0, 1), times .5^.5."""
    script = [{0: [2.0, 0.0], 1: [-1.0, 1.0]}]
    steps, _ = play(Strategy(aggregator=FedFV(alpha=0.1)), 2, script)
    assert steps[0] == pytest.approx([0, 0.5**0.5], rel=1e-12)


def test_fedfv_off_those_who_are_remembered() -> None:
    """Round 1: (2, 0) off the remembered (-1, 1): (2, 0) + 2/2 (-1, 1) = (1, 1), at length 2."""
    script = [{0: [2.0, 0.0], 1: [-1.0, 1.0]}, {0: [2.0, 0.0]}]
    strategy = Strategy(compensator=Stale(), aggregator=FedFV(external="absent"))
    steps, applied = play(strategy, 2, script)
    assert steps[1] == pytest.approx([2**0.5, 2**0.5], rel=1e-12)
    # the remembered row is told with the coefficient it was given: 2^.5 of its own
    absent = applied[1].contributions.ids == 1
    assert applied[1].contributions.coef[absent] == pytest.approx([2**0.5], rel=1e-12)


@pytest.mark.parametrize("aggregator", [FedMGDA(epsilon=0), FedFV()], ids=repr)
@pytest.mark.parametrize("compensator", [Ignore(), FedVARP()], ids=repr)
def test_without_conflict_and_at_one_length_it_is_the_mean(aggregator, compensator) -> None:
    script = [{0: [1.0, 0.0], 1: [0.0, 1.0]}]
    steps, _ = play(Strategy(compensator=compensator, aggregator=aggregator), 2, script)
    assert steps[0] == pytest.approx([0.5, 0.5], rel=1e-10)
