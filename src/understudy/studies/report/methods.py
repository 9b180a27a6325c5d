"""Each strategy of a study in one line: what it is, and in what it differs from the baseline."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from understudy import registry
from understudy.core.describe import describe
from understudy.studies.definition.differences import Difference, differences, first_of
from understudy.studies.definition.reference_rows import KEY, words_of_references
from understudy.studies.report.report_text import in_words, merged
from understudy.studies.statistics.exported_cells import EXPORTED
from understudy.studies.store.store import StoredCell, StoredStudy

NOT_BEGUN = "not begun"
NO_DIFFERENCE = "–"
SUMMARISED = ("sampler", "compensator", "weighting")  # what the summary of a method may speak of


class Method(NamedTuple):
    """A strategy of a study."""

    label: str
    what: str
    differs: str


def methods(
    study: StoredStudy, cells: Sequence[StoredCell], resolved: Mapping[str, Mapping[str, Any]]
) -> list[Method]:
    """One line for each strategy, in the study's order.

    Parameters
    ----------
    study
        What the study says of itself.
    cells
        All its cells.
    resolved
        Key of a cell to its configuration, for those that have begun.
    """
    written = _written(study.about.get("document"))
    made = words_of_references(study.about) if study.about.get(KEY) else {}
    found: dict[str, list[StoredCell]] = {}
    for cell in cells:
        found.setdefault(str(cell.labels["strategy"]), []).append(cell)
    begun = {
        label: [resolved[cell.key] for cell in members if cell.key in resolved]
        for label, members in found.items()
    }
    pairs = [(cell.labels, resolved[cell.key]) for cell in cells if cell.key in resolved]
    baseline = study.about.get("baseline")
    first = first_of((labels for labels, _ in pairs), baseline)
    differing = differences(pairs, first)
    told = []
    for label in found:
        if not begun[label]:
            statuses = {cell.status for cell in found[label]}
            told.append(Method(label, EXPORTED if EXPORTED in statuses else NOT_BEGUN, ""))
            continue
        strategy = merged([one.get("strategy") for one in begun[label]])
        method = written.get(label) or _closest(strategy)
        own = [one for one in differing if one.strategy == label]
        own.sort(key=lambda one: not one.is_the_method)
        differs = "; ".join(map(_in_words, own)) or NO_DIFFERENCE
        if label == first:
            alone = "the first, compared with the others" if len(found) > 1 else NO_DIFFERENCE
            differs = "the baseline" if label == baseline else alone
        what = made.get(label)
        what = f"{what[:1].upper()}{what[1:]}." if what else _what(strategy, method)
        told.append(Method(label, what, differs))
    return told


def _in_words(one: Difference) -> str:
    """The parts of a method as they are, settings beside those of the baseline."""
    if one.is_the_method:
        return f"{one.key} {one.own}"
    return f"{one.key} {one.own} instead of {one.other}"


def references_in(study: StoredStudy, cells: Sequence[StoredCell]) -> frozenset[str]:
    """Strategies with an availability of their own, beside others that have the study's."""
    modes: dict[str, set[Any]] = {}
    for cell in cells:
        modes.setdefault(str(cell.labels["strategy"]), set()).add(cell.labels.get("availability"))
    own = {label for label, found in modes.items() if found == {None}}
    named = study.about.get("references") or ()
    return frozenset(named) | (frozenset(own) if len(own) < len(modes) else frozenset())


def _written(document: Any) -> dict[str, str]:
    """Label of a strategy → name of its method, where the study names one."""
    found: dict[str, str] = {}
    document = document if isinstance(document, Mapping) else {}
    blocks = document.get("block") or {}
    for table in (document, *(blocks.values() if isinstance(blocks, Mapping) else ())):
        for label, value in _mapping(_mapping(table).get("strategies")).items():
            name = value if isinstance(value, str) else _mapping(value).get("method")
            # a strategy made in Python is stored as the table of its fields
            if isinstance(name, str) and name in registry.STRATEGIES:
                found.setdefault(label, name)
    return found


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _what(strategy: Any, method: str | None) -> str:
    """What a method says of itself, or what its sampler and its compensator do."""
    if method is not None:
        made = registry.STRATEGIES[method]
        return " ".join(filter(None, (_summary(made), _other_than(describe(made()), strategy))))
    parts = [_mapping(strategy).get(name) for name in ("sampler", "compensator")]
    return " ".join(_part_summary(part) for part in parts if part is not None)


def _other_than(usual: Any, strategy: Any) -> str:
    """Where the summary of a method is not true of a strategy: a part or a weighting is another."""

    def told(description: Any, name: str) -> Any:
        value = _mapping(description).get(name)
        return _mapping(value).get("class") if isinstance(value, Mapping) else value

    pairs = {name: (told(usual, name), told(strategy, name)) for name in SUMMARISED}
    words = [
        f"{name} {in_words(own)}"
        for name, (theirs, own) in pairs.items()
        if own is not None and own != theirs
    ]
    return f"Here: {', '.join(words)}." if words else ""


def _closest(strategy: Any) -> str | None:
    """The method with this compensator that has most of the other parts in common."""

    def parts(description: Any) -> list[Any]:
        given = _mapping(description)
        rule = _mapping(given.get("local")).get("rule")
        kinds = [given.get("compensator"), rule, given.get("sampler")]
        return [*(_mapping(part).get("class") for part in kinds), given.get("weighting")]

    own, closest, most = parts(strategy), None, -1
    for name, method in registry.STRATEGIES.items():
        theirs = parts(describe(method()))
        alike = sum(a == b for a, b in zip(own, theirs, strict=True))
        if own[0] is not None and own[0] == theirs[0] and alike > most:
            closest, most = name, alike
    return closest


def _part_summary(part: Any) -> str:
    name = _mapping(part).get("class")
    if name in registry.PUBLIC:
        return _summary(registry.public(str(name)))
    return f"{in_words(part)}."


def _summary(thing: Any) -> str:
    """The first paragraph of its documentation."""
    text = inspect.getdoc(thing) or thing.__name__
    return " ".join(text.split("\n\n", maxsplit=1)[0].split()).replace("`", "")
