"""The folder of a long run with many clients, half of them remembered in each round."""

from pathlib import Path

import numpy as np

from understudy.core.types import Outcome, RoundLog
from understudy.journal.file import LogFile
from understudy.memory.run_folder import ROUNDS


def write_run(folder: Path, n_rounds: int, n_clients: int = 2000) -> int:
    """Its logs, as a simulation writes them; the bytes that their arrays take in memory."""
    folder.mkdir()
    rng, everyone = np.random.default_rng(0), np.arange(n_clients)
    file = LogFile(folder / ROUNDS, 0)
    file.begin("0" * 64, {"seed": 0, "data": {"class": "table"}, "strategy": {}}, {})
    n_bytes = 0
    for t in range(n_rounds):
        came = rng.random(n_clients) < 0.5
        outcome = np.where(came, Outcome.CAME, Outcome.UNAVAILABLE).astype(np.int8)
        coef = np.full(n_clients, 1 / n_clients)
        log = RoundLog(t, outcome, (), everyone, everyone, coef, {}, clock=float(t))
        file.append(log)
        n_bytes += sum(one.nbytes for one in (log.outcome, log.ids, log.source, log.coef))
    file.flush()
    file.finish()
    return n_bytes
