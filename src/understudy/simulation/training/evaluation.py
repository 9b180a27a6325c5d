"""How good a model is: loss, accuracy and the user's own metrics, in batches of a fixed size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from understudy.core.types import Floats, Ints
from understudy.simulation.data.federation import Federation
from understudy.simulation.training.conv_kernels import kernels
from understudy.simulation.training.jobs import Loss

BATCH = 250  # fixed: outputs and sums are taken batch by batch, whoever computes them

Metric = Callable[[torch.Tensor, torch.Tensor], Any]  # outputs, labels of a data set -> a number


@torch.no_grad()
def outputs_of(
    module: nn.Module, x: torch.Tensor, indices: Ints, device: str = "cpu"
) -> torch.Tensor:
    """What a module in evaluation mode says to some of the examples."""
    module.eval()
    batches = (indices[first : first + BATCH] for first in range(0, len(indices), BATCH))
    return torch.cat(
        [module(x.index_select(0, torch.from_numpy(batch)).to(device)) for batch in batches]
    )


@torch.no_grad()
def mean_loss(
    module: nn.Module, x: torch.Tensor, y: torch.Tensor, indices: Ints, loss: Loss
) -> float:
    """Mean loss on some of the examples."""
    return score(outputs_of(module, x, indices), labels_of(y, indices), loss)["loss"]


def labels_of(y: torch.Tensor, indices: Ints) -> torch.Tensor:
    return y.index_select(0, torch.from_numpy(indices).to(y.device))


@torch.no_grad()
def score(
    outputs: torch.Tensor,
    labels: torch.Tensor,
    loss: Loss,
    metrics: Mapping[str, Metric] | None = None,
) -> dict[str, float]:
    """Loss, accuracy where labels are classes, and the user's metrics, of one set of outputs."""
    total = 0.0
    for first in range(0, len(labels), BATCH):
        part = slice(first, first + BATCH)
        total += float(loss(outputs[part], labels[part])) * len(labels[part])
    scores = {"loss": total / len(labels)}
    if classifies(outputs, labels):
        scores["accuracy"] = float((outputs.argmax(dim=1) == labels).double().mean())
    for name, metric in (metrics or {}).items():
        scores[name] = float(metric(outputs, labels))
    return scores


def classifies(outputs: torch.Tensor, labels: torch.Tensor) -> bool:
    """Whether outputs are scores of classes and labels are classes."""
    return outputs.ndim == 2 and labels.ndim == 1 and labels.dtype == torch.int64


def evaluate(
    module: nn.Module, federation: Federation, indices: Ints, loss: Loss = cross_entropy
) -> tuple[float, float]:
    """Mean loss and accuracy of a module on some of the examples."""
    with kernels(onednn=True):
        outputs = outputs_of(module, federation.x, np.asarray(indices))
        scores = score(outputs, labels_of(federation.y, np.asarray(indices)), loss)
    return scores["loss"], scores.get("accuracy", float("nan"))


def per_client(
    outputs: torch.Tensor,
    labels: torch.Tensor,
    clients: tuple[Ints, ...],
    loss: Loss,
    metrics: Mapping[str, Metric] | None = None,
) -> dict[str, Floats]:
    """Scores of each client on its own part of a data set; `clients` are positions in it."""
    rows = [
        score(outputs.index_select(0, torch.from_numpy(own)), labels_of(labels, own), loss, metrics)
        if len(own)
        else {}
        for own in clients
    ]
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: np.array([row.get(name, np.nan) for row in rows]) for name in names}


@dataclass(frozen=True, eq=False)
class Evaluator:
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
