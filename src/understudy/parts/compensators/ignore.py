"""`Ignore` (FedAvg): absent clients are left out of the mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from understudy.core.types import Contributions, RoundEnd, Setup


@dataclass(frozen=True)
class Ignore:
    """Average those who came: Σ_{i∈A} q_i Δ_i / Σ_{i∈A} q_i.

    With everyone wanted this is what FL-FDMS calls client dropout, and plain FedAvg when all come.
    """

    signed = False
    normalised = True

    def init(self, setup: Setup) -> None:
        return None

    def fill(self, state: None, end: RoundEnd) -> Contributions:
        q = end.q[end.came]
        return Contributions.of((end.came, end.fresh(), np.arange(len(end.came)), q / q.sum()))

    def learn(self, state: None, end: RoundEnd, step: torch.Tensor | None) -> Mapping[str, float]:
        return {}
