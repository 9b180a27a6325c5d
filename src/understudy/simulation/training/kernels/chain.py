"""Which nets the kernels can train: plain chains of layers, read out of the calls of a forward.

What is not certain is refused: the general loop trains it then. A module may do anything in its
forward; only calls that are listed here, on the result of the call before, make a chain.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional as F

from understudy.simulation.training.kernels.calls import calls_of
from understudy.simulation.training.kernels.layers import (
    Activation,
    Convolution,
    Dropout,
    Layer,
    LinearLayer,
    Pair,
    PoolLayer,
    Refused,
    Reshape,
    Weighted,
)


def chain_of(module: nn.Module, examples: torch.Tensor, training: bool = True) -> list[Layer]:
    """The layers of a module in training (or in evaluation), one after the other.

    A few inputs show what it does with them. `Refused` where it is not a plain chain of known
    layers, or something else has a say.
    """
    reader = _Reader({name: entry.shape for name, entry in module.named_parameters()})
    for node in calls_of(module, examples, training).nodes:
        reader.read(node)
    for name, _ in module.named_parameters():
        if name not in reader.used:
            raise Refused(f"parameter {name!r} belongs to no layer of the chain")
    return reader.layers


class _Reader:
    """Reads the nodes of a graph one by one; each must act on the result of the one before."""

    def __init__(self, shapes: dict[str, torch.Size]) -> None:
        self.layers: list[Layer] = []
        self.used: set[str] = set()  # parameters
        self._shapes_of_parameters = shapes
        self._last: fx.Node | None = None
        self._seen: set[fx.Node] = set()  # tensors with the batch in front
        self._shapes: set[fx.Node] = set()  # their shapes
        self._batch: set[fx.Node] = set()  # the first entry of a shape

    def read(self, node: fx.Node) -> None:
        if node.op == "placeholder":
            self._advance(node)
        elif node.op == "output":
            if node.args[0] is not self._last:
                raise Refused("its output is not the result of its last layer")
        elif node.op != "get_attr" and not self._is_size(node):
            self.layers.extend(self._layer(node))
            self._advance(node)

    def _advance(self, node: fx.Node) -> None:
        self._last = node
        self._seen.add(node)

    def _is_size(self, node: fx.Node) -> bool:
        """Whether it asks for a size of the batch, as in ``x.view(x.size(0), -1)``."""
        first = node.args[0] if node.args else None
        if not isinstance(first, fx.Node) or node.kwargs:
            return False
        rest, of_tensor = node.args[1:], first in self._seen
        method = node.target if node.op == "call_method" else None
        if of_tensor and method == "size" and rest == (0,):
            self._batch.add(node)
        elif of_tensor and (
            (method == "size" and not rest) or (node.target is getattr and rest == ("shape",))
        ):
            self._shapes.add(node)
        elif first in self._shapes and node.target is operator.getitem and rest == (0,):
            self._batch.add(node)
        else:
            return False
        return True

    def _layer(self, node: fx.Node) -> list[Layer]:
        inputs = [
            other
            for other in node.all_input_nodes
            if other not in self._batch and other.op != "get_attr"
        ]
        given = dict(node.kwargs)
        first = given.pop("input", None) if not node.args else node.args[0]
        if inputs != [self._last] or first is not self._last:
            raise Refused(f"{node.name!r} does not act on the result of the layer before it alone")
        rest = node.args[1:]
        known: dict[Any, Call] = METHODS if node.op == "call_method" else FUNCTIONS
        if node.op not in ("call_method", "call_function") or node.target not in known:
            raise Refused(f"{node.name!r} ({_words(node.target)}) is no layer of a plain chain")
        if node.target in RESHAPES:
            return [self._reshape(node)]
        names, make = known[node.target]
        if len(rest) > len(names) or not set(given) <= set(names[len(rest) :]):
            raise Refused(f"{node.name!r} is called with other arguments than {names}")
        given |= dict(zip(names, rest, strict=False))
        if node.target in WEIGHTED:
            return [self._weighted(node, make, given)]
        if any(isinstance(value, fx.Node) for value in given.values()):
            raise Refused(f"{node.name!r} has an argument that is computed")
        if given.pop("inplace", False) or node.target == "relu_":
            self._check_in_place(node)
        return make(**given)

    def _weighted(
        self, node: fx.Node, make: Callable[..., list[Layer]], given: dict[str, Any]
    ) -> Weighted:
        weight, bias = (self._parameter(node, given.pop(name, None)) for name in WEIGHTS)
        if weight is None or any(isinstance(value, fx.Node) for value in given.values()):
            raise Refused(f"{node.name!r} has an argument that is computed")
        shape = self._shapes_of_parameters[weight]
        if not all(shape):
            raise Refused(f"parameter {weight!r} is empty")
        (layer,) = make(weight, bias, shape, **given)
        assert isinstance(layer, Convolution | LinearLayer)
        if bias is not None and self._shapes_of_parameters[bias] != (layer.outputs,):
            found = tuple(self._shapes_of_parameters[bias])
            raise Refused(f"bias {bias!r} of {layer.outputs} outputs has the shape {found}")
        return layer

    def _parameter(self, node: fx.Node, given: Any) -> str | None:
        if given is None:
            return None
        if not isinstance(given, fx.Node) or given.op != "get_attr":
            raise Refused(f"{node.name!r} has a weight or bias that is no parameter")
        name = str(given.target)
        if name in self.used:
            raise Refused(f"parameter {name!r} is used more than once")
        self.used.add(name)
        return name

    def _check_in_place(self, node: fx.Node) -> None:
        """Torch's gradients need the results of some layers as they were."""
        before = [layer for layer in self.layers if not isinstance(layer, Reshape)]
        if not before or not isinstance(before[-1], Convolution | LinearLayer | PoolLayer):
            raise Refused(f"{node.name!r} changes in place what it gets")

    def _reshape(self, node: fx.Node) -> Layer:
        sizes: Any = node.args[1:]
        if node.kwargs:
            raise Refused(f"{node.name!r} is called with arguments by name")
        if len(sizes) == 1 and isinstance(sizes[0], tuple | list):
            sizes = tuple(sizes[0])
        if not sizes:
            raise Refused(f"{node.name!r} reshapes to {sizes}")
        first, shape = sizes[0], tuple(sizes[1:])
        if shape == (-1,) and first in self._batch:
            return Reshape(None)
        whole = all(type(size) is int and size > 0 for size in shape)
        if not shape or not whole or not (first == -1 or first in self._batch):
            raise Refused(f"{node.name!r} reshapes to {sizes}")
        return Reshape(shape)


def _words(target: Any) -> str:
    return target if isinstance(target, str) else getattr(target, "__name__", repr(target))


def _pair(value: Any, least: int) -> Pair:
    both = (value, value) if type(value) is int else value
    if isinstance(both, tuple | list) and len(both) == 1:
        both = (*both, *both)
    if (
        isinstance(both, tuple | list)
        and len(both) == 2
        and all(type(size) is int and size >= least for size in both)
    ):
        return both[0], both[1]
    raise Refused(f"expected one or two whole numbers of at least {least}, got {value!r}")


def _activation(kind: str) -> Callable[..., list[Layer]]:
    return lambda: [Activation(kind)]


def _pool(kind: str) -> Callable[..., list[Layer]]:
    plain = {
        "padding": (0, 0),
        "dilation": (1, 1),
        "ceil_mode": False,
        "return_indices": False,
        "divisor_override": None,
    }

    def make(**given: Any) -> list[Layer]:
        given.pop("count_include_pad", None)  # there is nothing to count
        window, stride = _pair(given.pop("kernel_size"), 1), given.pop("stride", None)
        for name, value in given.items():
            expected = plain[name]
            if (_pair(value, 0) if isinstance(expected, tuple) else value) != expected or (
                isinstance(expected, bool) and type(value) is not bool
            ):
                raise Refused(f"a pooling has {name} = {value!r}")
        return [PoolLayer(kind, window, window if stride is None else _pair(stride, 1))]

    return make


def _dropout(p: Any = 0.5, training: Any = True) -> list[Layer]:
    if type(p) not in (float, int) or not 0 <= p < 1:
        raise Refused(f"a dropout layer has p = {p!r}")
    if type(training) is not bool:
        raise Refused("a dropout layer's `training` is computed")
    return [Dropout(float(p))] if training and p > 0 else []


def _flatten(start_dim: Any = 0, end_dim: Any = -1) -> list[Layer]:
    whole = type(start_dim) is int and type(end_dim) is int
    if not whole or (start_dim, end_dim) != (1, -1):
        raise Refused(f"flattens dimensions {start_dim} to {end_dim}")
    return [Reshape(None)]


def _convolution(
    weight: str,
    bias: str | None,
    shape: torch.Size,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: Any = 1,
) -> list[Layer]:
    if len(shape) != 4:
        raise Refused(f"parameter {weight!r} has the shape {tuple(shape)}")
    outputs, inputs, height, width = shape
    if _pair(stride, 1) != (1, 1) or _pair(dilation, 1) != (1, 1) or _pair(groups, 1) != (1, 1):
        raise Refused(f"{weight!r} has stride {stride}, dilation {dilation}, groups {groups}")
    if padding == "valid":
        padding = 0
    if padding == "same":
        if height % 2 == 0 or width % 2 == 0:
            raise Refused(f"{weight!r} is padded more on one side than on the other")
        padding = (height // 2, width // 2)
    return [Convolution(weight, bias, inputs, outputs, (height, width), _pair(padding, 0))]


def _linear(weight: str, bias: str | None, shape: torch.Size) -> list[Layer]:
    if len(shape) != 2:
        raise Refused(f"parameter {weight!r} has the shape {tuple(shape)}")
    outputs, inputs = shape
    return [LinearLayer(weight, bias, inputs, outputs)]


# -- known calls: the names of their arguments behind the input, and what makes the layer ----------

Call = tuple[tuple[str, ...], Callable[..., list[Layer]]]

WEIGHTS = ("weight", "bias")
POOL = ("kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices")
AVERAGE = (
    *("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override"),
)

_relu: Call = (("inplace",), _activation("relu"))
_tanh: Call = ((), _activation("tanh"))
_sigmoid: Call = ((), _activation("sigmoid"))
_flat: Call = (("start_dim", "end_dim"), _flatten)
WEIGHTED: dict[Any, Call] = {
    F.linear: (WEIGHTS, _linear),
    F.conv2d: ((*WEIGHTS, "stride", "padding", "dilation", "groups"), _convolution),
}
FUNCTIONS: dict[Any, Call] = {
    **WEIGHTED,
    F.relu: _relu,
    torch.relu: ((), _activation("relu")),
    torch.tanh: _tanh,
    F.tanh: _tanh,
    torch.sigmoid: _sigmoid,
    F.sigmoid: _sigmoid,
    F.max_pool2d: (POOL, _pool("max")),
    torch.max_pool2d: (POOL[:-1], _pool("max")),
    F.avg_pool2d: (AVERAGE, _pool("average")),
    torch.flatten: _flat,
    F.dropout: (("p", "training", "inplace"), _dropout),
    torch.reshape: _flat,
}
METHODS: dict[Any, Call] = {
    "relu": ((), _activation("relu")),
    "relu_": ((), _activation("relu")),
    "tanh": _tanh,
    "sigmoid": _sigmoid,
    "flatten": _flat,
    "view": _flat,
    "reshape": _flat,
}
RESHAPES = ("view", "reshape", torch.reshape)
