"""`understudy report`: a study as one page."""

from __future__ import annotations

from typing import Annotated

import typer

from understudy.commands import stored_study, text


def report(
    study: stored_study.StoredName = None,
    figures: Annotated[
        str | None,
        typer.Option(
            help="Also write its figures, into the folder figures beside it: one or several of "
            "png, svg, pdf, as in svg,pdf.",
            show_default=False,
        ),
    ] = None,
    folder: stored_study.Folder = stored_study.RUNS,
) -> None:
    """Write the report of a study: one HTML file that works offline.

    STUDY is its name, its file, its folder below runs, or the folder of a
    run; without it, the study that ran last.

    understudy report quickstart
    understudy report quickstart --figures pdf
    """
    from understudy.plots import saving
    from understudy.studies.report import figures as drawn
    from understudy.studies.report.report import write_report

    endings = () if figures is None else saving.formats(figures)
    place = stored_study.find(study, folder)
    path = write_report(place.folder, place.study)
    text.echo(f"Report: {path}")
    if endings:
        beside = path.parent / "figures"
        written = drawn.save(drawn.figures(place.folder, place.study), beside, endings)
        text.echo(f"Figures: {text.count(len(written), 'file')} in {beside}")
