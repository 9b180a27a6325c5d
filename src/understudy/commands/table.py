"""`understudy table`: strategies compared, seed by seed."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.commands import stored_study, text

if TYPE_CHECKING:
    from pandas import DataFrame

    from understudy.studies.statistics.comparison_table import Comparison


ROUNDS_ARE_NO_SEEDS = (
    "Rounds of one run follow from each other, so p_rounds shrinks with their number alone: it "
    "shows nothing beyond these runs. Without --pair, seeds are paired."
)


class Pair(StrEnum):
    """What is paired with what in a test."""

    seeds = "seeds"
    rounds = "rounds"


class TableFormat(StrEnum):
    """How a table is written."""

    text = "text"
    markdown = "markdown"
    latex = "latex"
    csv = "csv"


def table(
    study: stored_study.StoredName = None,
    metric: Annotated[
        str | None,
        typer.Option(help="A measure, such as accuracy_best; by default the study's own."),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help="The strategy that others are compared with.")
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(help="Group by these labels only; average over the others."),
    ] = None,
    form: Annotated[
        TableFormat,
        typer.Option("--format", help="Output format; latex needs the package booktabs."),
    ] = TableFormat.text,
    pair: Annotated[
        Pair, typer.Option(help="rounds: tests as in FedAR's Table 2, for comparison only.")
    ] = Pair.seeds,
    folder: stored_study.Folder = stored_study.RUNS,
) -> None:
    """Compare strategies, paired by seed.

    STUDY is its name, its file, its folder below runs, or the folder of a
    run; without it, the study that ran last.

    understudy table quickstart
    understudy table quickstart --metric rounds_to_target
    understudy table fdms-fig1 --baseline dropout --format latex > table.tex
    """
    place = stored_study.find(study, folder)
    if pair is Pair.rounds:
        _rounds(place, metric or "test_accuracy", baseline, form)
        return
    comparison = compared(place, results_of(place), metric, baseline, by)
    outdated = stored_study.outdated_report(place)
    if outdated is not None:
        text.echo(outdated, err=True)  # the table may be going into a file
    if form is TableFormat.text:
        text.print_table(comparison.to_rich())
    elif form is TableFormat.markdown:
        text.echo(comparison.to_markdown().rstrip())
    elif form is TableFormat.latex:
        text.echo(comparison.to_latex().rstrip())
    else:
        text.echo(comparison.to_csv().rstrip())


def _rounds(
    place: stored_study.Place, metric: str, baseline: str | None, form: TableFormat
) -> None:
    from understudy.papers.round_pairs import paired_by_rounds
    from understudy.studies.statistics import tables
    from understudy.studies.statistics.frames import results
    from understudy.studies.statistics.text_table import table_of_frame

    frame = results(place.folder, level="round", study=place.study)
    found = paired_by_rounds(frame, metric, baseline)
    words = table_of_frame(found, [ROUNDS_ARE_NO_SEEDS])
    if form is TableFormat.text:
        text.print_table(tables.rich_table(words))
    elif form is TableFormat.csv:
        text.echo(tables.csv(found).rstrip())
    else:
        write = tables.markdown if form is TableFormat.markdown else tables.latex
        text.echo(write(words).rstrip())


class NothingToCompare(ValueError):
    """No cell of a study is done."""


def results_of(place: stored_study.Place) -> DataFrame:
    """One row per cell of a study, also of those that it skipped because they had been exported.

    Read once for all that a command shows of it.
    """
    from understudy.studies.statistics.exported_cells import whole_results

    return whole_results(place.folder, place.study)


def compared(
    place: stored_study.Place,
    frame: DataFrame,
    metric: str | None = None,
    baseline: str | None = None,
    by: list[str] | None = None,
) -> Comparison:
    """The comparison of a study; its own metric and baseline where none is given."""
    from understudy.studies.statistics.comparison import compare

    if not (frame["status"] == "done").any():
        raise NothingToCompare(
            f"{place.study}: no cell is done, so there is no table; "
            f"{place.command('show')} shows their progress"
        )
    return compare(frame, metric, baseline, by or None)
