"""Figures that a notebook shows."""

from __future__ import annotations

from matplotlib.figure import Figure

from understudy.plots.saving import png

PIXELS_PER_INCH = 96  # of a page; the file has more, for sharp screens


class NotebookFigure(Figure):
    """matplotlib's figure, which notebooks show by themselves, without pyplot and its back ends."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        """The picture, and how large it is on the page."""
        width, height = (round(inches * PIXELS_PER_INCH) for inches in self.get_size_inches())
        return png(self), {"width": width, "height": height}
