"""`understudy studies`: those that come with the package."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Annotated

import typer

from understudy.commands import text

TIME_WIDTH = 7


def studies(
    scale: Annotated[
        str | None, typer.Option(metavar="NAME", help="quick, results or paper.")
    ] = None,
) -> None:
    """List the built-in studies: what each shows, and about how long it takes.

    Times are estimates for all cores of this machine, at the scale quick
    unless --scale is given.

    understudy studies
    understudy studies --scale paper
    """
    text.echo_lines(_lines(scale))


def _lines(scale: str | None) -> Iterator[str]:
    from understudy.studies.definition import builtins
    from understudy.studies.definition.estimates import estimate, readable

    known = builtins.listed()
    column = max(len(study.name) for study in known) + 2
    margin = " " * (column + TIME_WIDTH + 2)
    for study in known:
        opened = builtins.built_in(study.name, scale)
        seconds = estimate([*opened.tuning(), *opened.cells()]).seconds()
        yield from textwrap.wrap(
            study.shows,
            text.WIDTH,
            initial_indent=study.name.ljust(column) + readable(seconds).rjust(TIME_WIDTH) + "  ",
            subsequent_indent=margin,
        )
