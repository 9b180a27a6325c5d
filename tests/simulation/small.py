"""What the tests of this folder share: small federations, cohorts, rounds that can be compared."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import torch

from understudy.core.types import Cohort, RoundLog
from understudy.simulation import Federation

SEED = 5


def federation(
    sizes: tuple[int, ...] = (8, 12, 5),
    shape: tuple[int, ...] = (6,),
    n_classes: int = 3,
    n_test: int = 5,
    dtype: torch.dtype = torch.float64,
) -> Federation:
    """Clients of these sizes, normal inputs of this shape, labels at random."""
    rng = np.random.default_rng(0)
    n = sum(sizes) + n_test
    x = torch.from_numpy(rng.normal(size=(n, *shape))).to(dtype)
    y = torch.from_numpy(rng.integers(0, n_classes, size=n))
    order = rng.permutation(n)
    ends = np.cumsum(sizes)
    clients = tuple(order[end - size : end] for size, end in zip(sizes, ends, strict=True))
    return Federation(x, y, clients, order[ends[-1] :], n_classes=n_classes)


def cohort(asked: Any, t: int = 0, **optional: Any) -> Cohort:
    """All that are asked are wanted, with weight one."""
    ids = np.array(asked, dtype=np.int64)
    return Cohort(t, ids, np.ones(len(ids)), ids, np.zeros((0, 2), dtype=np.int64), **optional)


def plain(value: Any) -> Any:
    """Arrays as (dtype, shape, bytes): equal where all bits are. One NaN is like another."""
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, value.tobytes()
    if isinstance(value, float | np.floating):
        return "nan" if np.isnan(value) else np.float64(value).tobytes()
    if isinstance(value, dict):
        return {name: plain(entry) for name, entry in value.items()}
    return value


def facts(log: RoundLog) -> dict[str, Any]:
    """All of a log but its timings, comparable to the bit."""
    return {f.name: plain(getattr(log, f.name)) for f in fields(log) if f.name != "timings"}


def all_facts(logs: Any) -> list[dict[str, Any]]:
    return [facts(log) for log in logs]
