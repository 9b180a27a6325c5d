"""A real cluster of two machines on 127.0.0.1: one is killed in mid-run, then programs are."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

WAIT = 900.0  # seconds; 40 on an idle machine, ten times as long on a busy one
# Ray's own limits are for an idle machine: to import torch, to answer
PATIENT = {
    "RAY_worker_register_timeout_seconds": "600",
    "RAY_health_check_timeout_ms": "300000",
}

# What the two programs share: a loss that tells which process of the cluster computes it.
SHARED = """
import json, os, sys, time
from pathlib import Path

import torch
from understudy import FixedDropout, Local, fdms, scaffold, simulate
from understudy.simulation import clustered_digits
from understudy.simulation.training.trainers import ray_trainer
from understudy.simulation.training.trainers.ray_trainer import ClusterTrainer, RayTrainer

ray_trainer.WORTH_SENDING = 0.0  # digits are small
folder, driver, stuck_on, seconds = Path(sys.argv[1]), os.getpid(), "", 0.0

def loss(outputs, labels):
    if os.getpid() != driver and torch.is_grad_enabled():
        import ray
        node = ray.get_runtime_context().get_node_id()
        (folder / f"{node}-{os.getpid()}").touch()
        while node == stuck_on:  # until it is killed
            time.sleep(0.1)
        time.sleep(seconds)
    return torch.nn.functional.cross_entropy(outputs, labels)

same = dict(model="mlp", availability=FixedDropout(0.5))
local = Local(lr=0.1, batch_size=10)
"""

# A program that is going to be killed: folder, address.
VICTIM = (
    SHARED
    + """
seconds = 0.05
for log in simulate(
    clustered_digits(), fdms(local=local), rounds=1000, loss=loss,
    trainer=RayTrainer(sys.argv[2]), **same,
):
    pass
"""
)

SCRIPT = (
    SHARED
    + """
import subprocess, threading

os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # the one way to keep Ray on loopback
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
import psutil
import ray
from ray.cluster_utils import Cluster
from understudy.simulation.training.trainers import ray_cluster

def wait_for(condition, what, timeout=240):
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(what)
        time.sleep(0.1)

def bits(run):
    logs = [[log.metrics, log.outcome.tolist()] for log in run]
    return json.dumps(logs), run.state.params

def equal(one, other):
    return one[0] == other[0] and torch.equal(one[1], other[1])

told = {}
cluster = Cluster()
node = dict(
    num_cpus=1, node_ip_address="127.0.0.1", object_store_memory=200_000_000,
    include_dashboard=False,
)

def started():
    for _ in range(6):  # Ray waits for 30 s, which a busy machine may not keep
        try:
            return cluster.add_node(**node)
        except Exception as error:
            print(error, file=sys.stderr)
    raise TimeoutError("Ray did not start")

started()
second = started()
ray_cluster.join_or_start(cluster.address)
stuck_on = second.node_id
assert stuck_on != ray.get_runtime_context().get_node_id()

def kill_the_second():
    wait_for(lambda: any(folder.glob(f"{stuck_on}-*")), "no chunk came to the second machine")
    told["outside"] = list(ray_cluster.outside_sockets())
    cluster.remove_node(second, allow_graceful=False)

made = []

def make(task):
    made.append(ClusterTrainer(task))
    return made[-1]

threading.Thread(target=kill_the_second, daemon=True).start()
asked = dict(rounds=3, loss=loss, **same)
on_cluster = bits(simulate(clustered_digits(), scaffold(local=local), trainer=make, **asked))
told["deaths"] = made[0].deaths
told["nodes"] = len({path.name.split("-")[0] for path in folder.glob("*-*")})
here = bits(simulate(clustered_digits(), scaffold(local=local), workers=1, **asked))
told["loop"] = equal(on_cluster, here)
kernels = dict(rounds=2, engine="auto", **same)
run = simulate(clustered_digits(), fdms(local=local), trainer="ray", **kernels)
told["kernels"] = equal(bits(run), bits(simulate(clustered_digits(), fdms(local=local), **kernels)))
told["left connected"] = ray.is_initialized()  # it was the program that had joined
ray.shutdown()

def killed(address):
    # the processes that a program has at work on its clients are gone soon after it is
    place = folder / address.replace(":", "-")
    place.mkdir()
    program = subprocess.Popen([sys.executable, str(folder / "victim.py"), str(place), address])
    wait_for(lambda: list(place.glob("*-*")) or program.poll() is not None, "nothing was trained")
    workers = [psutil.Process(int(path.name.split("-")[1])) for path in place.glob("*-*")]
    theirs = psutil.Process(program.pid).children(recursive=True) + workers
    program.kill()
    program.wait()
    wait_for(lambda: not any(one.is_running() for one in theirs), "processes are left")
    return len(theirs)

told["killed"] = killed(cluster.address)
told["killed with its own cluster"] = killed("local")
cluster.shutdown()
(folder / "told").write_text(json.dumps(told))
"""
)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_machine_is_killed_and_the_bits_are_the_same_and_programs_leave_nothing(
    tmp_path: Path,
) -> None:
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed (extra ray)")
    (tmp_path / "victim.py").write_text(VICTIM)
    (tmp_path / "script.py").write_text(SCRIPT)
    ran = subprocess.run(
        [sys.executable, str(tmp_path / "script.py"), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=WAIT,
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith("RAY_")},
            **PATIENT,
        },
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    told = json.loads((tmp_path / "told").read_text())
    assert told["outside"] == []  # all on loopback
    assert told["nodes"] >= 2  # the killed one, and one that did its work
    assert told["deaths"] >= 1
    assert "was lost while training round" in ran.stderr
    assert told["loop"]
    assert told["kernels"]
    assert told["left connected"]
    assert told["killed"] >= 1
    assert told["killed with its own cluster"] >= 3  # its servers, and who trained
