"""What an export tells of clients: how often each was picked, how it is served, who is like whom.

Both tables are small enough for a repository. Of clients there is one line for each cell and kind
of number, with a column for each client; what is the same for all clients is left out. Of scores
there is one line for each pair of clients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from understudy.core.csv_files import faults_of
from understudy.studies.statistics.csv_cells import csv_lines, csv_text, number_word
from understudy.studies.store.store import Store

PICKED, ACCURACY, GROUP = "picked", "accuracy", "group"
KINDS = (PICKED, ACCURACY, GROUP)
SCORE = "R"  # FL-FDMS's letter
MOST_CLIENTS = 200  # more would make large files
MOST_PAIRED = 50  # clients of whom all pairs are told
DIGITS = 4  # after the point

Clients = Mapping[str, Sequence[float]]  # by kind, a number for each client; NaN: none
Scores = Mapping[tuple[int, int], float]  # by pair, the smaller number first


def clients_of(store: Store, key: str) -> dict[str, list[float]]:
    """What a cell's clients differ in.

    ``picked``: in how many rounds each was wanted; not told where all were as often. ``accuracy``:
    of the last model, where it was measured for clients. ``group``: their clusters, where there
    are scores to be ordered by them.
    """
    wanted = store.client_counts(key)["wanted"]
    if not 1 < len(wanted) <= MOST_CLIENTS:
        return {}
    found = {PICKED: wanted.tolist()} if len(np.unique(wanted)) > 1 else {}
    accuracy = store.last_client_metrics(key).get(ACCURACY)
    if accuracy is not None:
        found[ACCURACY] = np.round(np.asarray(accuracy, dtype=np.float64), DIGITS).tolist()
    arrays = store.arrays(key)
    if "similarity" in arrays and "groups" in arrays and len(wanted) <= MOST_PAIRED:
        found[GROUP] = arrays["groups"].tolist()
    return found


def scores_of(store: Store, key: str) -> dict[tuple[int, int], float]:
    """R of each pair of clients that came together, where the study asked for it."""
    table = store.arrays(key).get("similarity")
    if table is None or len(table) > MOST_PAIRED:
        return {}
    pairs = zip(*np.triu_indices(len(table), 1), strict=True)
    return {
        (int(i), int(j)): round(float(table[i, j]), DIGITS)
        for i, j in pairs
        if np.isfinite(table[i, j])
    }


def clients_text(clients: Mapping[str, Clients]) -> str:
    """The table of clients: key, kind, a column for each client; nothing where none is told."""
    told = [(key, kind, one[kind]) for key, one in clients.items() for kind in KINDS if kind in one]
    if not told:
        return ""
    most = max(len(numbers) for _, _, numbers in told)
    lines = [
        [key, kind, *map(_word, numbers), *[""] * (most - len(numbers))]
        for key, kind, numbers in told
    ]
    return csv_text([["key", "kind", *map(str, range(most))], *lines])


def _word(number: float) -> str:
    return number_word(number) if np.isfinite(number) else ""


def scores_text(scores: Mapping[str, Scores]) -> str:
    """The table of scores: key, two clients, R; nothing where none is told."""
    lines = [
        [key, str(i), str(j), number_word(score)]
        for key, pairs in scores.items()
        for (i, j), score in sorted(pairs.items())
    ]
    return csv_text([["key", "i", "j", SCORE], *lines]) if lines else ""


def read_clients(path: Path) -> dict[str, dict[str, list[float]]]:
    """What `clients_text` wrote."""
    found: dict[str, dict[str, list[float]]] = {}
    lines = csv_lines(path)
    with faults_of(path):
        _expect(lines, ["key", "kind"])
        for key, kind, *words in lines[1:]:
            last = max((place for place, word in enumerate(words) if word), default=-1)
            numbers = [float(word or "nan") for word in words[: last + 1]]
            found.setdefault(key, {})[kind] = numbers
    return found


def read_scores(path: Path) -> dict[str, dict[tuple[int, int], float]]:
    """What `scores_text` wrote."""
    found: dict[str, dict[tuple[int, int], float]] = {}
    lines = csv_lines(path)
    with faults_of(path):
        _expect(lines, ["key", "i", "j", SCORE])
        for key, i, j, score in lines[1:]:
            found.setdefault(key, {})[int(i), int(j)] = float(score)
    return found


def _expect(lines: Sequence[Sequence[str]], columns: list[str]) -> None:
    if not lines or list(lines[0][: len(columns)]) != columns:
        raise ValueError(f"expected the columns {', '.join(columns)}")
