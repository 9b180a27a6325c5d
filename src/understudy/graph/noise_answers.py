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
    """A flat model's mean output on one fixed batch of noise; `NoiseAnswers.like` makes one.

    Parameters
    ----------
    module : Module
        The model's architecture.
    noise : (n, …) tensor
        What every client's model is shown.
    """

    module: torch.nn.Module
    noise: torch.Tensor = field(repr=False)

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
        """Noise like the inputs of the server's small validation set.

        Parameters
        ----------
        module : Module
            The model's architecture. It is copied; the copy is set to evaluation mode.
        inputs : (n, …)
            n > 1 inputs. Labels are not looked at.
        seed : int
            Of the noise.
        n_samples : int
            How much of it.
        noise : {"covariance", "scalar"}
            As in `understudy.graph.functional_similarity`.
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
