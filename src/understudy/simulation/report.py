"""The first comparison as one self-contained page: a table, two pictures, no script, no network."""

from __future__ import annotations

import os
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from understudy._version import __version__
from understudy.simulation.comparison import LAST, Played, Setting, Standing

# Okabe and Ito's colours, which colour-blind readers can tell apart; reference runs in greys.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#7b5ea7")
REFERENCES = {"full": ("#000000", "--"), "dropout": ("#888888", "-")}
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: smaller, and it can be searched
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def write_report(
    folder: str | Path, setting: Setting, played: Sequence[Played], rows: Sequence[Standing]
) -> Path:
    """Write ``report.html`` into `folder`, whole or not at all, and return its path."""
    environment = Environment(
        loader=PackageLoader("understudy.simulation"), autoescape=True, undefined=StrictUndefined
    )
    with matplotlib.rc_context(STYLE):
        curves, stand_ins = _curves(setting, played), _stand_ins(setting, played)
        page = environment.get_template("report.html").render(
            setting=setting,
            last=min(LAST, setting.rounds),
            rows=[row.cells() for row in rows],
            curves=_svg(curves, "curves"),
            stand_ins=_svg(stand_ins, "stand-ins"),
            version=__version__,
        )
    path = Path(folder) / "report.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(page, encoding="utf-8")
    os.replace(partial, path)
    return path


def _curves(setting: Setting, played: Sequence[Played]) -> Figure:
    """Accuracy by round: the mean over seeds, and between the lowest and the highest."""
    figure = Figure(figsize=(8, 4.2), layout="constrained")
    axes = figure.subplots()
    rounds = np.arange(1, setting.rounds + 1)
    colours = iter(COLOURS * 2)
    for contender in setting.contenders():
        runs = [run.accuracy * 100 for run in played if run.name == contender.name]
        colour, line = REFERENCES.get(contender.name) or (next(colours), "-")
        dots = "." if setting.rounds < 3 else ""  # a line through one point cannot be seen
        mean, name = np.mean(runs, axis=0), contender.name
        axes.plot(rounds, mean, line + dots, color=colour, label=name, linewidth=1.8)
        if contender.name in (*REFERENCES, "fdms"):  # more bands would hide each other
            low, high = np.min(runs, axis=0), np.max(runs, axis=0)
            axes.fill_between(rounds, low, high, color=colour, alpha=0.12, linewidth=0)
    axes.set(xlabel="round", ylabel="test accuracy, %", xlim=(1, max(setting.rounds, 2)))
    axes.grid(alpha=0.25)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper", frameon=False)
    return figure


def _stand_ins(setting: Setting, played: Sequence[Played]) -> Figure:
    """Who stood in for whom under FL-FDMS with the first seed."""
    run = next(run for run in played if run.name == "fdms")
    figure = Figure(figsize=(5.4, 4.6), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(run.stood_in, cmap="Blues", vmin=0)
    _outline_clusters(axes, setting)
    axes.set(xlabel="stand-in (client)", ylabel="absent client")
    ticks = np.arange(0, setting.n_clients, max(setting.n_clients // setting.n_clusters, 1))
    axes.set_xticks(ticks)
    axes.set_yticks(ticks)
    figure.colorbar(image, ax=axes, label="rounds", shrink=0.85)
    return figure


def _outline_clusters(axes: Axes, setting: Setting) -> None:
    clusters = np.arange(setting.n_clients) * setting.n_clusters // setting.n_clients
    for cluster in range(setting.n_clusters):
        members = np.flatnonzero(clusters == cluster)
        corner, side = members[0] - 0.5, len(members)
        square = Rectangle((corner, corner), side, side, fill=False, edgecolor="#d55e00")
        axes.add_patch(square)


def _svg(figure: Figure, name: str) -> Markup:
    """The figure as an <svg> element that is the same for the same numbers."""
    text = StringIO()
    with matplotlib.rc_context({"svg.hashsalt": name}):
        figure.savefig(text, format="svg", metadata={"Date": None})
    svg = text.getvalue()
    return Markup(svg[svg.index("<svg") :])
