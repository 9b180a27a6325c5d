"""`understudy run`: a study from its first cell to its report."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.commands import errors, stored_study, text
from understudy.commands.run_plan import check_data, check_rows, introduction, plan

if TYPE_CHECKING:
    from understudy.studies.definition.study import Study
    from understudy.studies.execution.runner import StudyOutcome
    from understudy.studies.execution.skipped import Skipped

GIGABYTE = 1_000_000_000


class On(StrEnum):
    """Where cells run."""

    local = "local"
    ray = "ray"
    here = "here"


def run(
    study: Annotated[str, typer.Argument(metavar="[STUDY]", show_default=False)] = "quickstart",
    scale: Annotated[
        str | None,
        typer.Option(help="quick, results, paper, or one of the file's own.", metavar="NAME"),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a value; may be repeated."),
    ] = None,
    rows: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="MODULE:NAME",
            help="Add your own method or part to all strategies, also as LABEL=MODULE:NAME; may be "
            "repeated.",
        ),
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Number of rounds of each cell.")
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Number of seeds.")] = None,
    block: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Run only this block; may be repeated.")
    ] = None,
    folder: Annotated[Path, typer.Option(help="The runs folder.")] = stored_study.RUNS,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of cells at once.")
    ] = None,
    memory: Annotated[
        float | None,
        typer.Option(min=0.001, metavar="GB", help="Memory limit for all cells together."),
    ] = None,
    on: Annotated[
        On, typer.Option(help="Worker processes, a Ray cluster, or this process.")
    ] = On.local,
    again: Annotated[
        bool, typer.Option("--again", help="Discard stored results and rerun all cells.")
    ] = False,
    skip_in: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Skip cells that were exported to this folder, and their trials.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would run: cells, time, disk.")
    ] = False,
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no report.")] = False,
) -> None:
    """Run a study, or resume it; then print its table and write its report.

    STUDY is a TOML file or the name of a built-in study (see understudy
    studies); without it, quickstart. Finished cells are not rerun. Ctrl-C
    stops the study; the same command resumes it.

    understudy run
    understudy run --rounds 5 --seeds 1
    understudy run fdms-fig1 --scale paper --dry-run
    understudy run mine.toml --set local.lr=0.05 --set seeds=[7,8]
    understudy run absence --with mine:MyCompensator --skip-in docs/results

    Exit codes: 0 all cells are done, 1 a cell failed, 2 nothing ran (the
    study is wrong), 3 stopped after some rounds, which are kept (the disk is
    full, or the database was removed), 130 interrupted.
    """
    opened = _read_study(study, scale, changes or [], rounds, seeds, block or [], rows or [])
    check_rows(opened.rows)
    skip = _skipped(skip_in, opened)
    if dry_run:
        text.echo_lines(plan(opened, folder, skip))
        return
    if on is not On.ray:
        check_data(opened, folder, skip)
    text.echo_lines(introduction(opened, opened.cells()))
    text.echo()
    outcome = opened.run(
        folder,
        jobs=jobs,
        memory=None if memory is None else int(memory * GIGABYTE),
        on=on.value,
        again=again,
        skip=skip,
    )
    if outcome.interrupted:
        raise typer.Exit(errors.INTERRUPTED)
    _print_outcome(opened, outcome, folder, report=not no_report)
    if outcome.failed:
        raise typer.Exit(errors.FAILED)


def _read_study(
    study: str,
    scale: str | None,
    changes: list[str],
    rounds: int | None,
    seeds: int | None,
    blocks: list[str],
    rows: list[str],
) -> Study:
    """The study as asked for; the short cuts come last, so that they win."""
    from understudy.studies.definition.builtins import source
    from understudy.studies.definition.study import Study

    changes = list(changes)
    if rounds is not None:
        changes.append(f"rounds={rounds}")
    if seeds is not None:
        changes.append(f"seeds={seeds}")
    if blocks:
        changes.append(f"blocks={json.dumps(blocks)}")
    return Study.read(source(study), scale, changes, rows)


def _skipped(folder: Path | None, study: Study) -> Skipped:
    from understudy.studies.execution.skipped import Skipped
    from understudy.studies.statistics.export import CELLS
    from understudy.studies.statistics.exported_cells import exported_in

    if folder is None:
        return Skipped()
    if not folder.is_dir():
        raise typer.BadParameter(f"no such folder: {folder}", param_hint="--skip-in")
    if (folder / CELLS).is_file():
        raise typer.BadParameter(
            f"expected a folder of exports, with one for each study in it; {folder} is the export "
            f"of one study: name {folder.absolute().parent}",
            param_hint="--skip-in",
        )
    return exported_in(folder, study)


def _print_outcome(study: Study, outcome: StudyOutcome, folder: Path, *, report: bool) -> None:
    """What came out, on stdout; what failed, on stderr."""
    from understudy.commands.table import NothingToCompare, compared, results_of
    from understudy.studies.store.schema import StoreError

    place = stored_study.Place(folder, study.name)
    frame = None
    try:
        frame = results_of(place)
        text.print_table(compared(place, frame).to_rich())
    except NothingToCompare as nothing:
        text.echo(nothing)
        report = False
    except StoreError:
        if not outcome.failed:
            raise
        report = False  # all trials failed, so that there are no cells yet
    if report:
        from understudy.studies.report.report import write_report

        text.echo(f"Report: {write_report(place.folder, place.study, frame)}")
    for key, error in outcome.failed.items():
        errors.say(f"cell {key} failed: {text.first_line(error)}")
    if outcome.failed:
        errors.say(
            f"{text.count(len(outcome.failed), 'cell')} failed; understudy show KEY prints the "
            "error, the same command retries"
        )
