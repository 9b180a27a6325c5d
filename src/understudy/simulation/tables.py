"""The first comparison as text, no wider than 80 columns."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table

from understudy.simulation.comparison import LAST, Setting, Standing


def introduction(setting: Setting) -> str:
    """What is about to be played."""
    return (
        f"{setting.n_clients} clients hold {setting.per_client} handwritten digits each, "
        f"in {setting.n_clusters} clusters of two classes.\n"
        f"In every round but the first, {setting.alpha * 100:g} % of them are missing.\n"
        f"{_count(setting.rounds, 'round')}, {_count(setting.seeds, 'seed')}."
    )


def table(setting: Setting, rows: Sequence[Standing]) -> RenderableType:
    """One row per method, and how to read them."""
    result = Table(box=SIMPLE_HEAD, pad_edge=False)
    result.add_column("method")
    result.add_column("for an absent client")
    result.add_column("accuracy, %", justify="right", no_wrap=True)
    result.add_column("minus dropout", justify="right", no_wrap=True)
    result.add_column("fluctuation", justify="right", no_wrap=True)
    for row in rows:
        result.add_row(*row.cells())
    last = _count(min(LAST, setting.rounds), "round")
    words = f"Accuracy: mean over the last {last}, then over seeds. "
    if setting.seeds > 1:
        words += "±: half a 95 % interval over seeds; differences are taken seed by seed. "
    else:
        words += "With one seed, any difference may be chance. "
    words += (
        f"Fluctuation: standard deviation over the last {last}, in points. "
        "uniform and fedgs ask for a fifth of the clients only, full needs all of them."
    )
    return Group(result, words)


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" + ("" if n == 1 else "s")
