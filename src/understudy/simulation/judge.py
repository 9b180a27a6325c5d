"""Evaluates the global model: on test, validation or training data, and client by client."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import nn

from understudy.flat import Layout
from understudy.simulation.backends import kernels, measure
from understudy.simulation.data import Federation
from understudy.simulation.engines import Loss
from understudy.simulation.evaluation import (
    BATCH,
    Metric,
    labels_of,
    outputs_of,
    per_client,
    score,
)
from understudy.types import Floats, Ints


class Judge:
    """Holds a module of its own, and the data it is judged on."""

    def __init__(
        self,
        module: nn.Module,
        federation: Federation,
        loss: Loss,
        metrics: Mapping[str, Metric],
        device: str,
    ) -> None:
        self._module = copy.deepcopy(module).to(device)
        self._layout = Layout.of(module)
        self._federation, self._loss, self._metrics = federation, loss, metrics
        self._device = device
        self._onednn = measure(module, federation.x[:1], BATCH).onednn

    def scores(self, params: torch.Tensor, parts: Sequence[str]) -> dict[str, float]:
        """``test_loss``, ``test_accuracy`` and the like, for each part asked for."""
        scores: dict[str, float] = {}
        for part in parts:
            indices = self._indices(part)
            if len(indices):
                outputs, labels = self._outputs(params, indices)
                found = score(outputs, labels, self._loss, self._metrics)
                scores |= {f"{part}_{name}": value for name, value in found.items()}
        return scores

    def per_client(self, params: torch.Tensor) -> dict[str, Floats]:
        """(N,) each, on test data in the proportions of each client's labels."""
        test = self._federation.test
        outputs, labels = self._outputs(params, test)
        order = np.argsort(test)
        own = [
            order[np.searchsorted(test, mine, sorter=order)]
            for mine in self._federation.client_tests()
        ]
        return per_client(outputs, labels, tuple(own), self._loss, self._metrics)

    def module_with(self, params: torch.Tensor) -> nn.Module:
        """A copy of the module with these values."""
        self._layout.load(self._module, params)
        return copy.deepcopy(self._module)

    def _indices(self, part: str) -> Ints:
        if part == "test":
            return self._federation.test
        held = self._federation.clients if part == "train" else self._federation.validation
        return np.unique(np.concatenate(held)) if held is not None else np.zeros(0, dtype=np.int64)

    def _outputs(self, params: torch.Tensor, indices: Ints) -> tuple[torch.Tensor, torch.Tensor]:
        self._layout.load(self._module, params)
        data = self._federation
        with kernels(self._onednn):
            outputs = outputs_of(self._module, data.x, indices, self._device)
        return outputs.cpu(), labels_of(data.y, indices)
