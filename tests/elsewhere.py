"""Another device on a machine that has none: tensors marked as lying elsewhere.

While the mode is on, an operation that mixes marked and unmarked tensors is an error, as it is
between a GPU and the CPU, and so is a look at a marked one with NumPy. Copying is allowed.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

DEVICE = torch.device("cuda")
COPIES = {"copy_", "__setitem__", "cpu", "to"}


class Marked(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl


def is_marked(value: Any) -> bool:
    return isinstance(value, Marked)


def mark(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, elsewhere."""
    return tensor.detach().as_subclass(Marked)


def _plain(value: Any) -> Any:
    return value.as_subclass(torch.Tensor) if is_marked(value) else value


class Elsewhere(TorchFunctionMode):
    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.device:
            return func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        marked = any(is_marked(one) for one in tensors)
        if getattr(func, "__self__", None) is torch.Tensor.device and name == "__get__":
            return DEVICE if marked else func(*args)
        target = self._target(args, kwargs)
        if marked and name in ("numpy", "__array__"):
            raise TypeError("can't convert a tensor that is elsewhere to numpy; use Tensor.cpu()")
        # a number without dimensions goes anywhere
        mixed = marked and any(not is_marked(one) and one.ndim > 0 for one in tensors)
        if mixed and name not in COPIES:
            shapes = [
                (tuple(one.shape), "elsewhere" if is_marked(one) else "cpu") for one in tensors
            ]
            raise RuntimeError(f"{name}: expected all tensors on one device, got {shapes}")
        if name == "__set__":  # as of `data`: of the tensor itself, not of a plain view of it
            return func(args[0], *tree_map(_plain, args[1:]))
        if target is not None:
            args = tuple(
                "cpu"
                if isinstance(value, str | torch.device) and torch.device(value) == DEVICE
                else value
                for value in args
            )
            kwargs = {key: "cpu" if value == DEVICE else value for key, value in kwargs.items()}
        result = func(*tree_map(_plain, args), **tree_map(_plain, kwargs))
        if name == "__setitem__" or (name.endswith("_") and not name.endswith("__")):
            return args[0] if isinstance(args[0], torch.Tensor) else result
        goes = target == "elsewhere" or (marked and target is None and name != "cpu")
        return (
            tree_map(lambda one: mark(one) if isinstance(one, torch.Tensor) else one, result)
            if goes
            else result
        )

    def _target(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
        """Where an operation is told to put its result."""
        for value in (*args, *kwargs.values()):
            if isinstance(value, torch.device) or (
                isinstance(value, str) and value in ("cpu", "cuda")
            ):
                return "elsewhere" if torch.device(value) == DEVICE else "cpu"
        return None
