"""`understudy plot`: the pictures of a study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy.commands import stored_study, text


def plot(
    study: stored_study.StoredName = None,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", show_default=False)
    ] = None,
    to: Annotated[
        Path | None, typer.Option(help="Where the files go; by default the study's folder.")
    ] = None,
    formats: Annotated[
        str, typer.Option("--format", help="One or several of png, svg, pdf, as in svg,pdf.")
    ] = "png,svg",
    folder: stored_study.Folder = stored_study.RUNS,
) -> None:
    """Write the figures of a study: PNG and SVG, or as --format says.

    STUDY is its name, its file, its folder below runs, or the folder of a
    run; without it, the study that ran last. NAMEs, or what they
    begin with, choose pictures; without one, all are written.

    understudy plot quickstart
    understudy plot quickstart convergence --to pictures
    understudy plot quickstart --format pdf
    """
    from understudy.plots import saving
    from understudy.studies.report import figures

    endings = saving.formats(formats)

    place = stored_study.find(study, folder)
    known = figures.figures(place.folder, place.study)
    chosen = {
        name: figure
        for name, figure in known.items()
        if not names or any(name.startswith(wanted) for wanted in names)
    }
    for wanted in names or []:
        if not any(name.startswith(wanted) for name in known):
            there = ", ".join(known) or "none, since no round is done"
            raise ValueError(f"no picture named {wanted!r} of {place.study}; there: {there}")
    for path in figures.save(chosen, place.output if to is None else to, endings):
        text.echo(path)
