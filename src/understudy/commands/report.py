"""`understudy report`: a study as one page."""

from __future__ import annotations

from understudy.commands import stored_study, text


def report(
    study: stored_study.StoredName = None, folder: stored_study.Folder = stored_study.RUNS
) -> None:
    """Write the report of a study: one HTML file that works offline.

    STUDY is its name, its file or its folder below runs; without it, the
    study that ran last.

    understudy report quickstart
    """
    from understudy.studies.report.report import write_report

    place = stored_study.find(study, folder)
    text.echo(f"Report: {write_report(place.folder, place.study)}")
