"""Which nets the kernels can train: plain chains of layers, read out of a module by torch.fx.

What is not certain is refused: the general loop trains it then. A module may do anything in its
forward; only calls that are listed here, on the result of the call before, make a chain.
"""

from __future__ import annotations

import copy
import operator
import random
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import fx, nn
from torch.nn import functional as F
from torch.nn.modules import module as torch_modules

from understudy.core.threads import alone_in_torch

TRIES = 5  # to follow a forward
Pair = tuple[int, int]


class Refused(ValueError):
    """The kernels cannot train it; says why."""


@dataclass(frozen=True)
class Convolution:
    weight: str
    bias: str | None
    inputs: int
    outputs: int
    window: Pair
    padding: Pair


@dataclass(frozen=True)
class LinearLayer:
    weight: str
    bias: str | None
    inputs: int
    outputs: int


@dataclass(frozen=True)
class PoolLayer:
    kind: str  # "max" or "average"
    window: Pair
    stride: Pair


@dataclass(frozen=True)
class Activation:
    kind: str  # "relu", "tanh" or "sigmoid"


@dataclass(frozen=True)
class Dropout:
    p: float


@dataclass(frozen=True)
class Reshape:
    """One example becomes an array of this shape; None: a vector, of whatever length."""

    shape: tuple[int, ...] | None


Layer = Convolution | LinearLayer | PoolLayer | Activation | Dropout | Reshape


def chain_of(module: nn.Module, training: bool = True) -> list[Layer]:
    """The layers of a module in training (or in evaluation), one after the other.

    Raises
    ------
    Refused
        Where it is not a plain chain of known layers, or something else has a say.
    """
    _check_parameters(module)
    _check_hooks(module)
    graph, modules = _traced(module, training)
    reader = _Reader(modules)
    for node in graph.nodes:
        reader.read(node)
    used = {
        name
        for layer in reader.layers
        if isinstance(layer, Convolution | LinearLayer)
        for name in (layer.weight, layer.bias)
    }
    for name, _ in module.named_parameters():
        if name not in used:
            raise Refused(f"parameter {name!r} belongs to no layer of the chain")
    return reader.layers


def _check_parameters(module: nn.Module) -> None:
    parameters = list(module.named_parameters(remove_duplicate=False))
    if len({id(parameter) for _, parameter in parameters}) < len(parameters):
        raise Refused("parameters are shared between layers")
    for name, parameter in parameters:
        if not parameter.requires_grad:
            raise Refused(f"parameter {name!r} is frozen")
        if type(parameter) is not nn.Parameter:
            raise Refused(f"parameter {name!r} is of type {type(parameter).__name__}")
        if parameter._backward_hooks:
            raise Refused(f"parameter {name!r} has a hook")
    for name, _ in module.named_buffers():
        raise Refused(f"buffer {name!r} is part of the model")


HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def _check_hooks(module: nn.Module) -> None:
    if torch_modules._has_any_global_hook():  # type: ignore[no-untyped-call]
        raise Refused("a hook is registered for all modules")
    for name, part in module.named_modules():
        if any(getattr(part, hooks, None) for hooks in HOOKS):
            raise Refused(f"module {name or type(part).__name__!r} has a hook")


def _traced(module: nn.Module, training: bool) -> tuple[fx.Graph, dict[str, nn.Module]]:
    """The calls of one forward; what the forward changes or draws by itself is refused."""
    own = nn.Sequential(copy.deepcopy(module)).train(training)  # a lone layer is a call, too
    for _ in range(TRIES):
        # torch.fx changes what modules are while it follows one: not under another thread's feet
        with alone_in_torch(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            before = _state(own)
            try:
                graph = fx.Tracer().trace(own)
            except Exception as error:  # whatever a forward may do with what is no tensor
                raise Refused(f"torch.fx cannot follow it: {error}") from error
            unchanged = _state(own) == before
        if unchanged:
            return graph, dict(own.named_modules())
        # once more: another thread may have drawn from Python's or NumPy's generators
    raise Refused("its forward changes the module or draws random numbers")


def _parameter(target: str, name: str) -> str:
    """A parameter of a called module, as the module that was given names it."""
    return ".".join((*target.split(".")[1:], name))


def _state(module: nn.Module) -> Any:
    """What a forward with a memory or with dice changes: the next one may take another way."""
    attributes = [
        {name: repr(value) for name, value in vars(part).items() if name != "training"}
        for part in module.modules()
        if not type(part).__module__.startswith("torch.nn")
    ]
    dice = (torch.get_rng_state().tolist(), random.getstate(), repr(np.random.get_state()))  # noqa: NPY002
    return attributes, dice


# -- from calls to layers --------------------------------------------------------------------------


class _Reader:
    """Reads the nodes of a graph one by one; each must act on the result of the one before."""

    def __init__(self, modules: dict[str, nn.Module]) -> None:
        self.modules = modules
        self.layers: list[Layer] = []
        self._last: fx.Node | None = None
        self._seen: set[fx.Node] = set()  # tensors with the batch in front
        self._shapes: set[fx.Node] = set()  # their shapes
        self._batch: set[fx.Node] = set()  # the first entry of a shape

    def read(self, node: fx.Node) -> None:
        if node.op == "placeholder":
            if self._last is not None:
                raise Refused("its forward takes more than one argument")
            self._advance(node)
        elif node.op == "output":
            if node.args[0] is not self._last:
                raise Refused("its output is not the result of its last layer")
        elif not self._is_size(node):
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
        inputs = [other for other in node.all_input_nodes if other not in self._batch]
        if inputs != [self._last] or not node.args or node.args[0] is not self._last:
            raise Refused(f"{node.name!r} does not act on the result of the layer before it alone")
        rest, kwargs = node.args[1:], dict(node.kwargs)
        if node.op == "call_module":
            assert isinstance(node.target, str)
            part = self.modules[node.target]
            if rest or kwargs:
                raise Refused(f"{node.target!r} is called with further arguments")
            read = MODULES.get(type(part))
            if read is None:
                raise Refused(f"{node.target!r} is a {type(part).__name__}")
            layers = read(node.target, part)
            if any(layer in self.layers for layer in layers if hasattr(layer, "weight")):
                raise Refused(f"{node.target!r} is called more than once")
            return layers
        known: dict[Any, tuple[tuple[str, ...], Callable[..., list[Layer]]]] = (
            METHODS if node.op == "call_method" else FUNCTIONS
        )
        if node.op not in ("call_method", "call_function") or node.target not in known:
            raise Refused(f"{node.name!r} ({node.target}) is no layer of a plain chain")
        if node.target in ("view", "reshape", torch.reshape):
            return [self._reshape(node)]
        names, make = known[node.target]
        if len(rest) > len(names) or not set(kwargs) <= set(names[len(rest) :]):
            raise Refused(f"{node.name!r} is called with other arguments than {names}")
        given = dict(zip(names, rest, strict=False)) | kwargs
        if any(isinstance(value, fx.Node) for value in given.values()):
            raise Refused(f"{node.name!r} has an argument that is computed")
        return make(**given)

    def _reshape(self, node: fx.Node) -> Layer:
        sizes: Any = node.args[1:]
        if node.kwargs:
            raise Refused(f"{node.name!r} is called with arguments by name")
        if len(sizes) == 1 and isinstance(sizes[0], tuple | list):
            sizes = tuple(sizes[0])
        first, shape = sizes[0], tuple(sizes[1:])
        if shape == (-1,) and first in self._batch:
            return Reshape(None)
        whole = all(isinstance(size, int) and size > 0 for size in shape)
        if not shape or not whole or not (first == -1 or first in self._batch):
            raise Refused(f"{node.name!r} reshapes to {sizes}")
        return Reshape(shape)


def _pair(value: Any) -> Pair:
    if isinstance(value, int):
        return value, value
    if isinstance(value, tuple | list) and len(value) in (1, 2):
        both = (*value, *value)[:2] if len(value) == 1 else tuple(value)
        if all(isinstance(size, int) for size in both):
            return both[0], both[1]
    raise Refused(f"expected one or two whole numbers, got {value!r}")


def _activation(kind: str) -> Callable[..., list[Layer]]:
    return lambda **_: [Activation(kind)]


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
        window, stride = _pair(given.pop("kernel_size")), given.pop("stride", None)
        for name, value in given.items():
            expected = plain[name]
            if (_pair(value) if isinstance(expected, tuple) else value) != expected:
                raise Refused(f"a pooling has {name} = {value!r}")
        if min(window) < 1:
            raise Refused(f"a pooling has a window of {window}")
        return [PoolLayer(kind, window, _pair(stride) if stride else window)]

    return make


def _dropout(p: Any = 0.5, training: Any = True, inplace: Any = False) -> list[Layer]:
    if not isinstance(p, float | int) or not 0 <= p < 1:
        raise Refused(f"a dropout layer has p = {p!r}")
    if training not in (True, False):
        raise Refused("a dropout layer's `training` is computed")
    return [Dropout(float(p))] if training and p > 0 else []


def _flatten(start_dim: Any = 0, end_dim: Any = -1) -> list[Layer]:
    if (start_dim, end_dim) != (1, -1):
        raise Refused(f"flattens dimensions {start_dim} to {end_dim}")
    return [Reshape(None)]


def _convolution(name: str, layer: nn.Conv2d) -> list[Layer]:
    window = _pair(layer.kernel_size)
    plain = {"stride": (1, 1), "dilation": (1, 1), "groups": 1, "padding_mode": "zeros"}
    for setting, expected in plain.items():
        if getattr(layer, setting) != expected:
            raise Refused(f"{name!r} has {setting} = {getattr(layer, setting)!r}")
    padding: Any = layer.padding
    if padding == "valid":
        padding = (0, 0)
    if padding == "same":
        if window[0] % 2 == 0 or window[1] % 2 == 0:
            raise Refused(f"{name!r} is padded more on one side than on the other")
        padding = (window[0] // 2, window[1] // 2)
    bias = None if layer.bias is None else _parameter(name, "bias")
    return [
        Convolution(
            _parameter(name, "weight"),
            bias,
            layer.in_channels,
            layer.out_channels,
            window,
            _pair(padding),
        )
    ]


def _linear(name: str, layer: nn.Linear) -> list[Layer]:
    given: torch.Tensor | None = layer.bias
    bias = None if given is None else _parameter(name, "bias")
    return [LinearLayer(_parameter(name, "weight"), bias, layer.in_features, layer.out_features)]


POOL_SETTINGS = ("kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices")
AVERAGE_SETTINGS = (
    *("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override"),
)


def _of_module(names: tuple[str, ...], make: Callable[..., list[Layer]]) -> Any:
    return lambda _, layer: make(**{name: getattr(layer, name) for name in names})


# by exact type: a subclass may do anything in its forward
MODULES: dict[type[nn.Module], Callable[[str, Any], list[Layer]]] = {
    nn.Conv2d: _convolution,
    nn.Linear: _linear,
    nn.MaxPool2d: _of_module(POOL_SETTINGS, _pool("max")),
    nn.AvgPool2d: _of_module(AVERAGE_SETTINGS, _pool("average")),
    nn.ReLU: _of_module((), _activation("relu")),
    nn.Tanh: _of_module((), _activation("tanh")),
    nn.Sigmoid: _of_module((), _activation("sigmoid")),
    nn.Flatten: _of_module(("start_dim", "end_dim"), _flatten),
    nn.Dropout: _of_module(("p", "training"), _dropout),
    nn.Identity: lambda _name, _layer: [],
}

Call = tuple[tuple[str, ...], Callable[..., list[Layer]]]

_relu: Call = (("inplace",), _activation("relu"))
_max_pool: Call = (POOL_SETTINGS, _pool("max"))
FUNCTIONS: dict[Any, Call] = {
    F.relu: _relu,
    torch.relu: _relu,
    torch.tanh: ((), _activation("tanh")),
    F.tanh: ((), _activation("tanh")),
    torch.sigmoid: ((), _activation("sigmoid")),
    F.sigmoid: ((), _activation("sigmoid")),
    F.max_pool2d: _max_pool,
    torch.max_pool2d: (POOL_SETTINGS[:-1], _pool("max")),
    F.avg_pool2d: (AVERAGE_SETTINGS, _pool("average")),
    torch.flatten: (("start_dim", "end_dim"), _flatten),
    F.dropout: (("p", "training", "inplace"), _dropout),
    torch.reshape: ((), _flatten),
}
METHODS: dict[Any, Call] = {
    "relu": ((), _activation("relu")),
    "relu_": ((), _activation("relu")),
    "tanh": ((), _activation("tanh")),
    "sigmoid": ((), _activation("sigmoid")),
    "flatten": (("start_dim", "end_dim"), _flatten),
    "view": ((), _flatten),
    "reshape": ((), _flatten),
}
