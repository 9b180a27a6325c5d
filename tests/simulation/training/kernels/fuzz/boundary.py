"""All that the fuzzer knows of the engines: how they are chosen, made and called.

Whoever changes what engines take or give changes this file, and nothing else of the fuzzer.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from tests.simulation.small import SEED
from tests.simulation.training.kernels.fuzz.cases import Case
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
    engine = engines.engine_for(recipe_of(case, choice), case.data.x, case.data.y)
    return engine.another() if case.seed % 4 == 0 else engine  # as threads have it


class Loop:
    """The loop, with the same two calls."""

    def __init__(self, case: Case, choice: EngineChoice) -> None:
        by_loop = EngineChoice(None, choice.addressed_dropout)
        self._engine = LoopEngine(recipe_of(case, by_loop), case.data.x, case.data.y)
        self._module, self._x = dense(copy.deepcopy(case.module)), case.data.x
        self.train = self._engine.train

    def outputs(self, params: torch.Tensor, indices: Any) -> torch.Tensor:
        return model_outputs(self._module, params, self._x, indices)


def dense(module: nn.Module) -> nn.Module:
    """With parameters that lie densely, as in training: else a `view` may fail in evaluation."""
    for parameter in module.parameters():
        parameter.data = parameter.data.clone(memory_format=torch.contiguous_format)
    return module


# -- in public -------------------------------------------------------------------------------------


class Public:
    """A run of one round, as whoever uses the package has it."""

    def __init__(self, case: Case, engine: str) -> None:
        data, is_loop = case.data, engine == "loop"
        rest = np.setdiff1d(np.arange(data.n_used), np.concatenate(data.clients))
        n_classes = data.n_classes if data.y.dtype == torch.int64 else 0
        federation = Federation(data.x, data.y, data.clients, rest, n_classes=n_classes)
        self._run = simulate(
            federation,
            fedavg(local=case.local),
            model=dense(case.module) if is_loop else case.module,
            rounds=1,
            seed=1,
            workers=1,
            engine=engine,
        )
        self._everyone, self._params = np.arange(federation.n_clients), case.call.job.params
        if case.call.change is not None:
            case.call.change(data)

    @property
    def engine(self) -> str:
        """Which was chosen: "loop", or the kernels and their version."""
        return self._run.engine

    def answers(self, answer: Callable[[Callable[[], Any]], Any]) -> dict[str, Any]:
        """What is asked for, one after the other; `answer` calls."""
        run, params = self._run, self._params
        questions: dict[str, Callable[[], tuple[torch.Tensor, ...]]] = {
            "a round": lambda: (next(iter(run)) and run.state.params.clone(),),
            "Run.train": lambda: (torch.stack(list(run.train(params, self._everyone, 3).deltas)),),
            "Run.scores": lambda: (torch.tensor([run.scores(params)["test_loss"]]),),
            "the last scores": lambda: (torch.tensor([run.scores(run.state.params)["test_loss"]]),),
        }
        answers = {name: answer(question) for name, question in questions.items()}
        if isinstance(answers["a round"], Exception):
            del answers["the last scores"]  # of a model that was not trained
        return answers


# -- which build -----------------------------------------------------------------------------------


def use(folder: Path, isa: str) -> None:
    """All kernels of this process are those compiled into a folder, from the source as it is."""

    def loaded(dtype: np.dtype[np.floating]) -> Library:
        return opened(folder / compilation.file_name(isa, BITS[np.dtype(dtype)]), isa)

    engines.loaded = kernel_engine.loaded = loaded  # type: ignore[attr-defined]


# -- what lies between the arrays of an arena ------------------------------------------------------

CANARY = 0xA5


class Canaries:
    """Known bytes between the arrays."""

    def mark(self, gap: npt.NDArray[np.uint8]) -> None:
        gap[:] = CANARY

    def is_intact(self, gap: npt.NDArray[np.uint8]) -> bool:
        return bool((gap == CANARY).all())

    def release(self, gap: npt.NDArray[np.uint8]) -> None:
        """Before the memory is given back."""


guard: Any = Canaries()  # the sanitizers have another


@dataclass
class Arena:
    """One engine's memory, and what of it nobody may touch."""

    gaps: list[npt.NDArray[np.uint8]]

    @property
    def is_intact(self) -> bool:
        return all(guard.is_intact(gap) for gap in self.gaps)


@contextmanager
def guarded() -> Iterator[list[Arena]]:
    """Arenas that are made meanwhile are guarded; gives the list of them."""
    own, arenas = Plan.arena, []

    def arena(plan: Plan) -> Any:
        array = own(plan)
        ends = [0, *(last for _, last in plan.spans)]
        starts = [*(first for first, _ in plan.spans), plan.size]
        gaps = [array[a:b].view(np.uint8) for a, b in zip(ends, starts, strict=True) if b > a]
        for gap in gaps:
            guard.mark(gap)
        arenas.append(Arena(gaps))
        return array

    Plan.arena = arena  # type: ignore[method-assign]
    try:
        yield arenas
    finally:
        Plan.arena = own  # type: ignore[method-assign]
        for made in arenas:
            for gap in made.gaps:
                guard.release(gap)
