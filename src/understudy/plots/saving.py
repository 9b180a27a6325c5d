"""Figures as bytes: the same numbers give the same file."""

from __future__ import annotations

import re
from io import BytesIO
from typing import Any

import matplotlib
from matplotlib.figure import Figure

# Text stays text: smaller, and it can be searched.
SVG: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "understudy"}
_NOT_XML = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")  # no viewer reads a file with one of these
PIXELS_PER_INCH = 160


def svg(figure: Figure) -> bytes:
    """The figure as an SVG file, without a date and with ids that depend on its content only."""
    stream = BytesIO()
    with matplotlib.rc_context(SVG):
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    return _NOT_XML.sub(b"?", stream.getvalue())


def png(figure: Figure, dpi: int = PIXELS_PER_INCH) -> bytes:
    """The figure as a PNG file."""
    stream = BytesIO()
    figure.savefig(stream, format="png", dpi=dpi, metadata={"Software": None})
    return stream.getvalue()
