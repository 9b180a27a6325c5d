"""From runs to what the pictures are made of: frames like those of a study, and arrays.

A picture takes a frame, a run, or a dict of runs by label, where several runs of one label (a list)
are its seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from understudy.core.types import Floats, Outcome, RoundLog
from understudy.measures import EVALUATED, MEASURES, RunNumbers, main_metric
from understudy.simulation.run import Run

Runs = Run | Mapping[Any, Run | Sequence[Run]]
ALONE = "run"  # label of a run that has none
NOT_WANTED = (Outcome.LATE, Outcome.NOT_WANTED)


def is_runs(data: object) -> bool:
    """Whether it is a run or a dict of runs."""
    return isinstance(data, Run | Mapping)


def by_round(data: Runs | pd.DataFrame, by: str) -> pd.DataFrame:
    """One row per round: `by`, seed and the columns of `Run.frame`."""
    if isinstance(data, pd.DataFrame):
        return data
    return _joined(data, by, lambda run: run.frame())


def by_client(data: Runs | pd.DataFrame, by: str) -> pd.DataFrame:
    """One row per client: `by`, seed, in how many rounds it was wanted, asked, came; metrics."""
    if isinstance(data, pd.DataFrame):
        return data
    return _joined(data, by, _clients)


def metric_of(data: Runs | pd.DataFrame) -> str:
    """The measure that a picture shows where none is asked for: the one of the tables."""
    if isinstance(data, pd.DataFrame):
        return main_metric(data) or "accuracy_tail"
    measured = {name for _, run in labelled(data) for name in played(run).frame().columns}
    return "accuracy_tail" if "test_accuracy" in measured else "loss_last"


def by_run(data: Runs | pd.DataFrame, by: str, metric: str) -> pd.DataFrame:
    """One row per run: `by`, seed and the measure; of any column of `Run.frame`, its last value."""
    if isinstance(data, pd.DataFrame):
        return data

    def row(run: Run) -> pd.DataFrame:
        numbers = RunNumbers(run.frame(), _clients(run), run.federation.n_clients)
        of = MEASURES[metric].of if metric in MEASURES else None
        value = numbers.metrics.get(metric) if of is None else of(numbers)
        if value is None:
            value = [np.nan, *numbers.known(metric)][-1]
        return pd.DataFrame({EVALUATED: [numbers.n_evaluated], metric: [value]})

    return _joined(data, by, row)


def only_run(name: str, data: object) -> Run | None:
    """The run that a picture of one run is given; None where it is given something else."""
    if isinstance(data, Run):
        return data
    if isinstance(data, Mapping):
        first = next(iter(data), ALONE)
        raise TypeError(
            f"{name}: expected one run, got a dict of {len(data)}: take one, runs[{first!r}]"
        )
    return None


def outcomes(run: Run) -> np.ndarray[tuple[int, int], np.dtype[np.int8]]:
    """(rounds, N) the outcome of each client."""
    return np.array([log.outcome for log in played(run).logs])


def stood_in_counts(run: Run) -> Floats:
    """(N, N) rounds in which the client of the column stood in for that of the row.

    Of the largest stand-ins of each client, where a log keeps no others (`RoundLog.totals`).
    """
    n_clients = run.federation.n_clients
    counts = np.zeros((n_clients, n_clients))
    for log in played(run).logs:
        others = (log.ids != log.source) & (log.source >= 0) & (log.coef != 0)
        pairs = np.unique(np.stack([log.ids[others], log.source[others]]), axis=1)
        counts[pairs[0], pairs[1]] += 1
    return counts


def played(run: Run) -> Run:
    """Refuse a run whose rounds nobody has asked for yet."""
    if not len(run.logs):
        raise ValueError(f"expected a run with rounds, got {run!r}; iterate it first: list(run)")
    return run


def labelled(data: Runs) -> Iterator[tuple[Any, Run]]:
    """Each run with its label."""
    if isinstance(data, Run):
        yield ALONE, data
        return
    for label, given in data.items():
        for run in [given] if isinstance(given, Run) else given:
            if not isinstance(run, Run):
                raise TypeError(f"runs[{label!r}]: expected a run or a list of runs, got {run!r}")
            yield label, run


def _joined(data: Runs, by: str, rows_of: Callable[[Run], pd.DataFrame]) -> pd.DataFrame:
    if not is_runs(data):
        raise TypeError(f"frame: expected a DataFrame, a run or a dict of runs, got {data!r}")
    frames = [
        rows_of(played(run)).assign(**{by: label, "seed": run.state.seed})
        for label, run in labelled(data)
    ]
    if not frames:
        raise ValueError("runs: expected at least one run, got none")
    return pd.concat(frames, ignore_index=True)


def _clients(run: Run) -> pd.DataFrame:
    became = outcomes(run)
    wanted = ~np.isin(became, NOT_WANTED)
    counts = {
        "client": np.arange(became.shape[1]),
        "wanted": wanted.sum(axis=0),
        "asked": (wanted & (became != Outcome.UNAVAILABLE)).sum(axis=0),
        "came": (became == Outcome.CAME).sum(axis=0),
    }
    return pd.DataFrame({**counts, **_last_metrics(run.logs)})


def _last_metrics(logs: Sequence[RoundLog]) -> Mapping[str, Floats]:
    for log in reversed(logs):
        if log.client_metrics:
            return log.client_metrics
    return {}
