"""What a call must leave as it is: its arguments, and all of the matrix but the rows it trains."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tests.simulation.training.kernels.fuzz.cases import Case


def contents(case: Case) -> dict[str, Any]:
    """The memory of all arguments, by name."""
    job = case.call.job
    held = {"params": job.params, "starts": job.starts, "corrections": job.corrections}
    if case.call.change is None:
        held |= {"x": case.data.x, "y": case.data.y}
    contents = {name: _memory(tensor) for name, tensor in held.items()}
    contents["matrix"] = _memory(job.matrix)
    return contents


def _memory(tensor: Any) -> Any:
    """All of a tensor's storage, copied; None where it has no such."""
    try:
        storage = tensor.detach().untyped_storage()
        flat = torch.empty(0, dtype=torch.uint8).set_(storage)
        return flat.numpy().tobytes()
    except Exception:
        return None


def touched(case: Case, before: dict[str, Any]) -> str:
    """What a call wrote to that is not its own; empty: nothing."""
    after, job = contents(case), case.call.job
    for name, content in before.items():
        if name != "matrix" and content != after.get(name, content):
            return name
    if before["matrix"] is None:
        return ""
    size = job.matrix.element_size()
    now, then = (
        np.frombuffer(content["matrix"], dtype=np.uint8).reshape(-1, size)
        for content in (after, before)
    )
    changed = torch.from_numpy((now != then).any(axis=1))
    trained = torch.zeros(len(changed), dtype=torch.bool)
    shape, strides = job.matrix.shape, job.matrix.stride()
    view = torch.as_strided(trained, shape, strides, job.matrix.storage_offset())
    n_rows = len(view) if view.ndim else 0
    view[[row for row in job.rows if -n_rows <= row < n_rows]] = True
    return "the matrix beside the rows of the job" if (changed & ~trained).any() else ""
