"""`understudy try`: from a table in a file to an answer."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.commands import errors, stored_study, text

if TYPE_CHECKING:
    from understudy.tryout.run import Tried, TryPlan


class TaskName(StrEnum):
    """What a target is."""

    classes = "classes"
    regression = "regression"


def try_table(
    file: Annotated[Path, typer.Argument(metavar="FILE", show_default=False)],
    client: Annotated[
        str, typer.Option(metavar="COLUMN", help="The column that says whose a row is.")
    ],
    target: Annotated[
        str, typer.Option(metavar="COLUMN", help="The column that is to be predicted.")
    ],
    missing: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="This share of clients misses each round."),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Recorded attendance: device,t_s,state."),
    ] = None,
    leave: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CLIENT", help="A client that is gone, largest, or each; may be repeated."
        ),
    ] = None,
    since: Annotated[
        int, typer.Option(min=0, help="The first round without those that leave.")
    ] = 0,
    task: Annotated[
        TaskName | None, typer.Option(help="What the target is.", show_default="by its values")
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Do not learn from this; may be repeated."),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Try this method; may be repeated.",
            show_default="five of them",
        ),
    ] = None,
    model: Annotated[str, typer.Option(help="mlp or softmax.")] = "mlp",
    tune: Annotated[
        bool, typer.Option("--tune", help="Give each method its own best server step.")
    ] = False,
    rounds: Annotated[int, typer.Option(min=1, help="Number of rounds.")] = 40,
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each kind; tests take 5.")] = 10,
    name: Annotated[str | None, typer.Option(help="Of the study.", show_default="try-FILE")] = None,
    folder: Annotated[Path, typer.Option(help="The runs folder.")] = stored_study.RUNS,
    jobs: Annotated[int | None, typer.Option(min=1, help="Maximum number of runs at once.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Look at the table, and run nothing.")
    ] = False,
) -> None:
    """Answer what missing clients cost, for a table of your own.

    FILE is a CSV or Parquet table with a column of clients (sites, shops,
    machines) and one to predict. Without --missing, --trace and --leave, half
    of the clients miss each round, and the largest is gone in a comparison of
    its own. Ctrl-C stops; the same command resumes.

    understudy try patients.csv --client hospital --target outcome
    understudy try patients.csv --client hospital --target outcome --leave each
    understudy try sales.csv --client shop --target units --task regression

    Exit codes: 0 all runs are done, 1 a run failed, 2 nothing ran (the table or
    an option is wrong), 130 interrupted.
    """
    from understudy.tryout.run import carried_out, planned
    from understudy.tryout.trouble import CannotTry

    try:
        plan = planned(
            file,
            client=client,
            target=target,
            missing=missing,
            trace=trace,
            leave=leave or (),
            since=since,
            task=None if task is None else task.value,
            drop=drop or (),
            methods=method,
            model=model,
            rounds=rounds,
            seeds=seeds,
            tune=tune,
            name=name,
            folder=folder,
        )
    except CannotTry as trouble:
        for line in trouble.lines:
            errors.say(line)
        raise typer.Exit(errors.REFUSED) from None
    text.echo_lines(_introduction(plan))
    if dry_run:
        return
    text.echo()
    tried = carried_out(plan, jobs=jobs)
    if tried.outcome.interrupted:
        raise typer.Exit(errors.INTERRUPTED)
    for key, error in tried.outcome.failed.items():
        errors.say(f"cell {key} failed: {text.first_line(error)}")
    if tried.outcome.failed:
        raise typer.Exit(errors.FAILED)
    text.echo_lines(_answer(tried))


def _introduction(plan: TryPlan) -> Iterator[str]:
    """How the table was read, and what is run."""
    for line in plan.told:
        yield from _item(line)
    yield from _item(plan.effort)


def _answer(tried: Tried) -> Iterator[str]:
    from understudy.tryout.words import in_short

    if tried.findings is None:
        return
    for question, sentences in tried.answers:
        yield question
        for sentence in sentences:
            yield from _item(sentence)
        yield ""
    yield from text.wrapped(f"In short. {in_short(tried.findings)}")
    yield ""
    yield from text.named({name: str(path) for name, path in tried.files.items()})


def _item(words: str) -> list[str]:
    return textwrap.wrap(
        words,
        text.WIDTH,
        initial_indent="  ",
        subsequent_indent="    ",
        break_on_hyphens=False,
        break_long_words=False,
    )
