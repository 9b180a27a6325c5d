"""A study of two strategies and five seeds, whose numbers are chosen and not trained."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.dashboard.played import RESOLVED, facts, played
from understudy._version import __version__
from understudy.analysis.findings import Findings
from understudy.core.types import RoundLog
from understudy.studies.store.live import LiveCell
from understudy.studies.store.store import Store

STUDY, BASELINE, OTHER, SEEDS, ROUNDS = "chosen", "alone", "friends", 5, 6


def accuracy(strategy, seed, t):
    return (0.6 if strategy == BASELINE else 0.7) + 0.01 * seed + 0.02 * t + 0.001 * seed * t


def store_chosen_study(folder: Path, seeds: range = range(SEEDS)) -> Path:
    """Both strategies are done for some seeds; `friends` has a similarity matrix."""
    cells = [
        LiveCell(f"{place:04x}" * 4, {"strategy": strategy, "alpha": 0.5}, seed)
        for place, (strategy, seed) in enumerate(
            (strategy, seed) for strategy in (BASELINE, OTHER) for seed in range(SEEDS)
        )
    ]
    about = {"name": STUDY, "title": "Chosen numbers", "baseline": BASELINE}
    with Store.open(folder, write=True) as store:
        store.save_study(STUDY, about, cells, __version__)
        for cell in cells:
            if cell.seed not in seeds:
                continue
            name = str(cell.labels["strategy"])
            settings = {**RESOLVED, "data": {"class": "chosen"}, "seed": cell.seed}
            settings["strategy"] = {"compensator": {"class": name}}
            store.begin(cell.key, settings, {**facts(), "data": "chosen"}, __version__)
            logs = []
            for t in range(ROUNDS):
                base = played(t)
                metrics = {"test_accuracy": accuracy(name, cell.seed, t), "test_loss": 1 / (t + 1)}
                per_client = {"accuracy": np.array([0.9, 0.5, 0.8, 0.2])}
                logs.append(
                    RoundLog(**{**vars(base), "metrics": metrics, "client_metrics": per_client})
                )
            store.add_rounds(cell.key, logs)
            alike = np.array(
                [[1, 0.9, 0.1, 0.2], [0.9, 1, 0.2, 0.1], [0.1, 0.2, 1, 0.8], [0.2, 0.1, 0.8, 1]]
            )
            store.finish(cell.key, Findings(metrics={}, arrays={"similarity": alike}))
    return folder
