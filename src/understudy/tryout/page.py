"""The answer as one page: words, a picture of each situation, tables of methods and of clients."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from jinja2.loaders import ChoiceLoader

from understudy._version import __version__
from understudy.core.files import write_file
from understudy.core.printable import printable
from understudy.plots import saving
from understudy.plots.seed_rows import seed_rows
from understudy.plots.style import Style, styles, text
from understudy.tryout.effects import BySeed, mean, p_number
from understudy.tryout.findings import Situation, TableFindings
from understudy.tryout.plan import EVERYONE, LEFT_OUT, POOLED
from understudy.tryout.words import answers, in_short

MOST_PICTURES = 4
PIXELS = 96  # of an inch
REFERENCES = {
    EVERYONE: Style("#000000", "--", "*"),
    POOLED: Style("#000000", ":", "P"),
    LEFT_OUT: Style("#6A6A6A", "-", "o"),
}


class PageTable(NamedTuple):
    """Words in rows, the first of them a name."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def write_page(
    path: Path,
    title: str,
    found: TableFindings,
    told: Sequence[str],
    names: dict[str, str],
) -> Path:
    """Write the page, whole or not at all.

    Parameters
    ----------
    path : path
        Where to.
    title : str
        Its heading.
    found : TableFindings
        The numbers.
    told : sequence of str
        How the table was read.
    names : dict
        ``report``, ``study``, ``program``, ``command`` and ``name``, as the page names them.
    """
    environment = Environment(
        loader=ChoiceLoader(
            [PackageLoader(package, "") for package in ("understudy.tryout", REPORT)]
        ),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    lost, losers, helps, costs, cautions = answers(found)
    pictures = [_picture(found, one) for one in found.situations if one.methods]
    sections = [
        _section(lost, [_losses(found)], []),
        _section(losers, [_clients(found, one) for one in found.situations if one.clients], []),
        _section(helps, [_methods(found, one) for one in found.situations if one.methods],
                 pictures[:MOST_PICTURES]),
        _section(costs, [], []),
        _section(cautions, [], []),
    ]  # fmt: skip
    page = environment.get_template("answer.html").render(
        title=title,
        short=in_short(found),
        sections=sections,
        told=told,
        version=__version__,
        **names,
    )
    write_file(path, str(printable(page)).encode())
    return path


REPORT = "understudy.studies.report"  # where the style of pages is


def _section(answer: Any, tables: Sequence[PageTable], pictures: Sequence[Any]) -> dict[str, Any]:
    return {**answer._asdict(), "tables": tables, "pictures": pictures}


def _losses(found: TableFindings) -> PageTable:
    scale = found.scale
    rows = []
    for one in found.situations:
        p = p_number(one.loss.p)
        rows.append(
            (one.label, scale.value(mean(found.everyone)), scale.value(mean(one.left_out)),
             scale.signed(one.loss.mean), scale.range(one.loss).strip(" ()") or "–", p)
        )  # fmt: skip
    heads = ("situation", EVERYONE, LEFT_OUT, "difference", "95 % interval", "p (Holm)")
    return PageTable(f"Test {scale.name}, means over runs", heads, tuple(rows))


def _clients(found: TableFindings, one: Situation) -> PageTable:
    scale = found.client_scale
    rows = []
    for who in one.clients:
        p = p_number(who.change.p)
        change = -who.change.mean if scale.lower else who.change.mean
        rows.append(
            (who.name + (" (gone)" if who.name == one.gone else ""), f"{who.rows:,}",
             f"{who.tested_on:.0f}", scale.value(who.everyone), scale.value(who.left_out),
             scale.signed(change), p)
        )  # fmt: skip
    heads = ("client", "rows", "tested on", EVERYONE, LEFT_OUT, "difference", "p (Holm)")
    return PageTable(f"{one.label}: {scale.name} of each client", heads, tuple(rows))


def _methods(found: TableFindings, one: Situation) -> PageTable:
    scale = found.scale
    rows = [
        (EVERYONE, scale.value(mean(found.everyone)), "–", "–", "–", "–"),
        (POOLED, scale.value(mean(found.pooled)), "–", "–", "–", "–"),
        (LEFT_OUT, scale.value(mean(one.left_out)), "–", "–", "–", "–"),
    ]
    for method in one.methods:
        p = p_number(method.change.p)
        share = "–"
        if np.isfinite(method.recovered):
            share = f"{100 * method.recovered:.0f} %".replace("-", "−")
        rows.append(
            (method.name, scale.value(method.mean), scale.signed(method.change.mean),
             scale.range(method.change).strip(" ()") or "–", share, p)
        )  # fmt: skip
    heads = ("method", scale.name, "above left out", "95 % interval", "of the loss", "p (Holm)")
    return PageTable(f"{one.label}: methods", heads, tuple(rows))


def _picture(found: TableFindings, one: Situation) -> dict[str, Any]:
    """Seed by seed what is gained over leaving the absent out."""
    values: dict[str, BySeed] = {EVERYONE: found.everyone, POOLED: found.pooled}
    values |= {method.name: method.values for method in one.methods}
    looks: dict[Any, Style] = {**styles(method.name for method in one.methods), **REFERENCES}
    scale = found.scale
    numbers = {
        name: scale.factor * np.array([own[s] - one.left_out[s] for s in own if s in one.left_out])
        for name, own in values.items()
    }
    finite = {name: gains[np.isfinite(gains)] for name, gains in numbers.items()}
    figure, axes = seed_rows(finite, looks, found.seeds)
    axes.axvline(0, color=REFERENCES[LEFT_OUT].colour, linewidth=1, zorder=0)
    unit = " points" if scale.factor == 100 else ""
    axes.set_xlabel(text(f"test {scale.name}{',' if unit else ''}{unit} above leaving out"))
    size = figure.get_size_inches()
    content = saving.svg(figure)
    return {
        "source": f"data:image/svg+xml;base64,{b64encode(content).decode()}",
        "width": round(PIXELS * size[0]),
        "height": round(PIXELS * size[1]),
        "alt": f"{scale.name} of each method, {one.label}",
        "caption": f"{one.label}: what each gains over leaving the absent out (the line at 0), run "
        "by run (small dots), with mean and 95 % interval.",
    }
