"""Round paired with round: what FedAR's Table 2 fits; the paper does not say what it pairs.

Rounds of one run follow from each other, so they are no independent observations: such a p-value
becomes as small as one likes with more rounds. It is here to be held beside the honest one, in
which a pair is a seed.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pandas as pd

from understudy.studies.statistics.groups import (
    Spot,
    expect,
    grouping_of,
    joined,
    labels_of,
    values_of,
)
from understudy.studies.statistics.paired_tests import paired_t


def paired_by_rounds(
    frame: pd.DataFrame, metric: str = "test_accuracy", baseline: str | None = None
) -> pd.DataFrame:
    """The paired t-test over rounds, of each strategy against the baseline.

    Parameters
    ----------
    frame : DataFrame
        From ``results(path, level="round")``.
    metric : str
        One of its columns.
    baseline : str, optional
        A strategy; by default the study's.

    Returns
    -------
    DataFrame
        One row per group and rival: the labels, strategy, difference (rival − baseline, mean over
        rounds), rounds (evaluated, in which both have a value) and p_rounds, NaN with fewer
        than 5 of them. In every round the mean is taken over the seeds that both have.
    """
    labels = labels_of(frame)
    others = grouping_of(labels, None)
    expect("metric", metric, [str(name) for name in frame.columns])
    strategies = list(dict.fromkeys(str(name) for name in frame["strategy"]))
    baseline = frame.attrs.get("baseline") if baseline is None else baseline
    expect("baseline", str(baseline), strategies)
    known = frame.dropna(subset=[metric])
    curves: dict[tuple[Spot, str], dict[tuple[int, int], float]] = defaultdict(dict)
    for t in sorted({int(t) for t in known["t"]}):
        played = known[known["t"] == t]
        for value in joined(values_of(played, others, metric)):
            curves[value.spot, value.strategy][t, value.seed] = value.value
    rows = []
    for spot in dict.fromkeys(spot for spot, _ in curves):
        for strategy in strategies:
            ours, theirs = curves.get((spot, strategy)), curves.get((spot, str(baseline)))
            if strategy != baseline and ours and theirs:
                rows.append(
                    {**dict(zip(others, spot, strict=True)), **_row(strategy, ours, theirs)}
                )
    return pd.DataFrame(rows)


def _row(
    strategy: str, ours: dict[tuple[int, int], float], theirs: dict[tuple[int, int], float]
) -> dict[str, object]:
    pairs: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for place in ours.keys() & theirs.keys():
        pairs[place[0]].append((ours[place], theirs[place]))
    means = np.array([np.mean(pairs[t], axis=0) for t in sorted(pairs)]).reshape(-1, 2)
    p = paired_t(means[:, 0], means[:, 1])
    return {
        "strategy": strategy,
        "difference": float((means[:, 0] - means[:, 1]).mean()) if len(means) else float("nan"),
        "rounds": len(means),
        "p_rounds": float("nan") if p is None else p,
    }
