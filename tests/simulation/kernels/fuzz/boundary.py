"""All that the fuzzer knows of the engines: how they are chosen, made and called.

Whoever changes what engines take or give changes this file, and nothing else of the fuzzer.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from tests.simulation.kernels.fuzz.cases import Case
from tests.simulation.small import SEED
from understudy import fedavg
from understudy.simulation import Federation, simulate
from understudy.simulation.training import engines, kernel_engine
from understudy.simulation.training.evaluation import model_outputs
from understudy.simulation.training.jobs import EngineChoice, Recipe
from understudy.simulation.training.kernels import compile as compilation
from understudy.simulation.training.kernels.library import BITS, Library, opened
from understudy.simulation.training.kernels.plan import Plan
from understudy.simulation.training.local_sgd import LoopEngine


def recipe_of(case: Case, choice: EngineChoice | None = None) -> Recipe:
    """What engines are made from; as in a run, the module is copied."""
    module, engine = copy.deepcopy(case.module), choice or EngineChoice()
    clients = case.data.clients
    return Recipe(module, cross_entropy, case.local, SEED, clients, onednn=False, engine=engine)


def chosen(case: Case) -> EngineChoice:
    """Which engine would train a case: one without a plan is the loop."""
    return engines.choose(recipe_of(case), case.data.x, case.data.y)


def kernels(case: Case, choice: EngineChoice) -> Any:
    """The kernels that were chosen for a case."""
    return engines.engine_for(recipe_of(case, choice), case.data.x, case.data.y)


class Loop:
    """The loop, with the same two calls."""

    def __init__(self, case: Case, choice: EngineChoice) -> None:
        by_loop = EngineChoice(None, choice.addressed_dropout)
        self._engine = LoopEngine(recipe_of(case, by_loop), case.data.x, case.data.y)
        self._module, self._x = copy.deepcopy(case.module), case.data.x
        self.train = self._engine.train

    def outputs(self, params: torch.Tensor, indices: Any) -> torch.Tensor:
        return model_outputs(self._module, params, self._x, indices)


# -- in public -------------------------------------------------------------------------------------


def in_public(case: Case, engine: str) -> dict[str, Callable[[], Any]]:
    """What whoever uses the package asks a run of one round for, one after the other.

    Raises
    ------
    Exception
        What making the run raises.
    """
    held = np.concatenate(case.data.clients)
    rest = np.setdiff1d(np.arange(case.data.n_used), held)
    n_classes = case.data.n_classes if case.data.y.dtype == torch.int64 else 0
    data = Federation(case.data.x, case.data.y, case.data.clients, rest, n_classes=n_classes)
    strategy = fedavg(local=case.local)
    run = simulate(data, strategy, model=case.module, rounds=1, seed=1, workers=1, engine=engine)
    everyone, params = np.arange(data.n_clients), case.call.job.params

    def round_() -> torch.Tensor:
        next(iter(run))
        return run.state.params.clone()

    def loss(of: torch.Tensor) -> torch.Tensor:
        return torch.tensor([run.scores(of)["test_loss"]])

    return {
        "a round": round_,
        "Run.train": lambda: torch.stack(list(run.train(params, everyone, 3).deltas)).clone(),
        "Run.scores": lambda: loss(params),
        "Run.scores after a round": lambda: loss(run.state.params),
    }


# -- which build -----------------------------------------------------------------------------------


def use(folder: Path, isa: str) -> None:
    """All kernels of this process are those compiled into a folder, from the source as it is."""

    def loaded(dtype: np.dtype[np.floating]) -> Library:
        return opened(folder / compilation.file_name(isa, BITS[np.dtype(dtype)]), isa)

    engines.loaded = kernel_engine.loaded = loaded  # type: ignore[attr-defined]


# -- what lies between the arrays of an arena ------------------------------------------------------

CANARY = 0xA5  # each byte between the arrays


@contextmanager
def guarded() -> Iterator[list[tuple[Plan, Any]]]:
    """Arenas made here hold known bytes between their arrays; gives the list of them."""
    own, made = Plan.arena, []

    def arena(plan: Plan) -> Any:
        array = own(plan)
        for first, last in gaps(plan):
            array[first:last].view(np.uint8)[:] = CANARY
        made.append((plan, array))
        return array

    Plan.arena = arena  # type: ignore[method-assign]
    try:
        yield made
    finally:
        Plan.arena = own  # type: ignore[method-assign]


def gaps(plan: Plan) -> list[tuple[int, int]]:
    """What of an arena nobody may touch."""
    ends = [0, *(last for _, last in plan.spans)]
    starts = [*(first for first, _ in plan.spans), plan.size]
    return [(end, start) for end, start in zip(ends, starts, strict=True) if start > end]


def intact(made: list[tuple[Plan, Any]]) -> bool:
    """Whether the bytes between the arrays are as they were."""
    return all(
        (array[first:last].view(np.uint8) == CANARY).all()
        for plan, array in made
        for first, last in gaps(plan)
    )
