"""How far two answers are apart, how far they may be, and what neighbouring inputs say."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch
from torch import nn

from tests.simulation.training.kernels.fuzz.cases import Case

WITHIN = {torch.float64: 1e-9, torch.float32: 2e-5}  # relative to the largest entry
NUDGE = {torch.float64: 1e-12, torch.float32: 1e-6}  # of inputs and parameters


def is_spoilt(case: Case, expected: tuple[torch.Tensor, ...]) -> bool:
    """Whether no numbers meet the zeros of a padding.

    NaN times zero is NaN; torch's convolutions leave the product out, or not, as it pleases them.
    """
    layers = [part for part in case.module.modules() if isinstance(part, nn.Conv2d)]
    is_padded = any(layer.padding not in (0, (0, 0), "valid") for layer in layers)
    return is_padded and not all(part.isfinite().all() for part in expected)


def apart(found: torch.Tensor, expected: torch.Tensor, spoilt: bool = False) -> float:
    """The largest difference, relative to the largest entry; infinite where one is no number.

    Where they are spoilt, more of what was found may be no number.
    """
    if found.shape != expected.shape:
        return np.inf
    found, expected = found.double(), expected.double()
    finite = torch.isfinite(expected)
    if spoilt:
        finite &= torch.isfinite(found)
    elif not torch.equal(torch.isfinite(found), finite):
        return np.inf
    if not spoilt and not torch.equal(
        found[~finite].nan_to_num(9.0), expected[~finite].nan_to_num(9.0)
    ):
        return np.inf
    if not finite.any():
        return 0.0
    largest = float(expected[finite].abs().max())
    difference = float((found - expected)[finite].abs().max())
    return difference / largest if largest else difference


def limit(expected: torch.Tensor, case: Case) -> float:
    """How far two right answers may be apart: an update is a difference of rounded weights."""
    dtype = expected.dtype if expected.dtype in WITHIN else torch.float32
    entries = expected.double().nan_to_num(0, 0, 0).abs()
    largest = float(entries.max()) if entries.numel() else 0.0
    params = case.call.job.params.detach().to_dense()
    known = params.numel() and not params.is_meta
    weights = float(params.double().nan_to_num(0, 0, 0).abs().max()) if known else 0.0
    rounding = 8 * torch.finfo(dtype).eps * weights
    return WITHIN[dtype] + (rounding / largest if largest else rounding)


def near(case: Case, number: int) -> Case:
    """The same with inputs and parameters a little different."""
    rng = np.random.default_rng(number)
    case.data.x = _nudged(case.data.x, rng)
    job = case.call.job
    starts = None if job.starts is None else _nudged(job.starts, rng)
    case.call.job = dataclasses.replace(job, params=_nudged(job.params, rng), starts=starts)
    case.call.params = _nudged(case.call.params, rng)
    for parameter in case.module.parameters():
        parameter.data = _nudged(parameter.data, rng)
    return case


def _nudged(values: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
    by = NUDGE.get(values.dtype, 1e-3)
    noise = torch.from_numpy(rng.uniform(-by, by, size=tuple(values.shape)))
    return (values.detach().double() * (1 + noise) + by * 1e-3 * noise.sign()).to(values.dtype)
