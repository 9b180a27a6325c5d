"""What an export tells of tuning, and of rows of one's own.

``tuning.csv`` has a line for each trial: labels, what was tried (``tuned``), seed, and the metric
that picks. Who has it beside ``cells.csv`` need not tune these rows again. ``with.csv`` has a line
for each row that joined the study by ``--with``: its label, and what it stands for.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from understudy.core.csv_files import faults_of
from understudy.core.files import write_file
from understudy.studies.definition.cell import Cell
from understudy.studies.definition.grid import TUNED
from understudy.studies.definition.tuning import name_of
from understudy.studies.statistics.csv_cells import csv_lines, csv_text, number_word
from understudy.studies.statistics.places import Place, label_text, place_of
from understudy.studies.store.store import Store

TRIALS, WITH = "tuning.csv", "with.csv"
SEED = "seed"


@dataclass(frozen=True)
class Trial:
    """What a value scored with one seed; NaN: the run diverged."""

    labels: Mapping[str, str]  # as they are written, `tuned` among them; "" is of every group
    seed: int
    score: float

    @property
    def place(self) -> tuple[Place, int]:
        return _place(self.labels, self.seed)


def _place(labels: Mapping[str, object], seed: int) -> tuple[Place, int]:
    return frozenset(pair for pair in place_of(labels) if pair[1]), seed


# -- trials ----------------------------------------------------------------------------------------


def export_trials(store: Store, study: str, folder: Path, known: Collection[Place] | None) -> None:
    """Write the trials of a study's rows that have all of theirs beside its cells.

    Those that are in the file already stay, in their place; `known` as in `export`.
    """
    metric = (store.study(study).about.get("tune") or {}).get("metric")
    fresh = _finished(store, study, str(metric))
    if not fresh:
        return
    path = folder / TRIALS
    told, kept = read_trials(path) if path.is_file() else (metric, [])
    whole = {one.place: one for one in kept if told == metric and _is_known(one, known)}
    whole |= {one.place: one for one in fresh}
    write_file(path, _text(list(whole.values()), str(metric)).encode())


def _finished(store: Store, study: str, metric: str) -> list[Trial]:
    trials = store.trials(study)
    open_rows = {name_of(trial.labels) for trial in trials if trial.status != "done"}
    found = []
    for trial in trials:
        if name_of(trial.labels) in open_rows:
            continue
        last = store.rounds(trial.key).tail(1).to_dict("records")[0]
        labels = {name: label_text(value) for name, value in trial.labels.items()}
        found.append(Trial(labels, trial.seed, float(last.get(metric, math.nan))))
    return found


def _is_known(trial: Trial, known: Collection[Place] | None) -> bool:
    labels = {name: word for name, word in trial.labels.items() if name != TUNED}
    return known is None or _place(labels, 0)[0] in known


def _text(trials: list[Trial], metric: str) -> str:
    names = list(dict.fromkeys(name for trial in trials for name in trial.labels))
    names = [*(name for name in names if name != TUNED), TUNED]
    lines = [
        [*(trial.labels.get(name, "") for name in names), str(trial.seed), _score(trial.score)]
        for trial in trials
    ]
    return csv_text([[*names, SEED, metric], *lines])


def _score(score: float) -> str:
    return "" if math.isnan(score) else number_word(score) if math.isfinite(score) else str(score)


def read_trials(path: Path) -> tuple[str, list[Trial]]:
    """The metric that picks, and every trial, of a file ``tuning.csv``."""
    lines = csv_lines(path)
    if not lines or not {"strategy", TUNED, SEED} <= set(lines[0]) or lines[0][-2] != SEED:
        raise ValueError(f"{path}: expected the columns strategy, …, {TUNED}, {SEED}, a metric")
    *names, _, metric = lines[0]
    with faults_of(path):
        return metric, [
            Trial(
                dict(zip(names, line[:-2], strict=True)),
                int(line[-2]),
                float(line[-1] or math.nan),
            )
            for line in lines[1:]
        ]


def scores_in(path: Path, trials: Collection[Cell], metric: str) -> dict[str, float]:
    """Key of a study's trial → its score, as far as a file ``tuning.csv`` has it."""
    if not path.is_file():
        return {}
    told, exported = read_trials(path)
    scores = {trial.place: trial.score for trial in exported} if told == metric else {}
    places = {trial.key: _place(trial.labels, trial.seed) for trial in trials}
    return {key: scores[place] for key, place in places.items() if place in scores}


# -- rows of one's own -----------------------------------------------------------------------------


def write_rows(rows: Mapping[str, str], folder: Path) -> None:
    """Write labels and what they stand for, if there are any."""
    if rows:
        lines = ([label, part] for label, part in sorted(rows.items()))
        write_file(folder / WITH, csv_text([["strategy", "part"], *lines]).encode())


def read_rows(folder: Path) -> dict[str, str]:
    """Label → what it stands for; none where no row of one's own was exported."""
    path = folder / WITH
    if not path.is_file():
        return {}
    lines = csv_lines(path)
    if not lines or lines[0] != ["strategy", "part"]:
        raise ValueError(f"{path}: expected the columns strategy, part")
    return dict(lines[1:])


def with_rows(
    places: Collection[Place] | None, labels: Collection[str]
) -> Collection[Place] | None:
    """Places of a study, and those of rows that joined it: wherever it has another strategy."""
    if places is None or not labels:
        return places
    others = {frozenset(pair for pair in place if pair[0] != "strategy") for place in places}
    return {*places, *(other | {("strategy", label)} for other in others for label in labels)}
