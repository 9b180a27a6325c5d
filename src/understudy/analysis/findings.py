"""What an analysis found out about a finished run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, eq=False)
class Findings:
    """Numbers, which go into tables, and arrays, which go into pictures."""

    metrics: Mapping[str, float] = field(default_factory=dict)
    arrays: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)

    @classmethod
    def together(cls, found: Iterable[Findings]) -> Findings:
        """Several findings as one; the same name in two of them is an error."""
        metrics: dict[str, float] = {}
        arrays: dict[str, npt.NDArray[Any]] = {}
        for one in found:
            for name in (metrics.keys() & one.metrics) | (arrays.keys() & one.arrays):
                raise ValueError(f"analysis: two analyses both found {name!r}")
            metrics |= {name: float(value) for name, value in one.metrics.items()}
            arrays |= {name: np.asarray(values) for name, values in one.arrays.items()}
        return cls(metrics, arrays)
