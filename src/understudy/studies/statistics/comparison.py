"""Strategies compared, seed by seed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from understudy.measures import (
    EVALUATED,
    MAIN_METRICS,
    evaluated_rounds,
    lower_is_better,
    main_metric,
    measure,
)
from understudy.studies.definition.cell import Label
from understudy.studies.definition.differences import Difference, in_a_sentence
from understudy.studies.definition.grid import pick_name
from understudy.studies.definition.tune_table import Picks
from understudy.studies.statistics.comparison_table import Comparison
from understudy.studies.statistics.constant_prediction import (
    REFERENCE,
    in_words,
    reference_of,
    sentence,
)
from understudy.studies.statistics.groups import (
    Value,
    column_of,
    expect,
    grouped,
    grouping_of,
    joined,
    labels_of,
    values_of,
)
from understudy.studies.statistics.paired_tests import (
    Interval,
    holm,
    interval,
    paired_t,
    wilcoxon,
)

__all__ = [
    "Comparison",
    "Interval",
    "compare",
    "holm",
    "interval",
    "lower_is_better",
    "paired_t",
    "wilcoxon",
]

LEVEL = 0.95
ROUNDS, CLOCK = "rounds_to_target", "clock_to_target"
# columns that measure nothing
ABOUT = ("seed", "key", "status", "version", "engine", "error", EVALUATED)


def compare(
    frame: pd.DataFrame,
    metric: str | None = None,
    baseline: str | None = None,
    by: str | Sequence[str] | None = None,
) -> Comparison:
    """Compare strategies within each group of cells, paired by seed.

    Parameters
    ----------
    frame : DataFrame
        One row per cell, as from ``results(path, level="run")``. Its labels are named in
        ``frame.attrs["labels"]``, else they are the columns before ``seed``. Cells whose status is
        not "done" are left out.
    metric : str, optional
        A column of it; by default the study's own (``frame.attrs["metric"]``), else the first that
        there is of ``accuracy_tail`` and ``loss_last``.
    baseline : str, optional
        The strategy the others are compared with; by default ``frame.attrs["baseline"]``, without
        that none.
    by : str or sequence of str, optional
        The labels that make the groups; by default all but the strategy. What differs in other
        labels is averaged within each seed, where the seed has all of it.

    Returns
    -------
    Comparison
        With a 95 % interval from 3 seeds on, the paired t-test from 5 and Wilcoxon's from 8; both
        tests are adjusted by Holm over all comparisons of the table, identical ones counting once.

    Notes
    -----
    A cell without a value for a label (None) is a reference: it joins every group it agrees with.
    """
    labels = labels_of(frame)
    done = frame[frame["status"] == "done"] if "status" in frame else frame
    metric = metric or main_metric(done) or main_metric(frame)
    if metric is None:
        metric = MAIN_METRICS[0]
        if done.empty:  # a table of nothing says so; nobody has asked for a measure
            frame, done = (one.assign(**{metric: math.nan}) for one in (frame, done))
    known_as_measure = [name for name in map(str, frame.columns) if name not in {*labels, *ABOUT}]
    if metric not in known_as_measure and measure(metric).is_price:
        raise ValueError(_no_price(metric, frame))
    expect("metric", metric, known_as_measure)
    grouping = grouping_of(labels, by)
    inner = tuple(name for name in labels if name not in ("strategy", *grouping))
    unfinished = len(frame) - len(done)
    if metric == CLOCK and ROUNDS in done:  # runs without a delay have none: they are not compared
        done = done[~(done[metric].isna() & done[ROUNDS].notna())]
    strategies = list(dict.fromkeys(str(name) for name in done["strategy"]))
    if baseline is None:
        known = frame.attrs.get("baseline")
        baseline = known if known in strategies else None
    elif len(done):
        expect("baseline", baseline, strategies)
    numbers = values_of(done, (*grouping, *inner), metric)
    values = joined(
        [
            replace(value, run=run, measured=measured)
            for value, (run, measured) in zip(numbers, _runs(done, labels, metric), strict=True)
        ]
    )
    price = measure(metric).is_price
    rows: list[dict[str, Any]] = []
    for group, members in grouped(values, len(grouping)).items():
        named = dict(zip(grouping, group, strict=True))
        rows += [{**named, **row} for row in _rows(members, strategies, baseline, price)]
    references = _references(done) | frozenset(frame.attrs.get("references", ()))
    references = references if references < set(strategies) else frozenset()
    for row in rows:
        if row["strategy"] in references:  # shown beside the others: no method that is tested
            row |= {"p_t": None, "p_wilcoxon": None}
    by_group = reference_of(done, metric, (*grouping, *inner), len(grouping))
    for row in rows if by_group else ():
        row[REFERENCE] = by_group.get(tuple(row[name] for name in grouping))
    tested = _adjust(rows, metric, price)
    table = _table(rows, grouping, price)
    picks = frame.attrs.get("picks", {})
    if picks:
        table["picked"] = [_picked(row, picks) for row in rows]
    if by_group:
        table[REFERENCE] = pd.Series([row[REFERENCE] for row in rows], dtype="float64")
    return Comparison(
        metric=metric,
        baseline=baseline,
        labels=tuple(name for name in grouping if _differ(row[name] for row in rows)),
        rows=table,
        unfinished=unfinished,
        tested=tested,
        without_value=0 if price else int((~np.isfinite(column_of(done, metric))).sum()),
        target=frame.attrs.get("target") if price else None,
        picks=picks,
        edges=frame.attrs.get("edges", {}),
        differences=_differences(frame, baseline, strategies),
        engines=None if "engine" in labels else _engines(done),
        references=references,
        reference=_reference(table, grouping, done, metric, references),
        beside=_beside(table, references, frame),
        evaluated=evaluated_rounds(done),
        study=frame.attrs.get("study"),
        against=partial(compare, frame, metric, by=by),
    )


def _runs(done: pd.DataFrame, labels: Sequence[str], metric: str) -> list[tuple[Any, str]]:
    """Of each run what it is known by, and all that was measured of it.

    What a method measures of itself, and another never does, makes no other run: FDMS counts the
    similarities that it was spared even where nobody is absent.
    """
    names = done["key"].tolist() if "key" in done else list(range(len(done)))
    known = done.notna().groupby(done["strategy"].astype(str)).any().all()
    measured = [
        name
        for name in done.columns
        if name not in {*labels, *ABOUT} and (name == metric or known[name] or _of_model(str(name)))
    ]
    numbers = [repr(tuple(row)) for row in done[measured].itertuples(index=False)]
    return list(zip(names, numbers, strict=True))


def _of_model(name: str) -> bool:
    """Whether a measure is of every model, though one that diverged may have no number for it."""
    return bool({"accuracy", "loss"} & set(name.split("_")))


def _references(done: pd.DataFrame) -> frozenset[str]:
    """Strategies with an availability of their own, beside others that have the study's."""
    if "availability" not in done:
        return frozenset()
    own = done["availability"].isna().groupby(done["strategy"].astype(str)).all()
    return frozenset(own[own].index) if not own.all() else frozenset()


def _reference(
    table: pd.DataFrame,
    grouping: Sequence[str],
    done: pd.DataFrame,
    metric: str,
    references: frozenset[str],
) -> str | None:
    """A sentence on what a constant prediction would have."""
    groups: dict[tuple[Any, ...], list[dict[Any, Any]]] = {}
    for row in table.to_dict("records"):
        groups.setdefault(tuple(row[name] for name in grouping), []).append(row)
    what = in_words(metric, f"{REFERENCE}_accuracy" in done)
    return sentence(list(groups.values()), metric, what, references)


def _beside(table: pd.DataFrame, references: frozenset[str], frame: pd.DataFrame) -> str | None:
    """A sentence on the rows that are references; of those that have no value, nothing."""
    words = dict(frame.attrs.get("references") or {})
    known = table[table["mean"].notna()]
    shown = [name for name in dict.fromkeys(known["strategy"]) if name in references]
    told = [f"{name} ({words[name]})" if words.get(name) else name for name in shown]
    return f"For reference, and not tested: {', '.join(told)}." if told else None


def _differences(
    frame: pd.DataFrame, baseline: str | None, strategies: Sequence[str]
) -> str | None:
    """What the rows of a table differ in besides their method, in words."""
    first = baseline if baseline is not None else next(iter(strategies), "")
    told = [Difference(*one) for one in frame.attrs.get("differences", {}).get(first, ())]
    others = [name for name in strategies if name != first]
    words = in_a_sentence(told, first, others, is_first=baseline is None)
    sentences = [words, frame.attrs.get("kept_local")]
    return " ".join(one for one in sentences if one) or None


def _engines(done: pd.DataFrame) -> str | None:
    """A sentence where cells were trained by several engines."""
    if "engine" not in done:
        return None
    # cells of an earlier version do not tell
    counts = done["engine"].fillna("an unknown engine").value_counts().sort_index()
    if len(counts) < 2:
        return None
    told = ", ".join(f"{n} by {name}" for name, n in counts.items())
    return f"Cells were trained by several engines ({told}), whose last bits differ."


# -- the numbers of a row ----------------------------------------------------------------------


def _rows(
    members: list[Value], strategies: Sequence[str], baseline: str | None, price: bool
) -> list[dict[str, Any]]:
    """The rows of one group."""
    n_places = len({value.spot for value in members})
    by_seed = {
        name: _by_seed([value for value in members if value.strategy == name], n_places)
        for name in strategies
    }
    reference = by_seed.get(baseline, {}) if baseline is not None else {}
    against = [value for value in members if value.strategy == baseline]
    rows: list[dict[str, Any]] = []
    # what a row measured → the runs of both sides: runs that came to the same are the same test
    tests = {_measured(against): (_runs_of(against), _runs_of(against))}
    for name in strategies:
        own = [value for value in members if value.strategy == name]
        if own:
            came = [value.participants for value in own if math.isfinite(value.participants)]
            participants = float(np.mean(came)) if came else math.nan
            row = {"strategy": name, "participants": participants}
            row |= _spread(by_seed[name], price)
            row |= _held_against({} if name == baseline else reference, by_seed[name])
            row["test"] = tests.setdefault(_measured(own), (_runs_of(own), _runs_of(against)))
            rows.append(row)
    return rows


def _measured(values: Iterable[Value]) -> tuple[Any, ...]:
    return tuple((value.spot, value.seed, value.measured) for value in values)


def _runs_of(values: Iterable[Value]) -> frozenset[Any]:
    return frozenset(value.run for value in values)


def _by_seed(own: list[Value], n_places: int) -> dict[int, float]:
    """One number per seed: the mean over places, where the seed has all of them."""
    found: dict[int, list[float]] = {}
    for value in own:
        found.setdefault(value.seed, []).append(value.value)
    return {
        seed: float(np.mean(found[seed])) for seed in sorted(found) if len(found[seed]) == n_places
    }


def _spread(by_seed: Mapping[int, float], price: bool) -> dict[str, Any]:
    known = [value for value in by_seed.values() if math.isfinite(value)]
    found = interval(known, LEVEL)
    # the interval of those that reached the target says nothing of the others
    half = found.half if not price or len(known) == len(by_seed) else None
    row: dict[str, Any] = {"seeds": len(by_seed) if price else len(known)}
    if price:
        row["reached"] = len(known)
    return row | {"mean": found.mean, "half": half}


def _held_against(reference: Mapping[int, float], own: Mapping[int, float]) -> dict[str, Any]:
    shared = [seed for seed in own if seed in reference]
    finite = [
        seed for seed in shared if math.isfinite(own[seed]) and math.isfinite(reference[seed])
    ]
    a, b = [own[seed] for seed in finite], [reference[seed] for seed in finite]
    found = interval(np.subtract(a, b), LEVEL)
    row: dict[str, Any] = {"shared": len(shared), "pairs": len(finite)}
    row |= {"difference": found.mean, "difference_half": found.half}
    return row | {"p_t": paired_t(a, b), "p_wilcoxon": wilcoxon(a, b)}


def _adjust(rows: list[dict[str, Any]], metric: str, price: bool) -> tuple[int, int]:
    """Give rows Holm's p-values over all of them; how many tests of each kind there are."""
    lower = lower_is_better(metric)
    for row in rows:
        # a test among the seeds that reached a target would be blind for the others
        censored = price and row["pairs"] < row["shared"]
        if censored:
            row |= {"difference_half": None, "p_t": None, "p_wilcoxon": None}
        difference = row["difference"]
        known = lower is not None and not censored and math.isfinite(difference)
        row["better"] = (difference < 0) == lower if known and difference != 0 else None
    return _with_holm(rows, "p_t"), _with_holm(rows, "p_wilcoxon")


def _with_holm(rows: list[dict[str, Any]], name: str) -> int:
    """One test for each pair of runs; what is shown again is not tested again.

    Runs that came to the same as the baseline's are shown with their p, 1, and are no test.
    """
    shown = [row for row in rows if row[name] is not None]
    tested = {row["test"]: row[name] for row in shown if len(set(row["test"])) == 2}
    adjusted = dict(zip(tested, holm(list(tested.values())), strict=True))
    for row in shown:
        row[f"{name}_holm"] = adjusted.get(row["test"], row[name])
    return len(tested)


def _table(rows: list[dict[str, Any]], grouping: Sequence[str], price: bool) -> pd.DataFrame:
    """The rows as a frame."""
    columns = [*grouping, "strategy", "participants", "seeds", *(["reached"] if price else [])]
    columns += ["mean", "half", "difference", "difference_half"]
    columns += ["shared", "pairs"] if price else ["pairs"]
    columns += ["p_t", "p_t_holm", "p_wilcoxon", "p_wilcoxon_holm", "better"]
    plain = {name: [row.get(name) for row in rows] for name in columns}
    table = pd.DataFrame(
        {
            name: pd.Series(column, dtype=object if name in grouping else None)
            for name, column in plain.items()
        }
    )
    counts = {name: "int64" for name in ("seeds", "reached", "shared", "pairs") if name in columns}
    numbers = {
        name: "float64"
        for name in columns
        if name not in (*grouping, "strategy", "better") and name not in counts
    }
    return table.astype({**counts, **numbers, "better": "boolean"})


def _picked(row: Mapping[str, Any], picks: Picks) -> str | None:
    """What tuning picked for the strategy of a row; None for one that was not tuned."""
    block = row.get("block")
    pick = picks.get(row["strategy"] if block is None else pick_name(str(block), row["strategy"]))
    return None if pick is None else ", ".join(f"{key} = {label}" for key, label in pick.items())


def _no_price(metric: str, frame: pd.DataFrame) -> str:
    """Why no run has a cost to the target."""
    if ROUNDS in frame:
        return f"metric: {metric} needs simulated time; give the study a delay"
    return f"metric: {metric} needs a target; set target in the study, or --set target=0.8"


def _differ(labels: Iterable[Label]) -> bool:
    return len(set(labels)) > 1
