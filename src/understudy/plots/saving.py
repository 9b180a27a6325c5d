"""Figures as bytes: the same numbers give the same file."""

from __future__ import annotations

import re
from io import BytesIO
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from understudy.core import checks

# Text stays text: smaller, and it can be searched.
SVG: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "understudy"}
PDF: dict[Any, Any] = {"pdf.fonttype": 42}  # fonts as publishers ask for them: TrueType
_NOT_XML = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")  # no viewer reads a file with one of these
PIXELS_PER_INCH = 160
# Colours on a dark page: what is black, white or a grey of our own. All others are seen on both;
# those of images, which cannot change, must not be here, else a legend would not fit its image.
DARK = {
    "#ffffff": "#14181d",
    "#000000": "#e4e8ec",
    "#e3e6ea": "#343c45",
    "#6b7280": "#a7b1bc",
    "#6a6a6a": "#a7b1bc",
    "#882255": "#c31e41",
}


def svg(figure: Figure) -> bytes:
    """The figure as an SVG file, without a date and with ids that depend on its content only.

    A browser that prefers dark pages shows it dark; programs that know no such preference do not.
    """
    stream = BytesIO()
    with matplotlib.rc_context(SVG):
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    content = stream.getvalue().replace(b"</style>", _dark_rules() + b"</style>", 1)
    return _NOT_XML.sub(b"?", content)


def _dark_rules() -> bytes:
    """A style sheet: what matplotlib writes at an element gives way to what is important."""
    # matplotlib leaves out a fill that is black; what is used from <defs> takes that of its <use>
    black = ", ".join(f"{kind}:not([style*='fill:'])" for kind in ("text", "use", "g > path"))
    rules = [f"{black} {{fill: {DARK['#000000']}}}"]
    rules += [
        f"[style*='{what}: {light}'] {{{what}: {dark} !important}}"
        for light, dark in DARK.items()
        for what in ("fill", "stroke")
    ]
    return f"@media (prefers-color-scheme: dark) {{{' '.join(rules)}}}".encode()


def png(figure: Figure, dpi: int = PIXELS_PER_INCH) -> bytes:
    """The figure as a PNG file."""
    stream = BytesIO()
    figure.savefig(stream, format="png", dpi=dpi, metadata={"Software": None})
    return stream.getvalue()


def pdf(figure: Figure) -> bytes:
    """The figure as a PDF file, without a date; its fonts are embedded."""
    stream = BytesIO()
    with matplotlib.rc_context(PDF):
        figure.savefig(
            stream, format="pdf", metadata={"CreationDate": None, "Creator": None, "Producer": None}
        )
    return stream.getvalue()


FORMATS = {"png": png, "svg": svg, "pdf": pdf}


def formats(words: str) -> tuple[str, ...]:
    """Formats from a list such as ``svg,pdf``; each once."""
    names = tuple(dict.fromkeys(word.strip().lower() for word in words.split(",")))
    for name in names:
        checks.choice("format", name, FORMATS)
    return names
