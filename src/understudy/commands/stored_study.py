"""From what was typed to a study in a runs folder."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

RUNS = Path("runs")
Folder = Annotated[Path, typer.Option("--folder", help="The runs folder.")]
StoredName = Annotated[str | None, typer.Argument(metavar="[STUDY]", show_default=False)]


class Place(NamedTuple):
    """A stored study."""

    folder: Path  # of the runs
    study: str

    @property
    def output(self) -> Path:
        """Where its report, tables and pictures go."""
        return self.folder / self.study


def find(study: str | None, folder: Path) -> Place:
    """A stored study: by its name, its file, or its folder below the runs; None: the latest."""
    from understudy.studies.definition.builtins import refuse_missing_file
    from understudy.studies.store.schema import StoreError
    from understudy.studies.store.store import FILE, Store

    if study is not None:
        given = Path(study)
        if given.suffix == ".toml":
            if not given.is_file():
                refuse_missing_file(given)
            study = _name_in(given)
        elif given.is_dir() and (given.parent / FILE).is_file():
            folder, study = given.parent, given.resolve().name
    with Store.open(folder) as store:
        if study is not None:
            return Place(folder, store.study(study).name)
        known = store.studies()
    if not known:
        raise StoreError(f"{folder}: holds no study yet; understudy run puts one there")
    return Place(folder, max(known, key=lambda stored: stored.changed).name)


def _name_in(file: Path) -> str:
    with open(file, "rb") as opened:
        return str(tomllib.load(opened).get("name", file.stem))
