"""Rows of a study that others are seen against: everybody present, all data in one place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from understudy.core.shown import shown
from understudy.core.suggestions import suggestion
from understudy.parts.local import Plain
from understudy.server.strategy import Strategy
from understudy.studies.definition.blocks import StudyBlock
from understudy.studies.definition.cell import Task
from understudy.studies.definition.errors import StudyError
from understudy.studies.definition.overrides import Document

KEY = "references"
EVERYONE, POOLED = "everyone", "pooled"
ABOUT = {
    EVERYONE: "the baseline with everybody present and nobody late",
    POOLED: (
        "one client holds all training data and makes as many gradient steps in a round as all "
        "clients together"
    ),
}


def asked(document: Document) -> tuple[str, ...]:
    """The references that a study asks for, checked."""
    given = document.get(KEY, ())
    names = (given,) if isinstance(given, str) else given
    if not isinstance(names, list | tuple):
        raise StudyError(f"expected a list of {', '.join(ABOUT)}, got {shown(given)}", KEY)
    for name in names:
        if not isinstance(name, str) or name not in ABOUT:
            raise StudyError(f"no reference {shown(name)}; {suggestion(str(name), ABOUT)}", KEY)
    return tuple(dict.fromkeys(names))


def words_of_references(about: Mapping[str, Any]) -> dict[str, str]:
    """Label of each reference of a stored study → what it is; empty for the study's own."""
    document = about.get("document")
    given = document.get(KEY, ()) if isinstance(document, Mapping) else ()
    return {label: ABOUT[label] if label in given else "" for label in about[KEY]}


def with_references(blocks: Sequence[StudyBlock], document: Document) -> list[StudyBlock]:
    """The blocks with a strategy for each reference: the baseline's, or that of the first."""
    names = asked(document)
    return [_with_rows(block, names, document.get("baseline")) for block in blocks]


def _with_rows(block: StudyBlock, names: Sequence[str], baseline: str | None) -> StudyBlock:
    strategies = dict(block.document.get("strategies") or {})
    if not names or not strategies:
        return block
    for name in names:
        if name in strategies:
            raise StudyError(f"a strategy is called {name!r}; give it another label", KEY)
    model = strategies.get(baseline, next(iter(strategies.values())))
    table = dict(model) if isinstance(model, Mapping) else {"method": model}
    always = {**table, "availability": {"name": "always"}}
    made = {**block.document, "strategies": strategies | dict.fromkeys(names, always)}
    return StudyBlock(block.name, made)


def as_reference(task: Task, label: str, document: Document) -> Task:
    """The task of a row that ``references`` asks for; that of a strategy as it is."""
    if label not in asked(document):
        return task
    if label == EVERYONE:
        return task.changed(delay=None)
    # of one client there is nothing to analyse
    local = replace(task.strategy.local, rule=Plain())
    alone = {"delay": None, "analysis": (), "oracle": False, "per_client_every": 0}
    return task.changed(strategy=Strategy(local=local), pooled=True, **alone)
