"""A study on Ray, on this machine: the same bits as without, and no port open to other machines.

It runs in a network of its own, which has an address that Ray would take for one that others reach.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.studies.running import TROUBLED, assert_same, contents, study_in
from understudy.studies.execution.runner import run_study

WAIT = 900.0  # seconds; Ray takes ten to start on an idle machine, and a minute on a busy one

OUTSIDE = "10.9.9.9"
# a network of its own: loopback, and a second address with a route to everywhere
ALONE = " && ".join(
    ["ip link set lo up", f"ip addr add {OUTSIDE}/32 dev lo", f"ip route add default via {OUTSIDE}"]
)

# Three runs: one that is interrupted, the same going on, and one whose cells keep no checkpoint.
SCRIPT = """
import json, os, signal, socket, sys, threading, time
from contextlib import suppress
from pathlib import Path

import psutil
from understudy.studies.execution import ray as ray_backend
from understudy.simulation.training.trainers import ray_cluster
from understudy.studies.definition.study import Study

folder = Path(sys.argv[1])
ray_cluster.join_or_start(num_cpus=2)
told = {}

def listening():
    for one in psutil.net_connections("inet"):  # of every process in this network
        if one.status == psutil.CONN_LISTEN:
            with suppress(psutil.Error):
                yield psutil.Process(one.pid).name(), one.laddr.ip

def told_of(name, outcome):
    told[name] = [len(outcome.done), len(outcome.failed), outcome.interrupted]

def interrupt():
    notes = folder / "notes"
    while not notes.exists() or notes.stat().st_size < 6:
        time.sleep(0.01)
    told["listening"] = list(listening())  # while cells run: their processes listen too
    told["outside"] = list(ray_cluster.outside_sockets())
    os.kill(os.getpid(), signal.SIGINT)

small = Study.read(folder / "small" / "study.toml")
threading.Thread(target=interrupt, daemon=True).start()
told_of("interrupted", small.run(folder / "small-runs", on="ray"))
told_of("gone on with", small.run(folder / "small-runs", on="ray"))

class Apart(ray_backend.RayExecutor):
    def __init__(self, runs):
        super().__init__(runs)
        self._sign.unlink()  # nobody finds it, as if the folder were not shared

ray_backend.RayExecutor = Apart
troubled = Study.read(folder / "troubled" / "study.toml", overrides=["seeds=1"])
told_of("apart", troubled.run(folder / "troubled-runs", on="ray"))
with socket.create_server(("0.0.0.0", 0)) as server:
    told["server"] = server.getsockname()
    told["found"] = list(ray_cluster.outside_sockets())
told["switch"] = os.environ.get(ray_cluster.SEVERAL_MACHINES)
(folder / "told").write_text(json.dumps(told))
"""


def assert_on_loopback(told: dict[str, Any]) -> None:
    """All servers of the cluster: its own, the driver's, the cells'."""
    servers = {name for name, _ in told["listening"]}
    assert {"gcs_server", "raylet"} <= servers
    assert any(name.startswith("ray::") for name in servers)  # cells, and the mailbox
    addresses = {address.removeprefix("::ffff:") for _, address in told["listening"]}
    assert addresses <= {"127.0.0.1", "::1"}
    assert told["outside"] == []
    address, port = told["server"]
    assert [found[1:] for found in told["found"]] == [[address, port]]  # one that is to be found
    assert told["switch"] is None  # the caller's environment is as it was


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_study_on_ray_equals_the_local_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed (extra ray)")
    alone = ["unshare", "-rn", "sh", "-c", f'{ALONE} && exec "$@"', "sh"]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*alone, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("unshare -rn is refused here: no network of one's own")
    small = study_in(tmp_path / "small")
    troubled = study_in(tmp_path / "troubled", TROUBLED, seeds=1)
    ran = subprocess.run(
        [*alone, sys.executable, "-c", SCRIPT, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=WAIT,
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith("RAY_")},
            "NOTES": str(tmp_path / "notes"),
            "PACE": "0.3",
            "COMMIT_EVERY": "0",
            "TROUBLE": str(tmp_path),
        },
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    told = json.loads((tmp_path / "told").read_text())
    assert_on_loopback(told)
    assert told["interrupted"][2]
    assert "To resume:" in ran.stderr
    assert told["interrupted"][0] + told["gone on with"][0] == 4
    assert told["gone on with"][1:] == [0, False]
    assert 48 <= (tmp_path / "notes").stat().st_size <= 50  # it went on from its checkpoints
    # of each strategy, one raises, one dies four times, one dies once at the most, one is well
    assert told["apart"] == [4, 4, False]
    monkeypatch.setenv("TROUBLE", str(tmp_path))
    run_study(small, tmp_path / "small-whole", on="here")
    assert_same(contents(tmp_path / "small-runs"), contents(tmp_path / "small-whole"))
    (tmp_path / "mended").touch()  # the cells that failed are left to be played
    run_study(troubled, tmp_path / "troubled-runs", on="here")
    run_study(troubled, tmp_path / "troubled-whole", on="here")
    assert_same(contents(tmp_path / "troubled-runs"), contents(tmp_path / "troubled-whole"))
