"""What a model answers to noise, on average: FedGS's graph without looking at data (eq. 12)."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from understudy.core.rng import generator
from understudy.graph.similarity import mean_answer, noise_like


@dataclass(frozen=True, eq=False)
class NoiseAnswers:
    """A flat model's mean output on one fixed batch of noise; `NoiseAnswers.like` makes one."""

    module: torch.nn.Module  # the model's architecture
    noise: torch.Tensor = field(repr=False)  # (n, …) what every client's model is shown

    @classmethod
    def like(
        cls,
        module: torch.nn.Module,
        inputs: torch.Tensor | NDArray[np.floating],
        *,
        seed: int = 0,
        n_samples: int = 256,
        noise: str = "covariance",
    ) -> NoiseAnswers:
        """Noise like the inputs (n, …), n > 1, of the server's small validation set.

        The module is copied; `noise` is as in `understudy.graph.functional_similarity`.
        """
        drawn = noise_like(inputs, generator(seed, "graph/noise"), n_samples, noise=noise)
        return cls(copy.deepcopy(module).eval(), torch.from_numpy(drawn))

    @property
    def width(self) -> int:
        """How many numbers an answer has."""
        return len(self(torch.cat([p.detach().reshape(-1) for p in self.module.parameters()])))

    def __call__(self, vector: torch.Tensor) -> NDArray[np.float64]:
        """The mean output of the model with these parameters, flattened."""
        return mean_answer(self.module, vector, self.noise)
