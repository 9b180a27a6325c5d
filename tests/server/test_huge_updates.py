"""Finite updates that are too large, counts that are not believed, steps that would be infinite.

Each bound is the last value that is taken and the first that is not.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

from understudy import (
    Adam,
    Applied,
    Arrivals,
    CheckpointError,
    Linear,
    Local,
    Momentum,
    Population,
    Reason,
    Refusal,
    Scaffold,
    ServerState,
    Sgd,
    Strategy,
    Yogi,
    load_state,
    resume,
    save_state,
)
from understudy.core.shown import part_text, shown
from understudy.core.types import Contributions
from understudy.server.state import leaves

D = 4


def one_round(
    strategy: Strategy, state: ServerState, deltas: list[torch.Tensor], **columns: Any
) -> Applied:
    n = state.n_clients
    cohort = strategy.select(state, np.ones(n, dtype=bool))
    return strategy.apply(state, cohort, Arrivals(list(range(len(deltas))), deltas, **columns))


def reasons(applied: Applied) -> list[tuple[object, Reason]]:
    return [(refusal.id, refusal.reason) for refusal in applied.refusals]


# -- updates ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("server", [Adam(), Yogi(), Momentum(), Sgd()], ids=part_text)
def test_the_largest_update_that_is_taken_leaves_everything_finite(server: Any) -> None:
    """N = 3 clients send the bound itself: the sum is √(largest float32), its square finite."""
    strategy = Strategy(server=server)
    state = strategy.init(Population(3), torch.zeros(D), seed=0)
    bound = torch.full((D,), float(np.float32(1.8446743e19) / 3))
    for sign in (1, -1, 1):
        assert one_round(strategy, state, [sign * bound] * 3).stepped
        assert torch.isfinite(state.params).all()
        for name, value in vars(state.server or object()).items():
            if isinstance(value, torch.Tensor):
                assert torch.isfinite(value).all(), name


def test_one_huge_update_does_not_freeze_adam() -> None:
    """v would be 1e58 (in float32: infinite), and every step after it nothing."""
    strategy = Strategy(server=Adam(lr=0.1))
    state, twin = (strategy.init(Population(2), torch.zeros(D), seed=0) for _ in range(2))
    honest = torch.ones(D)
    applied = one_round(strategy, state, [honest, torch.full((D,), 1e30)])
    assert reasons(applied) == [(1, Reason.TOO_LARGE)]
    assert "largest entry: expected <= 9.22337e+18, got 1e+30" in str(applied.refusals[0])
    one_round(strategy, twin, [honest])
    for _ in range(3):
        before = state.params.clone()
        one_round(strategy, state, [honest, honest])
        one_round(strategy, twin, [honest, honest])
        assert (state.params - before > 0.01).all()
    assert torch.equal(state.params, twin.params)


def test_max_norm_refuses_above_it_and_looks_at_parameters_only() -> None:
    """‖(3, 4, 0)‖ = 5. The fourth entry is a buffer: it has no norm."""
    strategy = Strategy(max_norm=5.0)
    fits = torch.tensor([3.0, 4.0, 0.0, 1000.0])
    too_long = torch.tensor([3.0, 4.0, 0.1, 0.0])
    for together in (False, True):
        state = strategy.init(Population(2), torch.zeros(D), seed=0, n_parameters=3)
        deltas: Any = [fits, too_long]
        applied = one_round(strategy, state, torch.stack(deltas) if together else deltas)
        assert reasons(applied) == [(1, Reason.TOO_LARGE)]
        assert "norm: expected <= 5, got 5.001" in applied.refusals[0].detail
        assert state.params.tolist() == [3.0, 4.0, 0.0, 1000.0]


@pytest.mark.parametrize(
    "options", [{"max_norm": 0}, {"max_norm": -1.0}, {"max_norm": "5"}, {"max_examples": 0}]
)
def test_bounds_that_are_none_are_refused(options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(ValueError, match=f"{name}: expected a number"):
        Strategy(**options)


def test_a_checkpoint_made_without_bounds_is_not_one_made_with_them(tmp_path: Any) -> None:
    plain, bounded = Strategy(), Strategy(max_norm=5.0)
    save_state(plain.init(Population(2), torch.zeros(D), seed=0), tmp_path / "plain")
    load_state(tmp_path / "plain", Strategy(max_norm=None, max_examples=None))
    with pytest.raises(CheckpointError, match="max_norm"):
        load_state(tmp_path / "plain", bounded)


# -- steps -----------------------------------------------------------------------------------------


@dataclass
class CountedState:
    steps: int
    mean: torch.Tensor
    seen: np.ndarray


@dataclass(frozen=True)
class Counted:
    """A server of somebody else's that writes in place and then returns what is not finite."""

    spoils: str  # params, state or nothing

    def init(self, setup: Any) -> CountedState:
        mean = torch.full_like(setup.params, torch.inf)  # on purpose: nothing seen yet
        return CountedState(0, mean, np.zeros(2))

    def step(
        self, state: CountedState, params: torch.Tensor, update: torch.Tensor, t: int
    ) -> torch.Tensor:
        state.steps += 1
        state.seen += 1
        if state.steps == 1:
            state.mean.fill_(0.0)
        state.mean += update
        third = float(update[0]) == 3.0
        if third and self.spoils == "state":
            state.mean[1] = torch.nan
        factor = torch.inf if third and self.spoils == "params" else 1.0
        return params + update * factor


@pytest.mark.parametrize("spoils", ["params", "state"])
def test_a_step_that_is_not_finite_is_not_taken_and_nobody_is_blamed(spoils: str) -> None:
    strategy, whole = Strategy(server=Counted(spoils)), Strategy(server=Counted("nothing"))
    state = strategy.init(Population(2), torch.zeros(D), seed=0)
    twin = whole.init(Population(2), torch.zeros(D), seed=0)
    for t in range(5):
        update = torch.full((D,), float(t + 1))
        applied = one_round(strategy, state, [update, update])
        assert applied.refusals == ()
        assert applied.stepped == (t != 2)
        assert applied.notes.get("step_not_finite") == (1.0 if t == 2 else None)
        if t != 2:
            one_round(whole, twin, [update, update])
            assert torch.equal(state.params, twin.params)
            assert torch.equal(state.server.mean, twin.server.mean)
            assert state.server.seen.tolist() == twin.server.seen.tolist()
            assert state.server.steps == twin.server.steps
    assert state.t == 5
    assert state.params.tolist() == [1 + 2 + 4 + 5] * D


@dataclass(frozen=True)
class Overflowing:
    """An aggregator whose sum is beyond all numbers in round 1."""

    def aggregate(self, contributions: Contributions) -> torch.Tensor:
        total = Linear().aggregate(contributions)
        return total * torch.inf if float(total[0]) == 2.0 else total


def test_an_update_that_is_not_finite_is_no_step(tmp_path: Any) -> None:
    strategy = Strategy(aggregator=Overflowing(), server=Adam())
    state = strategy.init(Population(2), torch.zeros(D), seed=0, folder=tmp_path / "run")
    one_round(strategy, state, [torch.ones(D)] * 2)
    params = state.params.clone()
    before = {name: copy.deepcopy(value) for name, value in leaves(state.server)}
    applied = one_round(strategy, state, [torch.full((D,), 2.0)] * 2)
    assert not applied.stepped
    assert applied.notes["step_not_finite"] == 1.0
    assert torch.equal(state.params, params)
    assert {name: str(value) for name, value in leaves(state.server)} == {
        name: str(value) for name, value in before.items()
    }
    strategy.commit(state)
    state.close()
    again = resume(tmp_path / "run", strategy)
    assert torch.isfinite(again.params).all()
    again.close()


# -- counts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_steps", "taken"),
    [(1, True), (1.5, True), (0.999, False), (1e-39, False), (5e-324, False), (0, False)],
)
@pytest.mark.parametrize("together", [False, True])
def test_fewer_steps_than_one_are_refused_and_no_variate_is_spoilt(
    n_steps: float, taken: bool, together: bool
) -> None:
    """Δ / (K η) with K = 1e-39 is infinite, and c − c_i then NaN for everybody."""
    strategy = Strategy(local=Local(lr=0.1, rule=Scaffold()))
    state = strategy.init(Population(2), torch.zeros(D), seed=0)
    deltas: Any = [torch.ones(D), torch.ones(D)]
    counts: Any = [5, n_steps]
    if together:
        deltas, counts = torch.stack(deltas), np.array(counts)
    applied = one_round(strategy, state, deltas, n_steps=counts)
    assert reasons(applied) == ([] if taken else [(1, Reason.BAD_STEPS)])
    assert torch.isfinite(state.local.common).all()
    cohort = strategy.select(state, np.ones(2, dtype=bool))
    assert cohort.correction is not None
    assert all(torch.isfinite(cohort.correction(client)).all() for client in range(2))


@pytest.mark.parametrize("together", [False, True])
def test_ten_times_the_populations_own_figure_is_believed_and_no_more(together: bool) -> None:
    """Client 2's size is unknown to the population: there is no bound for it."""
    strategy = Strategy(weighting="examples")
    population = Population(3, n_examples=[20.0, 30.0, np.nan])
    state = strategy.init(population, torch.zeros(D), seed=0)

    def counted(*values: float) -> dict[str, Any]:
        return {"n_examples": np.array(values) if together else list(values)}

    deltas: Any = [torch.ones(D)] * 3
    if together:
        deltas = torch.stack(deltas)
    assert one_round(strategy, state, deltas, **counted(200, 300, 1e9)).refusals == ()
    applied = one_round(strategy, state, deltas, **counted(200.5, 301, 1e10))
    assert reasons(applied) == [(0, Reason.BAD_EXAMPLES), (1, Reason.BAD_EXAMPLES)]
    assert "expected > 0 and <= 200, got" in applied.refusals[0].detail
    # what clients reported themselves sets no bound: 200 was learnt, 10 x 20 still holds
    assert state.n_examples.tolist() == [200, 300, 1e10]
    assert len(reasons(one_round(strategy, state, deltas, **counted(201, 1, 1)))) == 1


def test_max_examples_holds_for_everyone() -> None:
    strategy = Strategy(weighting="examples", max_examples=100)
    state = strategy.init(Population(3, n_examples=[20, 5, np.nan]), torch.zeros(D), seed=0)
    applied = one_round(strategy, state, [torch.ones(D)] * 3, n_examples=[101, 51, 101])
    assert [refusal.id for refusal in applied.refusals] == [0, 1, 2]
    assert one_round(strategy, state, [torch.ones(D)] * 3, n_examples=[100, 50, 100]).stepped


# -- what is kept of a refusal ---------------------------------------------------------------------


class NoWords:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


LONG = 10**5000  # Python refuses to write so many digits


@pytest.mark.parametrize(
    "junk", ["x" * 30_000_000, b"x" * 30_000_000, LONG, -LONG, [0] * 100_000, NoWords()], ids=shown
)
def test_junk_is_refused_in_few_words(junk: Any) -> None:
    """As an id, a count and a start round: the refusal is short, can be printed and stored."""
    strategy = Strategy(local=Local(rule=Scaffold()))
    state = strategy.init(Population(4), torch.zeros(D), seed=0)
    cohort = strategy.select(state, np.ones(4, dtype=bool))
    applied = strategy.apply(
        state,
        cohort,
        Arrivals(
            ids=[junk, 1, 2, 3],
            deltas=[torch.ones(D)] * 4,
            n_examples=[1, junk, 1, 1],
            n_steps=[1, 1, junk, 1],
            start_round=[0, 0, 0, junk],
        ),
    )
    found = [refusal.reason for refusal in applied.refusals]
    assert found[:3] == [Reason.UNKNOWN_ID, Reason.BAD_EXAMPLES, Reason.BAD_STEPS]
    assert found[3] in (Reason.BAD_START, Reason.NOT_ASKED)
    for refusal in applied.refusals:
        assert len(str(refusal)) < 1000
        assert len(repr(refusal)) < 1000
    assert not applied.stepped


def test_a_refusal_keeps_an_id_that_is_short_as_it_is() -> None:
    for short in (5, -(2**70), "node 7", b"\x00", None, 2.5, (1, 2)):
        assert Refusal(short, Reason.UNKNOWN_ID, "x").id == short
    assert Refusal("x" * 500, Reason.UNKNOWN_ID, "y" * 5000).id == "'" + "x" * 198 + "…"
    assert len(Refusal(1, Reason.UNKNOWN_ID, "y" * 5000).detail) == 1000
