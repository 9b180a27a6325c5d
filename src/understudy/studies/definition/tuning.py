"""Which of the values that were tried is the best, for each strategy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from understudy.studies.definition.cell import Cell, Label
from understudy.studies.definition.errors import StudyError
from understudy.studies.definition.grid import TUNED, Draft, pick_name
from understudy.studies.definition.tune_table import Tune

if TYPE_CHECKING:
    import pandas

    from understudy.studies.store.store import Store

Tried = tuple[tuple[str, Label], ...]  # key and label of its value, for each key


def trial_results(store: Store, trials: Sequence[Cell]) -> pandas.DataFrame:
    """One row for each trial that is done: labels, seed, key and the measures of its last round.

    That round is always evaluated: a metric that is NaN there is one of a run that diverged.
    """
    import pandas

    rows = [
        {**cell.labels, "seed": cell.seed, "key": cell.key, **last}
        for cell in trials
        if store.status(cell.key) == "done"
        for last in store.rounds(cell.key).tail(1).to_dict("records")
    ]
    return pandas.DataFrame(rows).drop(columns="t", errors="ignore")


def scored_results(
    trials: Sequence[Cell], scores: Mapping[str, float], metric: str
) -> pandas.DataFrame:
    """The same for trials that were run elsewhere, from their scores by key."""
    import pandas

    rows = [
        {**cell.labels, "seed": cell.seed, "key": cell.key, metric: scores[cell.key]}
        for cell in trials
    ]
    return pandas.DataFrame(rows)


def picked(
    results: pandas.DataFrame, trials: Sequence[Draft], tune: Tune
) -> dict[str, dict[str, Label]]:
    """Name of a pick → key → label of the best value; see `Study.pick`."""
    for name in ("strategy", TUNED, "seed", tune.metric):
        if name not in results:
            known = ", ".join(str(column) for column in results.columns) or "nothing"
            raise StudyError(f"the trials' results have no {name!r}; they have {known}", "tune")
    found = _scores(results, trials, tune)
    scores: dict[str, dict[Tried, list[float | None]]] = {}
    for draft in trials:
        of_point = scores.setdefault(name_of(draft.labels), {})
        own = of_point.setdefault(tuple(draft.tried.items()), [])
        own.append(found.get(_place(draft.labels, draft.task.seed)))
    return {name: dict(_best(name, points, tune)) for name, points in scores.items()}


def _scores(
    results: pandas.DataFrame, trials: Sequence[Draft], tune: Tune
) -> dict[tuple[Any, ...], float]:
    """Labels and seed of a trial → its metric in the last round in which any trial has it.

    Where others have it and a trial does not, that one diverged: an earlier round would hide it.
    """
    names = list(trials[0].labels)
    if "t" in results:
        evaluated = results["t"][results[tune.metric].notna()]
        results = results[results["t"].isin(evaluated)].sort_values("t", kind="stable")
    scores = {}
    for _, row in results.iterrows():
        labels = {name: row[name] if name in results else None for name in names}
        scores[_place(labels, row["seed"])] = float(row[tune.metric])
    return scores


def _place(labels: Any, seed: Any) -> tuple[Any, ...]:
    # what is not there is None in a label and NaN in a table, and a number may come back as 1.0
    values = [None if _is_nothing(value) else value for value in labels.values()]
    return (*values, int(seed))


def _is_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def name_of(labels: Mapping[str, Any]) -> str:
    """What the pick of a cell's row is filed under."""
    block = labels.get("block")
    return pick_name(None if _is_nothing(block) else str(block), str(labels["strategy"]))


def _best(name: str, points: dict[Tried, list[float | None]], tune: Tune) -> Tried:
    """The value with the best mean; those with a trial that diverged or is not done come last."""
    sign = 1.0 if tune.less_is_better else -1.0

    def badness(point: Tried) -> float:
        scores = [score for score in points[point] if score is not None and math.isfinite(score)]
        whole = len(scores) == len(points[point])
        return sign * math.fsum(scores) / len(scores) if whole else math.inf

    best = min(points, key=badness)
    if math.isinf(badness(best)):
        keys = " and ".join(repr(key) for key, _ in best)
        missing = all(None in scores for scores in points.values())
        why = (
            "has all its trials done"
            if missing
            else f"has a finite {tune.metric} in all its trials"
        )
        raise StudyError(f"no value of {keys} {why}", "tune", name)
    return best
