"""Runs that were played by nobody: written round by round, by the journals that real ones use."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path

import numpy as np

from understudy.core.types import Outcome, Reason, Refusal, RoundLog
from understudy.journal.file import LogFile
from understudy.memory.run_folder import ROUNDS, RunFolder
from understudy.studies.store.live import LiveLog

RESOLVED = {
    "data": {"class": "live"},
    "strategy": {"compensator": {"class": "FDMS"}},
    "seed": 3,
    "rounds": 40,
    "timing": {"deadline": 60.0, "quorum": 0.5, "grace": 5.0},
}
NAMES = ("hospital-a", "hospital-b", "hospital-c", "hospital-d")


def facts(names=NAMES):
    return {
        "n_clients": len(names),
        "names": list(names),
        "groups": [0, 0, 1, 1][: len(names)],
        "sizes": [10.0] * len(names),
        "left": [],
    }


def played(t, n_clients=4, *, clock=None, refusals=()):
    """Round `t`: even clients come; the odd ones have friends, but the last has nobody."""
    outcome = np.full(n_clients, Outcome.CAME, dtype=np.int8)
    outcome[1::2] = Outcome.MISSING
    came = np.arange(0, n_clients, 2)
    friends = np.arange(1, n_clients - 1, 2)
    return RoundLog(
        t,
        outcome,
        tuple(refusals),
        ids=np.concatenate([came, friends]),
        source=np.concatenate([came, friends - 1]),
        coef=np.full(len(came) + len(friends), 1 / n_clients),
        notes={},
        metrics={"test_accuracy": 0.5 + 0.01 * t, "test_loss": 2.0 / (t + 1)},
        clock=float(t + 1) if clock is None else clock,
    )


def refused(t):
    return played(t, refusals=[Refusal(3, Reason.NOT_FINITE, "entry 7 is nan")])


@contextmanager
def own_run(folder: Path, names=NAMES):
    """A run's own folder while its process lives: the journal to append to."""
    lock = RunFolder(folder / "server")
    log = LogFile(folder / ROUNDS, 0)
    log.begin("ab" * 16, RESOLVED, facts(names))
    try:
        yield log
    finally:
        lock.close()


def play(log, *rounds):
    for t in rounds:
        log.append(played(t))
    log.flush()


def stored_run(folder: Path, n_rounds=3, names=NAMES, labels=None, study="live") -> LiveLog:
    """A live run in a store of studies."""
    log = LiveLog(folder, study, labels=labels)
    log.begin("cd" * 16, RESOLVED, facts(names))
    for t in range(n_rounds):
        log.append(played(t, len(names)))
    log.flush()
    return log
