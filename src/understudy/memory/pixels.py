"""`Pixels`: inputs of float32 that are kept as bytes, in a quarter of the memory.

Images are stored as bytes, and what a model sees of a byte is one of 256 numbers a channel. So
floats are made when examples are looked at, a few at a time, by the operations that would have made
all of them beforehand: the bits are the same.

Their bytes may lie in another order than the examples are numbered: a client's side by side, so
that a round reads a few stretches of memory instead of rows from everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch

from understudy.core.types import Ints

CHUNK = 1024  # examples converted at once: a few megabytes, which stay in the cache
BYTES = 256  # that there are

INT64 = torch.int64

Terms = np.ndarray[Any, np.dtype[np.float32]]


@dataclass(frozen=True)
class ByteScale:
    """What becomes of a stored value: divided by `scale`, then less `mean`, divided by `std`.

    The latter two have an entry for each channel.
    """

    scale: float = 255.0
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None

    def floats(self, stored: torch.Tensor) -> torch.Tensor:
        """(k, channels, …) float32, of bytes of this shape."""
        x = torch.empty(stored.shape, dtype=torch.float32)
        channels = (1, -1) + (1,) * (stored.ndim - 2)
        mean, std = (
            None if given is None else torch.tensor(given).view(channels)
            for given in (self.mean, self.std)
        )
        for first in range(0, len(stored), CHUNK):
            chunk = x[first : first + CHUNK]
            chunk.copy_(stored[first : first + CHUNK]).div_(self.scale)
            if mean is not None:
                chunk.sub_(mean)
            if std is not None:
                chunk.div_(std)
        return x

    @property
    def n_channels(self) -> int:
        """How many channels are scaled each in its own way; 1 where all are alike."""
        return max(len(given) if given else 1 for given in (self.mean, self.std))

    def of_bytes(self) -> torch.Tensor:
        """(256, channels) what each byte becomes."""
        every = torch.arange(BYTES, dtype=torch.uint8)
        return self.floats(every[:, None].expand(BYTES, self.n_channels))

    def terms(self) -> Terms:
        """(channels, 5) factor, what it lacks, mean, factor, what it lacks.

        A quotient is a product with the inverse in two parts, x · high + x · low, rounded once:
        compiled code need not divide. Whether it comes to the same bits is tried with every byte.
        """
        rows = []
        for channel in range(self.n_channels):
            mean = 0.0 if self.mean is None else self.mean[channel]
            std = 1.0 if self.std is None else self.std[channel]
            rows.append([*_inverse(self.scale), mean, *_inverse(std)])
        return np.array(rows, dtype=np.float32)


def _inverse(number: float) -> tuple[float, float]:
    """1 / number, of a float32, as the sum of two."""
    inverse = 1 / float(np.float32(number))
    high = float(np.float32(inverse))
    return high, inverse - high


class Pixels(torch.Tensor):
    """A tensor of float32 whose values are kept as bytes.

    Some of its examples, ``x[3:5]`` or ``x.index_select(0, indices)``, are plain tensors, and all
    else that is done with it is done with a plain tensor of all its values, made for this. It
    cannot be written to: ``x.clone()`` is a plain tensor that can.

    Parameters
    ----------
    stored : (n, …) tensor of uint8
        The bytes. With a mean or a std, channels come first in each example.
    scaling : ByteScale
        What becomes of them.
    place : (n,) int array, optional
        Which entry of `stored` has the bytes of each example; by default the one of its number.
    """

    stored: torch.Tensor
    scaling: ByteScale
    place: Ints | None

    def __new__(cls, stored: torch.Tensor, scaling: ByteScale, place: Ints | None = None) -> Self:
        if stored.dtype != torch.uint8 or not stored.ndim or not stored.is_contiguous():
            raise ValueError(
                f"stored: expected bytes (torch.uint8) that lie densely, got {stored.dtype} of "
                f"shape {tuple(stored.shape)}"
            )
        made: Self = torch.Tensor._make_wrapper_subclass(cls, stored.shape, dtype=torch.float32)
        made.stored, made.scaling, made.place = stored, scaling, place
        return made

    def laid_out(self, order: Ints) -> Self:
        """The same, with the bytes of these examples first, in this order; each counts once."""
        wanted = np.concatenate([order, np.arange(len(self.stored))])
        _, first = np.unique(wanted, return_index=True)
        laid = wanted[np.sort(first)]
        place = np.empty(len(laid), dtype=np.int64)
        place[laid] = np.arange(len(laid))
        return type(self)(self.bytes_of(torch.from_numpy(laid)), self.scaling, place)

    def bytes_of(self, which: torch.Tensor | slice) -> torch.Tensor:
        """The bytes of some examples, chosen as by ``[…]``."""
        if self.place is None:
            return self.stored[which]
        key = which if isinstance(which, slice) else which.numpy()
        return self.stored.index_select(0, torch.from_numpy(self.place[key]))

    def floats(self) -> torch.Tensor:
        """All values, as a plain tensor."""
        return self.scaling.floats(self.in_order())

    def in_order(self) -> torch.Tensor:
        """All bytes, in the order of the examples."""
        return self.stored if self.place is None else self.bytes_of(slice(None))

    def chunks(self) -> Iterator[torch.Tensor]:
        """The values, some examples after the other."""
        for first in range(0, len(self.stored), CHUNK):
            yield self.scaling.floats(self.bytes_of(slice(first, first + CHUNK)))

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return type(self), (self.stored, self.scaling, self.place)

    def __deepcopy__(self, memo: Any) -> Self:
        return self  # nobody writes to it

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return f"Pixels(shape={tuple(self.stored.shape)}, {self.scaling})"

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        given = kwargs or {}
        if func in _ABOUT:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **given)
        name = getattr(func, "__name__", "")
        if _writes(name, args, given) or name in _ADDRESSES:
            raise TypeError(
                f"{name}: these inputs are kept as bytes and cannot be written to; x.clone() can"
            )
        made = None
        if func in _SELECTS and not given and isinstance(args[0], Pixels):
            made = _selected(args[0], *args[1:])
        elif func is torch.cat and not given:
            made = _joined(args[0])
        if made is not None:
            return made
        return func(*_plain(args), **{key: _plain(value) for key, value in given.items()})

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """What reaches torch by another way than Python's functions."""
        return func(*_plain(args), **{key: _plain(one) for key, one in (kwargs or {}).items()})


def stored_of(x: torch.Tensor) -> tuple[torch.Tensor, ByteScale | None]:
    """What is kept of some inputs, in their order, and how it becomes them; see `inputs_of`."""
    return (x.in_order(), x.scaling) if isinstance(x, Pixels) else (x, None)


def bytes_held(x: torch.Tensor) -> int:
    """What inputs take in memory."""
    return int(x.stored.nbytes if isinstance(x, Pixels) else x.nbytes)


def inputs_of(stored: torch.Tensor, scaling: ByteScale | None) -> torch.Tensor:
    """The inputs of which this was kept."""
    return stored if scaling is None else Pixels(stored, scaling)


_PROPERTIES = (
    *("shape", "dtype", "device", "ndim", "layout", "requires_grad", "is_leaf", "nbytes"),
    *("itemsize", "is_sparse", "is_cuda", "is_meta", "is_quantized", "is_nested", "is_cpu"),
)
_METHODS = (
    *("__len__", "__hash__", "size", "dim", "ndimension", "numel", "nelement", "element_size"),
    *("is_floating_point", "is_complex", "is_contiguous", "is_neg", "is_conj", "stride"),
)
_ABOUT = {  # what is known of the values without them
    *(getattr(torch.Tensor, name).__get__ for name in _PROPERTIES),
    *(getattr(torch.Tensor, name) for name in _METHODS),
    *(torch.is_floating_point, torch.is_complex, torch.numel),
}
_SELECTS = {torch.Tensor.__getitem__, torch.Tensor.index_select, torch.index_select}
_ADDRESSES = {"data_ptr", "untyped_storage", "storage"}


def _writes(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    in_place = name == "__setitem__" or (name.endswith("_") and not name.endswith("__"))
    in_place |= name.startswith("__i") and name not in ("__index__", "__int__", "__invert__")
    return (in_place and isinstance(args[0], Pixels)) or isinstance(kwargs.get("out"), Pixels)


def _selected(x: Pixels, *which: Any) -> torch.Tensor | None:
    """Some examples; None where something else is asked for."""
    if len(which) == 2:  # index_select: dimension and indices
        if which[0] != 0:
            return None
        which_ones = which[1]
        if x.place is None:  # quicker than by […]
            return x.scaling.floats(x.stored.index_select(0, which_ones))
        return x.scaling.floats(x.bytes_of(which_ones))
    (key,) = which
    if isinstance(key, slice):
        return x.scaling.floats(x.bytes_of(key))
    if isinstance(key, int | list | np.ndarray | torch.Tensor):
        array = torch.as_tensor(key)
        if isinstance(key, int) or (array.ndim == 0 and not array.is_floating_point()):
            return x.scaling.floats(x.bytes_of(array[None]))[0] if array.dtype == INT64 else None
        if array.ndim == 1 and array.dtype in (INT64, torch.bool):
            return x.scaling.floats(x.bytes_of(array))
    return None


def _joined(parts: Sequence[Any]) -> Pixels | None:
    """All examples one after the other, as bytes, where all are bytes of one kind."""
    first = parts[0]
    if not all(isinstance(one, Pixels) and one.scaling == first.scaling for one in parts):
        return None
    return Pixels(torch.cat([one.in_order() for one in parts]), first.scaling)


def _plain(value: Any) -> Any:
    if isinstance(value, Pixels):
        return value.floats()
    if isinstance(value, list | tuple):
        return type(value)(_plain(one) for one in value)
    return value
