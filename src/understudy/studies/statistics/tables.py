"""Tables as text: Markdown, LaTeX, CSV and the terminal; the same characters for the same numbers.

A comparison or a frame is put into words first (`sheet_of`, `sheet_of_frame`); the rest is a matter
of frames and escapes.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Sequence
from io import StringIO
from typing import TYPE_CHECKING

import pandas as pd

from understudy.studies.statistics.paired_tests import SEEDS_OF_T, SEEDS_OF_WILCOXON
from understudy.studies.statistics.text_table import (
    NOTHING,
    TOO_FEW,
    TextTable,
    notes_of,
    sheet_of,
    sheet_of_frame,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

    from understudy.studies.statistics.comparison import Comparison

__all__ = [
    "TextTable",
    "csv",
    "latex",
    "markdown",
    "rich_comparison",
    "rich_table",
    "sheet_of",
    "sheet_of_frame",
    "text",
]

WIDTH = 80  # columns of a terminal
NAME_WIDTH = 12  # of a column of names in the terminal, at least, where numbers can stay whole
HEAD_WIDTH = 14  # of a head in the terminal, before it is broken


# -- Markdown ----------------------------------------------------------------------------------


def markdown(sheet: TextTable) -> str:
    """A sheet in Markdown, columns aligned in the source too."""
    from rich.cells import cell_len

    lines = [[_markdown_escape(cell) for cell in row] for row in (sheet.heads, *sheet.cells)]
    widths = [max(3, *(cell_len(row[place]) for row in lines)) for place in range(len(sheet.heads))]

    def line(row: Sequence[str]) -> str:
        padded = [
            " " * (width - cell_len(cell)) + cell
            if place in sheet.right
            else cell + " " * (width - cell_len(cell))
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |"

    rule = [
        "-" * (width - 1) + ":" if place in sheet.right else "-" * width
        for place, width in enumerate(widths)
    ]
    text = "\n".join([line(lines[0]), line(rule), *(line(row) for row in lines[1:])]) + "\n"
    if sheet.notes:
        text += "\n" + _markdown_escape(" ".join(sheet.notes)) + "\n"
    return text


def _markdown_escape(text: str) -> str:
    """Only what would be read as something else: p-values and labels stay readable as they are."""
    text = re.sub(r"([\\`*|\[\]$]|~(?=~)|&(?=[#\w])|<(?=[A-Za-z/!?]))", r"\\\1", text)
    # an underscore inside a word is only an underscore
    text = re.sub(r"(?<!\w)_|_(?!\w)", r"\\_", text)
    return _in_one_line(text)


def _in_one_line(text: str) -> str:
    return " ".join(text.splitlines())


# -- LaTeX -------------------------------------------------------------------------------------

_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "±": r"$\pm$",
    "−": "$-$",
    "–": "--",
    "×": r"$\times$",
    "²": "$^2$",
    "≥": r"$\ge$",
    "≤": r"$\le$",
    # Unicode spells one of them without its b
    **{
        letter: rf"$\{unicodedata.name(letter).split()[-1].lower().replace('lamda', 'lambda')}$"
        for letter in "αβγδεζηθκλμνξπρστφχψω"
    },
}


def latex(sheet: TextTable) -> str:
    """A sheet in LaTeX: a tabular with the rules of booktabs, notes below it."""
    form = "".join("r" if place in sheet.right else "l" for place in range(len(sheet.heads)))

    def line(row: Sequence[str]) -> str:
        return " & ".join(_latex_escape(cell) for cell in row) + r" \\"

    lines = [rf"\begin{{tabular}}{{{form}}}", r"\toprule", line(sheet.heads), r"\midrule"]
    lines += [line(row) for row in sheet.cells]
    lines += [r"\bottomrule", r"\end{tabular}"]
    if sheet.notes:
        notes = _latex_escape(" ".join(sheet.notes))
        lines += [r"\par\smallskip", rf"{{\footnotesize {notes}\par}}"]
    return "\n".join(lines) + "\n"


def _latex_escape(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in _in_one_line(text))


# -- CSV ---------------------------------------------------------------------------------------


def csv(frame: pd.DataFrame) -> str:
    """A frame as CSV: numbers as they are, to the last digit; nothing for what is missing."""
    text: str = frame.to_csv(index=False, lineterminator="\n")
    return text


# -- the terminal ------------------------------------------------------------------------------


def rich_comparison(comparison: Comparison) -> RenderableType:
    """A comparison for the terminal: one section per group, at most 80 columns wide.

    A test for which every row has too few seeds is told in a sentence instead of a column.
    """
    from rich.console import Group
    from rich.text import Text

    sheet = sheet_of(comparison)
    first = len(comparison.labels)
    shown, told = columns_worth_showing(sheet)
    columns = [place for place in shown if place >= first]
    heads = {"participants per round": "came", "p (t-test)": "p\nt-test"}
    heads |= {"p (Wilcoxon)": "p\nWilcoxon"}
    narrow = TextTable(
        tuple(heads.get(sheet.heads[place], sheet.heads[place]) for place in columns),
        tuple(
            tuple(row[place].removesuffix(" reached it") for place in columns)
            for row in sheet.cells
        ),
        frozenset(at for at, place in enumerate(columns) if place in sheet.right),
    )
    parts: list[RenderableType] = []
    groups: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for row, cells in zip(sheet.cells, narrow.cells, strict=True):
        groups.setdefault(row[:first], []).append(cells)
    widths = _widths(narrow)
    for group, rows in groups.items():
        if first:
            words = zip(comparison.labels, group, strict=True)
            parts.append(Text(", ".join(f"{name} {word}" for name, word in words), style="bold"))
        parts += [_rich(TextTable(narrow.heads, tuple(rows), narrow.right), widths), Text()]
    notes = ["came: participants per round.", *notes_of(comparison, told)]
    return Group(*parts, Text(_paragraph(notes)))


def rich_table(sheet: TextTable) -> RenderableType:
    """A sheet for the terminal, at most 80 columns wide."""
    from rich.console import Group
    from rich.text import Text

    table = _rich(sheet, _widths(sheet))
    if not sheet.notes:
        return table
    return Group(table, Text(), Text(_paragraph(sheet.notes)))


def text(renderable: RenderableType) -> str:
    """What a terminal of 80 columns shows, without colours and without spaces at line ends."""
    from rich.console import Console

    file = StringIO()
    console = Console(
        file=file, width=WIDTH, color_system=None, highlight=False, force_jupyter=False
    )
    console.print(renderable)
    return "".join(f"{line.rstrip()}\n" for line in file.getvalue().splitlines())


def _paragraph(notes: Sequence[str]) -> str:
    return textwrap.fill(" ".join(notes), WIDTH, break_on_hyphens=False)


def columns_worth_showing(sheet: TextTable) -> tuple[list[int], list[str]]:
    shown, told = [], []
    needed = {"p (t-test)": ("t-test", SEEDS_OF_T), "p (Wilcoxon)": ("Wilcoxon", SEEDS_OF_WILCOXON)}
    for place, head in enumerate(sheet.heads):
        words = {row[place] for row in sheet.cells} - {NOTHING}
        if head in needed and words <= {TOO_FEW}:
            if words:
                told.append(f"{needed[head][0]}: {TOO_FEW}, it takes {needed[head][1]}.")
        else:
            shown.append(place)
    return shown, told


def _widths(sheet: TextTable) -> list[int]:
    """Width of each column: what its words take; names are broken to fit, numbers only then."""
    from rich.cells import cell_len

    heads = [_broken(head) for head in sheet.heads]
    widths = []
    for place, head in enumerate(heads):
        words = [*head, *(row[place] for row in sheet.cells)]
        widths.append(max(cell_len(word) for word in words))
    spare = WIDTH - 2 * (len(widths) - 1)
    while sum(widths) > spare and max(widths) > 1:
        names = [
            place
            for place, width in enumerate(widths)
            if place not in sheet.right and width > NAME_WIDTH
        ]
        widest = max(names or range(len(widths)), key=lambda place: widths[place])
        widths[widest] -= 1
    return widths


def _broken(head: str) -> list[str]:
    lines = [part for line in head.split("\n") for part in textwrap.wrap(line, HEAD_WIDTH)]
    return lines or [""]


def _rich(sheet: TextTable, widths: Sequence[int]) -> RenderableType:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for place, (head, width) in enumerate(zip(sheet.heads, widths, strict=True)):
        justify = "right" if place in sheet.right else "left"
        words = Text("\n".join(_broken(head)))
        table.add_column(words, justify=justify, width=width, overflow="fold")  # type: ignore[arg-type]
    for row in sheet.cells:
        table.add_row(*(Text(cell) for cell in row))  # as Text: a label is no markup
    return table
