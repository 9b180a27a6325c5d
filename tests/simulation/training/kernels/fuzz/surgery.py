"""What users do to a module after it was made: each operation changes one thing."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from tests.simulation.training.kernels.fuzz import attributes, overrides, weights
from tests.simulation.training.kernels.fuzz.draw import Draw
from tests.simulation.training.kernels.fuzz.parts import Impossible, some


def more_state(draw: Draw, module: nn.Module) -> str:
    """Parameters, buffers or layers that no forward uses."""
    dtype = next(module.parameters()).dtype
    part, way = draw.of(list(module.modules())), draw.of(["parameter", "buffer", "count", "layer"])
    if way == "parameter":
        part.register_parameter("spare", nn.Parameter(torch.ones(3, dtype=dtype)))
    elif way == "buffer":
        part.register_buffer("spare", torch.ones(3, dtype=dtype), persistent=draw.chance(0.5))
    elif way == "count":
        part.register_buffer("spare", torch.zeros((), dtype=torch.int64))
    elif isinstance(part, nn.Sequential | nn.ModuleList):
        raise Impossible  # it would be called
    else:
        part.spare = nn.Linear(3, 3, dtype=dtype)
    return f"an unused {way}"


def listed_twice(draw: Draw, module: nn.Module) -> None:
    sequence = some(draw, module, nn.Sequential)
    if not len(sequence):
        raise Impossible
    sequence.append(draw.of(list(sequence)))


def order_changed(draw: Draw, module: nn.Module) -> None:
    """A layer is taken out, or put at the front."""
    sequence = some(draw, module, nn.Sequential)
    if len(sequence) < 2:
        raise Impossible
    layer = sequence.pop(draw.integer(0, len(sequence) - 1))
    if draw.chance(0.5):
        sequence.insert(0, layer)


OPERATIONS: list[Callable[[Draw, nn.Module], str | None]] = [
    weights.head_cut, weights.head_cut, weights.channels_cut, weights.kernel_replaced,
    weights.inputs_replaced, weights.weight_of_other_rank, weights.bias_of_other_length,
    weights.bias_of_other_length, weights.bias_none, weights.plain_tensor, weights.deleted,
    weights.frozen, weights.not_contiguous, weights.channels_last, weights.expanded,
    weights.shared, weights.same_storage, weights.tensor_subclass, weights.one_of_another_type,
    weights.all_of_another_type, weights.meta, weights.no_number, attributes.attribute_changed,
    attributes.attribute_changed, attributes.attribute_changed, attributes.attribute_changed,
    attributes.never_in_training, overrides.forward_patched, overrides.forward_patched,
    overrides.class_changed, overrides.hooked, overrides.gradient_hooked, overrides.parametrized,
    more_state, listed_twice, order_changed,
]  # fmt: skip


def operated(draw: Draw, module: nn.Module) -> str:
    """Change one thing; what was changed, or nothing where nothing fitted."""
    for _ in range(5):
        operation = draw.of(OPERATIONS)
        try:
            said = operation(draw, module)
        except (Impossible, RuntimeError, AttributeError, KeyError, TypeError, ValueError):
            continue  # a module that was changed before may lack what this needs
        return said or operation.__name__.replace("_", " ")
    return ""
