"""A study as it is written: TOML, its keys and its scales."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from understudy.core.shown import shown
from understudy.core.suggestions import suggestion
from understudy.measures import MEASURES
from understudy.simulation.settings import Simulation
from understudy.simulation.training.evaluation import PARTS
from understudy.simulation.training.metrics import METRICS
from understudy.studies.definition.build import methods
from understudy.studies.definition.build.data import function_of
from understudy.studies.definition.build.parts import given_fields, valued
from understudy.studies.definition.errors import StudyError, told_of, unknown_key, within
from understudy.studies.definition.overrides import (
    LISTED,
    TRAINING,
    Document,
    flat_axes,
    path_of,
    put,
    refuse_both,
)
from understudy.studies.definition.toml_text import parsed_toml

__all__ = ["StudyError", "normal", "read", "scaled", "seeds_of"]

# of the study as a whole
TOLD = ("name", "title", "shows", "baseline", "target", "metric", "references")
SETTINGS = tuple(item.name for item in fields(Simulation))
# those that a cell does not get from a key of their own, as it is written: `seeds` are the seeds
MADE = ("model", "availability", "delay", "seed", "loss", "metrics", "workers")
GRID = (
    "rounds",
    "seeds",
    "data",
    "model",
    "local",
    "weighting",
    "strategies",
    "availability",
    "axes",
)
ASKED = (
    *GRID,
    *(name for name in SETTINGS if name not in (*GRID, "seed", "workers")),
    "analysis",
)
KEYS = (*TOLD, *ASKED, "tune", "block", "blocks", "scale")
QUICK = "quick"
PART_PREFIXES = tuple(f"{part}_" for part in PARTS)
TUNED = ("tune", "metric")
MOST_SEEDS = 100_000  # each is a run, or many
MEASURED = ("loss", "accuracy")  # by the evaluation itself
ONE_NUMBER = tuple(name for name in METRICS if name != "recall")


def read(source: str | Path) -> tuple[Document, str, Path | None]:
    """A study's document, what to call it in errors, and its file; `source` may be the text."""
    text, name, file = _text(source)
    try:
        return parsed_toml(text), name, file
    except ValueError as error:
        told = StudyError(f"not TOML: {error}")
        told.source = name
        raise told from error


def _text(source: str | Path) -> tuple[str, str, Path | None]:
    if isinstance(source, str) and "\n" in source:
        return source, "study", None
    file = Path(source)
    try:
        return file.read_text(encoding="utf-8"), str(source), file.resolve()
    except FileNotFoundError:
        raise StudyError(f"no study file {str(source)!r}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(f"cannot read {str(source)!r}: {error}") from error


def normal(document: Mapping[str, Any]) -> Document:
    """A document in the one form that the rest of the code knows; keys are checked."""
    for key in document:
        if key not in KEYS:
            raise unknown_key(key, KEYS)
    _refuse_epochs_and_steps(document)
    made: Document = {"local": {}, **document}
    for key in LISTED:
        if key in made:
            made[key] = _by_label(key, made[key])
    made.setdefault("availability", {"always": {"name": "always"}})
    for key in ("data", "model"):
        if isinstance(made.get(key), str):
            made[key] = {"name": made[key]}
    if made["local"] != methods.PAPER:
        made["local"] = methods.local_table(made["local"])
    made["axes"] = flat_axes(made.get("axes", {}))
    made["block"] = _named_blocks(made.get("block", []))
    made["scale"] = _scales(made.get("scale", {}))
    return made


def _refuse_epochs_and_steps(written: Any, *place: str) -> None:
    """Refuse a table that says both, wherever it is; keys may be dotted."""
    if isinstance(written, list | tuple):
        for position, item in enumerate(written):
            name = item.get("name", position + 1) if isinstance(item, Mapping) else position + 1
            _refuse_epochs_and_steps(item, *place, str(name))
    if not isinstance(written, Mapping):
        return
    dotted: dict[tuple[str, ...], set[str]] = {}
    for key, value in written.items():
        path = path_of(key) if isinstance(key, str) and "." in key else (str(key),)
        if path[-1] == TRAINING:
            with within(*place, *path):
                refuse_both(value)
        if path[-2:-1] == (TRAINING,):
            dotted.setdefault(path[:-1], set()).add(path[-1])
        _refuse_epochs_and_steps(value, *place, *path)
    for path, names in dotted.items():
        with within(*place, *path):
            refuse_both(dict.fromkeys(names))


def _by_label(key: str, value: Any) -> dict[str, Any]:
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        value = {item: item for item in value}
    if not isinstance(value, Mapping) or not value:
        raise StudyError(f"expected a table of labels, got {shown(value)}", key)
    naming = "method" if key == "strategies" else "name"
    return {
        str(label): {naming: item} if isinstance(item, str) else item
        for label, item in value.items()
    }


def _named_blocks(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping) and all(isinstance(table, Mapping) for table in value.values()):
        value = [{"name": name, **table} for name, table in value.items()]
    if not isinstance(value, list | tuple) or not all(isinstance(item, Mapping) for item in value):
        raise StudyError(f"expected tables, each headed [[block]], got {shown(value)}", "block")
    blocks: dict[str, Any] = {}
    for position, table in enumerate(value):
        name = str(table.get("name", position + 1))
        if name in blocks:
            raise StudyError(f"two blocks have the name {name!r}", "block")
        for key in table:
            if key != "name" and path_of(key)[0] not in ASKED:
                with within("block", name):
                    raise unknown_key(key, ("name", *ASKED))
        blocks[name] = dict(table)
        for key in LISTED:
            if isinstance(table.get(key), Mapping):
                with within("block", name):
                    blocks[name][key] = _by_label(key, table[key])
    return blocks


def _scales(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(v, Mapping) for v in value.values()):
        raise StudyError(f"expected tables, each headed [scale.name], got {shown(value)}", "scale")
    known = [key for key in KEYS if key not in ("name", "scale")]
    for name, table in value.items():
        for key in table:
            if path_of(key)[0] not in known:
                with within("scale", name):
                    raise unknown_key(key, known)
    return dict(value)


def chosen_scale(document: Document, scale: str | None) -> str | None:
    """The scale to run at: the one asked for, or ``quick`` where the study has it."""
    scales = document["scale"]
    if scale is None:
        return QUICK if QUICK in scales else None
    if scale not in scales:
        words = suggestion(scale, scales) if scales else "the study has none"
        raise StudyError(f"no scale named {scale!r}; {words}", "scale")
    return scale


def scaled(document: Document, scale: str | None) -> Document:
    """The document with a scale's values; tables are amended."""
    if scale is None:
        return document
    with within("scale", scale):
        return changed(document, document["scale"].get(scale, {}))


def changed(document: Document, changes: Mapping[str, Any], *, whole: bool = False) -> Document:
    """The document with values at dotted keys; `whole` as in `put`."""
    for key, value in changes.items():
        document = put(document, path_of(key), value, whole=whole)
    return document


def settings_of(document: Document) -> dict[str, Any]:
    """The settings of a run that are numbers, words or lists, as `Simulation` wants them."""
    names = [name for name in SETTINGS if name not in MADE]
    given = {name: document[name] for name in names if name in document}
    if "rounds" not in given:
        raise StudyError("expected a value, got none", "rounds")
    if isinstance(given.get("evaluate"), str):
        given["evaluate"] = (given["evaluate"],)
    return given_fields(Simulation, given)


def analyses_of(document: Document) -> tuple[str, ...]:
    """The names of what is analysed after the last round, checked."""
    given = document.get("analysis", ())
    given = (given,) if isinstance(given, str) else given
    names: tuple[str, ...] = valued("analysis", given, tuple[str, ...])
    with told_of(known=("analysis",)):
        for name in names:
            _check_analysis(name)
    return names


def check_tuned(metric: str, part: str, document: Document) -> None:
    """Refuse a metric of ``[tune]`` that no trial of these words would have."""
    known = [f"{part}_{name}" for name in (*MEASURED, *metrics_of(document))]
    if metric not in known and not metric.startswith(_of_classes(part, document)):
        raise StudyError(f"no metric {metric!r}; {suggestion(metric, known)}", *TUNED)


def check_metric(metric: str | None, documents: Sequence[Document]) -> None:
    """Refuse a measure that no run of these words would have; an analysis may find any."""
    if metric is None or any(document.get("analysis") for document in documents):
        return
    known = dict.fromkeys(name for name in MEASURES if not name.startswith(PART_PREFIXES))
    for document in documents:
        parts = document.get("evaluate", Simulation.evaluate)
        for part in (parts,) if isinstance(parts, str) else parts:
            # loss and accuracy on test data have measures of their own
            told = MEASURED if part == "test" else ()
            names = [name for name in (*MEASURED, *metrics_of(document)) if name not in told]
            known |= dict.fromkeys(f"{part}_{name}_last" for name in names)
            if metric.endswith("_last") and metric.startswith(_of_classes(part, document)):
                return
    if metric not in known:
        raise StudyError(f"no measure {metric!r}; {suggestion(metric, known)}", "metric")


def _of_classes(part: str, document: Document) -> tuple[str, ...]:
    """How measures begin that may be there for each class, whose names the data tell."""
    several = [name for name, value in metrics_of(document).items() if value not in ONE_NUMBER]
    return tuple(f"{part}_{name}_" for name in several)


def metrics_of(document: Document) -> Mapping[str, Any]:
    """What is measured beside loss and accuracy: label → name or function."""
    given = document.get("metrics", {})
    if isinstance(given, list | tuple) and all(isinstance(name, str) for name in given):
        return {name: name for name in given}
    if not isinstance(given, Mapping):
        names = ", ".join(METRICS)
        expected = f"a list of names ({names}), or a table of functions"
        raise StudyError(f"expected {expected}, got {shown(given)}", "metrics")
    return given


def seeds_of(value: Any) -> tuple[int, ...]:
    """0 .. n-1 for a number n, else the seeds themselves."""
    expected = "expected a whole number >= 1, or a list of different whole numbers >= 0"
    if _whole(value, 1):
        if value > MOST_SEEDS:
            raise StudyError(f"expected at most {MOST_SEEDS}, got {shown(value)}", "seeds")
        return tuple(range(int(value)))
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        raise StudyError(f"{expected}, got {shown(value)}", "seeds")
    seeds = list(value)
    if not seeds or not all(_whole(seed, 0) for seed in seeds) or len(set(seeds)) < len(seeds):
        raise StudyError(f"{expected}, got {shown(value)}", "seeds")
    if max(seeds) >= 2**63 or len(seeds) > MOST_SEEDS:  # a store's whole numbers have 64 bits
        words = f"expected at most {MOST_SEEDS} whole numbers below 2**63, got {shown(value)}"
        raise StudyError(words, "seeds")
    return tuple(int(seed) for seed in seeds)


def _whole(value: Any, low: int) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        return False
    return int(value) >= low


def _check_analysis(name: str) -> None:
    from understudy.analysis import ANALYSES

    if ":" in name:
        with within("analysis"):
            function_of(name)
    elif name not in ANALYSES:
        raise ValueError(f"analysis: no analysis named {name!r}; {suggestion(name, ANALYSES)}")
