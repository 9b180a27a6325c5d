"""Steps on memory alone, in rounds in which nobody came: by hand, and what a part must declare."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
import pytest
import torch

from tests.golden.run import play
from understudy import MIFA, Arrivals, Capped, FedAR, Ignore, Local, Population, Strategy
from understudy.core.describe import describe
from understudy.parts.schedules import inverse_time
from understudy.testing import check_compensator

SCRIPT = [{}, {0: (6, 0)}, {}, {1: (3, 0), 2: (9, 0)}, {}]


@pytest.mark.parametrize("wait", [True, False])
def test_mifa(wait: bool) -> None:
    """Three clients, constant step. t=0: nothing is remembered, no step.

    t=1: 0 comes with 6: waiting for 1 and 2, or 6/3. t=2: nobody: the same. t=3: 1 and 2 come with
    3 and 9: (6 + 3 + 9)/3 = 6. t=4: nobody, and everyone was seen: 6 once more.
    """
    steps, applied = play(Strategy(compensator=MIFA(wait, step_when_empty=True)), 3, SCRIPT)
    early = 0.0 if wait else 2.0
    np.testing.assert_allclose(np.array(steps)[:, 0], [0, early, early, 6, 6], rtol=1e-12)
    assert [one.stepped for one in applied] == [False, not wait, not wait, True, True]
    assert sorted(applied[4].contributions.ids) == [0, 1, 2]


def test_a_decaying_step_counts_the_steps_on_memory() -> None:
    """.1/(u + 1): u = 0 and 1 in rounds 1 and 2; 6/3, then 6/2/3 = 1; round 3, u = 2: client 0
    counts a third of its 6: (2 + 3 + 9)/3 = 14/3."""
    local = Local(lr=0.1, schedule=inverse_time)
    strategy = Strategy(compensator=MIFA(False, step_when_empty=True), local=local)
    steps, _ = play(strategy, 3, SCRIPT[:4])
    np.testing.assert_allclose(np.array(steps)[:, 0], [0, 2, 1, 14 / 3], rtol=1e-12)


def test_fedar_and_its_cut() -> None:
    """rho = .5: ages 1 and 2 weigh sqrt 2 and sqrt 3; older than 1 is cut in the second.

    t=2: 6 sqrt 2. t=4: client 0 of t=1 has age 3: 2; 1 and 2 have age 1:
    (6 * 2 + (3 + 9) sqrt 2)/3, or with the cut 6 sqrt 2 over the two that are left. t=5: all are
    older than the limit: no step.
    """
    script = [*SCRIPT, {}]
    uncut, _ = play(Strategy(compensator=FedAR(0.5, step_when_empty=True)), 3, script)
    assert uncut[2][0] == pytest.approx(6 * sqrt(2))
    assert uncut[4][0] == pytest.approx(4 + 4 * sqrt(2))
    cut, applied = play(Strategy(compensator=FedAR(0.5, 1.0, step_when_empty=True)), 3, script)
    assert cut[4][0] == pytest.approx(6 * sqrt(2))
    assert [one.stepped for one in applied] == [False, True, True, True, True, False]


def test_without_the_option_nothing_changes_not_even_the_description() -> None:
    for off, on in ((MIFA(), MIFA(step_when_empty=True)), (FedAR(), FedAR(step_when_empty=True))):
        assert "step_when_empty" not in describe(off)
        assert describe(on)["step_when_empty"] is True
        _, applied = play(Strategy(compensator=off), 3, [{0: (1, 0), 1: (1, 0), 2: (1, 0)}, {}])
        assert [one.stepped for one in applied] == [True, False]


def test_capped_passes_it_on() -> None:
    """Nobody is there to take over what would be cut: memory counts as it is."""
    strategy = Strategy(compensator=Capped(MIFA(step_when_empty=True), 0.5))
    steps, _ = play(strategy, 2, [{0: (2, 0), 1: (4, 0)}, {}])
    assert [step[0] for step in steps] == [3.0, 3.0]


@dataclass(frozen=True)
class LateOnes:
    """The mean of late updates, where no fresh one came."""

    fills_without_arrivals: bool = True
    signed = False
    normalised = True

    def init(self, setup):
        return None

    def fill(self, state, end):
        from understudy.core.types import Block, Contributions

        if len(end.arrivals) or not len(end.late):
            return Ignore().fill(state, end) if len(end.arrivals) else Contributions.none()
        late = np.asarray(end.late.ids)
        block = Block(late, end.late.deltas)
        return Contributions.of((late, block, np.arange(len(late)), 1 / len(late)))

    def learn(self, state, end, step):
        return None


@pytest.mark.parametrize("declares", [True, False])
def test_a_part_may_step_on_late_updates_alone_if_it_says_so(declares: bool) -> None:
    strategy = Strategy(compensator=LateOnes(declares))
    state = strategy.init(Population(2), torch.zeros(1, dtype=torch.float64), seed=0)
    everyone = np.ones(2, dtype=bool)
    cohort = strategy.select(state, available=everyone)
    strategy.apply(state, cohort, Arrivals.none())
    late = Arrivals(ids=[1], deltas=torch.ones(1, 1).double(), n_examples=[1], start_round=[0])
    applied = strategy.apply(state, strategy.select(state, available=everyone), late)
    assert applied.stepped is declares
    assert state.params.tolist() == [1.0 if declares else 0.0]


def test_the_public_check_follows_the_declaration() -> None:
    check_compensator(MIFA(False, step_when_empty=True))
    check_compensator(FedAR(step_when_empty=True))
    check_compensator(LateOnes())
