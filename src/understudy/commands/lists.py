"""`understudy list` and `understudy doctor`: what there is to choose from, and what is here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def list_parts(kind: Annotated[str | None, typer.Argument()] = None) -> None:
    """What a study can name, with parameters and their defaults.

    KIND is one of strategies, samplers, compensators, races, cutoffs,
    guards, aggregators, servers, local, rules, schedules, availability,
    delays, data, partitions, models, losses, analyses: tells what each of
    them is. Without it, all are listed in short.

    understudy list
    understudy list samplers
    """
    from understudy.commands.listing import listing

    for line in listing(kind):
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
