"""Tables as notebooks show them."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from understudy.studies.statistics.tables import columns_worth_showing
from understudy.studies.statistics.text_table import TextTable, notes_of, sheet_of

if TYPE_CHECKING:
    from understudy.studies.statistics.comparison import Comparison


def html_of(comparison: Comparison) -> str:
    """A comparison as an HTML table with its notes; tests with too few seeds in a sentence."""
    sheet = sheet_of(comparison)
    shown, told = columns_worth_showing(sheet)
    return html(
        TextTable(
            tuple(sheet.heads[place] for place in shown),
            tuple(tuple(row[place] for place in shown) for row in sheet.cells),
            frozenset(at for at, place in enumerate(shown) if place in sheet.right),
            notes_of(comparison, told),
        )
    )


def html(sheet: TextTable) -> str:
    """A sheet as an HTML table, notes below it; every word of it is text."""

    def line(row: Sequence[str], tag: str) -> str:
        cells = (
            f'<{tag} style="text-align: {"right" if place in sheet.right else "left"}">'
            f"{escape(cell)}</{tag}>"
            for place, cell in enumerate(row)
        )
        return f"<tr>{''.join(cells)}</tr>"

    body = "\n".join(line(row, "td") for row in sheet.cells)
    notes = f"<p>{escape(' '.join(sheet.notes))}</p>\n" if sheet.notes else ""
    head = line(sheet.heads, "th")
    table = f"<table>\n<thead>\n{head}\n</thead>\n<tbody>\n{body}\n</tbody>\n</table>\n"
    # a label with a $ is no formula
    return f'<div class="tex2jax_ignore mathjax_ignore">\n{table}{notes}</div>\n'
