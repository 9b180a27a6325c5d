"""Pictures of one measure with one range, so that they can be compared by eye."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from understudy.studies.report.figure_data import Picture

Axis = Literal["x", "y", "colour"]


def shared_range(
    pictures: Iterable[Picture], axis: Axis = "y", *, by_caption: bool = False
) -> list[Picture]:
    """The pictures, all from the lowest of their lower ends to the highest of their upper ends.

    Parameters
    ----------
    pictures : iterable of Picture
        Each with one panel.
    axis : {"x", "y", "colour"}
        Where the measure is drawn.
    by_caption : bool
        Whether only pictures with the same caption are of one measure.
    """
    given = list(pictures)
    alike: dict[str, list[Picture]] = {}
    for one in given:
        alike.setdefault(one.caption if by_caption else "", []).append(one)
    for members in alike.values():
        _share(members, axis)
    return given


def _share(pictures: Sequence[Picture], axis: Axis) -> None:
    panels = [one.figure.axes[0] for one in pictures]
    if axis == "colour":
        images = [image for panel in panels for image in panel.images]
        colours = [image.get_clim() for image in images]
        for image in images:
            image.set_clim(min(end[0] for end in colours), max(end[1] for end in colours))
        return
    ends = [panel.get_xlim() if axis == "x" else panel.get_ylim() for panel in panels]
    low, high = min(end[0] for end in ends), max(end[1] for end in ends)
    for panel in panels:
        (panel.set_xlim if axis == "x" else panel.set_ylim)(low, high)
