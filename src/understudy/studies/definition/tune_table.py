"""The table ``[tune]``: which keys are tried with which values, and how a trial is judged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from understudy.core import checks
from understudy.core.describe import describe
from understudy.core.shown import shown
from understudy.parts.servers import Adam, Momentum, Sgd, Yogi
from understudy.simulation.training.evaluation import PARTS
from understudy.studies.definition.axes import Axis, Level, levels_of, put_for_all, touches
from understudy.studies.definition.build import methods
from understudy.studies.definition.build.methods import PART_KEYS
from understudy.studies.definition.build.parts import dataclass_of
from understudy.studies.definition.cell import Label
from understudy.studies.definition.document import ASKED, seeds_of
from understudy.studies.definition.errors import StudyError, unknown_key, within
from understudy.studies.definition.overrides import (
    TUNE_OPTIONS,
    Document,
    flat_tune,
    path_of,
    put,
)

GOALS = {"min": ("loss", "error"), "max": ("accuracy", "f1")}  # by words of a metric's name

OPTIMIZERS = (Sgd, Momentum, Adam, Yogi)  # servers that a method does with as with any other

Picks = Mapping[str, Mapping[str, Label]]  # strategy, or block/strategy → key → label of the value
Edges = Mapping[str, Mapping[str, tuple[float, str]]]  # strategy → key → value, and which end it is


@dataclass(frozen=True)
class Tune:
    """Hyper-parameters that are chosen for each strategy, on seeds of their own.

    Parameters
    ----------
    values : mapping
        Dotted key, such as ``local.lr``, or a part of a strategy, such as ``server`` → what is
        tried: a list of values, or a table of labels. Of several keys all combinations are tried.
    seeds : tuple of int
        Of the trials: none of the study's own.
    metric : str
        A metric of the last evaluated round, on validation data as a rule.
    goal : {"auto", "min", "max"}
        Whether less is better; by default less of a loss or an error, more of an accuracy or F1.
        For anything else it must be given.
    rounds : int, optional
        Of a trial; by default the study's.
    availability : str, optional
        The label of the only mode that is tried; by default all, and their mean decides.
    blocks : tuple of str, optional
        The blocks in which something is tuned; by default all. In the others strategies stay as
        they are written.
    """

    values: Mapping[str, Any]
    seeds: tuple[int, ...] = (1000, 1001, 1002)
    metric: str = "validation_loss"
    goal: str = "auto"
    rounds: int | None = None
    availability: str | None = None
    blocks: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        checks.choice("goal", self.goal, ("auto", "min", "max"))
        if self.rounds is not None:
            checks.integer("rounds", self.rounds, low=1)
        if self.evaluate and self.goal == "auto" and self._known_goal is None:
            raise ValueError(
                f"goal: expected 'min' or 'max': which of them is better is not known of "
                f"{self.metric!r}"
            )

    @property
    def less_is_better(self) -> bool:
        return (self._known_goal if self.goal == "auto" else self.goal) == "min"

    @property
    def _known_goal(self) -> str | None:
        words = set(self.measured.split("_"))
        goals = {goal for goal, known in GOALS.items() if words & set(known)}
        return goals.pop() if len(goals) == 1 else None

    @property
    def evaluate(self) -> tuple[str, ...]:
        """What a trial is evaluated on."""
        return tuple(part for part in PARTS if self.metric.startswith(f"{part}_"))

    @property
    def measured(self) -> str:
        """The metric without the part that it is measured on."""
        return self.metric.partition("_")[2]

    def is_in(self, block: str | None) -> bool:
        """Whether strategies of a block are tuned."""
        return self.blocks is None or block in self.blocks

    def levels(self, key: str) -> tuple[Level, ...]:
        """What is tried at a key, each value with its label."""
        levels = levels_of(self.values[key], ("tune", key))
        if len(levels) < 2:
            raise StudyError(f"expected at least two values, got {len(levels)}", "tune", key)
        return levels


def read_tune(document: Document) -> Tune | None:
    """What is tuned, checked."""
    table = document.get("tune")
    if table is None:
        return None
    with within("tune"):
        if not isinstance(table, Mapping):
            raise StudyError(f"expected a table, got {shown(table)}")
        given = {name: value for name, value in table.items() if name in TUNE_OPTIONS}
        values = flat_tune(table)
        for key in values:
            if path_of(key)[0] not in (*ASKED, *PART_KEYS):
                raise unknown_key(key, ("key", "values", *TUNE_OPTIONS, *PART_KEYS, *ASKED))
        if not values:
            raise StudyError("expected a value, got none", "key")
        if "seeds" in given:
            given["seeds"] = seeds_of(given["seeds"])
        made: Tune = dataclass_of(Tune, {**given, "values": values})
        if not made.evaluate:
            words = " or ".join(f"{part}_…" for part in PARTS)
            raise StudyError(f"expected {words}, got {made.metric!r}", "metric")
    for key in made.values:
        made.levels(key)
    return made


# -- values in a document ----------------------------------------------------------------------


def tunes(path: tuple[str, ...], document: Document, strategy: str) -> bool:
    """Whether a key of ``[tune]`` means anything to a strategy, which has not set it itself."""
    if path[0] not in PART_KEYS:
        return touches(path, document, strategy, None)
    given = document["strategies"][strategy]
    own = given.get(path[0]) if isinstance(given, Mapping) else None
    if len(path) == 1:
        return own is None and not _is_the_method(path[0], given)
    if isinstance(own, Mapping) and path[1] in own:
        return False
    part = getattr(methods.strategy(given), path[0])
    return is_dataclass(part) and path[1] in [item.name for item in fields(part)]


def _is_the_method(key: str, given: Any) -> bool:
    """Whether a method brings a server step of its own: with another one it would be none."""
    if key != "server":
        return False
    server = methods.strategy(given).server
    return not isinstance(server, OPTIMIZERS)


def at_levels(document: Document, pairs: Iterable[tuple[Axis, Level]], strategy: str) -> Document:
    """A document with values of ``[tune]``, for one strategy."""
    for axis, level in pairs:
        if axis.path[0] in PART_KEYS:
            document = _with_part(document, axis.path, level.value, strategy)
        else:
            document = put_for_all(document, axis.path, level.value)
    return document


def _with_part(document: Document, path: tuple[str, ...], value: Any, strategy: str) -> Document:
    place = "strategies", strategy, path[0]
    if len(path) > 1:
        settings = {path[1:]: value}
    elif isinstance(value, Mapping) and "name" not in value:
        settings = {(name,): setting for name, setting in value.items()}
    else:
        return put(document, place, value)
    # settings alone: those of the part that the strategy has
    part = getattr(methods.strategy(document["strategies"][strategy]), path[0])
    document = put(document, place, part)
    for below, setting in settings.items():
        document = put(document, (*place, *below), setting)
    return document


def tried_label(tried: Mapping[str, Label]) -> Label:
    """What a trial is called: the label of its value, or all keys and labels of several."""
    if len(tried) == 1:
        return next(iter(tried.values()))
    return ", ".join(f"{key} = {label}" for key, label in tried.items())


@contextmanager
def of_tuned(axes: Sequence[Axis], strategy: str) -> Iterator[None]:
    """An error at a place where ``[tune]`` put a value is one of ``[tune]``."""
    try:
        yield
    except StudyError as error:
        for axis in axes:
            is_part = axis.path[0] in PART_KEYS
            path = ("strategies", strategy, *axis.path) if is_part else axis.path
            if error.place[: len(path)] == path:
                error.place = ("tune", axis.name, *error.place[len(path) :])
                break
        raise


# -- the ends of a range -----------------------------------------------------------------------


def edges_of(tune: Tune, picks: Picks) -> dict[str, dict[str, tuple[float, str]]]:
    """Picks at the end of the range that was tried: the best value may lie beyond it.

    A number is compared with all numbers of its list. A part, such as ``{name = "sgd", lr = 4}``,
    is compared with those that differ from it in one number only.
    """
    found: dict[str, dict[str, tuple[float, str]]] = {}
    for name, pick in picks.items():
        for key, label in pick.items():
            levels: dict[Label, Any] = {level.label: level.value for level in tune.levels(key)}
            others = [value for other, value in levels.items() if other != label]
            for place, value, end in _ends(key, levels[label], others):
                found.setdefault(name, {})[place] = (value, end)
    return found


def _ends(key: str, value: Any, others: list[Any]) -> Iterator[tuple[str, float, str]]:
    if _is_number(value):
        numbers = [other for other in others if _is_number(other)]
        if numbers and not min(numbers) < value < max(numbers):
            yield key, value, "smallest" if value < min(numbers) else "largest"
        return
    settings = _settings(value)
    for name, setting in settings.items():
        rest = {other: item for other, item in settings.items() if other != name}
        alike = [
            found[name]
            for found in map(_settings, others)
            if name in found and {n: v for n, v in found.items() if n != name} == rest
        ]
        yield from _ends(f"{key}.{name}", setting, alike) if _is_number(setting) else ()


def _settings(value: Any) -> Mapping[str, Any]:
    """The settings of a part, written as a table or made in Python."""
    described = value if isinstance(value, Mapping) else describe(value)
    return described if isinstance(described, Mapping) else {}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
