"""Whether targets fit what the model gives: found out on a few examples, before the first step.

Outputs of shape (b, 1) and targets of shape (b,) broadcast to (b, b): a squared error then compares
everything with everything, and the model learns the mean. Torch only warns.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from understudy.simulation.training.jobs import Loss

PROBE = 3  # examples; one alone would broadcast without a trace

# Losses that compare entry with entry; others, such as cross_entropy, check shapes themselves.
ELEMENTWISE = frozenset(
    {
        F.mse_loss,
        F.l1_loss,
        F.smooth_l1_loss,
        F.huber_loss,
        F.binary_cross_entropy,
        F.binary_cross_entropy_with_logits,
        F.poisson_nll_loss,
        F.gaussian_nll_loss,
        F.kl_div,
        F.soft_margin_loss,
    }
)
SUBTRACTIONS = frozenset({"sub", "subtract", "rsub", "__sub__", "__rsub__"})


def check_targets(module: nn.Module, loss: Loss, x: torch.Tensor, y: torch.Tensor) -> None:
    """Raise where a loss would broadcast outputs against targets, or takes no such targets.

    The first few examples are looked at. A loss may compare what it likes, in shapes of its own:
    refused are torch's elementwise losses, and differences, of outputs and targets of different
    shape.
    """
    if loss is F.cross_entropy:
        if y.is_floating_point() and not _probabilities(y):
            raise ValueError(
                f"y: targets of a floating type, here {y.dtype} of shape {tuple(y.shape)}, need a "
                "loss of their own, since cross_entropy takes classes, or probabilities of at "
                "least two classes; give loss=…, for example torch.nn.functional.mse_loss"
            )
        if len(x) and not x.is_floating_point() and not y.is_floating_point():
            _check_places(outputs_for(module, x[:PROBE]), y)
        return
    if not len(x):
        return
    few = torch.arange(PROBE) % len(x)
    outputs, targets = outputs_for(module, x[few]), y[few]
    if not isinstance(outputs, torch.Tensor):
        return
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]), _Watch(outputs, targets):
            loss(outputs, targets)
    except _Broadcast as error:
        raise ValueError(_words(error.name, outputs, y)) from None
    except Exception:
        return  # whatever is wrong beside shapes, the first step says so itself


def _check_places(outputs: Any, y: torch.Tensor) -> None:
    """Whether a model of sequences gives scores for as many places as there are labels."""
    if not isinstance(outputs, torch.Tensor) or outputs.shape[2:] == y.shape[1:]:
        return
    gives, takes = _shape("batch", outputs), _shape("n", y)
    hint = ""
    if outputs.ndim == 3 and y.ndim == 1:
        hint = "; a built-in model of sequences gives one answer for each with last=True"
    if outputs.ndim == 2 and y.ndim == 2:
        hint = "; a built-in model of sequences gives one for each place without last"
    raise ValueError(
        f"y: expected labels for the model's outputs of shape {gives} (batch, classes, places), "
        f"got {takes}{hint}"
    )


def _probabilities(y: torch.Tensor) -> bool:
    """Whether targets are a probability of each class: (n, C, …) with C ≥ 2."""
    if y.ndim < 2 or y.shape[1] < 2 or not len(y):
        return False
    total = y.sum(dim=1)
    return bool((y >= 0).all()) and bool(
        torch.isclose(total, torch.ones_like(total), atol=1e-3).all()
    )


@torch.no_grad()
def outputs_for(module: nn.Module, x: torch.Tensor) -> Any:
    """What a model says in evaluation mode; it is not changed."""
    training = module.training
    try:
        return module.eval()(x)
    finally:
        module.train(training)


def _words(name: str, outputs: torch.Tensor, y: torch.Tensor) -> str:
    gives, takes = _shape("batch", outputs), _shape("n", y)
    return (
        f"y: expected targets of shape {_shape('n', outputs)}, since the model's outputs have "
        f"shape {gives}, got {takes}: {name} would broadcast the two. Reshape y, or let the model "
        f"give outputs of shape {_shape('batch', y)}"
    )


def _shape(first: str, tensor: torch.Tensor) -> str:
    rest = "".join(f" {size}," for size in tensor.shape[1:])
    return f"({first},{rest})" if tensor.ndim < 2 else f"({first},{rest[:-1]})"


class _Broadcast(Exception):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class _Watch(TorchFunctionMode):
    """Sees what a loss does with outputs and targets; raises `_Broadcast` at the first misfit."""

    def __init__(self, outputs: torch.Tensor, targets: torch.Tensor) -> None:
        super().__init__()
        # each with what was made of it entry by entry: a cast, a sigmoid
        self.families = ([outputs], [targets])

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        tensors = [value for value in (*args, *kwargs.values()) if _is_tensor(value)]
        name = getattr(func, "__name__", "")
        if func in ELEMENTWISE:
            pair = _first_two(args, kwargs)
            if pair is not None and self._unequal(*pair):
                raise _Broadcast(name)
        elif name in SUBTRACTIONS and len(tensors) == 2 and self._crossed(*tensors):
            raise _Broadcast("the difference of outputs and targets")
        result = func(*args, **kwargs)
        if len(tensors) == 1 and _is_tensor(result) and result.shape == tensors[0].shape:
            for family in self.families:
                if any(tensors[0] is member for member in family):
                    family.append(result)
        return result

    def _unequal(self, one: torch.Tensor, other: torch.Tensor) -> bool:
        return _both_expand(one, other) or (self._meet(one, other) and one.shape != other.shape)

    def _crossed(self, one: torch.Tensor, other: torch.Tensor) -> bool:
        # one side alone may be expanded on purpose: several quantiles of one target
        return self._meet(one, other) and _both_expand(one, other)

    def _meet(self, one: torch.Tensor, other: torch.Tensor) -> bool:
        """Whether the two are outputs and targets."""
        outputs, targets = ([id(member) for member in family] for family in self.families)
        return (id(one) in outputs and id(other) in targets) or (
            id(other) in outputs and id(one) in targets
        )


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _first_two(args: tuple[Any, ...], kwargs: Any) -> tuple[torch.Tensor, torch.Tensor] | None:
    """`input` and `target` of a loss, however they were passed."""
    given = {**dict(zip(("input", "target"), args, strict=False)), **kwargs}
    pair = given.get("input"), given.get("target")
    return pair if all(_is_tensor(value) for value in pair) else None  # type: ignore[return-value]


def _both_expand(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether broadcasting makes more of either: (b, 1) and (b,) become (b, b)."""
    try:
        shape = torch.broadcast_shapes(one.shape, other.shape)  # type: ignore[no-untyped-call]
    except RuntimeError:  # they do not go together: torch says so
        return False
    return shape not in (one.shape, other.shape)
