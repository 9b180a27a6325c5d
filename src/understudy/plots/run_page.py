"""A run as a notebook shows it: how far it is, its attendance map, its warnings."""

from __future__ import annotations

import base64
from html import escape
from typing import TYPE_CHECKING

from understudy.core.printable import one_line
from understudy.plots.notebook_figure import PIXELS_PER_INCH
from understudy.plots.represented import represented
from understudy.plots.saving import png

if TYPE_CHECKING:
    from understudy.simulation.run import Run

MOST_WARNINGS = 5
MOST_CELLS = 1_000_000  # of a map that is drawn whenever a run is shown: some seconds


def html_of(run: Run) -> str:
    """The run as HTML; without a picture before its first round, or where it would be large."""
    parts = [f"<p>{_text(repr(run).strip('<>'))}</p>"]
    cells = len(run.logs) * run.federation.n_clients
    if cells > MOST_CELLS:
        parts.append("<p>Too much to draw each time: plots.represented(run) does.</p>")
    elif cells:
        figure = represented(run)
        width = round(figure.get_figwidth() * PIXELS_PER_INCH)
        picture = base64.b64encode(png(figure)).decode()
        words = f"Rounds by clients: who came in each of {len(run.logs)} rounds, and what "
        words += "represented those who did not"
        parts.append(
            f'<img src="data:image/png;base64,{picture}" alt="{words}" '
            f'style="width: {width}px; max-width: 100%">'
        )
    told = [str(one) for one in run.warnings]
    if told:
        items = "".join(f"<li>{_text(words)}</li>" for words in told[:MOST_WARNINGS])
        more = len(told) - MOST_WARNINGS
        items += f"<li>and {more} more: run.warnings</li>" if more > 0 else ""
        parts.append(f"<p>Warnings:</p><ul>{items}</ul>")
    return f"<div>{''.join(parts)}</div>"


def _text(words: str) -> str:
    return escape(one_line(words))
