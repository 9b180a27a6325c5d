"""Evaluates the global model: on test, validation or training data, and client by client."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from understudy.core.types import Floats, Ints
from understudy.simulation.data.federation import Federation
from understudy.simulation.training.evaluation import Metric, labels_of, per_client, score
from understudy.simulation.training.local_sgd import Loss


@dataclass(frozen=True, eq=False)
class Judge:
    """What the model is judged on, and by which measures."""

    federation: Federation
    loss: Loss
    metrics: Mapping[str, Metric]
    outputs: Callable[[torch.Tensor, Ints], torch.Tensor]  # parameters, examples -> outputs

    def scores(self, params: torch.Tensor, parts: Sequence[str]) -> dict[str, float]:
        """``test_loss``, ``test_accuracy`` and the like, for each part asked for."""
        scores: dict[str, float] = {}
        for part in parts:
            indices = self._indices(part)
            if len(indices):
                outputs, labels = (
                    self.outputs(params, indices),
                    labels_of(self.federation.y, indices),
                )
                found = score(outputs, labels, self.loss, self.metrics)
                scores |= {f"{part}_{name}": value for name, value in found.items()}
        return scores

    def per_client(self, params: torch.Tensor) -> dict[str, Floats]:
        """(N,) each, on test data in the proportions of each client's labels."""
        test = self.federation.test
        outputs, labels = self.outputs(params, test), labels_of(self.federation.y, test)
        order = np.argsort(test)
        own = [
            order[np.searchsorted(test, mine, sorter=order)]
            for mine in self.federation.client_tests()
        ]
        return per_client(outputs, labels, tuple(own), self.loss, self.metrics)

    def _indices(self, part: str) -> Ints:
        if part == "test":
            return self.federation.test
        held = self.federation.clients if part == "train" else self.federation.validation
        return np.unique(np.concatenate(held)) if held is not None else np.zeros(0, dtype=np.int64)
