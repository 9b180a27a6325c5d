"""The loop of rounds by itself: logs before states, clients that join, requests that end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

from understudy import (
    Always,
    Arrivals,
    FixedDropout,
    FullStart,
    Gone,
    Markov,
    MoreDataFirst,
    Population,
    Strategy,
)
from understudy.core.types import RoundLog
from understudy.flower.rounds.known_facts import forget
from understudy.journal.protocol import Journal
from understudy.server import checkpoint
from understudy.server.loop import RoundLoop


@dataclass
class Own:
    attendance: Any
    clock: float = 0.0


class Noting(Journal):
    """Notes what it is told, and which round the last commit continues with."""

    def __init__(self, folder) -> None:
        self.folder, self.said, self.rounds = folder, [], []

    def append(self, log: RoundLog) -> None:
        self.rounds.append(log.t)

    def flush(self) -> None:
        self.said.append(("flush", list(self.rounds), checkpoint.round_of(self.folder)[0]))

    def finish(self) -> None:
        self.said.append(("finish",))

    def fail(self, error: str) -> None:
        self.said.append(("fail", error))


def loop_of(strategy, folder=None, n=3, availability=None, journals=()):
    def own(setup):
        return Own(availability and availability.init(setup.population))

    state = strategy.init(Population(n), torch.zeros(2), folder=folder, extra=own)
    return RoundLoop(strategy, state, availability, journals)


def one_round(loop, every=0.0, **options):
    cohort = loop.begin()
    arrivals = Arrivals(cohort.asked, torch.ones(len(cohort.asked), 2))
    return loop.end(
        loop.step(cohort, arrivals, **options), every=every, clock=loop.driver.clock + 2
    )


def test_logs_are_safe_before_the_state_that_follows_them(tmp_path):
    journal = Noting(tmp_path)
    loop = loop_of(Strategy(), tmp_path, journals=[journal])
    logs = [one_round(loop), one_round(loop)]
    # the commit that follows round t continues with t + 1, and came after the flush
    assert journal.said == [("flush", [0], 0), ("flush", [0, 1], 1)]
    assert checkpoint.round_of(tmp_path)[0] == 2
    assert [log.clock for log in logs] == [2.0, 4.0]
    loop.finish()
    loop.fail(OSError("full"))
    loop.close()
    assert journal.said[2:] == [("finish",), ("fail", "OSError: full"), ("flush", [0, 1], 2)]


def test_nothing_is_committed_in_the_middle_of_a_round(tmp_path):
    loop = loop_of(Strategy(), tmp_path, journals=[Noting(tmp_path)])
    cohort = loop.begin()
    loop.step(cohort, Arrivals.none())
    loop.commit()
    assert checkpoint.round_of(tmp_path)[0] == 0
    loop.close()
    assert checkpoint.round_of(tmp_path)[0] == 0


def test_whom_neither_driver_nor_availability_reaches_is_not_asked():
    loop = loop_of(Strategy(), n=40, availability=Markov(0.5, 3))
    reachable = np.arange(40) < 20
    cohort = loop.begin(reachable)
    assert set(cohort.asked) == set(np.flatnonzero(loop.available))
    assert not loop.available[20:].any()
    drawn = loop_of(Strategy(), n=40, availability=Markov(0.5, 3)).begin().asked
    assert set(cohort.asked) == {one for one in drawn if one < 20}


def test_requests_that_are_closed_are_not_waited_for():
    loop = loop_of(Strategy())
    cohort = loop.begin()
    loop.end(loop.step(cohort, Arrivals([1], torch.ones(1, 2)), closed=[(2, 0)]), clock=0.0)
    assert loop.state.pending.tolist() == [[0, 0]]


def test_a_population_that_a_part_refuses_leaves_the_attendance_as_it_was(monkeypatch):
    def refuse(strategy, state, population):
        raise ValueError("three at most")

    loop = loop_of(Strategy(), availability=Markov(0.5, 3))
    before = loop.driver.attendance
    with monkeypatch.context() as patched:
        patched.setattr(Strategy, "grow", refuse)
        with pytest.raises(ValueError, match="three at most"):
            loop.grow(Population(4))
    assert loop.driver.attendance is before
    assert len(before.now) == 3
    loop.grow(Population(4))
    assert len(loop.driver.attendance.now) == 4


@pytest.mark.parametrize(
    ("availability", "n_present"),
    [
        (Always(), 4),
        (Gone((0,)), 3),
        (FixedDropout(0.5), 2),
        (FullStart(FixedDropout(0.5)), 2),
    ],
)
def test_an_availability_counts_those_who_joined(availability, n_present):
    loop = loop_of(Strategy(), n=2, availability=availability)
    one_round(loop)
    loop.grow(Population(4))
    loop.begin()
    assert loop.available.sum() == n_present


def test_what_an_availability_has_drawn_stays_when_it_grows():
    loop = loop_of(Strategy(), n=2, availability=FullStart(Markov(0.5, 3)))
    for _ in range(3):
        one_round(loop)
    before = loop.driver.attendance
    loop.grow(Population(4))
    after = loop.driver.attendance.inner
    assert (after.t, after.t_before) == (before.inner.t, before.inner.t_before)
    np.testing.assert_array_equal(after.now[:2], before.inner.now)


def test_one_who_left_does_not_keep_others_from_joining():
    """Its facts are erased, and this availability needs those of all."""
    sizes = Population(3, n_examples=[10.0, 20.0, 30.0])
    strategy, availability = Strategy(), MoreDataFirst(beta=0.5)
    state = strategy.init(
        sizes, torch.zeros(2), extra=lambda setup: Own(availability.init(setup.population))
    )
    loop = RoundLoop(strategy, state, availability)
    forget(state, 1)
    strategy.retire(state, 1)
    larger = Population(4, n_examples=[10.0, np.nan, 30.0, 40.0])
    loop.check_grow(larger)
    loop.grow(larger)
    assert loop.begin().asked.tolist() == [
        one for one in np.flatnonzero(loop.available).tolist() if one != 1
    ]
    silent = Population(5, n_examples=[10.0, np.nan, 30.0, 40.0, np.nan])
    with pytest.raises(ValueError, match="client 4 is unknown"):  # a newcomer has to say it
        loop.check_grow(silent)


def test_the_error_that_ends_a_run_is_the_one_that_is_told(tmp_path, caplog):
    class Broken(Noting):
        def fail(self, error):
            raise OSError("the store is gone")

    journal = Noting(tmp_path)
    loop = loop_of(Strategy(), tmp_path, journals=[Broken(tmp_path), journal])
    loop.fail(ValueError("the true error"))
    assert journal.said == [("fail", "ValueError: the true error")]
    assert "Broken could not note the error: the store is gone" in caplog.text
    loop.close()


def test_a_commit_that_fails_releases_the_folder(tmp_path):
    class Full(Noting):
        def flush(self):
            raise OSError("no space left")

    loop = loop_of(Strategy(), tmp_path, journals=[Full(tmp_path)])
    with pytest.raises(OSError, match="no space left"):
        loop.close()
    loop_of_now = RoundLoop(loop.strategy, checkpoint.resume(tmp_path, loop.strategy, Own(None)))
    loop_of_now.close()
