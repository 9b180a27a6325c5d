"""What is found out about a model before it is trained: every forward of a run's construction.

A forward may be anybody's code: it may draw from torch's own generator, which belongs to the whole
process and which another run may just be training with. So all of them are here, under one lock,
and the generator is afterwards as before. One thread of torch's is used: in a child that was forked
from a process whose OpenMP threads are gone, a second one would wait for ever.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn

from understudy.core.flat import Layout
from understudy.core.threads import alone_in_torch, one_thread
from understudy.simulation.data.federation import Federation
from understudy.simulation.training.convolution_backend import Cost, measure
from understudy.simulation.training.engines import choose
from understudy.simulation.training.generators import forked
from understudy.simulation.training.jobs import Recipe
from understudy.simulation.training.targets import PROBE, check_targets, outputs_for


def prepared(
    recipe: Recipe, x: torch.Tensor, y: torch.Tensor, engine: str = "auto"
) -> tuple[Recipe, Cost]:
    """A recipe with its convolution kernels and its engine chosen, and what a forward pass costs.

    Its module is on the CPU; its weights are laid densely, as they lie in training, and keep their
    values. A ValueError where the targets do not fit the loss and the model's outputs, or the
    engine ``"kernels"`` cannot be.
    """
    with alone_in_torch(), one_thread(), forked("cpu"), torch.autocast("cpu", enabled=False):
        for entry in Layout.of(recipe.module).entries(recipe.module).values():
            # else a `view` may fail that does not in training
            entry.data = entry.data.clone(memory_format=torch.contiguous_format)
        check_targets(recipe.module, recipe.loss, x, y)
        cost = measure(recipe.module, x[:1], recipe.local.batch_size)
        recipe = replace(recipe, onednn=cost.onednn)  # part of a run: it decides last bits
        return replace(recipe, engine=choose(recipe, x, y, engine)), cost


def with_inputs_for(module: nn.Module, federation: Federation) -> Federation:
    """The data with inputs that the model takes: whole numbers stay so where it looks them up.

    They are converted to the model's floating type where a forward of a few of them fails as they
    are and works when converted: an embedding takes whole numbers, a linear layer does not.
    """
    few, dtype = federation.x[:PROBE], Layout.of(module).dtype
    if few.is_floating_point() or few.is_complex():
        return federation
    with alone_in_torch(), one_thread(), forked("cpu"), torch.autocast("cpu", enabled=False):
        try:
            outputs_for(module, few)
            return federation
        except Exception:  # anybody's forward: what it raises is not known
            try:
                outputs_for(module, few.to(dtype))
            except Exception:
                return federation  # something else is wrong, and the first step says so itself
    return federation.in_floats(dtype)
