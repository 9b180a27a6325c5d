"""`RowMemory`: matrices that clients are trained in, kept from round to round."""

from __future__ import annotations

import torch

from understudy.core.flat import Layout
from understudy.simulation.data import shared_memory as shared
from understudy.simulation.data.shared_memory import Shared, aligned_matrix, row_stride


class RowMemory:
    """(k, d) matrices by name. Each is used again until more rows are needed than ever before."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._own: dict[str, torch.Tensor] = {}
        self._shared: dict[str, Shared] = {}

    def own(self, name: str, n_rows: int, device: torch.device) -> torch.Tensor:
        """(n_rows, d) of this process; beyond a budget they lie in a file."""
        width, dtype = self._layout.size, self._layout.dtype
        n_bytes = n_rows * row_stride(width, dtype) * dtype.itemsize
        if device.type == "cpu" and n_bytes > shared.IN_MEMORY:
            return self.shared(name, n_rows).tensor[:n_rows]
        rows = self._own.get(name)
        if rows is None or len(rows) < n_rows:
            rows = self._own[name] = aligned_matrix(n_rows, width, dtype).to(device)
        return rows[:n_rows]

    def shared(self, name: str, n_rows: int) -> Shared:
        """At least `n_rows` rows in shared memory."""
        rows = self._shared.get(name)
        if rows is None or len(rows.tensor) < n_rows:
            rows = self._shared[name] = Shared((n_rows, self._layout.size), self._layout.dtype)
        return rows

    def clear(self) -> None:
        """Let go of all matrices."""
        self._own, self._shared = {}, {}
