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
from types import SimpleNamespace
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
from understudy.studies.execution import ray_cluster
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


class RayOfATest:
    """Stands for Ray where only what it is asked for matters."""

    __version__ = "2.0"

    def __init__(self) -> None:
        self._private = SimpleNamespace(ray_constants=SimpleNamespace(ENABLE_RAY_CLUSTER=True))
        self.started: list[dict[str, Any]] = []
        self.switches: list[Any] = []
        self.is_shut_down = False

    def init(self, **options: Any) -> None:
        self.started.append(options)
        self.switches.append(self._private.ray_constants.ENABLE_RAY_CLUSTER)
        self.switches.append(os.environ.get("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"))

    def shutdown(self) -> None:
        self.is_shut_down = True


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module that starts Ray, with nothing of Ray in the environment."""
    module = pytest.importorskip("understudy.studies.execution.ray_cluster", exc_type=ImportError)
    for name in [name for name in os.environ if name.startswith("RAY_")]:
        monkeypatch.delenv(name)
    for name in ("RAY_USAGE_STATS_ENABLED", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"):
        monkeypatch.setenv(name, "0")  # so that they are gone afterwards
    monkeypatch.setattr(module, "ray", RayOfATest())
    return module


@pytest.mark.parametrize("address", [None, "", "local"])
def test_without_an_address_ray_is_told_to_use_loopback(
    cluster: Any, monkeypatch: pytest.MonkeyPatch, address: str | None
) -> None:
    if address is not None:
        monkeypatch.setenv("RAY_ADDRESS", address)
    cluster.join_or_start(num_cpus=3)
    (options,) = cluster.ray.started
    assert options["address"] == "local"  # not any cluster that somebody announced here
    assert options["_node_ip_address"] == "127.0.0.1"
    assert options["num_cpus"] == 3
    assert options["include_dashboard"] is False
    assert cluster.ray.switches == [False, "0"]
    assert cluster.ray._private.ray_constants.ENABLE_RAY_CLUSTER is True
    assert cluster.SEVERAL_MACHINES not in os.environ


def test_a_cluster_that_is_named_is_joined_as_it_is(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "10.1.2.3:6379")
    monkeypatch.setattr(cluster, "outside_sockets", lambda: [(1, "0.0.0.0", 6379)])
    cluster.join_or_start()
    assert "address" not in cluster.ray.started[0]
    assert "_node_ip_address" not in cluster.ray.started[0]
    assert cluster.ray.switches == [True, None]
    assert not cluster.ray.is_shut_down


def test_a_ray_that_listens_on_all_interfaces_all_the_same_is_shut_down(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of another version, say. A server that was there before is the caller's own."""
    own, rays = (1, "0.0.0.0", 80), (2, "::", 6379)
    looks = iter([[own], [own, rays], [own], [own]])
    monkeypatch.setattr(cluster, "outside_sockets", lambda: next(looks))
    with pytest.raises(cluster.RayListensOutside, match=r"Ray 2\.0 listens on :::6379, where"):
        cluster.join_or_start()
    assert cluster.ray.is_shut_down
    cluster.ray.is_shut_down = False
    cluster.join_or_start()
    assert not cluster.ray.is_shut_down


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
