"""The table of a study's strategies, as the page shows it and as it is copied."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from understudy.measures import main_metric, measure
from understudy.studies.statistics.comparison import ABOUT, compare
from understudy.studies.statistics.comparison_table import Comparison, table_of_comparison
from understudy.studies.statistics.frames import results


def comparison_of(
    folder: Path,
    study: str,
    strategies: Sequence[str] = (),
    metric: str | None = None,
    baseline: str | None = None,
) -> dict[str, Any]:
    """The paired table of some strategies of a study, by default of all.

    What is not there is an error that names it.
    """
    frame = results(folder, study=study)
    known = list(dict.fromkeys(map(str, frame["strategy"])))
    chosen = [name for name in known if name in strategies] or known
    unknown = [name for name in strategies if name not in known]
    if unknown:
        raise ValueError(f"strategies: expected some of {known}, got {unknown[0]!r}")
    picked = frame[frame["strategy"].astype(str).isin(chosen)]
    picked.attrs = dict(frame.attrs)
    if picked.attrs.get("baseline") not in chosen:
        picked.attrs.pop("baseline", None)
    done = picked[picked["status"] == "done"]
    if baseline is None and "baseline" not in picked.attrs and len(done):
        baseline = next((name for name in chosen if name in set(done["strategy"])), None)
    told = {
        "study": study,
        "strategies": known,
        "chosen": chosen,
        "metrics": _metrics(frame),
        "unfinished": int((frame["status"] != "done").sum()),
    }
    if done.empty:
        return {**told, "metric": None, "baseline": baseline, "table": None}
    found = compare(picked, metric or main_metric(done), baseline)
    return {**told, **_table(found, picked)}


def _table(found: Comparison, frame: pd.DataFrame) -> dict[str, Any]:
    words = table_of_comparison(found)
    differences = frame.attrs.get("differences", {}).get(found.baseline or "", ())
    shown = set(map(str, found.rows["strategy"]))
    return {
        "metric": found.metric,
        "measure": found.measure.words,
        "baseline": found.baseline,
        "table": {
            "heads": words.heads,
            "cells": words.cells,
            "right": sorted(words.right),
            "notes": words.notes,
        },
        "differences": [list(one) for one in differences if one[0] in shown],
        "markdown": found.to_markdown(),
        "latex": found.to_latex(),
    }


def _metrics(frame: pd.DataFrame) -> list[dict[str, str]]:
    labels = set(frame.attrs.get("labels", ()))
    names = [str(name) for name in frame.columns if name not in labels and name not in ABOUT]
    return [
        {"name": name, "words": measure(name).words}
        for name in names
        if pd.api.types.is_numeric_dtype(frame[name]) and frame[name].notna().any()
    ]
