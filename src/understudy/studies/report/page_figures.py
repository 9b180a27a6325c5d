"""The pictures of a report, as a page holds them."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from understudy import plots
from understudy.studies.report.figure_data import Picture

LARGEST_SVG = 300_000  # bytes; a picture that would be larger is written as PNG


@dataclass
class FigureBlock:
    """Pictures side by side: each with its own caption, or all with one below them."""

    images: list[dict[str, Any]]
    caption: str = ""
    is_mapped: bool = False  # seen without scripts only: with them there is a map in its place


@dataclass(frozen=True)
class FigureSection:
    """Pictures of one kind under their heading."""

    title: str
    blocks: list[FigureBlock]
    told: Sequence[str] = ()  # sentences in place of pictures in which nothing would vary

    @property
    def id(self) -> str:
        """What a link to it names."""
        return self.title.lower().replace(" ", "-")


def sections_of(
    gallery: Sequence[Picture],
    told: Mapping[str, Sequence[str]],
    mapped: Collection[str] = (),
) -> list[FigureSection]:
    """Pictures by section; those that follow each other with equal captions share it.

    Parameters
    ----------
    gallery : sequence of Picture
        In the order of the page.
    told : mapping
        Section → sentences that it begins with. A section with sentences alone comes last.
    mapped : collection of str
        Keys of cells that have a map, which shows what the picture of their attendance shows.
    """
    sections = []
    for section, members in groupby(gallery, key=lambda picture: picture.section):
        blocks: list[FigureBlock] = []
        for caption, alike in groupby(members, key=lambda picture: picture.caption):
            images = [_image(picture) for picture in alike]
            if len(images) > 1:
                blocks.append(FigureBlock(images, caption))
            elif blocks and not blocks[-1].caption:
                blocks[-1].images += images
            else:
                blocks.append(FigureBlock(images))
        for block in blocks:
            block.is_mapped = all(image["cell"] in mapped for image in block.images)
        sections.append(FigureSection(section, blocks, told.get(section, ())))
    drawn = {section.title for section in sections}
    return sections + [FigureSection(name, [], told[name]) for name in told if name not in drawn]


def _image(picture: Picture) -> dict[str, Any]:
    content, kind = plots.svg(picture.figure), "svg+xml"
    if len(content) > LARGEST_SVG:
        content, kind = plots.png(picture.figure), "png"
    width, height = picture.figure.get_size_inches()
    title = " ".join(axes.get_title(loc="left") for axes in picture.figure.axes).strip()
    return {
        "name": picture.name,
        "source": f"data:image/{kind};base64,{b64encode(content).decode()}",
        "width": round(width * 96),
        "height": round(height * 96),
        "alt": f"{picture.section}{': ' + title if title else ''}. {picture.caption}",
        "caption": picture.caption,
        "cell": picture.cell,
    }
