"""How good a model is: what is measured, when, and on which examples.

Loss, accuracy and the metrics asked for, all from one pass. Outputs and sums are taken in batches
of a fixed size, whoever computes them: this process, or workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from understudy.core.flat import Layout
from understudy.core.types import Floats, Ints
from understudy.simulation.data.federation import PADDING, Federation
from understudy.simulation.training.convolution_backend import kernels
from understudy.simulation.training.jobs import Loss
from understudy.simulation.training.metrics import Metric, by_class, class_names

if TYPE_CHECKING:
    from understudy.simulation.settings import Simulation

BATCH = 250  # examples
PARTS = ("test", "validation", "train")  # what a model can be evaluated on


@dataclass(frozen=True, eq=False)
class Evaluator:
    """Measures the model of a run."""

    federation: Federation
    settings: Simulation
    outputs: Callable[[torch.Tensor, Ints], torch.Tensor]  # of a model, for examples

    def after(self, t: int, params: torch.Tensor) -> tuple[dict[str, float], dict[str, Floats]]:
        """What is to be measured after round `t`: of all, and (N,) for each client."""
        parts = self.settings.evaluate if self._due(t, self.settings.evaluate_every) else ()
        by_client = self._due(t, self.settings.per_client_every)
        return self.scores(params, parts), self.per_client(params) if by_client else {}

    def _due(self, t: int, every: int) -> bool:
        """After every so many rounds, and after the last; 0: never."""
        return every > 0 and (t + 1 == self.settings.rounds or (t + 1) % every == 0)

    def scores(self, params: torch.Tensor, parts: Sequence[str]) -> dict[str, float]:
        """``test_loss``, ``test_accuracy`` and the like, for each part asked for."""
        scores: dict[str, float] = {}
        for part in parts:
            indices = self._examples[part]
            if len(indices):
                outputs = self.outputs(params, indices)
                found = self._score(outputs, labels_of(self.federation.y, indices))
                scores |= {f"{part}_{name}": value for name, value in found.items()}
        return scores

    def per_client(self, params: torch.Tensor) -> dict[str, Floats]:
        """(N,) each, on test data in the proportions of each client's labels."""
        test = self.federation.test
        outputs, labels = self.outputs(params, test), labels_of(self.federation.y, test)
        rows = [
            self._score(outputs.index_select(0, torch.from_numpy(own)), labels_of(labels, own))
            if len(own)
            else {}
            for own in self._client_tests
        ]
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: np.array([row.get(name, np.nan) for row in rows]) for name in names}

    def _score(self, outputs: torch.Tensor, labels: torch.Tensor) -> dict[str, float]:
        return score(outputs, labels, self.settings.loss, self.settings.metrics, self._classes)

    @cached_property
    def _classes(self) -> tuple[str, ...]:
        return class_names(self.federation.classes, self.federation.n_classes)

    @cached_property
    def _examples(self) -> dict[str, Ints]:
        """The examples of each part, each once."""
        held = {"train": self.federation.clients, "validation": self.federation.validation or ()}
        none = np.zeros(0, dtype=np.int64)
        each = {part: np.unique(np.concatenate([none, *own])) for part, own in held.items()}
        return {"test": self.federation.test, **each}

    @cached_property
    def _client_tests(self) -> list[Ints]:
        """Where in the test set each client's own is."""
        test = self.federation.test
        order = np.argsort(test)
        own = self.federation.client_tests()
        return [order[np.searchsorted(test, mine, sorter=order)] for mine in own]


def evaluate(
    module: nn.Module, federation: Federation, indices: Ints, loss: Loss = cross_entropy
) -> tuple[float, float]:
    """Mean loss and accuracy of a module on some of the examples."""
    with kernels(onednn=True):
        outputs = outputs_of(module, federation.x, np.asarray(indices))
        scores = score(outputs, labels_of(federation.y, np.asarray(indices)), loss)
    return scores["loss"], scores.get("accuracy", float("nan"))


def client_losses(
    outputs: Callable[[Ints], torch.Tensor],
    federation: Federation,
    ids: Ints,
    loss: Loss,
    together: bool = False,
) -> Floats:
    """(len(ids),) mean loss on each client's validation (else training) examples.

    With `together`, `outputs` is asked once for the examples of all clients, where no answer
    depends on who else is asked; otherwise client by client, so that each one's batches are its
    own.
    """
    validation = federation.validation

    def own(client: int) -> Ints:
        if validation is None or not len(validation[client]):
            return federation.clients[client]
        return validation[client]

    held = [own(int(client)) for client in ids]
    said: Iterable[torch.Tensor] = map(outputs, held)
    if together and held:
        said = torch.split(outputs(np.concatenate(held)), [len(examples) for examples in held])
    return np.array(
        [
            mean_loss(answers, labels_of(federation.y, examples), loss)
            for answers, examples in zip(said, held, strict=True)
        ]
    )


# -- outputs ---------------------------------------------------------------------------------------


def model_outputs(
    module: nn.Module, params: torch.Tensor, x: torch.Tensor, indices: Ints, device: str = "cpu"
) -> torch.Tensor:
    """What the model with these parameters says to some of the examples; `module` takes them."""
    Layout.of(module).load(module, params)
    with kernels(onednn=True):
        return outputs_of(module, x, indices, device).cpu()


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


def pieces(indices: Ints, n_pieces: int) -> list[Ints]:
    """Indices in pieces of whole batches: the same batches as in one piece."""
    n_batches = -(-len(indices) // BATCH)
    cuts = [BATCH * (n_batches * piece // n_pieces) for piece in range(1, n_pieces)]
    return [piece for piece in np.split(indices, cuts) if len(piece)]


# -- scores ----------------------------------------------------------------------------------------


def labels_of(y: torch.Tensor, indices: Ints) -> torch.Tensor:
    """The labels of some of the examples."""
    return y.index_select(0, torch.from_numpy(indices).to(y.device))


@torch.no_grad()
def mean_loss(outputs: torch.Tensor, labels: torch.Tensor, loss: Loss) -> float:
    """The mean loss of one set of outputs: over examples, or over the labels of sequences."""
    total, n_labels = 0.0, 0
    for first in range(0, len(labels), BATCH):
        part = slice(first, first + BATCH)
        n = _n_labels(labels[part])
        total += float(loss(outputs[part], labels[part])) * n
        n_labels += n
    return total / n_labels


def _n_labels(labels: torch.Tensor) -> int:
    """Examples; of sequences of classes the labels that are no padding."""
    if labels.ndim == 1 or labels.dtype != torch.int64:
        return len(labels)
    return int((labels != PADDING).sum())


@torch.no_grad()
def score(
    outputs: torch.Tensor,
    labels: torch.Tensor,
    loss: Loss,
    metrics: Mapping[str, Metric] | None = None,
    classes: Sequence[str] = (),
) -> dict[str, float]:
    """Loss, accuracy where labels are classes, and other metrics, of one set of outputs."""
    scores = {"loss": mean_loss(outputs, labels, loss)}
    if classifies(outputs, labels):
        right = outputs.argmax(dim=1) == labels
        if labels.ndim > 1:
            right = right[labels != PADDING]
        scores["accuracy"] = float(right.double().mean())
    for name, metric in (metrics or {}).items():
        scores |= by_class(name, metric(outputs, labels), classes)
    return scores


def classifies(outputs: torch.Tensor, labels: torch.Tensor) -> bool:
    """Whether outputs are scores of classes and labels are classes, one or a sequence of them."""
    places = (outputs.shape[0], *outputs.shape[2:])
    return outputs.ndim >= 2 and places == labels.shape and labels.dtype == torch.int64
