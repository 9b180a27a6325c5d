"""The blocks of a study: its rectangles, each as a whole document, and what is put into them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from typing import Any

from understudy.core.shown import shown
from understudy.core.suggestions import suggestion
from understudy.parts.local import Local
from understudy.studies.definition.build.user_rows import WITH, UserRow
from understudy.studies.definition.document import ASKED, KEYS, changed
from understudy.studies.definition.errors import (
    StudyError,
    unknown_key,
    within,
)
from understudy.studies.definition.overrides import Document, flat_tune, put, with_field

Override = tuple[tuple[str, ...], Any]


@dataclass(frozen=True)
class StudyBlock:
    """A rectangle of the study; its name is a label where there are several."""

    name: str | None
    document: Document = field(default_factory=dict)


def with_user_rows(
    document: Document, rows: Iterable[UserRow], others: Collection[str] = ()
) -> Document:
    """The document with rows of one's own, in all blocks; `others` are labels of other scales."""
    for row in rows:
        table = dict(row.table)
        blocks = dict(document["block"])
        taken = {*document.get("strategies", {}), *others}
        for name, block in blocks.items():
            own = block.get("strategies")
            taken |= set(own or ())
            if isinstance(own, Mapping):
                blocks[name] = {**block, "strategies": {**own, row.label: table}}
            elif isinstance(own, list | tuple):
                blocks[name] = {**block, "strategies": [*own, row.label]}
        if row.label in taken:
            error = StudyError(
                f"expected a label that the study does not have, got {row.label!r}; "
                f"give it another, as in {WITH} my-{row.label}={row.place}"
            )
            error.source = f"{WITH} {row.text}"
            raise error
        strategies = {**document.get("strategies", {}), row.label: table}
        document = {**document, "strategies": strategies, "block": blocks}
    return document


def overridden(document: Document, overrides: Iterable[Override]) -> Document:
    """The document with values of the command line; where there are blocks, what fits no block
    is an error only in `blocks_of`."""
    for path, value in overrides:
        if path[0] not in KEYS:
            raise _unknown_override(document, path)
        if path[0] == "scale":
            raise StudyError("is chosen as a whole, with --scale", *path)
        _refuse_grid_key(document, path)
        try:
            document = put(document, path, value)
        except StudyError:
            if not document["block"] or path[0] not in ASKED:
                raise
        document = _with_blocks_overridden(document, path, value)
    return document


def _with_blocks_overridden(document: Document, path: tuple[str, ...], value: Any) -> Document:
    """The document with a value also in the blocks that set it themselves, so that it says all."""
    tables: dict[str, Any] = dict(document["block"])
    for name, table in tables.items():
        parent: Any = table
        for key in path[:-1]:
            parent = parent.get(key) if isinstance(parent, Mapping) else None
        if path[0] in ASKED and isinstance(parent, Mapping) and (path[1:] or path[0] in table):
            here = _of_block(table, path, value)
            with suppress(StudyError):  # `blocks_of` says where that is an error
                tables[name] = table if here == [] else put(table, path, here)
    return {**document, "block": tables}


def _of_block(table: Mapping[str, Any], path: tuple[str, ...], value: Any) -> Any:
    """The value as it is meant of a block: of a list of labels those that it has."""
    if path in (("strategies",), ("availability",)) and isinstance(value, list | tuple):
        return [label for label in value if label in table[path[0]]]
    return value


def _unknown_override(document: Document, path: tuple[str, ...]) -> StudyError:
    """A key that means nothing, or that is meant of a table: lr of local.lr."""
    tables = {"local": [item.name for item in fields(Local)]}
    for name in ("data", "model"):
        tables[name] = list(document[name]) if isinstance(document.get(name), Mapping) else []
    meant = [name for name, known in tables.items() if path[0] in known]
    meant += ["availability"] if with_field(document["availability"], path[0]) else []
    if not meant:
        return unknown_key(path[0], KEYS)
    words = " or ".join(repr(".".join((name, *path))) for name in meant)
    return StudyError(f"no such key; did you mean {words}?", *path)


def _refuse_grid_key(document: Document, path: tuple[str, ...]) -> None:
    key = ".".join(path)
    if key in document["axes"]:
        raise StudyError(f"is an axis; set axes.{key} to a list instead", *path)
    tuned = document.get("tune")
    if isinstance(tuned, Mapping) and path[0] != "tune" and key in flat_tune(tuned):
        where = "values" if tuned.get("key") == key else key
        raise StudyError(f"is tuned; set tune.{where} to a list instead", *path)


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
    if not isinstance(kept, list | tuple) or not all(isinstance(name, str) for name in kept):
        raise StudyError(f"expected a list of the names of blocks, got {shown(kept)}", "blocks")
    for name in kept:
        if name not in tables:
            known = suggestion(str(name), tables) if tables else "the study has none"
            raise StudyError(f"no block {name!r}; {known}", "blocks")
    return {name: tables[name] for name in kept}


def _overridden_blocks(
    made: list[StudyBlock], path: tuple[str, ...], value: Any
) -> list[StudyBlock]:
    """Each block with a value, wherever its key is; an error where it is in none."""
    found, error = [], None
    for block in made:
        _refuse_grid_key(block.document, path)
        here = _of_block(block.document, path, value)
        if isinstance(value, list | tuple) and value and not here:
            continue  # nothing of this block is wanted
        try:
            found.append(StudyBlock(block.name, put(block.document, path, here)))
        except StudyError as refused:
            error = refused
            found.append(block)
    if not found or (error and all(new is old for new, old in zip(found, made, strict=False))):
        raise error or StudyError(f"no block has any of {list(value)}", *path)
    return found
