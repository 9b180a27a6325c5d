"""Which engine trains a model: by a rule of shapes, never by the clock.

The compiled kernels train plain chains of layers (`kernels.chain`) whose steps are not too large;
the loop trains everything else. The two differ in last bits, so the choice is stored with a run.
"""

from __future__ import annotations

import torch

from understudy.core import checks
from understudy.parts.local import UPDATE, reply_of
from understudy.simulation.training.jobs import Engine, EngineChoice, Recipe
from understudy.simulation.training.kernel_engine import PROBE, KernelEngine, kernel_plan
from understudy.simulation.training.kernels.chain import chain_of
from understudy.simulation.training.kernels.layers import Dropout, Refused
from understudy.simulation.training.kernels.library import Unavailable, loaded
from understudy.simulation.training.kernels.plan import Plan
from understudy.simulation.training.local_sgd import LoopEngine

ENGINES = ("auto", "loop", "kernels")
# Multiply-adds of one step's forward pass up to which the kernels win; those of linear layers count
# twice. Larger products are as fast in torch, whose blocks fit larger caches. The evidence:
# `python -m benchmarks.engines`, for both instruction sets.
LARGE_STEP = 3.5e8


def choose(
    recipe: Recipe,
    x: torch.Tensor,
    y: torch.Tensor,
    engine: str = "auto",
    *,
    assume_installed: bool = False,
) -> EngineChoice:
    """The engine for a recipe and its data.

    ``"auto"``: the kernels where the rule says so and they are there. ``"kernels"``: an error where
    they cannot train it. `assume_installed` tells of a machine that has them.
    """
    checks.choice("engine", engine, ENGINES)
    try:
        layers = chain_of(recipe.module, x[:PROBE])
    except Refused as reason:
        return _loop(str(reason), engine)
    addressed = any(isinstance(layer, Dropout) for layer in layers)
    try:
        if engine == "loop":
            raise Unavailable('engine="loop"')
        if reply_of(recipe.local) != UPDATE:
            raise Refused(f"clients with {type(recipe.local.rule).__name__} send no updates")
        plan = kernel_plan(recipe, x, y, layers)
        if not assume_installed:
            loaded(plan.dtype)  # it must be there
        if engine == "auto" and (work := _step(plan, recipe)) > LARGE_STEP:
            raise Refused(f"its steps are large ({work:.2g} multiply-adds)")
    except (Refused, Unavailable) as reason:
        return _loop(str(reason), engine, addressed)
    return EngineChoice(plan, addressed)


def _step(plan: Plan, recipe: Recipe) -> float:
    largest = max((len(held) for held in recipe.clients), default=0)
    batch_size = min(recipe.local.batch_size, largest)
    return float(batch_size * (plan.multiply_adds + plan.linear_multiply_adds))


def _loop(reason: str, engine: str, addressed: bool = False) -> EngineChoice:
    if engine == "kernels":
        raise ValueError(f"engine: 'kernels' cannot train this: {reason}")
    return EngineChoice(None, addressed, reason)


def engine_for(recipe: Recipe, x: torch.Tensor, y: torch.Tensor) -> Engine:
    """The engine that was chosen for a recipe."""
    if recipe.engine.plan is not None:
        return KernelEngine(recipe, x, y, recipe.engine.plan)
    return LoopEngine(recipe, x, y)
