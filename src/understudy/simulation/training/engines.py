"""Which engine trains a model: by a rule, never by the clock."""

from __future__ import annotations

import torch

from understudy.simulation.training.jobs import Engine, Recipe
from understudy.simulation.training.local_sgd import LoopEngine
from understudy.simulation.training.softmax import SoftmaxEngine, has_closed_form


def engine_for(recipe: Recipe, x: torch.Tensor, y: torch.Tensor) -> Engine:
    """The closed form for softmax regression, the general loop for everything else."""
    if has_closed_form(recipe, x, y):
        return SoftmaxEngine(recipe, x, y)
    return LoopEngine(recipe, x, y)
