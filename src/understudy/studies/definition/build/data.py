"""Data, models, losses and metrics from the words of a study."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any, Union, get_args, get_origin, get_type_hints

from torch import nn
from torch.nn.functional import cross_entropy, mse_loss

from understudy.core.shown import shown
from understudy.simulation.data.dataset import Dataset
from understudy.simulation.data.federate import federate
from understudy.simulation.data.federation import Federation
from understudy.simulation.data.models import MODELS
from understudy.simulation.data.partitions import PARTITIONS
from understudy.simulation.data.sources import DATASETS, DataSource, as_source
from understudy.studies.definition.build.parts import (
    NOTHING,
    arguments,
    first_parameter,
    looked_up,
    primitive,
)
from understudy.studies.definition.cell import DataRecipe
from understudy.studies.definition.errors import StudyError, told_of
from understudy.studies.definition.plugins import imported

SHARED = ("test", "validation", "root", "normalise")  # keys that belong to no partition
LOSSES = {"cross_entropy": cross_entropy, "mse_loss": mse_loss}


def data_of(value: Any, seed: int) -> Any:
    """A `DataRecipe` of a table, or data that are there already; `seed` is the run's."""
    if isinstance(value, Federation):
        return value
    if isinstance(value, DataRecipe):
        own = {"name": value.name, "partition": value.partition or NOTHING, "seed": value.seed}
        value = {**value.settings, **own}
    if isinstance(value, str):
        value = {"name": value}
    if not isinstance(value, Mapping):
        raise StudyError(f"expected a table with the name of a data set, got {shown(value)}")
    table = dict(value)
    name = table.pop("name", None)
    source, default = _source(name, table.get("partition"))
    divided = table.pop("partition", default)
    divided = None if divided == NOTHING else divided
    chosen = table.pop("seed", 0)
    if chosen != "run":
        try:
            chosen = primitive(chosen, int)
        except StudyError:
            expected = 'a whole number, or "run" for each seed its own'
            raise StudyError(f"expected {expected}, got {shown(chosen)}", "seed") from None
    known = ("name", "partition", "seed")
    if divided is None:
        settings = arguments(source.loader, table, besides=("seed",), also=known)
    else:
        function = looked_up("partition", divided, PARTITIONS, "partition")
        shared = {name: table.pop(name) for name in SHARED if name in table}
        settings = arguments(federate, shared)
        if "normalise" in settings:
            given = settings["normalise"]
            with told_of(known=("normalise",)):
                settings["normalise"] = source.checked_normalise(given)
        also = (*known, *SHARED)
        hidden = (*first_parameter(function), "rng")
        settings |= arguments(function, table, besides=hidden, also=also)
    return DataRecipe(name, divided, seed if chosen == "run" else chosen, settings)


def _source(name: Any, partition: Any) -> tuple[DataSource, str | None]:
    """A data set by name, and how it is divided where the study does not say."""
    source = as_source(name, looked_up("data set", name, DATASETS, "name"))
    comes_divided = _comes_divided(source.loader)
    if ":" not in name and comes_divided and partition not in (None, NOTHING):
        raise StudyError(f"{name!r} comes divided; leave it out", "partition")
    if ":" not in name and not comes_divided and partition == NOTHING:
        words = ", ".join(PARTITIONS)
        raise StudyError(f"{name!r} does not come divided; expected one of {words}", "partition")
    return source, (None if comes_divided else "iid")


def _comes_divided(source: Any) -> bool:
    """Whether a source is, or makes, a federation: the object says it, not the name of a type.

    A function that does not say what it returns is taken at its word when it is called.
    """
    if isinstance(source, Dataset):
        raise StudyError("expected a function that makes a Dataset, got a Dataset itself", "name")
    if not callable(source):
        return True
    made = source if isinstance(source, type) else _returned(source)
    choices = get_args(made) if get_origin(made) in (Union, types.UnionType) else (made,)
    return not any(isinstance(one, type) and issubclass(one, Dataset) for one in choices)


def _returned(function: Callable[..., Any]) -> Any:
    """The type that a function says it returns; None where it cannot be known."""
    try:
        annotation = inspect.signature(function).return_annotation
    except (TypeError, ValueError):  # a function of C, which does not say
        return None
    if not isinstance(annotation, str):
        return annotation
    defined_in = inspect.unwrap(getattr(function, "func", function))
    # ours may have been imported for type checkers only
    ours = {"Dataset": Dataset, "Federation": Federation}
    names = {**ours, **getattr(defined_in, "__globals__", {})}
    annotated = types.SimpleNamespace(__annotations__={"return": annotation})
    try:
        return get_type_hints(annotated, globalns=names)["return"]
    except Exception:  # another name that exists for type checkers only
        return None


def model_of(value: Any) -> Any:
    """What `simulate` takes as a model."""
    if isinstance(value, nn.Module) or (callable(value) and not isinstance(value, str)):
        return value
    if isinstance(value, str):
        value = {"name": value}
    if not isinstance(value, Mapping):
        raise StudyError(f"expected a table with the name of a model, got {shown(value)}")
    settings = dict(value)
    name = settings.pop("name", None)
    thing = looked_up("model", name, MODELS, "name")
    if isinstance(thing, nn.Module):
        if settings:
            raise StudyError(f"{name!r} is made already", next(iter(settings)))
        return name
    besides = () if ":" in name else ("shape", "n_classes")
    taken = arguments(thing, settings, besides=besides, also=("name",))
    return {"name": name, **taken} if taken else name


def function_of(value: Any, named: Mapping[str, Any] | None = None) -> Any:
    """A loss or a metric: a name, ``module:name``, or itself."""
    named = named or {}
    if callable(value):
        return value
    if isinstance(value, str) and ":" in value:
        with told_of(known=()):
            found = imported(value)
        if not callable(found):
            raise StudyError(f"expected a function, got {shown(found)}")
        return found
    if isinstance(value, str) and value in named:
        return named[value]
    words = f"one of {', '.join(named)}, or " if named else ""
    raise StudyError(f"expected {words}a function as 'module:name', got {shown(value)}")
