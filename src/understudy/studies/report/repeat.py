"""How to repeat a study: its commands, the data and the versions."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy._version import __version__
from understudy.simulation.data.sources import DATASETS
from understudy.studies.definition.builtins import NAMES as BUILT_IN
from understudy.studies.store.report_file import (
    RUNS,
    folder_option,
    from_here,
    rewriting_command,
)
from understudy.studies.store.store import StoredCell, StoredStudy


@dataclass(frozen=True)
class Repeat:
    """What the last section of a report says.

    Parameters
    ----------
    commands : tuple of str
        That run the study and rewrite its report; none where it was made in Python.
    rewrite : str
        The one that rewrites its report.
    notes : tuple of str
        What else has to be the same.
    is_live : bool
        Whether its runs are those of a live federation.
    """

    commands: tuple[str, ...]
    rewrite: str
    notes: tuple[str, ...]
    is_live: bool = False


def repeat(study: StoredStudy, cells: Sequence[StoredCell], folder: str | Path = RUNS) -> Repeat:
    """Commands and notes for one who wants the same numbers.

    Parameters
    ----------
    study, cells
        What is repeated.
    folder : path
        The runs folder that it is in.
    """
    about, rewrite = study.about, rewriting_command(folder, study.name)
    first = command(about, study.name, folder)
    notes = [*_overrides(about), *_data(cells), *_versions(study, cells), *_machines(cells)]
    return Repeat(
        commands=() if first is None else (first, rewrite),
        rewrite=rewrite,
        notes=tuple(notes),
        is_live=bool(about.get("live")),
    )


def command(about: Mapping[str, Any], name: str, folder: str | Path = RUNS) -> str | None:
    """The command that runs the study; None for one that was made in Python."""
    if about.get("file") is None:
        return None
    words = [_typed(about, name, folder)]
    if about.get("scale"):
        words += ["--scale", str(about["scale"])]
    for change in about.get("overrides") or ():
        words += ["--set", str(change)]
    return shlex.join(["understudy", "run", *words, *folder_option(folder)])


def _typed(about: Mapping[str, Any], name: str, folder: str | Path) -> str:
    """What the study is called on the command line: a built-in one by its name, else its file."""
    file = Path(str(about["file"]))
    # stores of before tell the name of the file only
    built_in = about.get("built_in", name in BUILT_IN and file.name == f"{name}.toml")
    if built_in:
        return file.stem
    if about.get("path") is None:
        return str(file)
    typed = from_here(Path(folder).resolve() / str(about["path"]))
    return typed if not typed.startswith("-") else f"./{typed}"  # which would be an option


def _overrides(about: Mapping[str, Any]) -> list[str]:
    left_out = about.get("python_overrides") or ()
    if not left_out:
        return []
    return [
        f"Not in the command, because they were given as Python objects: {', '.join(left_out)}."
    ]


def _data(cells: Sequence[StoredCell]) -> list[str]:
    names = dict.fromkeys(str(cell.facts.get("data")) for cell in cells)
    needed = [name for name in names if name in DATASETS and DATASETS[name].files]
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
