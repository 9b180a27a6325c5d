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
    seconds: Annotated[
        float, typer.Option("--seconds-per-round", help="Of a trace: the length of a round.")
    ] = 600.0,
    folder: stored_study.Folder = stored_study.RUNS,
) -> None:
    """Write the figures of a study: PNG and SVG, or as --format says.

    STUDY is its name, its file, its folder below runs, or the folder of a
    run; without it, the study that ran last. NAMEs, or what they
    begin with, choose pictures; without one, all are written.
    trace FILE draws a recorded trace before it is used: the CSV of
    Trace, FLASH's JSON, FedScale's pickle.

    understudy plot quickstart
    understudy plot quickstart convergence --to pictures
    understudy plot quickstart --format pdf
    understudy plot trace state_traces.json --seconds-per-round 1800
    """
    from understudy.plots import saving
    from understudy.studies.report import figures

    endings = saving.formats(formats)
    if study == "trace" and not names and not (folder / "trace").exists():
        raise ValueError("plot trace: expected the file of a trace, got none")
    if study == "trace" and names and len(names) == 1:
        for line in _trace(names[0], seconds, Path() if to is None else to, endings):
            text.echo(line)
        return
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


def _trace(file: str, seconds: float, to: Path, endings: tuple[str, ...]) -> list[object]:
    """What a trace comes to, in words, and the files of its picture."""
    from understudy.parts.availability import Trace
    from understudy.parts.recordings.kinds import read_recording
    from understudy.plots.traces import trace, trace_facts
    from understudy.studies.report import figures

    kind, recording = read_recording(file)
    drop = Trace.drop_first_seconds if kind == "trace" else 0.0
    known = trace_facts(recording)
    figure = trace(
        recording,
        seconds_per_round=seconds,
        drop_first_seconds=drop,
        title=f"{Path(file).name}: {known.n_devices:,} devices, {known.days:.3g} days",
    )
    dropped = f", drop_first_seconds = {drop:g}" if drop else ""
    never = f"{known.n_never:,} of them never there"
    there, visit = 100 * known.share, known.visit_seconds / 60
    return [
        f"{known.n_devices:,} devices, {never}, {known.days:.3g} days",
        f"there {there:.3g} % of the time, the median visit lasts {visit:.3g} minutes",
        f'{{ name = "{kind}", file = "{file}", seconds_per_round = {seconds:g}{dropped} }}',
        *figures.save({Path(file).stem + "-trace": figure}, to, endings),
    ]
