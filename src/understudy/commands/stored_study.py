"""From what was typed to a study in a runs folder."""

from __future__ import annotations

import shlex
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

    def command(self, verb: str) -> str:
        """A command about it, as one types it here."""
        from understudy.studies.store.report_file import folder_option

        return shlex.join(["understudy", verb, self.study, *folder_option(self.folder)])


def find(study: str | None, folder: Path) -> Place:
    """A stored study: by its name, its file, or its folder below the runs; None: the latest.

    Also the own folder of a simulation or a live run, in place of the study or of the runs.
    """
    from understudy.studies.definition.builtins import refuse_missing_file
    from understudy.studies.store.own_folder import STUDIES, is_run_folder, refresh
    from understudy.studies.store.schema import StoreError
    from understudy.studies.store.store import FILE, Store

    places = [folder] if study in (None, *STUDIES) else []
    places += [] if study is None else [Path(study)]
    for own in places:
        if is_run_folder(own):
            return _unlinked(Place(own, refresh(own)))
    if study is not None:
        given = Path(study)
        if given.suffix == ".toml":
            if not given.is_file():
                refuse_missing_file(given)
            study = _name_in(given)
        elif given.is_dir() and (given.parent / FILE).is_file():
            folder, study = given.parent, given.resolve().name
        elif len(given.parts) > 1:
            found = "no run" if given.is_dir() else "no such folder"
            raise StoreError(
                f"{study}: expected a study or the folder of a run, found {found} (a live run has "
                "one from its first known client on)"
            )
    with Store.open(folder) as store:
        if study is not None:
            return _unlinked(Place(folder, store.study(study).name))
        known = store.studies()
    if not known:
        raise StoreError(f"{folder}: holds no study yet; understudy run adds one")
    return _unlinked(Place(folder, max(known, key=lambda stored: stored.changed).name))


def _unlinked(place: Place) -> Place:
    """Reports and pictures go there, and not where a link leads."""
    from understudy.core.files import refuse_link

    refuse_link(place.output)
    return place


def outdated_report(place: Place) -> str | None:
    """A sentence where the study's report does not show all that is stored."""
    from understudy.studies.store.report_file import is_outdated, report_path, rewriting_command
    from understudy.studies.store.store import Store

    with Store.open(place.folder) as store:
        if not is_outdated(store, place.folder, place.study):
            return None
    return (
        f"{report_path(place.folder, place.study)} is outdated: it was written before the latest "
        f"results. Rewrite it: {rewriting_command(place.folder, place.study)}"
    )


def _name_in(file: Path) -> str:
    from understudy.studies.definition.document import read

    return str(read(file)[0].get("name", file.stem))
