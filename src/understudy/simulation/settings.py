"""What is simulated, checked before anything begins."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from understudy.core import checks
from understudy.core.describe import describe
from understudy.core.roles import Availability
from understudy.parts.availability.always import Always
from understudy.parts.delay import Delay
from understudy.simulation.data.federation import Federation
from understudy.simulation.data.fingerprint import digest, federation_digest
from understudy.simulation.data.models import Model, build
from understudy.simulation.training.evaluation import Metric
from understudy.simulation.training.jobs import Loss


@dataclass(frozen=True, eq=False)
class Question:
    """What is simulated: all arguments of `simulate` but the strategy."""

    federation: Federation
    module: nn.Module
    availability: Availability
    delay: Delay | None
    rounds: int
    seed: int
    loss: Loss
    metrics: Mapping[str, Metric]
    evaluate: tuple[str, ...]
    evaluate_every: int
    per_client_every: int
    oracle: bool
    device: str
    workers: int | None

    def about(self, params: torch.Tensor, onednn: bool) -> str:
        """What must not change when a run goes on."""
        return json.dumps(
            {
                "class": "simulation",
                "data": federation_digest(self.federation),
                "model": digest(str(self.module), params),
                "availability": describe(self.availability),
                "delay": describe(self.delay),
                "seed": self.seed,
                "loss": describe(self.loss),
                "metrics": {name: describe(metric) for name, metric in self.metrics.items()},
                "evaluate": list(self.evaluate),
                "per_client_every": self.per_client_every,
                "oracle": self.oracle,
                "device": self.device,
                "onednn": onednn,
            }
        )


def prepare(
    federation: Federation,
    *,
    model: Model,
    availability: Availability | None,
    delay: Delay | None,
    rounds: int,
    seed: int,
    loss: Loss,
    metrics: Mapping[str, Metric] | None,
    evaluate: Sequence[str],
    evaluate_every: int,
    per_client_every: int,
    oracle: bool,
    device: str,
    workers: int | None,
) -> Question:
    """The arguments of `simulate`, checked, and the model built."""
    checks.integer("rounds", rounds, low=1)
    checks.integer("evaluate_every", evaluate_every, low=1)
    checks.integer("per_client_every", per_client_every, low=0)
    if workers is not None:
        checks.integer("workers", workers, low=1)
    availability = Always() if availability is None else availability
    checks.part("availability", availability, "init", "draw", "rates")
    if delay is not None:
        checks.part("delay", delay, "init", "delay")
    for part in evaluate:
        checks.choice("evaluate", part, ("test", "validation", "train"))
    if "validation" in evaluate and federation.validation is None:
        raise ValueError(
            "evaluate: 'validation' needs a federation with validation examples, got one without"
        )
    if per_client_every and not federation.n_classes:
        raise ValueError(
            "per_client_every: expected 0 for a regression, since a client's own test set has the "
            f"proportions of its labels, got {per_client_every}"
        )
    return Question(
        federation=federation,
        module=build(model, tuple(federation.x.shape[1:]), federation.n_outputs, seed),
        availability=availability,
        delay=delay,
        rounds=rounds,
        seed=seed,
        loss=loss,
        metrics=dict(metrics or {}),
        evaluate=tuple(evaluate),
        evaluate_every=evaluate_every,
        per_client_every=per_client_every,
        oracle=oracle,
        device=device,
        workers=workers,
    )
