"""A small study with a plug-in that sets the pace, and what a runs folder holds, to compare."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

from understudy.studies.definition.study import Study

# Each round waits as long as PACE says, and notes that it was played where NOTES says. Commits come
# as often as COMMIT_EVERY says, in whichever process.
PLUGIN = '''
import os
import signal
import time
from dataclasses import dataclass

import numpy as np

import understudy.server.loop as loop
from understudy import FixedDropout
from understudy.analysis.findings import Findings


@dataclass(frozen=True)
class Paced:
    """Half of each group is missing."""

    alpha: float = 0.5

    def init(self, population):
        return FixedDropout(self.alpha).init(population)

    def rates(self, state, t):
        return FixedDropout(self.alpha).rates(state, t)

    def draw(self, state, t, rng):
        loop.COMMIT_EVERY = float(os.environ.get("COMMIT_EVERY", "2.0"))
        if "NOTES" in os.environ:
            with open(os.environ["NOTES"], "ab") as file:
                file.write(b".")
            if os.path.getsize(os.environ["NOTES"]) == int(os.environ.get("INTERRUPT_AT", "-1")):
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(2)  # the main thread takes the signal; rounds last milliseconds
        time.sleep(float(os.environ.get("PACE", "0")))
        return FixedDropout(self.alpha).draw(state, t, rng)


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

# A parent to be interrupted and killed. It has no main guard, and needs none.
SCRIPT = """
import sys
from understudy.studies.definition.study import Study

folder, runs, *overrides = sys.argv[1:]
outcome = Study.read(folder + "/study.toml", overrides=overrides).run(runs, jobs=2)
print("ended", len(outcome.done), len(outcome.failed), len(outcome.skipped), flush=True)
sys.exit(130 if outcome.interrupted else int(bool(outcome.failed)))
"""

STUDY = """
name = "small"
rounds = 12
seeds = 2
analysis = ["pacing:seen"]
per_client_every = 5
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
half = "pacing:Paced"
"""

TROUBLED = STUDY.partition("[availability]")[0] + (
    '[availability]\nraise = {name = "pacing:Trouble", how = "raise"}\n'
    'die = {name = "pacing:Trouble", how = "die"}\n'
    'once = {name = "pacing:Trouble", how = "die once"}\n'
    'none = {name = "pacing:Trouble", how = "none"}\n'
)


def study_in(folder: Path, text: str = STUDY, plugin: str = "pacing", **overrides: Any) -> Study:
    """The study, read from files in `folder`; those that are there are left as they are."""
    folder.mkdir(parents=True, exist_ok=True)
    text = text.replace("pacing:", f"{plugin}:")
    files = {"study.toml": text, f"{plugin}.py": PLUGIN, "script.py": SCRIPT}
    for name, content in files.items():
        if not (folder / name).exists():
            (folder / name).write_text(content)
    return Study.read(folder / "study.toml", overrides=overrides)


TELLS_TIME = ("timings", "changed", "crc32")  # the checksum is of the others too


def contents(runs: Path) -> dict[str, Any]:
    """All that is in a runs folder but times of day and durations: tables, and files of cells.

    Nor where the study's file is, seen from there: another runs folder sees it elsewhere.
    """
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
            if "about" in columns:
                rows = [_placeless(row, columns.index("about")) for row in rows]
            found[table] = columns, sorted(rows, key=repr)
    finally:
        connection.close()
    for path in sorted((runs / "cells").rglob("*")):
        found[str(path.relative_to(runs))] = path.read_bytes() if path.is_file() else None
    return found


def _placeless(row: tuple[Any, ...], place: int) -> tuple[Any, ...]:
    about = json.loads(row[place])
    about.pop("path", None)
    return (*row[:place], json.dumps(about), *row[place + 1 :])


def assert_same(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """The same names, and the same under each; short where they differ."""
    assert sorted(ours) == sorted(theirs)
    for name, value in ours.items():
        assert value == theirs[name], f"{name} differs"
