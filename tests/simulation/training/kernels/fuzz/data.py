"""Inputs, labels and who holds them; some of them odd."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from tests.simulation.training.kernels.fuzz.draw import Draw
from tests.simulation.training.kernels.fuzz.weights import OwnTensor

Tensor = torch.Tensor


@dataclass
class Data:
    """The examples of a case."""

    x: Tensor
    y: Tensor
    clients: tuple[Any, ...]
    n_classes: int
    n_used: int  # examples 0 .. n_used - 1 are somebody's
    words: list[str] = field(default_factory=list)


def data(draw: Draw, shape: tuple[int, ...], n_classes: int, dtype: torch.dtype, odd: bool) -> Data:
    """Normal inputs, labels at random, one to three clients; an odd one has one thing changed."""
    large = draw.chance(0.06)  # batches in several chunks
    sizes = (
        [draw.integer(60, 150)]
        if large
        else [draw.integer(1, 25) for _ in range(draw.integer(1, 3))]
    )
    n = sum(sizes) + draw.integer(1, 6)
    x = draw.normal(n, *shape, dtype=dtype)
    y = torch.from_numpy(draw.integers(0, n_classes - 1, n))
    order = draw.rng.permutation(n)
    clients = tuple(np.split(order, np.cumsum(sizes)))[:-1]
    made = Data(x, y, clients, n_classes, n)
    if odd:
        ways = draw.of([X_WAYS, X_WAYS, Y_WAYS, Y_WAYS, CLIENT_WAYS])
        name = draw.of(list(ways))
        ways[name](draw, made)
        made.words.append(name)
    return made


# -- inputs ----------------------------------------------------------------------------------------


def column_of(values: Tensor, columns: int, column: int, fill: float) -> Tensor:
    """The same values as one column of a table whose others are something else."""
    table = torch.full((*values.shape, columns), fill, dtype=values.dtype)
    table[..., column] = values
    return table[..., column]


def shifted(values: Tensor, n_bytes: int) -> Tensor:
    """The same values at an address that is so many bytes off."""
    array = values.numpy()
    raw = np.zeros(array.nbytes + 64, dtype=np.uint8)
    first = -raw.ctypes.data % 64 + n_bytes
    there = raw[first : first + array.nbytes].view(array.dtype).reshape(array.shape)
    there[...] = array
    return torch.from_numpy(there)


def transposed(values: Tensor) -> Tensor:
    """The same values, the first two dimensions swapped in memory."""
    if values.ndim < 2:
        return values
    return values.transpose(0, 1).contiguous().transpose(0, 1)


def _x(change: Any) -> Any:
    def way(draw: Draw, made: Data) -> None:
        made.x = change(draw, made.x)

    return way


def _spoilt(draw: Draw, x: Tensor) -> Tensor:
    x.view(-1)[draw.integer(0, x.numel() - 1)] = draw.of([torch.nan, torch.inf, -torch.inf])
    return x


def _rows_of_a_buffer(draw: Draw, x: Tensor) -> Tensor:
    buffer = torch.full((len(x) + 6, *x.shape[1:]), 1e30, dtype=x.dtype)
    buffer[3:-3] = x
    return buffer[3:-3]


def _inference(_: Draw, x: Tensor) -> Tensor:
    with torch.inference_mode():
        return x.clone()


X_WAYS: dict[str, Any] = {
    "x a column of a table": _x(lambda _, x: column_of(x, 3, 1, 1e30)),
    "x transposed": _x(lambda _, x: transposed(x)),
    "x every second row": _x(lambda _, x: x.repeat_interleave(2, 0)[::2]),
    "x one example for all": _x(lambda _, x: x[:1].expand_as(x)),
    "x one number for all": _x(lambda _, x: x.reshape(-1)[0].expand(x.shape)),
    "x within a buffer": _x(_rows_of_a_buffer),
    "x misaligned": _x(lambda draw, x: shifted(x, draw.of([1, 2, 4]))),
    "x aligned to its numbers only": _x(lambda _, x: shifted(x, x.element_size())),
    "x channels last": _x(
        lambda _, x: x.contiguous(memory_format=torch.channels_last) if x.ndim == 4 else x
    ),
    "x of another type": _x(
        lambda draw, x: x.to(
            draw.of([torch.float16, torch.bfloat16, torch.float64, torch.float32, torch.int64,
                     torch.bool, torch.complex64])
        )
    ),
    "x requires a gradient": _x(lambda _, x: x.requires_grad_()),
    "x a parameter": _x(lambda _, x: nn.Parameter(x)),
    "x computed with a gradient": _x(lambda _, x: 1.0 * x.requires_grad_()),
    "x of a subclass": _x(lambda _, x: x.as_subclass(OwnTensor)),
    "x of an inference": _x(_inference),
    "x on meta": _x(lambda _, x: x.to("meta")),
    "x sparse": _x(lambda _, x: x.to_sparse()),
    "x negated lazily": _x(lambda _, x: torch.imag(torch.complex(0 * x, x).conj())),
    "x no number": _x(_spoilt),
    "x with a dimension more": _x(lambda _, x: x.unsqueeze(1)),
    "x with a dimension less": _x(lambda _, x: x[:, 0] if x.ndim > 1 else x),
    "x of other length": _x(lambda draw, x: x[..., : max(1, x.shape[-1] - draw.integer(1, 2))]),
    "x shorter than y": _x(lambda draw, x: x[: draw.integer(0, len(x) - 1)].clone()),
}  # fmt: skip


# -- labels ----------------------------------------------------------------------------------------


def _y(change: Any) -> Any:
    def way(draw: Draw, made: Data) -> None:
        made.y = change(draw, made.y, made.n_classes)

    return way


def _with(draw: Draw, y: Tensor, value: int) -> Tensor:
    y[draw.integer(0, len(y) - 1)] = value
    return y


def far(draw: Draw, n_classes: int) -> int:
    """A label that is none."""
    return draw.of([-1, -100, n_classes, n_classes + 40, 10**7, -(10**7), 2**62])


Y_WAYS: dict[str, Any] = {
    "y a column of a table of ids": _y(lambda _, y, __: column_of(y, 3, 1, 10**9)),
    "y a column of a table of labels": _y(lambda _, y, __: torch.stack([y.roll(1), y], 1)[:, 1]),
    "y a column from NumPy": _y(
        lambda _, y, __: torch.from_numpy(np.stack([y.numpy()[::-1], y.numpy()], 1)[:, 1])
    ),
    "y every second": _y(lambda _, y, __: y.repeat_interleave(2).roll(-1)[1::2].roll(1)),
    "y one label for all": _y(lambda _, y, __: y[:1].expand(len(y))),
    "y within a buffer": _y(
        lambda _, y, __: torch.cat([y - 10**9, y, y + 10**9])[len(y) : 2 * len(y)]
    ),
    "y misaligned": _y(lambda draw, y, _: shifted(y, draw.of([1, 2, 4]))),
    "y of another type": _y(
        lambda draw, y, _: y.to(
            draw.of([torch.int32, torch.uint8, torch.int8, torch.float32, torch.bool])
        )
    ),
    "y beyond the classes": _y(lambda draw, y, n: _with(draw, y, far(draw, n))),
    "y in a column": _y(lambda _, y, __: y.unsqueeze(1)),
    "y as probabilities": _y(lambda _, y, n: torch.eye(n, dtype=torch.float64)[y]),
    "y shorter than x": _y(lambda draw, y, _: y[: draw.integer(0, len(y) - 1)].clone()),
    "y longer than x": _y(lambda _, y, __: torch.cat([y, y])),
    "y of a subclass": _y(lambda _, y, __: y.as_subclass(OwnTensor)),
    "y on meta": _y(lambda _, y, __: y.to("meta")),
    "y sparse": _y(lambda _, y, __: y.to_sparse()),
}


# -- who holds what --------------------------------------------------------------------------------


def _clients(change: Any) -> Any:
    def way(draw: Draw, made: Data) -> None:
        which = draw.integer(0, len(made.clients) - 1)
        held = list(made.clients)
        held[which] = change(draw, held[which].copy(), len(made.x))
        made.clients = tuple(held)

    return way


def _put(draw: Draw, held: Any, value: int) -> Any:
    held[draw.integer(0, len(held) - 1)] = value
    return held


def beyond(draw: Draw, n: int) -> int:
    """An index of no example."""
    return draw.of([-1, -n, n, n + 7, 10**6, 2**40, -(2**40), 2**62])


CLIENT_WAYS: dict[str, Any] = {
    "a client's indices of another type": _clients(
        lambda draw, held, _: held.astype(
            draw.of(["int32", "int16", "uint8", "uint64", "float64", "bool", ">i8"])
        )
    ),
    "a client's indices strided": _clients(lambda _, held, __: np.repeat(held, 2)[::2]),
    "a client's indices backwards": _clients(lambda _, held, __: held[::-1]),
    "a client's indices one number": _clients(
        lambda _, held, __: np.broadcast_to(held[:1], held.shape)
    ),
    "a client's index of no example": _clients(
        lambda draw, held, n: _put(draw, held, beyond(draw, n))
    ),
    "a client without examples": _clients(lambda _, held, __: held[:0]),
    "a client's indices in rows": _clients(lambda _, held, __: held[None]),
}
