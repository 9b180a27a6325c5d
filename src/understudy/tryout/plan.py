"""The study that answers: everybody, all data in one place, the absent left out, five methods."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.registry import STRATEGIES
from understudy.simulation.data.table_file import REGRESSION
from understudy.tryout.absence import Situations
from understudy.tryout.look import Look
from understudy.tryout.trouble import CannotTry

MODELS = ("mlp", "softmax")  # that take a row of a table
LEFT_OUT, EVERYONE, POOLED = "left out", "everyone", "pooled"
# The methods that are tried; another one is one more line: its label, and how a study writes it.
# MIFA that does not wait is Stale where everyone is wanted, so it is left out; and so is Concord,
# whose server has momentum: one step for all is what makes the comparison fair.
METHODS: dict[str, Any] = {
    "stale": "stale",
    "fedvarp": "fedvarp",
    "fedar": "fedar",
    "fdms": "fdms",
    "kriging": {"method": "fedavg", "compensator": "kriging"},
}
# the same for all; of a few hundred rows a net learns no more after many passes
LOCAL = {"lr": 0.05, "epochs": 1, "batch_size": 16, "weight_decay": 0.01}
MANY_ROWS, LARGE_BATCH = 20_000, 64  # of a large table steps are fewer, and larger
STEPS = (0.5, 1.0, 2.0, 4.0)  # of the server, where it is tuned
TUNING_SEEDS = (1000, 1001)
AT_TIMES, FOR_GOOD = "missing at times", "gone for good"
ALL_METRICS = {REGRESSION: ("r2", "rmse", "mae"), "classes": ("auc", "f1", "balanced_accuracy")}


@dataclass(frozen=True)
class TrySettings:
    """How much is run.

    Parameters
    ----------
    rounds, seeds : int
        Of each run, and how many runs differ in nothing else.
    model : str
        A built-in model.
    methods : sequence of str
        Labels of `METHODS`, or names of registered methods.
    tune : bool
        Whether each method gets the server step that is best on validation data.
    """

    rounds: int = 40
    seeds: int = 10
    model: str = "mlp"
    methods: Sequence[str] = tuple(METHODS)
    tune: bool = False


def measure_of(look: Look) -> str:
    """The column of the results that methods are judged by."""
    metric = look.target.metric
    return "accuracy_tail" if metric == "accuracy" else f"test_{metric}_last"


def document(name: str, look: Look, found: Situations, settings: TrySettings) -> dict[str, Any]:
    """The study, as `Study` takes it."""
    regression = look.target.task == REGRESSION
    file = Path(str(look.data["file"])).name
    local = dict(LOCAL)
    if sum(look.sizes.values()) > MANY_ROWS:
        local["batch_size"] = LARGE_BATCH
    made: dict[str, Any] = {
        "name": name,
        "title": f"{file}: what is lost when clients are missing",
        "shows": f"{look.target.name} learnt from {file}, divided by {look.data['client']}",
        "baseline": LEFT_OUT,
        "metric": measure_of(look),
        "references": [EVERYONE, POOLED],
        "rounds": settings.rounds,
        "seeds": settings.seeds,
        "metrics": list(ALL_METRICS[look.target.task]),
        "per_client_every": settings.rounds,
        "loss": "mse_loss" if regression else "cross_entropy",
        "data": look.data,
        "model": {"name": settings.model},
        "local": local,
    }
    made |= _grid(found, _methods(settings.methods), settings.tune)
    if settings.tune:
        made["tune"] = {
            "metric": "validation_loss",
            "seeds": list(TUNING_SEEDS),
            "server": [{"name": "sgd", "lr": lr} for lr in STEPS],
        }
    return made


def _grid(found: Situations, methods: Mapping[str, Any], tune: bool) -> dict[str, Any]:
    """Who trains in which situation: where a client is gone for good, no method is tried.

    Steps are tuned for each block, and so for each situation by itself.
    """
    alone: dict[str, Any] = {LEFT_OUT: "fedavg"}
    tried = {**alone, **methods}
    if tune and len(found.labels) > 1:
        modes = {**found.at_times, **found.for_good}
        blocks = [{"name": label, "availability": {label: mode}} for label, mode in modes.items()]
        for block in blocks:
            if block["name"] in found.for_good:
                block["strategies"] = alone
        return {"strategies": tried, "availability": modes, "block": blocks}
    if not found.at_times:
        return {"strategies": alone, "availability": found.for_good}
    made: dict[str, Any] = {"strategies": tried, "availability": found.at_times}
    if found.for_good:
        made["block"] = [
            {"name": AT_TIMES},
            {"name": FOR_GOOD, "strategies": alone, "availability": found.for_good},
        ]
    return made


def _methods(names: Sequence[str]) -> Mapping[str, Any]:
    known = {**{name: name for name in STRATEGIES}, **METHODS}
    wrong = [name for name in names if name not in known or name in (EVERYONE, POOLED, LEFT_OUT)]
    if wrong:
        raise CannotTry(f"methods: no method {wrong[0]!r}; known: {', '.join(known)}")
    return {name: known[name] for name in names}


def name_of(file: str | Path) -> str:
    """What the study of a file is called: letters of its name without accents."""
    plain = unicodedata.normalize("NFKD", Path(file).stem).encode("ascii", "ignore").decode()
    words = re.sub(r"[^A-Za-z0-9_-]+", "-", plain).strip("-_")
    return f"try-{words[:40] or 'table'}"
