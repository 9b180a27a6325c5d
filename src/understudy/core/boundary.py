"""What users and plug-ins hand to a strategy, checked before anything is done with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from understudy.core import checks
from understudy.core.roles import Sampler
from understudy.core.types import Bools, Floats, Ints


def flat_params(params: Any) -> torch.Tensor:
    if not isinstance(params, torch.Tensor):
        raise TypeError(f"params: expected a flat torch tensor (d,), got {type(params).__name__}")
    if params.ndim != 1 or not params.is_floating_point():
        raise ValueError(
            "params: expected a flat floating torch tensor (d,), "
            f"got shape {tuple(params.shape)} of {params.dtype}"
        )
    if len(params) == 0:
        raise ValueError("params: expected at least one entry, got none")
    return params


def mask(name: str, value: npt.ArrayLike, n: int) -> Bools:
    raw = np.asarray(value)
    if raw.shape != (n,) or not (raw.dtype == np.bool_ or np.isin(raw, (0, 1)).all()):
        raise ValueError(
            f"{name}: expected ({n},) true or false, one for each client, "
            f"got shape {raw.shape} of {raw.dtype}"
        )
    return raw.astype(np.bool_)


def probabilities(name: str, value: npt.ArrayLike, n: int) -> Floats:
    rates = checks.array(name, value, (n,), float)
    if not ((rates >= 0) & (rates <= 1)).all():
        client = int(np.argmax(~((rates >= 0) & (rates <= 1))))
        raise ValueError(f"{name}[{client}]: expected a probability, got {rates[client]}")
    return rates


def pick(
    sampler: Sampler, picked: npt.ArrayLike, weights: npt.ArrayLike, active: Bools
) -> tuple[Ints, Floats]:
    """A sampler's answer, by ascending id; a plug-in's mistake is named here, not later."""
    wanted = np.array(picked, dtype=np.int64).reshape(-1)
    weight = np.array(weights, dtype=np.float64).reshape(-1)
    who = type(sampler).__name__
    if len(weight) != len(wanted):
        raise ValueError(f"{who}.pick: {len(wanted)} ids but {len(weight)} weights")
    if len(np.unique(wanted)) != len(wanted):
        raise ValueError(f"{who}.pick: expected distinct ids, got {wanted.tolist()}")
    if len(wanted) and not (0 <= wanted.min() and wanted.max() < len(active)):
        raise ValueError(f"{who}.pick: expected ids 0 to {len(active) - 1}, got {wanted.tolist()}")
    if not active[wanted].all():
        raise ValueError(f"{who}.pick: picked retired clients {wanted[~active[wanted]].tolist()}")
    if not (np.isfinite(weight) & (weight > 0)).all():
        raise ValueError(f"{who}.pick: expected weights > 0, got {weight.tolist()}")
    order = np.argsort(wanted)
    return wanted[order], weight[order]
