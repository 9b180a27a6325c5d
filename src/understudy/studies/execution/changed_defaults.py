"""Tells where cells of a stored study run again, though nobody has changed the study."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from understudy.core.describe import differing
from understudy.core.printable import one_line, printable
from understudy.studies.definition.document import TOLD
from understudy.studies.definition.overrides import LISTED
from understudy.studies.store.schema import StoreError

if TYPE_CHECKING:
    from understudy.studies.definition.cell import Cell
    from understudy.studies.definition.study import Study
    from understudy.studies.store.store import Store

MOST = 4  # settings that are named
LONGEST = 40  # characters of a value
NOT_OF_A_CELL = (*TOLD, "seeds", "axes", "blocks")  # keys of a study; cells are found by labels
LABELLED = (*LISTED, "block")


def changed_defaults(
    store: Store, study: Study, cells: Sequence[Cell], skip: Collection[str] = frozenset()
) -> str | None:
    """In a line, which settings differ from those that the stored cells of this study ran with.

    What its user has changed since is not told. `cells` are its own; where it is tuned, its trials;
    those in `skip` will not run. None where no cell that has run, or has begun to, runs again.
    """
    try:
        about = printable(json.loads(json.dumps(study.about())))  # as it would be read again
        stored = {one.name: one for one in store.studies()}.get(study.name)
        if stored is None:
            return None
        changed = _changed_keys(stored.about, about)
        known = store.trials(study.name) if study.tune else store.cells(study.name)
        begun = [one for one in known if one.status != "waiting"]
        before = {_place(one.labels, one.seed): one.key for one in begun}
        found: dict[tuple[str, str, str], None] = {}
        n_again = 0
        for cell in cells:
            key = before.get(_place(cell.labels, cell.seed), cell.key)
            if cell.key in (key, *skip) or store.status(cell.key) == "done":
                continue
            settings = [
                one
                for one in differing(cell.resolved, store.resolved(key))
                if not _keys_of(one[0], cell.labels)
                & {*changed, "sources"}  # files of plug-ins are one's own
            ]
            found |= dict.fromkeys(settings)
            n_again += bool(settings)
    except StoreError:  # damage is told when the cells run
        return None
    if not found:
        return None
    words = [
        f"{place.removeprefix('strategy.')} is now {_short(ours)} (was {_short(theirs)})"
        for place, theirs, ours in found
    ]
    more = f", and {len(words) - MOST} more" if len(words) > MOST else ""
    again = f"{n_again} of {len(cells)} " + ("cells run" if len(cells) > 1 else "cell runs")
    told = ", ".join(words[:MOST]) + more
    return f"Defaults have changed since this study ran: {told}: {again} again"


def _changed_keys(stored: Mapping[str, Any], about: Mapping[str, Any]) -> set[str]:
    """Keys of the study that its user has changed; of a built-in one the words are not theirs."""
    if about["built_in"] and stored.get("built_in"):
        asked = [
            set(one.get("overrides", ())) | {f"scale={one.get('scale')}"} for one in (stored, about)
        ]
        keys = [text.partition("=")[0].split(".") for text in asked[0] ^ asked[1]]
        rows = [set((one.get("joined") or {}).items()) for one in (stored, about)]
        of_rows = {f"strategies.{label}" for label, _ in rows[0] ^ rows[1]}
        return {".".join(key[: 1 + (key[0] in LISTED)]) for key in keys} | of_rows
    documents = stored.get("document") or {}, about["document"]
    theirs, ours = (_common(*pair) for pair in (documents, documents[::-1]))
    return {key for key in theirs.keys() | ours.keys() if theirs.get(key) != ours.get(key)}


def _keys_of(place: str, labels: Mapping[str, Any]) -> set[str]:
    """Keys of a study that decide about a setting of a cell."""
    part, _, name = place.partition(".")
    if part == "strategy":
        part = name.partition(".")[0]
    rows = {"strategies": labels["strategy"], "block": labels.get("block"), part: labels.get(part)}
    return {"scale", "tune", *rows, *(f"{key}.{label}" for key, label in rows.items())}


def _common(document: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """What a document says of the cells that another has too: no further labels, no seeds."""
    said = {name: value for name, value in document.items() if name not in NOT_OF_A_CELL}
    for name in LABELLED:
        if isinstance(said.get(name), Mapping) and isinstance(other.get(name), Mapping):
            shared = {key: value for key, value in said.pop(name).items() if key in other[name]}
            # a row that was changed says nothing of the others
            said |= {f"{name}.{key}": value for key, value in shared.items()}
    return said


def _place(labels: Mapping[str, Any], seed: int) -> tuple[str, int]:
    return json.dumps(dict(labels), sort_keys=True), seed


def _short(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"
