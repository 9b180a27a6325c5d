"""What users do to a module after it was made: each changes one thing, and says what."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune

from tests.simulation.kernels.fuzz.draw import Draw

WEIGHTED = (nn.Linear, nn.Conv2d)
POOLS = (nn.MaxPool2d, nn.AvgPool2d)


class Impossible(Exception):
    """This module has nothing to be changed in this way."""


def _some(draw: Draw, module: nn.Module, kinds: Any) -> Any:
    parts = [part for part in module.modules() if isinstance(part, kinds)]
    if not parts:
        raise Impossible
    return draw.of(parts)


def _like(parameter: torch.Tensor, *shape: int) -> nn.Parameter:
    return nn.Parameter(0.3 * torch.randn(shape).to(parameter.dtype))


# -- weights and biases ----------------------------------------------------------------------------


def head_cut(draw: Draw, module: nn.Module) -> None:
    """Fewer or more outputs than the layer says."""
    layer = _some(draw, module, nn.Linear)
    outputs = draw.of([1, 3, layer.out_features + 1, 2 * layer.out_features])
    layer.weight = _like(layer.weight, outputs, layer.weight.shape[1])
    if layer.bias is not None and draw.chance(0.9):
        layer.bias = _like(layer.weight, outputs)


def channels_cut(draw: Draw, module: nn.Module) -> None:
    """Other numbers of channels than the layer says; behind it things may not fit any more."""
    layer = _some(draw, module, nn.Conv2d)
    outputs = draw.of([1, layer.out_channels + 1])
    layer.weight = _like(layer.weight, outputs, *layer.weight.shape[1:])
    if layer.bias is not None:
        layer.bias = _like(layer.weight, outputs)


def kernel_replaced(draw: Draw, module: nn.Module) -> None:
    """A window of another size than the layer says."""
    layer = _some(draw, module, nn.Conv2d)
    height, width = layer.weight.shape[2:]
    sides = draw.of([(width, height), (1, width), (height, width + 1), (height, 2 * width)])
    layer.weight = _like(layer.weight, *layer.weight.shape[:2], *sides)


def inputs_replaced(draw: Draw, module: nn.Module) -> None:
    """Weights for other inputs than come: torch raises."""
    layer = _some(draw, module, WEIGHTED)
    outputs, inputs, *window = layer.weight.shape
    layer.weight = _like(layer.weight, outputs, draw.of([1, inputs + 1, 2 * inputs]), *window)


def weight_of_other_rank(draw: Draw, module: nn.Module) -> None:
    layer = _some(draw, module, WEIGHTED)
    shape = layer.weight.shape
    layer.weight = _like(layer.weight, *draw.of([shape[:1], (shape.numel(),), (1, *shape)]))


def bias_of_other_length(draw: Draw, module: nn.Module) -> None:
    layer = _some(draw, module, WEIGHTED)
    n = len(layer.weight)
    shape = draw.of([(1,), (1,), (n + 1,), (max(1, n - 1),), (1, n), (n, 1), (), (0,)])
    layer.bias = _like(layer.weight, *shape)


def bias_none(draw: Draw, module: nn.Module) -> None:
    _some(draw, module, WEIGHTED).bias = None


def plain_tensor(draw: Draw, module: nn.Module) -> None:
    """A weight or bias that is no parameter."""
    layer, name = _some(draw, module, WEIGHTED), draw.of(["weight", "bias"])
    value = getattr(layer, name)
    if value is None:
        raise Impossible
    delattr(layer, name)
    setattr(layer, name, value.detach().clone())


def deleted(draw: Draw, module: nn.Module) -> None:
    delattr(_some(draw, module, WEIGHTED), draw.of(["weight", "bias"]))


def frozen(draw: Draw, module: nn.Module) -> None:
    layer = _some(draw, module, WEIGHTED)
    draw.of([layer.weight, *([] if layer.bias is None else [layer.bias])]).requires_grad_(False)


def not_contiguous(draw: Draw, module: nn.Module) -> None:
    layer = _some(draw, module, WEIGHTED)
    layer.weight = nn.Parameter(layer.weight.detach().transpose(0, 1).contiguous().transpose(0, 1))


def channels_last(draw: Draw, module: nn.Module) -> None:
    module.to(memory_format=torch.channels_last)


def expanded(draw: Draw, module: nn.Module) -> None:
    """One row of weights in place of all."""
    layer = _some(draw, module, WEIGHTED)
    layer.weight = nn.Parameter(layer.weight.detach()[:1].expand_as(layer.weight))


def shared(draw: Draw, module: nn.Module) -> None:
    layers = [part for part in module.modules() if isinstance(part, WEIGHTED)]
    for one in layers:
        for other in layers:
            if one is not other and one.weight.shape == other.weight.shape:
                other.weight = one.weight
                return
    one, other = draw.of(layers), draw.of(layers)
    if one is other or one.bias is None or other.bias is None:
        raise Impossible
    other.bias = one.bias  # of another length, perhaps


def same_storage(draw: Draw, module: nn.Module) -> None:
    """Two parameters in the same memory: after the first step they are two."""
    layer = _some(draw, module, WEIGHTED)
    if layer.bias is None:
        raise Impossible
    layer.bias = nn.Parameter(layer.weight.detach().reshape(-1)[: len(layer.bias)])


class OwnTensor(torch.Tensor):
    """Another type of tensor."""


def tensor_subclass(draw: Draw, module: nn.Module) -> None:
    layer = _some(draw, module, WEIGHTED)
    layer.weight = nn.Parameter(layer.weight.detach().as_subclass(OwnTensor))


def one_of_another_type(draw: Draw, module: nn.Module) -> None:
    layer = _some(draw, module, WEIGHTED)
    layer.to(draw.of([torch.float16, torch.bfloat16, torch.float64, torch.float32]))


def all_of_another_type(draw: Draw, module: nn.Module) -> None:
    module.to(draw.of([torch.float16, torch.bfloat16, torch.float64, torch.float32]))


def meta(draw: Draw, module: nn.Module) -> None:
    draw.of([module, _some(draw, module, WEIGHTED)]).to("meta")


def no_number(draw: Draw, module: nn.Module) -> None:
    layer = _some(draw, module, WEIGHTED)
    with torch.no_grad():
        layer.weight.view(-1)[0] = draw.of([torch.nan, torch.inf])


# -- attributes ------------------------------------------------------------------------------------


def attribute_changed(draw: Draw, module: nn.Module) -> str:
    """A setting other than the layer was made with; some matter to torch and some do not."""
    kinds = (*WEIGHTED, *POOLS, nn.Dropout, nn.Flatten)
    layer = _some(draw, module, kinds)
    name, values = draw.of(ATTRIBUTES[next(kind for kind in kinds if isinstance(layer, kind))])
    value = draw.of(values)
    setattr(layer, name, value)
    return f"{type(layer).__name__}.{name} = {value!r}"


ATTRIBUTES: dict[type[nn.Module], list[tuple[str, list[Any]]]] = {
    nn.Linear: [("in_features", [1, 10**6, None]), ("out_features", [1, 3, 10**6, 0])],
    nn.Conv2d: [
        ("in_channels", [1, 7]),
        ("out_channels", [1, 2, 9, 10**6]),
        ("kernel_size", [(1, 1), (2, 2), (3, 5), 3, (40, 40), (1, 17)]),
        ("padding", [0, 1, 2, (0, 2), (1,), [1, 0], "same", "valid", -1, (3, 30), True]),
        ("stride", [1, 2, (2, 1), (1,), [1, 1], 0]),
        ("dilation", [1, 2, (1, 2), [1, 1]]),
        ("groups", [1, 2, 3]),
        ("padding_mode", ["circular", "reflect", "replicate", "nothing"]),
        ("transposed", [True]),
    ],
    nn.MaxPool2d: [
        ("kernel_size", [1, 2, (2, 1), [2, 2], (2,), 0, -1, 2.0, True, (1, 2, 3), None]),
        ("stride", [0, (0, 1), (), None, 1, [2, 1], (1,), -1, 2.5, 100, (1, 0)]),
        ("padding", [1, (0, 1), [0], 5]),
        ("dilation", [2, (1, 2), 0, [1]]),
        ("ceil_mode", [True, 1]),
        ("return_indices", [True]),
    ],
    nn.AvgPool2d: [
        ("kernel_size", [1, 2, (2, 1), [2, 2], 0, 2.0]),
        ("stride", [0, (0, 1), (), None, 1, [2, 1], (1, 0), 100]),
        ("padding", [1, (0, 1)]),
        ("ceil_mode", [True]),
        ("count_include_pad", [False]),
        ("divisor_override", [2, 1, 0, None]),
    ],
    nn.Dropout: [
        ("p", [1.0, 1, 0, 0.0, -0.5, 2.0, 0.3, True, None, "0.5", float("nan"), 1 - 1e-12]),
        ("inplace", [True]),
        ("training", [False]),
    ],
    nn.Flatten: [("start_dim", [0, 2, -1, 1.0, True]), ("end_dim", [1, 2, 3, -2])],
}


def never_in_training(draw: Draw, module: nn.Module) -> None:
    """A layer that stays in evaluation, as frozen parts of a net do."""
    part = _some(draw, module, (nn.Dropout, *WEIGHTED))
    part.eval()
    part.train = types.MethodType(lambda self, mode=True: self, part)


# -- forwards --------------------------------------------------------------------------------------


def forward_patched(draw: Draw, module: nn.Module) -> str:
    """An instance's own forward."""
    part = draw.of(list(module.modules()))
    way = draw.of(["doubled", "with a low rank", "replaced", "the same", "of a closure"])
    own = type(part).forward
    patched: Any
    if way == "doubled":
        patched = types.MethodType(lambda self, x: 2 * own(self, x), part)
    elif way == "the same":
        patched = types.MethodType(own, part)
    elif way == "of a closure":
        before = part.forward

        def patched(x: torch.Tensor) -> torch.Tensor:
            return before(x) * 0.5

    elif way == "replaced":
        patched = torch.tanh
    else:
        part = _some(draw, module, nn.Linear)
        outputs, inputs = part.weight.shape
        up, down = (
            torch.randn(*shape).to(part.weight.dtype) for shape in ((outputs, 2), (2, inputs))
        )
        linear = nn.Linear.forward
        patched = types.MethodType(lambda self, x: linear(self, x) + x @ down.T @ up.T, part)
    part.forward = patched
    return f"forward of a {type(part).__name__} {way}"


class _Squared(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) ** 2


class _OtherCall(nn.Linear):
    def __call__(self, x: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return 2 * super().__call__(x)


class _SameLinear(nn.Linear):
    pass


class _OwnSequence(nn.Sequential):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(-x)


class _BackwardSequence(nn.Sequential):
    def __iter__(self) -> Any:
        return iter(reversed(list(super().__iter__())))


def class_changed(draw: Draw, module: nn.Module) -> str:
    """A subclass in place of torch's own."""
    kinds: list[tuple[type[nn.Module], type[nn.Module]]] = [
        (nn.Linear, _Squared), (nn.Linear, _OtherCall), (nn.Linear, _SameLinear),
        (nn.Sequential, _OwnSequence), (nn.Sequential, _BackwardSequence),
        (nn.Conv2d, types.new_class("Own", (nn.Conv2d,))),
    ]  # fmt: skip
    kind, other = draw.of(kinds)
    part = _some(draw, module, kind)
    part.__class__ = other
    return f"a {kind.__name__} is of class {other.__name__}"


def hooked(draw: Draw, module: nn.Module) -> str:
    part = draw.of(list(module.modules()))
    way = draw.of(["forward", "forward pre", "backward", "backward pre", "forward always"])
    if way == "forward":
        part.register_forward_hook(lambda _module, _inputs, outputs: 2 * outputs)
    elif way == "forward always":
        part.register_forward_hook(lambda _module, _inputs, outputs: -outputs, always_call=True)
    elif way == "forward pre":
        part.register_forward_pre_hook(lambda _module, inputs: (2 * inputs[0],))
    elif way == "backward":
        part.register_full_backward_hook(
            lambda _module, found, _: tuple(g and 2 * g for g in found)
        )
    else:
        part.register_full_backward_pre_hook(lambda _module, found: (2 * found[0],))
    return f"a {way} hook"


def gradient_hooked(draw: Draw, module: nn.Module) -> None:
    _some(draw, module, WEIGHTED).weight.register_hook(lambda gradient: 2 * gradient)


class _Halved(nn.Module):
    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return weight / 2


def parametrized(draw: Draw, module: nn.Module) -> str:
    layer = _some(draw, module, WEIGHTED)
    ways: dict[str, Callable[[nn.Module], object]] = {
        "weight_norm": parametrizations.weight_norm,
        "spectral_norm": parametrizations.spectral_norm,
        "old weight_norm": torch.nn.utils.weight_norm,
        "pruned": lambda part: prune.l1_unstructured(part, "weight", amount=0.5),
        "halved": lambda part: parametrize.register_parametrization(part, "weight", _Halved()),
    }
    way = draw.of(list(ways))
    ways[way](layer)
    return f"weights {way}"


# -- the tree --------------------------------------------------------------------------------------


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
    sequence = _some(draw, module, nn.Sequential)
    if not len(sequence):
        raise Impossible
    sequence.append(draw.of(list(sequence)))


def order_changed(draw: Draw, module: nn.Module) -> None:
    """A layer is taken out, or put at the front."""
    sequence = _some(draw, module, nn.Sequential)
    if len(sequence) < 2:
        raise Impossible
    layer = sequence.pop(draw.integer(0, len(sequence) - 1))
    if draw.chance(0.5):
        sequence.insert(0, layer)


OPERATIONS: list[Callable[[Draw, nn.Module], str | None]] = [
    head_cut, head_cut, channels_cut, kernel_replaced, inputs_replaced, weight_of_other_rank,
    bias_of_other_length, bias_of_other_length, bias_none, plain_tensor, deleted, frozen,
    not_contiguous, channels_last, expanded, shared, same_storage, tensor_subclass,
    one_of_another_type, all_of_another_type, meta, no_number, attribute_changed, attribute_changed,
    attribute_changed, attribute_changed, never_in_training, forward_patched, forward_patched,
    class_changed, hooked, gradient_hooked, parametrized, more_state, listed_twice, order_changed,
]  # fmt: skip


def operated(draw: Draw, module: nn.Module) -> str:
    """Change one thing; what was changed, or nothing where nothing fitted."""
    for _ in range(5):
        operation = draw.of(OPERATIONS)
        try:
            said = operation(draw, module)
        except (Impossible, RuntimeError, AttributeError, KeyError, ValueError):
            continue  # a module that was changed before may lack what this needs
        return said or operation.__name__.replace("_", " ")
    return ""
