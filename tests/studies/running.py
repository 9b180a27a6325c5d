"""A small study with a plug-in that sets the pace, and what a runs folder holds, to compare.

Run as a program, this file is the parent that gets interrupted and killed: it has no main guard
around the run, and needs none.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from pathlib import Path
from typing import Any

from understudy.studies.study import Study

# An evaluation waits as long as PACE says, and notes that it happened where NOTES says. Commits are
# made every few rounds, not every two seconds, so that there is something to go on from.
PLUGIN = '''
import os
import signal
import time
from dataclasses import dataclass

import numpy as np

import understudy.simulation.engine as engine
from understudy.analysis.findings import Findings


def pace(outputs, labels):
    engine.COMMIT_EVERY = float(os.environ.get("COMMIT_EVERY", "0.02"))
    time.sleep(float(os.environ.get("PACE", "0")))
    if "NOTES" in os.environ:
        with open(os.environ["NOTES"], "ab") as file:
            file.write(b".")
        if os.path.getsize(os.environ["NOTES"]) == int(os.environ.get("INTERRUPT_AT", "-1")):
            os.kill(os.getpid(), signal.SIGINT)
    return 0.25


def seen(run, task):
    frame = run.frame()
    return Findings({"n_rounds": len(frame)}, {"accuracy": frame["test_accuracy"].to_numpy()})


@dataclass(frozen=True)
class Trouble:
    """Everybody comes, unless something happens in round `t`."""

    how: str
    t: int = 3

    def init(self, population):
        return population.n_clients

    def rates(self, state, t):
        return None

    def draw(self, state, t, rng):
        mended = os.path.join(os.environ["TROUBLE"], "mended")
        died = os.path.join(os.environ["TROUBLE"], "died")
        if t == self.t and not os.path.exists(mended):
            if self.how == "raise":
                raise ValueError("the weather is bad")
            if self.how == "die" or (self.how == "die once" and not os.path.exists(died)):
                open(died, "w").close()
                os.kill(os.getpid(), signal.SIGKILL)
        return np.ones(state, dtype=bool)
'''

STUDY = """
name = "small"
rounds = 12
seeds = 2
analysis = ["pacing:seen"]
per_client_every = 5
[metrics]
pace = "pacing:pace"
[data]
name = "digits"
partition = "clustered"
n_clients = 8
n_clusters = 2
per_client = 8
seed = "run"
[model]
name = "mlp"
hidden = 8
[local]
lr = 0.1
[strategies]
stale = "stale"
fdms = "fdms"
[availability]
half = {name = "fixed_dropout", alpha = 0.5}
"""

TROUBLED = STUDY.partition("[availability]")[0] + (
    '[availability]\nraise = {name = "pacing:Trouble", how = "raise"}\n'
    'die = {name = "pacing:Trouble", how = "die"}\n'
    'once = {name = "pacing:Trouble", how = "die once"}\n'
    'none = {name = "pacing:Trouble", how = "none"}\n'
)


def study_in(folder: Path, text: str = STUDY, **overrides: Any) -> Study:
    """The study, read from files in `folder`; those that are there are left as they are."""
    folder.mkdir(parents=True, exist_ok=True)
    file, plugin = folder / "study.toml", folder / "pacing.py"
    if not file.exists():
        file.write_text(text)
    if not plugin.exists():
        plugin.write_text(PLUGIN)
    return Study.read(file, overrides=overrides)


TELLS_TIME = ("timings", "changed")


def contents(runs: Path) -> dict[str, Any]:
    """All that is in a runs folder but times of day and durations: tables, and files of cells."""
    connection = sqlite3.connect(runs / "understudy.sqlite")
    found: dict[str, Any] = {}
    try:
        names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master")]
        for table in sorted(name for name in names if not name.startswith("sqlite_")):
            columns = [
                row[1]
                for row in connection.execute(f"PRAGMA table_info({table})")
                if row[1] not in TELLS_TIME
            ]
            rows = connection.execute(f"SELECT {', '.join(columns)} FROM {table}").fetchall()
            found[table] = columns, sorted(rows, key=repr)
    finally:
        connection.close()
    for path in sorted((runs / "cells").rglob("*")):
        found[str(path.relative_to(runs))] = path.read_bytes() if path.is_file() else None
    return found


def assert_same(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """The same names, and the same under each; short where they differ."""
    assert sorted(ours) == sorted(theirs)
    for name, value in ours.items():
        assert value == theirs[name], f"{name} differs"


if __name__ == "__main__":
    # the run itself stands bare, as in anybody's script
    folder, runs, *options = sys.argv[1:]
outcome = (
    study_in(Path(folder), **dict(option.split("=") for option in options if "=" in option)).run(
        runs, jobs=2
    )
    if __name__ == "__main__"
    else None
)
if outcome is not None:
    print("ended", len(outcome.done), len(outcome.failed), len(outcome.skipped), flush=True)
    sys.exit(130 if outcome.interrupted else int(bool(outcome.failed)))
_ = os
