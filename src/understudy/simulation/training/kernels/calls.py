"""Which calls of torch a forward makes, without changing anything that another thread sees.

`torch.fx.Tracer.trace` replaces ``nn.Module.__call__`` for the whole process while it works: every
module that another thread calls meanwhile fails. Here the forward is simply called with a proxy in
place of its inputs. What layers say of themselves does not matter: their own forwards run, and the
graph holds what torch's functions were called with, parameters by their names. A proxy has no
numbers and no size, so a forward that looks at them fails with it; one that looks at the proxy
itself does something else with real examples, which is watched too.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx, nn
from torch.fx.proxy import GraphAppendingTracer
from torch.nn.modules import module as torch_modules
from torch.overrides import TorchFunctionMode

from understudy.simulation.training.kernels.layers import Refused
from understudy.simulation.training.kernels.watching import (
    Called,
    called,
    plain,
    state_of,
    watched_calls,
)

SHAPES = ("size", operator.getitem, getattr)  # what is asked of a shape: no call to compute with
FEW = 2  # of the examples: what a forward does must not hang on how many there are
TRIES = 20  # to follow a forward while other threads may draw random numbers


def calls_of(module: nn.Module, examples: torch.Tensor, training: bool) -> fx.Graph:
    """The calls of one forward, in training or in evaluation; with these examples it makes them.

    `Refused` where it cannot be followed, or something beside it has a say.
    """
    _check_parameters(module)
    _check_modules(module)
    own = copy.deepcopy(module).train(training)
    is_torchs = all(_is_torchs(part) for part in own.modules())  # they change and draw nothing
    for _ in range(TRIES):
        before = None if is_torchs else state_of(own)
        graph = _followed(own)
        watched = [watched_calls(own, few, is_torchs) for few in (examples[:FEW], examples)]
        if is_torchs or state_of(own) == before:
            break
        # once more: another thread may have drawn from Python's or NumPy's generators
    else:
        raise Refused("its forward changes the module or draws random numbers")
    if [_in_words(graph, len(few)) for few in (examples[:FEW], examples)] != watched:
        raise Refused("its forward does something else with a tensor than with a proxy of one")
    return graph


def _followed(module: nn.Module) -> fx.Graph:
    graph = fx.Graph()
    tracer = _Tracer(graph, module)
    inputs = tracer.create_proxy("placeholder", "x", (), {})
    try:
        with _NothingElse():
            outputs = module(inputs)
        tracer.create_node("output", "output", (tracer.create_arg(outputs),), {})
    except Refused:
        raise
    except Exception as error:  # whatever a forward may do with what is no tensor
        raise Refused(f"its forward cannot be followed: {error}") from error
    return graph


class _Tracer(GraphAppendingTracer):
    """Names the module's parameters; other tensors have no place in a chain."""

    def __init__(self, graph: fx.Graph, module: nn.Module) -> None:
        super().__init__(graph)
        self._names = {id(parameter): name for name, parameter in module.named_parameters()}

    def create_arg(self, a: Any) -> Any:
        if isinstance(a, torch.Tensor):
            if id(a) not in self._names:
                raise Refused("its forward uses a tensor that is none of its parameters")
            return self.create_node("get_attr", self._names[id(a)], (), {})
        return super().create_arg(a)


def _in_words(graph: fx.Graph, n_examples: int) -> list[Called]:
    """The calls of a graph, as `watched_calls` writes them down."""

    calls = [
        node
        for node in graph.nodes
        if node.op in ("call_function", "call_method") and node.target not in SHAPES
    ]
    numbers = {node: number for number, node in enumerate(calls)}

    def word(value: Any) -> object:
        if isinstance(value, fx.Node):
            if value.target in SHAPES:
                return n_examples
            return value.target if value.op == "get_attr" else numbers.get(value, -1)
        return plain(value, word)

    return [called(node.target, node.args, node.kwargs, word) for node in calls]


class _NothingElse(TorchFunctionMode):
    """Refuses calls of torch that do not act on the inputs: weights made of others, dice."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given = dict(kwargs or {})
        if not any(isinstance(value, fx.Proxy) for value in (*args, *given.values())):
            name = getattr(func, "__name__", repr(func))
            raise Refused(f"its forward calls torch's {name!r} on something else than its inputs")
        return func(*args, **given)


# -- what has a say beside the forward -------------------------------------------------------------


def _check_parameters(module: nn.Module) -> None:
    parameters = list(module.named_parameters(remove_duplicate=False))
    if len({id(parameter) for _, parameter in parameters}) < len(parameters):
        raise Refused("parameters are shared between layers")
    if [id(one) for one in module.parameters()] != [id(one) for _, one in parameters]:
        raise Refused("its parameters() are not those of its layers, each once")
    for name, parameter in parameters:
        if parameter.device.type != "cpu":
            raise Refused(f"parameter {name!r} is on {parameter.device}")
        if not parameter.requires_grad:
            raise Refused(f"parameter {name!r} is frozen")
        if type(parameter) is not nn.Parameter:
            raise Refused(f"parameter {name!r} is of type {type(parameter).__name__}")
        if parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None):
            raise Refused(f"parameter {name!r} has a hook")
    for name, _ in module.named_buffers():
        raise Refused(f"buffer {name!r} is part of the model")


HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
# what an instance may not have of its own: it would be called in place of its class's
OWN = ("forward", "_conv_forward", "_call_impl", "_wrapped_call_impl", "__call__")


def _check_modules(module: nn.Module) -> None:
    if torch_modules._has_any_global_hook():  # type: ignore[no-untyped-call]
        raise Refused("a hook is registered for all modules")
    for name, part in module.named_modules():
        who = f"module {name or type(part).__name__!r}"
        if any(getattr(part, hooks, None) for hooks in HOOKS):
            raise Refused(f"{who} has a hook")
        changed = [attribute for attribute in OWN if attribute in vars(part)]
        if changed:
            raise Refused(f"{who} has a {changed[0]!r} of its own")
        if type(part).__call__ is not nn.Module.__call__ or isinstance(
            part, torch.jit.ScriptModule
        ):
            raise Refused(f"{who} is called in another way than torch's modules")
        if getattr(part, "_compiled_call_impl", None) is not None:
            raise Refused(f"{who} is compiled by torch")
        if nn.utils.parametrize.is_parametrized(part):
            raise Refused(f"{who} is parametrized")


def _is_torchs(part: nn.Module) -> bool:
    """Whether its class, with the forward that it has now, is torch's own."""
    forward = getattr(type(part).forward, "__module__", "")
    return all(place.startswith("torch.nn.") for place in (type(part).__module__, forward))
