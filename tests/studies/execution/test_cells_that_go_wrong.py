"""Cells that say what cannot be kept, and cells that end at an awkward moment."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

from tests.studies.running import study_in
from understudy import FixedDropout, fdms
from understudy.commands import errors
from understudy.server import loop
from understudy.simulation import clustered_digits, simulate
from understudy.simulation.training.pool import end_workers
from understudy.simulation.training.trainers import loop_trainer as training
from understudy.studies.definition.errors import StudyError
from understudy.studies.definition.study import Study
from understudy.studies.execution.run_cell import CellRequest, DataCache, final_message
from understudy.studies.store.store import Store

pytestmark = pytest.mark.process  # it starts and kills processes

WAIT = 120.0

HEAD = """
rounds = 3
seeds = 1
[data]
name = "digits"
partition = "clustered"
n_clients = 8
n_clusters = 2
per_client = 8
validation = 0.25
[model]
name = "softmax"
"""


def study(folder: Path, name: str, plugin: str, text: str) -> Study:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.py").write_text(plugin)
    (folder / "study.toml").write_text(f'name = "{name}"\n{text}')
    return Study.read(folder / "study.toml")


class Reporter:
    """Keeps everything."""

    def __init__(self, stopping: bool = False) -> None:
        self.stopping, self.logs = stopping, []

    def begun(self, facts):
        pass

    def commit(self, logs):
        self.logs += logs

    def progress(self, t, measured):
        pass


def test_what_is_found_does_not_depend_on_a_stop(tmp_path, monkeypatch):
    """All rounds are committed, and the process ends during the analysis; when it is taken up
    again, somebody stops it at once: all that is left is the analysis, which sees every round.
    """
    monkeypatch.setattr(loop, "COMMIT_EVERY", 0.0)
    cell = study_in(tmp_path / "study", plugin="pacing_stop").cells()[0]
    first = Reporter()
    with monkeypatch.context() as broken:
        broken.setattr("understudy.analysis.analyse", lambda run, task: 1 / 0)
        what, text, _ = final_message(
            CellRequest.of(cell, tmp_path / "cell", 1), first, DataCache()
        )
    assert what == "failed"
    assert "ZeroDivisionError" in text
    assert [log.t for log in first.logs] == list(range(12))
    again = CellRequest.of(cell, tmp_path / "cell", 1, tuple(first.logs))
    what, findings, _ = final_message(again, Reporter(stopping=True), DataCache())
    assert what == "finished"
    assert findings.metrics == {"n_rounds": 12}


UNKEEPABLE = """
from dataclasses import dataclass
import numpy as np
from understudy.analysis.findings import Findings
from understudy.parts.compensators.stale import Stale

class Mood(float):
    def __float__(self):
        raise ValueError("a mood is no number")

@dataclass(frozen=True)
class Noting(Stale):
    def learn(self, state, end, step):
        return {**super().learn(state, end, step), "mood": Mood(1.0)}

def listing(run, task):
    bad = type(task.strategy.compensator).__name__ == "FDMS"
    return Findings({}, {"x": np.array([{}], dtype=object) if bad else np.zeros(1)})
"""


@pytest.mark.parametrize("on", ["here", "local"])
def test_what_cannot_be_kept_fails_its_cell_alone(tmp_path, on):
    made = study(
        tmp_path,
        f"unkeepable_{on}",
        UNKEEPABLE,
        f'analysis = ["unkeepable_{on}:listing"]\n{HEAD}'
        f'[strategies]\nnoting = {{compensator = "unkeepable_{on}:Noting"}}\nfdms = "fdms"\n'
        'stale = "stale"\n',
    )
    outcome = made.run(tmp_path / "runs", on=on, jobs=1)
    keys = {cell.labels["strategy"]: cell.key for cell in made.cells()}
    assert outcome.done == (keys["stale"],)
    assert set(outcome.failed) == {keys["noting"], keys["fdms"]}
    assert "its rounds cannot be kept" in outcome.failed[keys["noting"]]
    assert "what its analysis found cannot be kept" in outcome.failed[keys["fdms"]]
    with Store.open(tmp_path / "runs") as store:
        status = {cell.labels["strategy"]: cell.status for cell in store.cells(made.name)}
    assert status == {"noting": "failed", "fdms": "failed", "stale": "done"}


ELSEWHERE = """
import os
from dataclasses import dataclass
import numpy as np
if os.environ["MADE_IN"] != str(os.getpid()):
    raise ImportError("not in a worker")

@dataclass(frozen=True)
class Shy:
    def init(self, population):
        return population.n_clients
    def rates(self, state, t):
        return None
    def draw(self, state, t, rng):
        return np.ones(state, dtype=bool)
"""


def test_the_cell_after_one_that_never_began_gets_its_data(tmp_path, monkeypatch):
    import os

    monkeypatch.setenv("MADE_IN", str(os.getpid()))
    made = study(
        tmp_path,
        "shy_plugin",
        ELSEWHERE,
        HEAD + '[strategies]\nstale = "stale"\n[availability]\nshy = "shy_plugin:Shy"\n'
        'open = "always"\n',
    )
    shy, open_cell = made.cells()
    outcome = made.run(tmp_path / "runs", jobs=1)
    assert set(outcome.failed) == {shy.key}
    assert "not in a worker" in outcome.failed[shy.key]
    assert outcome.done == (open_cell.key,)


BROKEN = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Broken:
    def init(self, population):
        return 0
    def rates(self, state, t):
        return None
    def draw(self, state, t, rng):
        raise ValueError("no weather today")
"""


def test_trials_that_all_fail_are_told(tmp_path):
    """Exit code 1, and the trial's own error."""
    study(
        tmp_path,
        "broken_trials",
        BROKEN,
        HEAD + '[strategies]\nstale = "stale"\n[availability]\nbad = "broken_trials:Broken"\n'
        '[tune]\nkey = "local.lr"\nvalues = [0.1, 0.2]\nseeds = [1000]\n'
        'metric = "validation_loss"\n',
    )
    command = [sys.executable, "-m", "understudy", "run", "study.toml", "--on", "here"]
    said = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=WAIT, check=False
    )
    assert said.returncode == errors.FAILED, said.stderr
    assert said.stderr.count("no weather today") == 2
    assert "2 cells failed" in said.stderr


@pytest.mark.parametrize("name", ["cells", "understudy.sqlite"])
def test_names_that_the_runs_folder_uses_are_refused(name):
    with pytest.raises(StudyError, match=f"name: '{name}' is what the runs folder itself uses"):
        Study(
            name=name,
            data="digits",
            model="softmax",
            strategies={"a": "fedavg"},
            rounds=1,
            seeds=1,
        )


SLOW = """
import time
from understudy.simulation import clustered_digits

def make():
    print("loading", flush=True)
    time.sleep(600)
    return clustered_digits()
"""

SCRIPT = """
import sys
from understudy.studies.definition.study import Study
outcome = Study.read("study.toml").run("runs")
sys.exit(130 if outcome.interrupted else 0)
"""


def interrupted(process: subprocess.Popen[str]) -> int | None:
    """Interrupt until it ends: two signals that come at once to a slow process are one."""
    for seconds in (1.0, *[5.0] * 19):
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(seconds)
    return None


def test_a_second_interrupt_while_data_are_loaded(tmp_path):
    """Nobody looks at signals then: it ends at once all the same, as interrupted."""
    text = """
rounds = 2
seeds = 1
[data]
name = "slow_data:make"
[model]
name = "softmax"
[strategies]
stale = "stale"
"""
    study_folder = tmp_path
    (study_folder / "slow_data.py").write_text(SLOW)
    (study_folder / "study.toml").write_text('name = "slow"\n' + text)
    (study_folder / "script.py").write_text(SCRIPT)
    with subprocess.Popen(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as parent:
        try:
            assert parent.stdout.readline() == "loading\n"
            code = interrupted(parent)
        finally:
            parent.kill()
        assert code == 130, parent.stderr.read()


def test_two_threads_share_the_worker_processes(monkeypatch):
    """Each gets the answers to its own questions."""
    monkeypatch.setattr(training, "WORTH_WORKERS", 0)

    def played(seed: int) -> torch.Tensor:
        run = simulate(
            clustered_digits(),
            fdms(),
            model="mlp",
            availability=FixedDropout(0.5),
            rounds=3,
            seed=seed,
            workers=2,
        )
        list(run)
        return run.state.params.clone()

    alone = [played(seed) for seed in (0, 1)]
    together: dict[int, torch.Tensor] = {}
    threads = [
        threading.Thread(target=lambda seed=seed: together.update({seed: played(seed)}))
        for seed in (0, 1)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    end_workers()
    for seed in (0, 1):
        assert torch.equal(together[seed], alone[seed])
