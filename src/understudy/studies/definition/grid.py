"""From a study's document to its cells: every strategy in every situation, with every seed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any

from torch.nn.functional import cross_entropy

from understudy.core.shown import shown
from understudy.core.suggestions import suggestion
from understudy.server.weights import EXAMPLES
from understudy.simulation.settings import Simulation
from understudy.simulation.training import metrics
from understudy.studies.definition.axes import (
    Axis,
    axis_names,
    changed_availability,
    levels_of,
    moved,
    own_availability,
    refuse_epochs_and_steps,
    touches,
)
from understudy.studies.definition.blocks import StudyBlock
from understudy.studies.definition.build import methods
from understudy.studies.definition.build.data import LOSSES, data_of, function_of, model_of
from understudy.studies.definition.build.parts import NOTHING, part
from understudy.studies.definition.cell import DataRecipe, Label, Task
from understudy.studies.definition.document import (
    ASKED,
    MEASURED,
    SETTINGS,
    analyses_of,
    check_metric,
    check_tuned,
    metrics_of,
    seeds_of,
    settings_of,
)
from understudy.studies.definition.errors import StudyError, told_of, unknown_key, within
from understudy.studies.definition.overrides import LISTED, Document, path_of, with_field
from understudy.studies.definition.reference_rows import as_reference
from understudy.studies.definition.tune_table import (
    Picks,
    Tune,
    at_levels,
    of_tuned,
    tried_label,
    tunes,
)

if TYPE_CHECKING:
    from understudy.simulation.data.federation import Federation

AXIS_KEYS = tuple(key for key in ASKED if key not in ("seeds", "axes"))
TUNED = "tuned"


@dataclass(frozen=True, eq=False)
class Draft:
    """A cell before it is hashed."""

    labels: dict[str, Label]
    task: Task
    tried: Mapping[str, Label] = field(default_factory=dict)  # of a trial: key → label


class Grid:
    """The cells of one study.

    `blocks` are its rectangles, as whole documents; `known` is its document before the blocks, for
    labels that only some of them have; `path` has the folders where plug-ins are found; `joined`
    are labels of rows that the study itself does not have.
    """

    def __init__(
        self,
        blocks: Sequence[StudyBlock],
        known: Mapping[str, Any],
        path: tuple[str, ...],
        joined: Collection[str] = (),
    ) -> None:
        self.blocks, self.path, self._joined = blocks, path, joined
        self._known = known
        check_metric(known.get("metric"), [block.document for block in blocks])
        keys = dict.fromkeys(key for block in blocks for key in block.document["axes"])
        self.names = axis_names(list(keys))
        self.has_blocks = any(block.name is not None for block in blocks)
        self._memo: dict[Any, Any] = {}

    def drafts(self, tune: Tune | None = None, picks: Picks | None = None) -> list[Draft]:
        """All cells of the study, in its order; with picks, at the values that were picked."""
        return [
            draft
            for block in self.blocks
            for draft in self._block(block, self._picked(tune, picks))
        ]

    def trials(self, tune: Tune) -> list[Draft]:
        """All cells that a value is picked from."""
        return [draft for block in self.blocks for draft in self._trials(block, tune)]

    def levels(self) -> dict[str, list[Label]]:
        """Names of the axes → labels of their levels, over all blocks."""
        found: dict[str, dict[Label, None]] = {name: {} for name in self.names.values()}
        for block in self.blocks:
            for axis in self._axes(block.document):
                found[axis.name] |= dict.fromkeys(level.label for level in axis.levels)
        return {name: list(labels) for name, labels in found.items()}

    # -- one rectangle -------------------------------------------------------------------------

    def _block(self, block: StudyBlock, changed: Change) -> Iterator[Draft]:
        with _inside(block):
            seeds = seeds_of(block.document.get("seeds", 1))
            for document, labels, _ in self._points(block.document):
                label = str(labels["strategy"])
                document = changed(document, block, label)
                for seed in seeds:
                    yield Draft(self._labels(block, labels), self._task(document, labels, seed))

    def _trials(self, block: StudyBlock, tune: Tune) -> Iterator[Draft]:
        if not tune.is_in(block.name):
            return
        with _inside(block):
            modes = block.document["availability"]
            if tune.availability is not None and tune.availability not in modes:
                message = f"no label {tune.availability!r}; {suggestion(tune.availability, modes)}"
                raise StudyError(message, "tune", "availability")
            axes = self._tuned(block.document, tune)
            # where all rows of a block say what they have, a row that joined it is not tuned either
            of_block = {
                axis.name
                for axis in axes
                for label in block.document["strategies"]
                if label not in self._joined and tunes(axis.path, block.document, label)
            }
            check_tuned(tune.metric, tune.evaluate[0], block.document)
            for document, labels, mode in self._points(block.document):
                if tune.availability not in (None, mode) and labels["availability"] is not None:
                    continue
                label = str(labels["strategy"])
                own = [axis for axis in axes if tunes(axis.path, document, label)]
                if label in self._joined:
                    own = [axis for axis in own if axis.name in of_block]
                for levels in product(*(axis.levels for axis in own)) if own else ():
                    pairs = list(zip(own, levels, strict=True))
                    tried = {axis.name: level.label for axis, level in pairs}
                    named = {**self._labels(block, labels), TUNED: tried_label(tried)}
                    with of_tuned(own, label):
                        changed = at_levels(document, pairs, label)
                        for seed in tune.seeds:
                            yield Draft(named, self._trial(changed, labels, seed, tune), tried)

    def _tuned(self, document: Document, tune: Tune) -> list[Axis]:
        """The keys that are tuned in a block, each with its levels."""
        axes = []
        for key in tune.values:
            path = path_of(key)
            if path[0] not in methods.PART_KEYS and not self._check_key(
                document, path, ("tune", key)
            ):
                continue
            others = [other for other in tune.values if other != key]
            refuse_epochs_and_steps([*document["axes"], *others, key], "tune", key)
            axes.append(Axis(path, tune.levels(key), key))
        return axes

    def _points(self, document: Document) -> Iterator[tuple[Document, dict[str, Label], str]]:
        """Every strategy in every situation: its document and its labels."""
        axes = self._axes(document)
        seen: set[tuple[tuple[str, Label], ...]] = set()
        for levels in product(*(axis.levels for axis in axes)):
            for mode in document["availability"]:
                for label, strategy in document["strategies"].items():
                    own = own_availability(strategy) is not None
                    labels: dict[str, Label] = {
                        "strategy": label,
                        "availability": None if own else mode,
                    }
                    changed = document
                    for axis, level in zip(axes, levels, strict=True):
                        touched = touches(axis.path, document, label, None if own else mode)
                        labels[axis.name] = level.label if touched else None
                        if touched:
                            changed = moved(changed, axis, level, mode)
                    point = tuple(labels.items())
                    if point not in seen:
                        seen.add(point)
                        yield changed, labels, mode

    def _labels(self, block: StudyBlock, labels: Mapping[str, Label]) -> dict[str, Label]:
        """All labels of the study, in one order; None where one does not matter."""
        whole: dict[str, Label] = {name: labels[name] for name in ("strategy", "availability")}
        whole |= {name: labels.get(name) for name in self.names.values()}
        if self.has_blocks:
            whole["block"] = block.name
        return whole

    def _axes(self, document: Document) -> list[Axis]:
        axes = []
        refuse_epochs_and_steps(document["axes"], "axes")
        for key, value in document["axes"].items():
            path = path_of(key)
            if not self._check_key(document, path, ("axes", key)):
                continue
            axes.append(Axis(path, levels_of(value, ("axes", key)), self.names[key]))
        return axes

    def _check_key(self, document: Document, path: tuple[str, ...], place: tuple[str, ...]) -> bool:
        """Whether an axis matters in this block; an error where it could matter in none."""
        with within(*place):
            if path[0] not in AXIS_KEYS:
                error = unknown_key(path[0], AXIS_KEYS)
                raise StudyError(error.message)
            if path[0] in LISTED and len(path) == 1:
                raise StudyError(f"write [{path[0]}], whose labels are compared anyway")
            if path[0] == "strategies" and path[1] not in document["strategies"]:
                if path[1] in self._known.get("strategies", {}):
                    return False  # this block leaves it out
                words = suggestion(path[1], document["strategies"])
                raise StudyError(f"no strategy {path[1]!r}; {words}")
            if path[0] == "availability" and path[1] not in document["availability"]:
                modes = document["availability"]
                if not with_field(modes, path[1]):
                    if with_field(self._known.get("availability", {}), path[1]):
                        return False
                    raise StudyError(f"none of {', '.join(modes)} has a parameter {path[1]!r}")
        return True

    # -- one cell ------------------------------------------------------------------------------

    def _trial(
        self, document: Document, labels: Mapping[str, Label], seed: int, tune: Tune
    ) -> Task:
        task = self._task(document, labels, seed)
        rounds = task.settings.rounds if tune.rounds is None else tune.rounds
        _refuse_without_validation(task.data, tune.evaluate, tune.metric, ("tune", "metric"))
        return task.changed(
            rounds=rounds,
            evaluate=tune.evaluate,
            evaluate_every=min(task.settings.evaluate_every, rounds),
            per_client_every=0,
            oracle=False,
            analysis=(),
        )

    def _task(self, document: Document, labels: Mapping[str, Label], seed: int) -> Task:
        label = str(labels["strategy"])
        value = document["strategies"][label]
        own = own_availability(value)
        weighting = document.get("weighting", EXAMPLES)
        self._once("local", document["local"], methods.check_local)
        methods.check_weighting(weighting)
        with within("strategies", label):
            given = (value, document["local"], weighting)
            strategy = self._once("strategy", given, lambda words: methods.strategy(*words))
            if own is not None:
                with within("availability"):
                    availability = self._availability(own, seed)
        if own is None:
            mode = str(labels["availability"])
            with within("availability", mode):
                over = changed_availability(value, document["availability"][mode])
                availability = self._availability(over, seed)
        settings = settings_of(document)
        data = self._data(document, seed)
        evaluate = settings.get("evaluate", Simulation.evaluate)
        _refuse_without_validation(data, evaluate, "validation", ("evaluate",))
        made = {
            "model": self._model(document),
            "availability": availability,
            "delay": self._delay(document),
            "seed": seed,
            "loss": self._loss(document),
            "metrics": self._metrics(document),
        }
        made["analysis"] = analyses_of(document)
        if getattr(data, "test_clients", None) is not None:  # each client's own: once, at the end
            settings.setdefault("per_client_every", settings["rounds"])
        with told_of(known=SETTINGS):
            task = Task(data=data, strategy=strategy, path=self.path, **made, **settings)
            task = as_reference(task, label, document)
            if not isinstance(data, DataRecipe):  # else it is checked when the data are made
                metrics.check(task.settings.metrics, data.n_classes)
        if task.analysis:
            from understudy.analysis import check

            with told_of(known=("analysis",)):
                check(task)
        return task

    def _availability(self, value: Any, seed: int) -> Any:
        """Who can be reached; as with data, ``seed = "run"`` is the run's own."""
        if isinstance(value, Mapping) and value.get("seed") == "run":
            value = {**value, "seed": seed}
        return self._once("availability", value, _availability)

    def _data(self, document: Document, seed: int) -> Any:
        if "data" not in document:
            raise StudyError("expected a table with the name of a data set, got none", "data")
        with told_of("data", known=()):
            return self._once("data", (document["data"], seed), lambda pair: data_of(*pair))

    def _model(self, document: Document) -> Any:
        if "model" not in document:
            raise StudyError("expected a table with the name of a model, got none", "model")
        with within("model"):
            return self._once("model", document["model"], model_of)

    def _delay(self, document: Document) -> Any:
        value = document.get("delay")
        if value is None or value == NOTHING:
            return None
        with within("delay"):
            return self._once("delay", value, lambda given: part("delay", given))

    def _loss(self, document: Document) -> Any:
        with within("loss"):
            return function_of(document.get("loss", cross_entropy), LOSSES)

    def _metrics(self, document: Document) -> dict[str, Any]:
        made = {}
        for name, value in metrics_of(document).items():
            with within("metrics", name):
                if name in MEASURED:
                    raise StudyError(f"{name!r} is a built-in metric; choose another name")
                made[name] = function_of(value, metrics.METRICS)
        return made

    def _once(self, kind: str, value: Any, make: Callable[[Any], Any]) -> Any:
        """The same words are structured once: a study has thousands of cells and few parts."""
        key = (kind, _hashable(value))
        if key not in self._memo:
            self._memo[key] = make(value)
        return self._memo[key]

    # -- picks ---------------------------------------------------------------------------------

    def _picked(self, tune: Tune | None, picks: Picks | None) -> Change:
        def unchanged(document: Document, block: StudyBlock, label: str) -> Document:
            return document

        if tune is None or picks is None:
            return unchanged
        levels = {key: {level.label: level for level in tune.levels(key)} for key in tune.values}

        def changed(document: Document, block: StudyBlock, label: str) -> Document:
            pairs = []
            name = pick_name(block.name, label)
            pick = picks.get(name, {})
            if not isinstance(pick, Mapping):
                raise StudyError(f"expected a table of keys, got {shown(pick)}", "picks", name)
            for key, picked in pick.items():
                if picked not in levels.get(key, {}):
                    words = ", ".join(str(known) for known in levels.get(key, tune.values))
                    raise StudyError(
                        f"expected one of {words}, got {shown(picked)}", "picks", name, key
                    )
                axis = Axis(path_of(key), (), key)
                if tunes(axis.path, document, label):
                    pairs.append((axis, levels[key][picked]))
            return at_levels(document, pairs, label)

        return changed


Change = Callable[[Document, StudyBlock, str], Document]


def pick_name(block: str | None, strategy: str) -> str:
    """What a pick is filed under."""
    return strategy if block is None else f"{block}/{strategy}"


def _refuse_without_validation(
    data: DataRecipe | Federation, evaluate: Sequence[str], asked: str, place: tuple[str, ...]
) -> None:
    if "validation" not in evaluate:
        return
    if isinstance(data, DataRecipe):
        # whether data that come divided have such examples is known when they are made
        has = data.partition is None or bool(data.settings.get("validation"))
    else:
        has = data.validation is not None
    if not has:
        how = "set data.validation, for example to 0.1"
        raise StudyError(f"{asked!r} needs validation examples; {how}", *place)


def _availability(value: Any) -> Any:
    return part("availability", value)


def _inside(block: StudyBlock) -> Any:
    return within() if block.name is None else within("block", block.name)


def _hashable(value: Any) -> Any:
    """Words that can be looked up: 1, 1.0 and true are different, objects are themselves."""
    if isinstance(value, Mapping):
        return tuple((name, _hashable(item)) for name, item in value.items())
    if isinstance(value, list | tuple):
        return tuple(_hashable(item) for item in value)
    if isinstance(value, bool | int | float | str | type(None)):
        return type(value).__name__, value
    return _Same(value)


class _Same:
    """An object, told apart by where it is; kept, so that no other one comes to be there."""

    def __init__(self, thing: Any) -> None:
        self.thing = thing

    def __hash__(self) -> int:
        return id(self.thing)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.thing is self.thing
