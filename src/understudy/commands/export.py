"""`understudy export`: numbers for other tools, and a trained model."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from understudy.commands import errors, stored_study, text


class ExportLevel(StrEnum):
    """What a row is."""

    run = "run"
    round = "round"
    client = "client"


class ExportFormat(StrEnum):
    """Of the file."""

    csv = "csv"
    parquet = "parquet"


def export(
    study: stored_study.StoredName = None,
    to: Annotated[
        Path | None, typer.Option(help="A folder; by default the study's own below runs.")
    ] = None,
    level: Annotated[
        ExportLevel | None, typer.Option(help="A row for each cell, round, or client.")
    ] = None,
    form: Annotated[
        ExportFormat | None, typer.Option("--format", help="Of a level's file.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="KEY", help="The trained model of this cell.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where the model goes: a .safetensors.")
    ] = None,
    folder: stored_study.Folder = stored_study.RUNS,
) -> None:
    """Export the results of a study, or the trained model of a cell.

    STUDY is its name, its file, its folder below runs, or the folder of a
    run; without it, the study that ran last. Without a level,
    cells.csv and curves.csv are written to a folder of the study's name:
    one row per cell, and at most 100 points of each cell's curves.

    understudy export quickstart --to docs/results
    understudy export quickstart --level round --format parquet
    understudy export --model 3f2a90c1 --out model.safetensors
    """
    from understudy.studies.statistics import export as exports

    _check_together(level, form, model, out)
    if model is not None:
        target = out or to or (folder if study is None else stored_study.find(study, folder).output)
        text.echo(exports.export_model(folder, model, target))
        return
    place = stored_study.find(study, folder)
    if level is None:
        target = place.folder if to is None else to
        written = exports.export(place.folder, place.study, target, tell=errors.say)
        for name in (exports.CELLS, exports.CURVES, exports.CLIENTS, exports.SCORES):
            if (written / name).is_file():
                text.echo(written / name)
        return
    target = place.output if to is None else to
    chosen = ExportFormat.csv if form is None else form
    text.echo(exports.export_level(place.folder, place.study, target, level.value, chosen.value))


def _check_together(
    level: ExportLevel | None, form: ExportFormat | None, model: str | None, out: Path | None
) -> None:
    """Options that mean nothing beside others are refused, not overlooked."""
    if model is not None and (level is not None or form is not None):
        raise typer.BadParameter(
            "cannot be combined with --level or --format", param_hint="--model"
        )
    if model is None and out is not None:
        raise typer.BadParameter("needs --model; results are written with --to", param_hint="--out")
    if form is not None and level is None and model is None:
        raise typer.BadParameter("needs --level", param_hint="--format")
    if out is not None and out.suffix != ".safetensors":
        raise typer.BadParameter(
            f"expected a name that ends in .safetensors, got {out}", param_hint="--out"
        )
