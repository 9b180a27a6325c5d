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
from understudy.studies.statistics.text_table import heading_of
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
    rows : tuple of pairs of str
        What else has to be the same, and by whom the data are: subject and words.
    """

    commands: tuple[str, ...]
    rewrite: str
    rows: tuple[tuple[str, str], ...]


def repeat(study: StoredStudy, cells: Sequence[StoredCell], folder: str | Path = RUNS) -> Repeat:
    """Commands and facts for one who wants the same numbers.

    Parameters
    ----------
    study, cells
        What is repeated.
    folder : path
        The runs folder that it is in.
    """
    about, rewrite = study.about, rewriting_command(folder, study.name)
    first, rows = command(about, study.name, folder), [("finished cells", "are not rerun")]
    if about.get("live"):
        rows.append(("to resume", "flwr run with the same folder"))
    elif first is None:
        rows.append(("to resume", "study.run(folder) in Python"))
    left_out = about.get("python_overrides") or ()
    if left_out:
        rows.append(("not in the command", f"given as Python objects: {', '.join(left_out)}"))
    rows += [*_data(cells), *_versions(study, cells), *_machines(cells)]
    return Repeat(() if first is None else (first, rewrite), rewrite, tuple(rows))


def command(about: Mapping[str, Any], name: str, folder: str | Path = RUNS) -> str | None:
    """The command that runs the study; None for one that was made in Python."""
    if about.get("file") is None:
        return None
    words = [_typed(about, name, folder)]
    if about.get("scale"):
        words += ["--scale", str(about["scale"])]
    for label, place in (about.get("joined") or {}).items():
        words += ["--with", f"{label}={place}"]
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


def _data(cells: Sequence[StoredCell]) -> list[tuple[str, str]]:
    names = dict.fromkeys(str(cell.facts.get("data")) for cell in cells)
    known = {name: DATASETS[name] for name in names if name in DATASETS}
    needed = ", ".join(name for name, source in known.items() if source.files)
    rows = [("needs data", f"{needed}: understudy doctor says where they belong")] if needed else []
    credits = ((name, source.credit) for name, source in known.items())
    return rows + [(f"data of {name}", credit) for name, credit in credits if credit is not None]


def _versions(study: StoredStudy, cells: Sequence[StoredCell]) -> list[tuple[str, str]]:
    """Which version did what; cells of another version are named."""
    rows = [("understudy-fl", f"{study.version} saved the study, {__version__} made the report")]
    others = Counter(cell.version for cell in cells if cell.version not in (None, __version__))
    for version, count in others.items():
        cells_of = f"{count} cell{'s' * (count > 1)}"
        rows.append((f"computed by {version}", f"{cells_of}; --again runs all cells again"))
    return rows


def _machines(cells: Sequence[StoredCell]) -> list[tuple[str, str]]:
    """On what the cells ran: the same bits come from the same versions on the same kind of CPU."""
    found: Counter[str] = Counter()
    for cell in cells:
        if cell.facts.get("versions"):
            found[heading_of(cell.facts["versions"].items())] += 1
    if len(found) == 1:
        return [("for the same bits", next(iter(found)))]
    told = "; ".join(f"{count} cells with {words}" for words, count in found.items())
    return [("different versions", f"bits may differ: {told}")] if told else []
