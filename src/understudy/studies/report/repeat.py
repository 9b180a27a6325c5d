"""How to repeat a study: its commands, the data and the versions."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from understudy._version import __version__
from understudy.simulation.data.sources import FILES
from understudy.studies.definition.builtins import NAMES as BUILT_IN
from understudy.studies.store.store import StoredCell, StoredStudy


@dataclass(frozen=True)
class Repeat:
    """What the last section of a report says.

    Parameters
    ----------
    commands : tuple of str
        That run the study and rewrite its report; none where it was made in Python.
    notes : tuple of str
        What else has to be the same.
    is_live : bool
        Whether its runs are those of a live federation.
    """

    commands: tuple[str, ...]
    notes: tuple[str, ...]
    is_live: bool = False


def repeat(study: StoredStudy, cells: Sequence[StoredCell]) -> Repeat:
    """Commands and notes for one who wants the same numbers."""
    about = study.about
    first = command(about, study.name)
    commands = () if first is None else (first, shlex.join(["understudy", "report", study.name]))
    notes = [*_overrides(about), *_data(cells), *_versions(study, cells), *_machines(cells)]
    return Repeat(commands, tuple(notes), is_live=bool(about.get("live")))


def command(about: Mapping[str, Any], name: str) -> str | None:
    """The command that runs the study; None for one that was made in Python."""
    file = about.get("file")
    if file is None:
        return None
    built_in = name in BUILT_IN and file == f"{name}.toml"
    words = [name if built_in else str(file)]
    if about.get("scale"):
        words += ["--scale", str(about["scale"])]
    for change in about.get("overrides") or ():
        words += ["--set", str(change)]
    return shlex.join(["understudy", "run", *words])


def _overrides(about: Mapping[str, Any]) -> list[str]:
    left_out = about.get("python_overrides") or ()
    if not left_out:
        return []
    return [
        f"Not in the command, because they were given as Python objects: {', '.join(left_out)}."
    ]


def _data(cells: Sequence[StoredCell]) -> list[str]:
    names = dict.fromkeys(str(cell.facts.get("data")) for cell in cells)
    needed = [name for name in names if name in FILES]
    if not needed:
        return []
    return [f"Needs the data of {', '.join(needed)}: understudy doctor says where they belong."]


def _versions(study: StoredStudy, cells: Sequence[StoredCell]) -> list[str]:
    """Which version did what; cells of another version are named."""
    notes = [f"Study saved by understudy-fl {study.version}, report by {__version__}."]
    others = Counter(cell.version for cell in cells if cell.version not in (None, __version__))
    for version, count in others.items():
        noun, verb = ("cell", "was") if count == 1 else ("cells", "were")
        notes.append(
            f"{count} {noun} {verb} computed by version {version}; --again runs all cells again."
        )
    return notes


def _machines(cells: Sequence[StoredCell]) -> list[str]:
    found: Counter[str] = Counter()
    for cell in cells:
        if cell.facts.get("versions"):
            found[", ".join(f"{name} {word}" for name, word in cell.facts["versions"].items())] += 1
    if not found:
        return []
    if len(found) == 1:
        same = "The same versions on the same kind of CPU give the same bits."
        return [f"Run with {next(iter(found))}. {same}"]
    told = "; ".join(f"{count} cells with {words}" for words, count in found.items())
    return [f"Run with different versions, so bits may differ: {told}."]
