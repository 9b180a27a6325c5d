"""The settings of a run, checked before anything begins."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, TypedDict, TypeVar

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from understudy.core import checks
from understudy.core.describe import added, describe, told_fields
from understudy.core.roles import Availability
from understudy.core.shown import shown
from understudy.parts.availability.always import Always
from understudy.parts.delay import Delay
from understudy.simulation.data.federation import Federation
from understudy.simulation.data.fingerprint import digest, federation_digest
from understudy.simulation.data.models import Model, build, is_builtin
from understudy.simulation.training import metrics
from understudy.simulation.training.engines import ENGINES
from understudy.simulation.training.evaluation import PARTS
from understudy.simulation.training.jobs import Loss
from understudy.simulation.training.metrics import Metric
from understudy.simulation.training.trainers.choice import NAMED, MakeTrainer

MAY_CHANGE = ("rounds", "evaluate_every", "workers", "trainer")  # when a run with a folder goes on
ENGINE_BEFORE = "loop"  # of runs that were stored without a word about it


@dataclass(frozen=True, eq=False, kw_only=True)
class Simulation:
    """What is simulated: all that `simulate` takes but the federation, the strategy and the folder.

    `simulate` tells what each setting means. They are checked when the object is made; what depends
    on the data, when a `Run` begins. To vary them, use `dataclasses.replace`.

    Notes
    -----
    A setting that comes with a later version is a field made by `added`
    (`understudy.core.describe`), or it would rename every cell of every study.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from understudy import Run, fdms
    >>> from understudy.simulation import Simulation, clustered_digits
    >>> settings = Simulation(model="softmax", rounds=2)
    >>> runs = [Run(clustered_digits(), fdms(), replace(settings, seed=seed)) for seed in (0, 1)]
    >>> [len(list(run)) for run in runs]
    [2, 2]
    """

    model: Model
    rounds: int
    availability: Availability = field(default_factory=Always)
    delay: Delay | None = None
    seed: int = 0
    # no attribute of the class: the documentation would take in torch's own text
    loss: Loss = field(default_factory=lambda: cross_entropy)
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    evaluate: tuple[str, ...] = ("test",)
    evaluate_every: int = 1
    per_client_every: int = 0
    evaluate_mean_of: int = added("0.2", 1)
    oracle: bool = False
    device: str = "cpu"
    workers: int | None = None
    engine: str = added("0.2", "auto")
    trainer: MakeTrainer | str | None = None

    def __post_init__(self) -> None:
        for name, default in (("availability", Always), ("metrics", dict)):
            if getattr(self, name) is None:
                object.__setattr__(self, name, default())
        object.__setattr__(self, "metrics", metrics.chosen(self.metrics))
        object.__setattr__(self, "evaluate", tuple(self.evaluate))
        checks.integer("rounds", self.rounds, low=1)
        checks.part("availability", self.availability, "init", "draw", "rates")
        if self.delay is not None:
            checks.part("delay", self.delay, "init", "delay")
        checks.integer("seed", self.seed, low=0)
        for part in self.evaluate:
            checks.choice("evaluate", part, PARTS)
        checks.integer("evaluate_every", self.evaluate_every, low=1)
        checks.integer("per_client_every", self.per_client_every, low=0)
        checks.integer("evaluate_mean_of", self.evaluate_mean_of, low=1)
        _check_device(self.device)
        if self.workers is not None:
            checks.integer("workers", self.workers, low=1)
        checks.choice("engine", self.engine, ENGINES)
        if isinstance(self.trainer, str):
            checks.choice("trainer", self.trainer, NAMED)
        elif self.trainer is not None and not callable(self.trainer):
            raise TypeError(
                "trainer: expected a class or function that makes a trainer of a TrainingTask, "
                f"or 'ray', got {shown(self.trainer)}"
            )

    def check(self, federation: Federation) -> None:
        """Refuse data that lack what is asked for, and a device that is not here."""
        if self.device != "cpu":
            try:
                torch.empty(0, device=self.device)
            except Exception as error:  # what torch raises depends on how it was built
                words = str(error).partition("\n")[0]
                raise ValueError(
                    f"device: expected one that is here, got {self.device!r}: {words}"
                ) from error
        if "validation" in self.evaluate and federation.validation is None:
            raise ValueError(
                "evaluate: 'validation' needs a federation with validation examples, got one "
                "without"
            )
        metrics.check(self.metrics, federation.n_classes)
        matched = federation.per_client_test == "matched"
        if self.per_client_every and matched and not federation.n_classes:
            raise ValueError(
                "per_client_every: expected 0 for a regression where it is not known whose the "
                "test examples are (Federation.test_clients), since a client's test set is then "
                f"drawn in the proportions of its labels, got {self.per_client_every}"
            )

    def fitted(self, federation: Federation) -> Federation:
        """The data as the model takes them: built-in models give (batch, 1) for one target."""
        return federation.in_columns() if is_builtin(self.model) else federation

    def module(self, federation: Federation) -> nn.Module:
        """The model for these data, with its first weights."""
        return build(self.model, tuple(federation.x.shape[1:]), federation.n_outputs, self.seed)

    def about(
        self,
        federation: Federation,
        module: nn.Module,
        params: torch.Tensor,
        onednn: bool,
        engine: str = ENGINE_BEFORE,
    ) -> str:
        """What must not change when a run is resumed, as JSON; `engine` is the one that is used."""
        told = {
            item.name: describe(getattr(self, item.name))
            for item in told_fields(self)
            if item.name not in ("model", "engine", *MAY_CHANGE)
        }
        data = federation_digest(federation, per_client=self.per_client_every > 0)
        model = digest(str(module), params)
        used = {"onednn": onednn, "engine": engine}
        return json.dumps({"class": "simulation", "data": data, "model": model, **told, **used})


class Options(TypedDict, total=False):
    """The settings that may be left out, for whoever takes them as keywords.

    Type checkers cannot read them off `Simulation`; a test compares the two.
    """

    availability: Availability | None
    delay: Delay | None
    seed: int
    loss: Loss
    metrics: Mapping[str, Metric | str] | Sequence[str] | None
    evaluate: Sequence[str]
    evaluate_every: int
    per_client_every: int
    evaluate_mean_of: int
    oracle: bool
    device: str
    workers: int | None
    engine: str
    trainer: MakeTrainer | str | None


def _check_device(device: object) -> None:
    """Refuse a name that no device has; whether it is here is found out when a run begins."""
    try:
        kind = torch.device(device).type if isinstance(device, str) else None
    except RuntimeError:
        kind = None
    if kind is None or kind == "meta":
        raise ValueError(
            f"device: expected 'cpu', 'cuda', 'cuda:1', 'mps' or another of torch's, got {device!r}"
        )


Function = TypeVar("Function", bound=Callable[..., Any])


def shows_settings(function: Function) -> Function:
    """A function that takes `Options`: `help` and notebooks show them one by one, with defaults."""
    signature = inspect.signature(function)
    own = [item for item in signature.parameters.values() if item.kind is not item.VAR_KEYWORD]
    options = [
        inspect.Parameter(
            item.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=item.default if item.default_factory is MISSING else item.default_factory(),
            annotation=item.type,
        )
        for item in fields(Simulation)
        if item.name not in signature.parameters
    ]
    function.__signature__ = signature.replace(parameters=[*own, *options])  # type: ignore[attr-defined]
    return function
