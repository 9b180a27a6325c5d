"""Text of at most 80 columns, for the terminal; `echo` is how every command prints."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import typer

from understudy.core.printable import one_line, printable

if TYPE_CHECKING:
    from rich.console import RenderableType

WIDTH = 80
NARROWEST = 8  # of a column that is cut


def echo(words: object = "", err: bool = False) -> None:
    """Print; much of it may be texts of others, which do not steer the terminal."""
    typer.echo(printable(str(words)), err=err)


def echo_lines(lines: Iterable[str]) -> None:
    """Print lines; a line break inside one cannot pose as a further line."""
    for line in lines:
        echo(one_line(line))


def pairs(numbers: Mapping[str, float]) -> Iterator[str]:
    """Names and numbers, one pair a line."""
    column = max(map(len, numbers)) + 4
    for name, value in numbers.items():
        yield f"  {name}".ljust(column) + f"{value:.6g}"


def named(rows: Mapping[str, str]) -> Iterator[str]:
    """Names and words, which are broken where they are long."""
    column = max(map(len, rows)) + 4
    for name, words in rows.items():
        yield from textwrap.wrap(
            words,
            WIDTH,
            initial_indent=f"  {name}".ljust(column),
            subsequent_indent=" " * column,
            break_on_hyphens=False,
        )


def columns(rows: list[list[str]]) -> Iterator[str]:
    """Rows under a head; numbers to the right. What is too wide for the page is cut off."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    while sum(widths) + 2 * len(widths) > WIDTH and max(widths) > NARROWEST:
        widths[widths.index(max(widths))] -= 1
    right = [is_number(cell) for cell in rows[-1]]
    for row in rows:
        cells = (
            cut(cell, width).rjust(width) if numeric else cut(cell, width).ljust(width)
            for cell, width, numeric in zip(row, widths, right, strict=True)
        )
        yield "  " + "  ".join(cells).rstrip()


def cut(words: str, width: int) -> str:
    return words if len(words) <= width else words[: width - 1] + "…"


def is_number(text: str) -> bool:
    return text == "–" or text.removesuffix(" %").replace(".", "", 1).lstrip("-").isdigit()


def wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, break_on_hyphens=False)


def item(words: str) -> list[str]:
    """A sentence of a list, with a mark before it."""
    return textwrap.wrap(
        words, WIDTH, initial_indent="  * ", subsequent_indent="    ", break_on_hyphens=False
    )


def first_line(error: str) -> str:
    return error.strip().partition("\n")[0]


def count(n: int, noun: str) -> str:
    return f"{n} {noun}" + ("" if n == 1 else "s")


def print_table(table: RenderableType) -> None:
    """Print a table: in colours on a terminal, elsewhere without spaces at the ends of lines."""
    from rich.console import Console

    console = Console(highlight=False)
    if console.is_terminal:
        console.print(table)
        return
    with console.capture() as captured:
        console.print(table)
    echo_lines(line.rstrip() for line in captured.get().splitlines())
