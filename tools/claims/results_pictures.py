"""The pictures of the page of results, from exported curves alone."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.figure import Figure

from tools.claims.results_book import Book, row_groups
from understudy.plots import convergence, svg
from understudy.studies.statistics.export import Exported, Row

Key = tuple[str, str]  # study, file name


def pictures(book: Book) -> dict[Key, bytes]:
    """All pictures as SVG, in a fixed order."""
    drawn: dict[Key, bytes] = {}
    for study in sorted(book.studies):
        exported = book.studies[study]
        for words, rows in groups(exported.rows).items():
            for name, content in _of_group(words, rows, exported).items():
                drawn[study, name] = content
    return drawn


def groups(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Cells that differ in strategy and seed only, by the name of their picture."""
    made = {}
    for group in row_groups(rows):
        own = _block_first(group.labels)
        words = "-".join(_word(name, value) for name, value in own.items())
        made[words or "all"] = list(group.rows)
    return made


def _block_first(own: Mapping[str, object]) -> dict[str, object]:
    return {name: own[name] for name in sorted(own, key=lambda name: name != "block")}


def _word(name: str, value: object) -> str:
    word = f"{value:g}" if isinstance(value, float) else str(value)
    plain = re.sub(r"[^A-Za-z0-9.]+", "_", word)
    return plain if name in ("block", "availability") else f"{name}{plain}"


def _of_group(words: str, rows: Sequence[Row], exported: Exported) -> dict[str, bytes]:
    frame = _frame(rows, exported)
    made = {}
    metric = "test_loss" if _judged_by_loss(rows) else "test_accuracy"
    if frame.get(metric) is not None and frame[metric].notna().any():
        made[f"{words}.svg"] = svg(convergence(frame, metric, title=words.replace("-", ", ")))
    if "sigma_p" in frame and frame["sigma_p"].notna().any():
        made[f"{words}-sigma.svg"] = svg(_sigmas(frame))
    return made


def _judged_by_loss(rows: Sequence[Row]) -> bool:
    """FedGS's tables are of losses."""
    return any(str(row.labels["strategy"]).startswith("fedgs") for row in rows)


def _frame(rows: Sequence[Row], exported: Exported) -> pd.DataFrame:
    """One row per exported round, as `plots` wants them."""
    records = [
        {"strategy": row.labels["strategy"], "seed": row.seed, "t": point["round"] - 1, **point}
        for row in rows
        for point in exported.curves[row.key]
    ]
    return pd.DataFrame(records)


def _sigmas(frame: pd.DataFrame) -> Figure:
    """How far apart friends and any two clients are, with everybody present where that was run."""
    chosen = "full" if "full" in set(frame["strategy"]) else frame["strategy"].iloc[0]
    mine = frame[frame["strategy"] == chosen]
    lines = [
        mine[["seed", "t"]].assign(strategy=words, squared_difference_of_updates=mine[name])
        for name, words in (("sigma_p", "σ_P², any two clients"), ("sigma_f", "σ_F², friends"))
    ]
    return convergence(pd.concat(lines), "squared_difference_of_updates", log=True, title=chosen)
