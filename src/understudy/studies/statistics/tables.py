"""Tables as text: Markdown, LaTeX, CSV and the terminal; the same characters for the same numbers.

What is shown is put into words first (`text_table`, `comparison_table`); the rest is a matter of
frames and escapes.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Collection, Sequence
from html import escape
from io import StringIO
from typing import TYPE_CHECKING

import pandas as pd

from understudy.core.printable import one_line, printable
from understudy.studies.statistics.csv_cells import guarded_frame
from understudy.studies.statistics.text_table import TextTable

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

WIDTH = 80  # columns of a terminal
NAME_WIDTH = 12  # of a column of names in the terminal, at least, where numbers can stay whole
HEAD_WIDTH = 14  # of a head in the terminal, before it is broken


# -- Markdown ----------------------------------------------------------------------------------


def markdown(table: TextTable) -> str:
    """A table in Markdown, columns aligned in the source too."""
    from rich.cells import cell_len

    lines = [[_markdown_escape(cell) for cell in row] for row in (table.heads, *table.cells)]
    widths = [max(3, *(cell_len(row[place]) for row in lines)) for place in range(len(table.heads))]

    def line(row: Sequence[str]) -> str:
        padded = [
            " " * (width - cell_len(cell)) + cell
            if place in table.right
            else cell + " " * (width - cell_len(cell))
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |"

    rule = [
        "-" * (width - 1) + ":" if place in table.right else "-" * width
        for place, width in enumerate(widths)
    ]
    text = "\n".join([line(lines[0]), line(rule), *(line(row) for row in lines[1:])]) + "\n"
    if table.notes:
        text += "\n" + _markdown_escape(" ".join(table.notes)) + "\n"
    return text


def _markdown_escape(text: str) -> str:
    """Only what would be read as something else: p-values and labels stay readable as they are."""
    text = re.sub(r"([\\`*|\[\]$]|~(?=~)|&(?=[#\w])|<(?=[A-Za-z/!?]))", r"\\\1", text)
    # an underscore inside a word is only an underscore
    text = re.sub(r"(?<!\w)_|_(?!\w)", r"\\_", text)
    return one_line(text)


# -- LaTeX -------------------------------------------------------------------------------------


def _greek(letter: str) -> str:
    """What LaTeX calls it; Unicode spells one of them without its b."""
    return unicodedata.name(letter).split()[-1].lower().replace("lamda", "lambda")


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
    "≠": r"$\ne$",
    "≈": r"$\approx$",
    "∞": r"$\infty$",
    "→": r"$\to$",
    "|": r"\textbar{}",  # a dash in LaTeX's own fonts
    "µ": r"$\mu$",  # the sign of micro, which keyboards have
    **{letter: rf"$\{_greek(letter)}$" for letter in "αβγδεζηθικλμνξπρστυφχψω"},
    # the other capitals look like Latin letters and have no command
    **{letter: rf"$\{_greek(letter).capitalize()}$" for letter in "ΓΔΘΛΞΠΣΥΦΨΩ"},
}


def latex(
    table: TextTable,
    caption: str | None = None,
    label: str | None = None,
    bold: Collection[tuple[int, int]] = (),
    n_labels: int = 0,
) -> str:
    """A table in LaTeX: a tabular with the rules of booktabs, notes below it.

    A page is not much wider than a terminal, so that long heads are broken.

    Parameters
    ----------
    table : TextTable
        What it shows.
    caption, label : str, optional
        With a caption it is a float of its own; the label is for ``\\ref``.
    bold : collection of pairs of int
        Row and column of the cells that are bold.
    n_labels : int
        So many columns, the first, are no columns but the headings of groups of rows.
    """
    shown = range(n_labels, len(table.heads))
    form = "".join("r" if place in table.right else "l" for place in shown)

    def line(row: Sequence[str], at: int | None = None) -> str:
        words = {place: _latex_escape(row[place]) for place in shown}
        cells = [
            _latex_bold(cell) if (at, place) in bold else cell for place, cell in words.items()
        ]
        # after the end of a row, LaTeX would read a bracket or a star as an option of it
        option = "{}" if cells and cells[0].startswith(("[", "*")) else ""
        return option + " & ".join(cells) + r" \\"

    heads = [_broken(one_line(head)) for head in table.heads]
    deepest = max(map(len, heads), default=1)
    rows_of_heads = zip(*([""] * (deepest - len(head)) + head for head in heads), strict=True)

    lines = [rf"\begin{{tabular}}{{@{{}}{form}@{{}}}}", r"\toprule"]
    lines += [*(line(row) for row in rows_of_heads), r"\midrule"]
    for number, (title, members) in enumerate(table.grouped(n_labels)):
        if n_labels:
            lines += [r"\addlinespace"] if number else []
            words = _latex_escape(title)
            lines.append(rf"\multicolumn{{{len(shown)}}}{{@{{}}l@{{}}}}{{{words}}} \\")
        lines += [line(table.cells[at], at) for at in members]
    lines += [r"\bottomrule", r"\end{tabular}"]
    notes = [_latex_escape(note) for note in table.notes]
    if notes:
        lines += ["", r"\smallskip", r"\begin{minipage}{\linewidth}\footnotesize", *notes]
        lines += [r"\end{minipage}"]
    lines = [r"% needs \usepackage{booktabs}", *lines]
    if caption is not None:
        head = [r"\begin{table}[htbp]", r"\centering", rf"\caption{{{_latex_escape(caption)}}}"]
        head += [] if label is None else [rf"\label{{{_latex_label(label)}}}"]
        lines = [lines[0], *head, *lines[1:], r"\end{table}"]
    return "\n".join(lines) + "\n"


def _latex_bold(cell: str) -> str:
    """In bold, its signs too: formulas do not follow the font of the text around them."""
    signs = r"\boldmath " if "$" in cell else ""
    return rf"\textbf{{{signs}{cell}}}"


def _latex_label(label: str) -> str:
    """What may stand in a label: no braces, no comment sign, nothing active."""
    return re.sub(r"[^\w.:+/-]", "-", label, flags=re.ASCII)


def _latex_escape(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in one_line(text))


# -- CSV ---------------------------------------------------------------------------------------


def csv(frame: pd.DataFrame) -> str:
    """A frame as CSV: numbers as they are, to the last digit; nothing for what is missing."""
    text: str = guarded_frame(frame).to_csv(index=False, lineterminator="\n")
    return text


# -- the terminal ------------------------------------------------------------------------------


def rich_table(table: TextTable) -> RenderableType:
    """A table for the terminal, at most 80 columns wide."""
    from rich.console import Group

    grid = rich_grid(table, widths_of(table))
    if not table.notes:
        return grid
    return Group(grid, plain(), plain(paragraph(table.notes)))


def plain(words: str = "", style: str = "") -> Text:
    """Words for the terminal as they are: a label is no markup, and no escape sequence."""
    from rich.text import Text

    return Text(printable(words), style=style)


def text(renderable: RenderableType) -> str:
    """What a terminal of 80 columns shows, without colours and without spaces at line ends."""
    from rich.console import Console

    file = StringIO()
    console = Console(
        file=file, width=WIDTH, color_system=None, highlight=False, force_jupyter=False
    )
    console.print(renderable)
    return "".join(f"{line.rstrip()}\n" for line in file.getvalue().splitlines())


def paragraph(notes: Sequence[str]) -> str:
    """Sentences as lines of the terminal."""
    return textwrap.fill(" ".join(notes), WIDTH, break_on_hyphens=False)


def widths_of(table: TextTable) -> list[int]:
    """Width of each column: what its words take; names are broken to fit, numbers only then."""
    from rich.cells import cell_len

    heads = [_broken(head) for head in table.heads]
    widths = []
    for place, head in enumerate(heads):
        words = [*head, *(row[place] for row in table.cells)]
        widths.append(max(cell_len(word) for word in words))
    spare = WIDTH - 2 * (len(widths) - 1)
    while sum(widths) > spare and max(widths) > 1:
        names = [
            place
            for place, width in enumerate(widths)
            if place not in table.right and width > NAME_WIDTH
        ]
        widest = max(names or range(len(widths)), key=lambda place: widths[place])
        widths[widest] -= 1
    return widths


def _broken(head: str) -> list[str]:
    lines = [part for line in head.split("\n") for part in textwrap.wrap(line, HEAD_WIDTH)]
    return lines or [""]


def rich_grid(table: TextTable, widths: Sequence[int]) -> RenderableType:
    """A table for the terminal without its notes, columns so wide."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    grid = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for place, (head, width) in enumerate(zip(table.heads, widths, strict=True)):
        justify = "right" if place in table.right else "left"
        words = plain("\n".join(_broken(head)))
        grid.add_column(words, justify=justify, width=width, overflow="fold")  # type: ignore[arg-type]
    for row in table.cells:
        grid.add_row(*(plain(one_line(cell)) for cell in row))
    return grid


def html(table: TextTable) -> str:
    """A table as an HTML table, notes below it; every word of it is text."""

    def line(row: Sequence[str], tag: str) -> str:
        cells = (
            f'<{tag} style="text-align: {"right" if place in table.right else "left"}">'
            f"{escape(cell)}</{tag}>"
            for place, cell in enumerate(row)
        )
        return f"<tr>{''.join(cells)}</tr>"

    body = "\n".join(line(row, "td") for row in table.cells)
    notes = f"<p>{escape(' '.join(table.notes))}</p>\n" if table.notes else ""
    head = line(table.heads, "th")
    written = f"<table>\n<thead>\n{head}\n</thead>\n<tbody>\n{body}\n</tbody>\n</table>\n"
    # a label with a $ is no formula
    return f'<div class="tex2jax_ignore mathjax_ignore">\n{written}{notes}</div>\n'
