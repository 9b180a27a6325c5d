"""The studies that come with the package, by name."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.core.suggestions import suggestion
from understudy.studies.definition.errors import StudyError

if TYPE_CHECKING:
    from understudy.studies.definition.study import Study

SCALES = ("quick", "results", "paper")
OF_A_BENCHMARK = ("quick", "standard", "full")
_FOLDERS = {  # package, folder in it → studies, in the order in which they are listed
    ("understudy.studies", "builtin"): (
        "quickstart",
        "quickstart-tuned",
        "server-step",
        "concord",
        "absence",
    ),
    ("understudy.papers", "studies"): (
        "fdms-fig1",
        "fdms-fig2",
        "fdms-fig3",
        "fdms-fig4",
        "fdms-fig5",
        "fdms-sigma",
        "fdms-e",
        "fdms-k40",
        "fdms-fedprox",
        "fdms-fmnist",
        "fedgs-table2",
        "fedgs-table3",
        "fedgs-fig4",
        "fedgs-graphs",
        "fedar-fig1",
        "fedar-fig2",
        "fedar-table2",
        "fedar-table3",
        "fedar-fig4",
        "fedar-fig5",
        "fedar-rho",
        "fedar-size",
        "fdms-readings",
        "fedgs-readings",
        "fedar-readings",
        "newer-readings",
        "fdms-home",
        "fedgs-home",
        "fedar-home",
    ),
}
_FOLDER_OF = {name: folder for folder, names in _FOLDERS.items() for name in names}
NAMES = tuple(_FOLDER_OF)


@dataclass(frozen=True)
class BuiltIn:
    """What a built-in study says of itself."""

    name: str
    title: str
    shows: str


def text(name: str) -> str:
    """A built-in study as it is written."""
    if name not in NAMES:
        raise StudyError(f"no built-in study named {name!r}; {suggestion(name, NAMES)}")
    written: str = _file(name).read_text(encoding="utf-8")
    return written


def listed() -> tuple[BuiltIn, ...]:
    """All built-in studies, the first one for beginners."""
    tables = [tomllib.loads(text(name)) for name in NAMES]
    return tuple(BuiltIn(table["name"], table["title"], table["shows"]) for table in tables)


def scales_of(name: str) -> tuple[str, ...]:
    """The scales of a built-in study, the smallest first."""
    return OF_A_BENCHMARK if name == "absence" else SCALES


def source(study: str | Path) -> Path:
    """The file of a study: its own path, or the name of a built-in one."""
    path = Path(study)
    if path.is_file():
        return path
    if str(study) not in NAMES:
        refuse_missing_file(path)
        words = suggestion(str(study), NAMES)
        raise StudyError(f"no file and no built-in study named {str(study)!r}; {words}")
    return _path(str(study))


def refuse_missing_file(path: Path) -> None:
    """Raise where what can only be a file's name is none; suggests a file beside it."""
    if path.suffix != ".toml" and len(path.parts) == 1:
        return
    there = [file.name for file in path.parent.glob("*.toml")]
    close = difflib.get_close_matches(path.name, there, n=1)
    meant = f"; did you mean {str(path.with_name(close[0]))!r}?" if close else ""
    raise StudyError(f"{path}: no such file{meant}")


def built_in(
    name: str,
    scale: str | None = None,
    overrides: Iterable[str] | Mapping[str, Any] = (),
    rows: Iterable[str] = (),
) -> Study:
    """A built-in study.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    scale : str, optional
        One of `scales_of` its name: ``quick``, ``results``, ``paper``; ``quick`` by default.
    overrides : sequence of str, or dict
    rows : sequence of str
        As in `Study.read`.
    """
    # here, because names and texts are read without the simulator
    from understudy.studies.definition.study import Study

    if name not in NAMES:
        raise StudyError(f"no built-in study named {name!r}; {suggestion(name, NAMES)}")
    return Study.read(_path(name), scale, overrides, rows)


def _file(name: str) -> Any:
    package, folder = _FOLDER_OF[name]
    return files(package).joinpath(folder, f"{name}.toml")


@cache
def _path(name: str) -> Path:
    # packages are installed as files; from an archive the copy lives as long as this process
    return as_file(_file(name)).__enter__()
