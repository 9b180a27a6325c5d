"""The arguments of training and of evaluation, and what is changed before they are called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from tests.simulation.training.kernels.fuzz.data import Data, beyond, column_of, far, shifted
from tests.simulation.training.kernels.fuzz.draw import Draw
from understudy.parts.local import Local, Proximal
from understudy.simulation.training.jobs import Job

Tensor = torch.Tensor
UNTOUCHED = 7.25  # what rows hold before they are trained, and what lies around them


@dataclass
class Call:
    """One round's arguments."""

    job: Job
    params: Tensor  # of the evaluation
    indices: Any  # of the evaluation
    change: Callable[[Data], object] | None = None  # to the data, after engines were made
    words: list[str] = field(default_factory=list)


def local(draw: Draw, dtype: torch.dtype) -> Local:
    """Single steps in float32: near-ties would send several apart."""
    terms: dict[str, Any] = {}
    if draw.chance(0.5):
        terms = draw.of(
            [
                {"momentum": 0.9}, {"weight_decay": 0.05}, {"rule": Proximal(0.7)},
                {"momentum": 0.5, "weight_decay": 0.1, "rule": Proximal(0.2)},
                {"batch_growth": 1},
            ]
        )  # fmt: skip
    length = {"epochs": 1} if draw.chance(0.3) else {"steps": draw.integer(1, 3)}
    if dtype != torch.float64:
        length = {"steps": 1}
    return Local(lr=0.05, batch_size=draw.of([1, 2, 5, 8, 17, 70, 200]), **length, **terms)


def call(draw: Draw, vector: Tensor, made: Data, odd: bool, changed: bool) -> Call:
    """A round's arguments for a model with these parameters."""
    d, dtype, n_clients = len(vector), vector.dtype, len(made.clients)
    clients = draw.rng.permutation(n_clients)[: draw.integer(1, n_clients)].tolist()
    matrix = torch.full((n_clients + 2, d + 3), UNTOUCHED, dtype=dtype)[1:-1, :d]
    rows = draw.rng.permutation(n_clients)[: len(clients)].tolist()
    starts = corrections = None
    if draw.chance(0.2):
        starts = vector + 0.05 * draw.normal(n_clients, d, dtype=dtype)
    if draw.chance(0.2):
        corrections = 0.1 * draw.normal(n_clients, d, dtype=dtype)
    t = draw.of([0, 1, 7])
    lr = draw.of([0.0, -0.1, 1e-3, 2.0]) if draw.chance(0.1) else None
    job = Job(t, clients, rows, vector, matrix, starts, corrections, lr)
    result = Call(job, vector, draw.integers(0, made.n_used - 1, draw.of([1, 3, 20, 80])))
    if odd:
        _make_odd(draw, result, made)
    if changed:
        name = draw.of(list(CHANGES))
        result.change = CHANGES[name](draw, made)
        result.words.append(name)
    return result


def _make_odd(draw: Draw, made_call: Call, made: Data) -> None:
    what = draw.of(["params", "matrix", "starts", "corrections", "indices", "indices", "ids"])
    job = made_call.job
    if what == "indices":
        name = draw.of(list(INDICES))
        made_call.indices = INDICES[name](draw, made_call.indices, made.n_used)
    elif what == "ids":
        name = draw.of(["client", "row"])
        wrong = draw.of([-1, len(made.clients), 10**6])
        field_ = {"client": "clients", "row": "rows"}[name]
        made_call.job = replace(job, **{field_: [wrong, *getattr(job, field_)[1:]]})
        name = f"{wrong} as a {name}"
    else:
        ways = VECTORS if what == "params" else MATRICES
        name = draw.of(list(ways))
        value = getattr(job, what)
        if value is None:
            value = job.params + torch.zeros(len(made.clients), 1, dtype=job.params.dtype)
        changed = ways[name](draw, value)
        made_call.job = replace(job, **{what: changed})
        if what == "params":
            made_call.params = changed
    made_call.words.append(f"{what} {name}")


def _other_type(draw: Draw, value: Tensor) -> Tensor:
    types = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64)
    return value.to(draw.of([dtype for dtype in types if dtype != value.dtype]))


def _leaf(value: Tensor) -> Tensor:
    return value.detach().clone().requires_grad_()


def _spoilt(_: Draw, value: Tensor) -> Tensor:
    value = value.clone()
    value[-1] = torch.nan  # of the last layer: see surgery.no_number
    return value


VECTORS: dict[str, Callable[[Draw, Tensor], Any]] = {
    "of another type": _other_type,
    "too short": lambda draw, v: v[: draw.of([0, 1, len(v) - 1, len(v) // 2])].clone(),
    "too long": lambda draw, v: torch.cat([v, v[: draw.integer(1, len(v))]]),
    "strided": lambda _, v: column_of(v, 2, 1, 1e30),
    "one number for all": lambda _, v: v[0].expand(len(v)),
    "within a buffer": lambda _, v: torch.cat([v[:3], v, v])[3 : 3 + len(v)],
    "misaligned": lambda draw, v: shifted(v, draw.of([1, 2, 4])),
    "require a gradient": lambda _, v: _leaf(v),
    "a parameter": lambda _, v: nn.Parameter(v),
    "in rows": lambda _, v: v.unsqueeze(0),
    "in a column": lambda _, v: v.unsqueeze(1),
    "on meta": lambda _, v: v.to("meta"),
    "no number": _spoilt,
    "sparse": lambda _, v: v.to_sparse(),
    "a scalar": lambda _, v: v[0],
}
MATRICES: dict[str, Callable[[Draw, Tensor], Any]] = {
    "of another type": _other_type,
    "too narrow": lambda draw, m: m[:, : draw.of([0, 1, m.shape[1] - 1])].clone(),
    "too wide": lambda _, m: torch.cat([m, m], 1),
    "of too few rows": lambda _, m: m[: len(m) - 1].clone(),
    "strided": lambda _, m: column_of(m, 2, 1, UNTOUCHED),
    "transposed": lambda _, m: m.t().contiguous().t(),
    "one number for each row": lambda _, m: m[:, :1].expand_as(m),
    "one row for all": lambda _, m: m[:1].expand_as(m),
    "misaligned": lambda draw, m: shifted(m.contiguous(), draw.of([1, 2, 4])),
    "require a gradient": lambda _, m: _leaf(m),
    "a vector": lambda _, m: m.reshape(-1).clone(),
    "on meta": lambda _, m: m.to("meta"),
    "of another dimension": lambda _, m: m.unsqueeze(1).clone(),
}
INDICES: dict[str, Callable[[Draw, Any, int], Any]] = {
    "of another type": lambda draw, i, _: i.astype(
        draw.of(["int32", "int16", "uint8", "uint64", "float64", "bool", ">i8", "object"])
    ),
    "strided": lambda _, i, __: np.repeat(i, 2)[::2],
    "backwards": lambda _, i, __: i[::-1],
    "one for all": lambda _, i, __: np.broadcast_to(i[:1], i.shape),
    "in rows": lambda _, i, __: i[None],
    "a list": lambda _, i, __: i.tolist(),
    "a tensor": lambda _, i, __: torch.from_numpy(i),
    "none": lambda _, i, __: i[:0],
    "with one of no example": lambda draw, i, n: np.append(i, beyond(draw, n)),
    "misaligned": lambda draw, i, _: shifted(torch.from_numpy(i), draw.of([1, 4])).numpy(),
    "a number": lambda _, i, __: i[0],
}


# -- changes after construction --------------------------------------------------------------------


Change = Callable[[Data], object]


def _label(draw: Draw, made: Data) -> Change:
    at, value = draw.integer(0, len(made.y) - 1), far(draw, made.n_classes)
    return lambda made: made.y.__setitem__(at, value)


def _legal_labels(draw: Draw, _: Data) -> Change:
    by = draw.integer(1, 5)
    return lambda made: made.y.copy_((made.y + by) % made.n_classes)


def _an_index(draw: Draw, made: Data) -> Change:
    client, value = draw.integer(0, len(made.clients) - 1), beyond(draw, len(made.x))
    return lambda made: made.clients[client].__setitem__(0, value)


def _replace(name: str, values: Callable[[Tensor], Tensor]) -> Any:
    def change(made: Data) -> None:
        tensor = getattr(made, name)
        tensor.data = values(tensor.detach())

    return lambda *_: change


# in place, in what the engines were given
CHANGES: dict[str, Callable[[Draw, Data], Change]] = {
    "y beyond the classes, after construction": _label,
    "y other labels, after construction": _legal_labels,
    "x other numbers, after construction": lambda *_: lambda made: made.x.mul_(-0.5),
    "x no numbers, after construction": lambda *_: lambda made: made.x.fill_(torch.nan),
    "a client's index of no example, after construction": _an_index,
    "x other memory, after construction": _replace("x", lambda x: -x.clone()),
    "x of another type, after construction": _replace("x", lambda x: x.to(torch.float16)),
    "x shorter, after construction": _replace("x", lambda x: x[: len(x) // 2].clone()),
    "y other memory, after construction": _replace("y", lambda y: y.flip(0).clone()),
    "y shorter, after construction": _replace("y", lambda y: y[: len(y) // 2].clone()),
    "y of another type, after construction": _replace("y", lambda y: y.to(torch.int32)),
    "x requires a gradient, after construction": lambda *_: lambda made: made.x.requires_grad_(),
}
