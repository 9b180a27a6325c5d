"""The blocks of a study: its rectangles, each as a whole document, and what is put into them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from understudy.core.suggestions import suggestion
from understudy.studies.definition.document import ASKED, KEYS, changed
from understudy.studies.definition.errors import StudyError, shown, unknown_key, within
from understudy.studies.definition.overrides import Document, put

Override = tuple[tuple[str, ...], Any]


@dataclass(frozen=True)
class StudyBlock:
    """A rectangle of the study; its name is a label where there are several."""

    name: str | None
    document: Document = field(default_factory=dict)


def overridden(document: Document, overrides: Iterable[Override]) -> Document:
    """The document with values of the command line; where there are blocks, what fits no block
    is an error only in `blocks_of`."""
    for path, value in overrides:
        if path[0] not in KEYS:
            raise unknown_key(path[0], KEYS)
        if path[0] == "scale":
            raise StudyError("is chosen as a whole, with --scale", *path)
        _refuse_grid_key(document, path)
        try:
            document = put(document, path, value)
        except StudyError:
            if not document["block"] or path[0] not in ASKED:
                raise
    return document


def _refuse_grid_key(document: Document, path: tuple[str, ...]) -> None:
    key = ".".join(path)
    if key in document["axes"]:
        raise StudyError(f"is an axis; set axes.{key} to a list instead", *path)
    tuned = document.get("tune")
    if isinstance(tuned, Mapping) and tuned.get("key") == key:
        raise StudyError("is tuned; set tune.values to a list instead", *path)


def blocks_of(document: Document, overrides: Iterable[Override] = ()) -> list[StudyBlock]:
    """The rectangles of a study, each as a whole document; the command line has the last word."""
    tables = _kept_blocks(document)
    if not tables:
        return [StudyBlock(None, document)]
    made = []
    for name, table in tables.items():
        changes = {key: value for key, value in table.items() if key != "name"}
        with within("block", name):
            whole = changed(document, changes, whole=True)
        # a label that is missing would mean "in every group"
        named = "name" in table or len(document["block"]) > 1
        made.append(StudyBlock(name if named else None, whole))
    for path, value in overrides:
        if path[0] in ASKED:
            made = _overridden_blocks(made, path, value)
    return made


def _kept_blocks(document: Document) -> dict[str, Any]:
    tables: dict[str, Any] = document["block"]
    kept = document.get("blocks")
    if kept is None:
        return tables
    if isinstance(kept, str) or not isinstance(kept, list | tuple):
        raise StudyError(f"expected a list of the names of blocks, got {shown(kept)}", "blocks")
    for name in kept:
        if name not in tables:
            raise StudyError(f"no block {name!r}; {suggestion(str(name), tables)}", "blocks")
    return {name: tables[name] for name in kept}


def _overridden_blocks(
    made: list[StudyBlock], path: tuple[str, ...], value: Any
) -> list[StudyBlock]:
    """Each block with a value, wherever its key is; an error where it is in none."""
    found, error = [], None
    for block in made:
        _refuse_grid_key(block.document, path)
        here = value
        if path in (("strategies",), ("availability",)) and isinstance(value, list | tuple):
            here = [label for label in value if label in block.document[path[0]]]
            if value and not here:
                continue  # nothing of this block is wanted
        try:
            found.append(StudyBlock(block.name, put(block.document, path, here)))
        except StudyError as refused:
            error = refused
            found.append(block)
    if not found or (error and all(new is old for new, old in zip(found, made, strict=False))):
        raise error or StudyError(f"no block has any of {list(value)}", *path)
    return found
