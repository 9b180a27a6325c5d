"""`understudy list` and `understudy doctor`: what there is to choose from, and what is here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def list_parts(
    what: Annotated[str | None, typer.Argument(metavar="[KIND|NAME]", show_default=False)] = None,
) -> None:
    """What a study can name, with parameters and their defaults.

    KIND is one of strategies, samplers, compensators, races, cutoffs,
    guards, aggregators, servers, local, rules, schedules, availability,
    delays, data, partitions, models, losses, analyses, measures: tells what
    each of them is. NAME is one of these: tells all about it. Without
    either, all are listed in short.

    understudy list
    understudy list samplers
    understudy list fdms
    """
    from understudy.commands.listing import listing

    for line in listing(what):
        typer.echo(line)


def doctor(
    folder: Annotated[Path, typer.Option(help="Where runs would be kept.")] = Path("runs"),
) -> None:
    """Versions, this machine, data sets found and how to get the others, extras.

    understudy doctor
    """
    from understudy.commands.doctor import examine, page

    for line in page(examine(folder)):
        typer.echo(line)
