"""Random choices from a seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import torch

Option = TypeVar("Option")


class Draw:
    """Draws from a seed, the same on every machine."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def integer(self, low: int, high: int) -> int:
        """low .. high, both included."""
        return int(self.rng.integers(low, high + 1))

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def of(self, options: Sequence[Option]) -> Option:
        return options[self.integer(0, len(options) - 1)]

    def normal(self, *shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
        return torch.from_numpy(self.rng.normal(size=shape)).to(dtype)

    def integers(self, low: int, high: int, n: int) -> Any:
        """(n,) in low .. high, both included."""
        return self.rng.integers(low, high + 1, size=n)
