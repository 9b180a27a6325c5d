"""Which of the values that were tried is the best, for each strategy."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
    """One row per round of each trial that is done: labels, seed, key and measures."""
    import pandas

    frames = []
    for cell in trials:
        if store.status(cell.key) == "done":
            rounds = store.rounds(cell.key)
            named = {**cell.labels, "seed": cell.seed, "key": cell.key}
            told = pandas.DataFrame({name: [value] * len(rounds) for name, value in named.items()})
            frames.append(pandas.concat([told, rounds.reset_index(drop=True)], axis=1))
    return pandas.concat(frames, ignore_index=True) if frames else pandas.DataFrame()


def picked(
    results: pandas.DataFrame, trials: Sequence[Draft], tune: Tune
) -> dict[str, dict[str, Label]]:
    """Name of a pick → key → label of the best value; see `Study.pick`."""
    for name in ("strategy", TUNED, "seed", tune.metric):
        if name not in results:
            known = ", ".join(str(column) for column in results.columns) or "nothing"
            raise StudyError(f"the trials' results have no {name!r}; they have {known}", "tune")
    found = _scores(results, trials, tune)
    scores: dict[str, dict[Tried, list[float]]] = {}
    for draft in trials:
        of_point = scores.setdefault(_name(draft.labels), {})
        own = of_point.setdefault(tuple(draft.tried.items()), [])
        own.append(found.get(_place(draft.labels, draft.task.seed), math.nan))
    return {name: dict(_best(name, points, tune)) for name, points in scores.items()}


def _scores(
    results: pandas.DataFrame, trials: Sequence[Draft], tune: Tune
) -> dict[tuple[Any, ...], float]:
    """Labels and seed of a trial → its metric in the last round that was evaluated."""
    names = list(trials[0].labels)
    if "t" in results:
        results = results[results[tune.metric].notna()].sort_values("t", kind="stable")
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


def _name(labels: Any) -> str:
    block = labels.get("block")
    return pick_name(None if _is_nothing(block) else str(block), str(labels["strategy"]))


def _best(name: str, points: dict[Tried, list[float]], tune: Tune) -> Tried:
    sign = 1.0 if tune.less_is_better else -1.0

    def badness(point: Tried) -> float:
        scores = points[point]
        whole = all(math.isfinite(score) for score in scores)
        return sign * math.fsum(scores) / len(scores) if whole else math.inf

    best = min(points, key=badness)
    if math.isinf(badness(best)):
        keys = " and ".join(repr(key) for key, _ in best)
        raise StudyError(f"no value of {keys} has all its trials done", "tune", name)
    return best
