"""The example app, unchanged, in Flower's own simulation; and two hundred rounds of it.

Ray listens on all interfaces, so everything runs where there is only a loopback.
"""

import json
import os
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

from tests.flower.live import APP, ROOT
from understudy.flower import read_outcomes
from understudy.studies import results

pytestmark = [pytest.mark.process, pytest.mark.timeout(3600)]

ALONE = ["unshare", "-rn", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
MEGABYTE = 2**20
LONGEST = 3000.0  # seconds of one run

# A SuperLink that simulates, one run of the app, and how much memory its ServerApp took meanwhile.
SCRIPT = """
import json, subprocess, sys, threading, time
from contextlib import suppress
from pathlib import Path

import psutil

from tests.flower.live import APP, example

folder, rounds, clients, config = Path(sys.argv[1]), *map(int, sys.argv[2:4]), sys.argv[4]
federation = example("federation").Federation(folder / "federation", 0, insecure=True)
samples = []

def lines():
    log = folder / "run" / "rounds.jsonl"
    return log.read_bytes().count(b"\\n") if log.exists() else 0

def sample():
    # in a thread of its own: commands of Flower take seconds, in which many rounds pass
    while not ended.wait(0.2):
        for process in [known[-1]] if known else federation.helpers():
            try:
                if any(word.endswith("flwr-simulation") for word in process.cmdline()[:3]):
                    samples.append([lines(), process.memory_info().rss])
                    known.append(process)
            except psutil.Error:
                known.clear()

known, ended = [], threading.Event()
sampler = threading.Thread(target=sample)
sampler.start()
try:
    federation._start("superlink", [*federation.superlink_command(), "--simulation"])
    federation._wait_for_port()
    run_config = f"num-rounds={rounds} folder='{folder}/run' runs='{folder}/runs' {config}"
    said = federation.flwr(
        "run", str(APP), "federation", "--run-config", run_config, "--federation-config",
        f"num-supernodes={clients} client-resources-num-cpus=1", "--format", "json",
    )
    run_id = json.loads(said[said.index("{"):])["run-id"]
    status = ""
    while not status.startswith("finished"):
        time.sleep(5)
        with suppress(RuntimeError, ValueError, LookupError, subprocess.TimeoutExpired):
            status = federation.status(run_id)
    log = federation.flwr("log", run_id, "federation", "--show", check=False)
    (folder / "told").write_text(json.dumps({"status": status, "log": log, "samples": samples}))
finally:
    ended.set()
    sampler.join()
    federation.stop()
"""


def can_be_alone():
    return subprocess.run([*ALONE, "true"], capture_output=True, timeout=60).returncode == 0


def simulated(folder, rounds, clients, config):
    """One run; its status, its log, and (rounds played, resident bytes) from time to time."""
    if shutil.which("unshare") is None or not can_be_alone():
        pytest.skip("unshare -rn is refused here: Ray would listen on all interfaces")
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    with subprocess.Popen(
        [*ALONE, sys.executable, "-c", SCRIPT, str(folder), str(rounds), str(clients), config],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    ) as process:
        try:
            said, _ = process.communicate(timeout=LONGEST)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)  # it ends its federation
            said, _ = process.communicate(timeout=300)
        finally:
            process.kill()
    logs = [path.read_text(errors="replace")[-4000:] for path in folder.rglob("*.log")]
    assert process.returncode == 0, "\n".join([said, *logs])
    told = json.loads((folder / "told").read_text())
    assert told["status"] == "finished:completed", told["log"][-4000:]
    return told


@pytest.mark.full
def test_the_example_app_runs_unchanged_in_flowers_simulation(tmp_path):
    simulated(tmp_path, 6, 10, "dropout=0.4 fraction-evaluate=0.5 local-epochs=4")
    outcomes = read_outcomes(tmp_path / "run")
    assert [sum(one.t == t for one in outcomes) for t in range(6)] == [10] * 6
    became = {one.outcome.name for one in outcomes}
    assert became == {"CAME", "UNAVAILABLE"}
    absent = [one for one in outcomes if one.outcome.name == "UNAVAILABLE"]
    assert {one.detail for one in absent} == {"simulated absence"}
    rounds = results(tmp_path / "runs", level="round", study="live")
    assert rounds["test_accuracy"].iloc[-1] > 0.5
    assert np.isfinite(rounds["clients_accuracy"]).all()


@pytest.mark.full
def test_two_hundred_rounds_take_no_more_memory_than_twenty(tmp_path):
    told = simulated(tmp_path, 200, 50, "dropout=0.6 local-epochs=1 batch-size=32")
    samples = np.array(told["samples"])
    later = samples[samples[:, 0] >= 20]
    assert later[0, 0] <= 40
    assert later[-1, 0] >= 195
    begin = later[0, 1]
    grown = (later[:, 1].max() - begin) / MEGABYTE
    print(f"resident memory from round 20 on: {begin / MEGABYTE:.0f} MB, {grown:+.1f} MB")
    assert grown < 50
    assert APP.is_dir()
