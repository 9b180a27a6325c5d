"""A real SuperLink and real SuperNodes with TLS and keys: everything breaks, nothing is lost."""

import os
import shutil
import signal
import sys

import numpy as np
import psutil
import pytest
import torch
from flwr.app import ArrayRecord

from tests.flower.live import Live, example
from tests.flower.loopback import LoopbackGrid, nodes_of
from understudy import Local, Outcome, fdms
from understudy.flower import UnderstudyStrategy, read_outcomes
from understudy.flower.roster import Roster
from understudy.server import checkpoint
from understudy.studies import results

pytestmark = [pytest.mark.full, pytest.mark.process, pytest.mark.timeout(1500)]

SETTINGS = {"lr": 0.1, "local_epochs": 4, "batch_size": 8, "grace": 10.0, "quorum": 0.8}
FLOOR = 0.6  # of the accuracy after six rounds; chance is 0.1


@pytest.fixture
def live(tmp_path):
    """Six nodes, ended whatever happens."""
    made = Live(tmp_path / "live", 6)
    try:
        yield made
    finally:
        made.stop()


def test_faults_kills_and_a_thief(live, tmp_path, capsys):
    folder, runs = tmp_path / "run", tmp_path / "runs"
    try:
        settings = begin(live, folder, runs)
        round_0(live)
        round_1(live)
        round_2(live)
        round_3(live)
        check_the_first_run(live, folder)
        check_a_killed_serverapp_goes_on(live, folder, settings)
        check_the_store(runs)
    except BaseException:
        with capsys.disabled():
            print(live.all_logs())
        raise


def begin(live, folder, runs):
    plan = {2: "1:raise;2:nan", 3: "1:shape;2:slow", 4: "1:hang", 5: "1:hang"}
    one_command = live.start(plan)
    assert live.listeners() == {"127.0.0.1"}
    # 30 s on a machine of its own, more on a crowded one: who is to come must come
    settings = {**SETTINGS, "deadline": max(30.0, round(20 * one_command, 1))}
    settings |= {"folder": str(folder), "runs": str(runs), "num_rounds": 4}
    live.go(0)
    live.first = live.run(**settings)
    return settings


def round_0(live):
    """Everybody comes."""
    live.wait_for_file("evaluated-1")
    live.go(1)


def round_1(live):
    """A ClientApp raises, one sends a wrong shape, two SuperNodes are killed while they train."""
    live.wait_for_file("training-4-1")
    live.federation.kill("node-4", signal.SIGKILL)
    live.wait_for_file("training-5-1")
    live.federation.kill("node-5", signal.SIGTERM)
    live.wait_for_file("evaluated-2")
    # both come back under their keys; the SuperLink takes the dead one for alive for a minute
    live.federation.start_node(5, config=live.config(5))

    def is_back():
        process = live.federation.processes.get("node-4")
        if process is None or process.poll() is not None:
            live.federation.start_node(4, config=live.config(4))
        return live.federation.online() == 6

    live.wait_for(is_back, "the killed node to be let in again")
    register_a_thief(live)
    live.go(2)


def register_a_thief(live):
    """A key that is registered, and a name that is not its own; and a key that nobody knows."""
    federation = live.federation
    example("make_keys").make_keys(live.folder / "more", 2, ["localhost"])
    for name, number in (("thief", 0), ("stranger", 1)):
        for ending in ("", ".pub"):
            shutil.copy(
                live.folder / "more" / f"client-{number}{ending}",
                federation.secrets / f"{name}{ending}",
            )
    federation.register("thief")
    federation.start_node(0, name="thief", key="thief", config=live.config(0))
    federation.start_node(0, name="stranger", key="stranger", config=live.config(0))
    live.wait_for(
        lambda: federation.processes["stranger"].poll() is not None, "the stranger to be refused"
    )
    live.wait_for(lambda: live.federation.online() == 7, "the thief to connect")


def round_2(live):
    """One sends NaN, one is slower than the deadline; the killed ones are back."""
    live.wait_for_file("training-3-2")
    live.wait_for_file("evaluated-3")
    live.wait_for(
        lambda: "Sent successfully" in live.federation.log("thief"), "the thief to say who it is"
    )
    sent = live.federation.log("node-3").count("Sent successfully")
    live.go(3)
    # its answer is to arrive in round 3: the server waits for the others' answers meanwhile
    (live.signals / "answer-3").touch()
    live.wait_for(
        lambda: live.federation.log("node-3").count("Sent successfully") > sent,
        "the slow client's answer",
    )


def round_3(live):
    live.go(4)
    assert live.wait_for_run(live.first) == "finished:completed"


def check_the_first_run(live, folder):
    assert live.federation.processes["stranger"].returncode != 0
    assert "says it is '0', which belongs to another key" in live.log(live.first)
    became = outcomes_of(folder)
    everybody = [str(number) for number in range(6)]
    assert became[0] == dict.fromkeys(everybody, "came")
    assert became[1] == {
        "0": "came",
        "1": "came",
        "2": "error",
        "3": "refused",
        "4": "missing",
        "5": "missing",
    }
    assert became[2] == {**dict.fromkeys(everybody, "came"), "2": "refused", "3": "missing"}
    assert became[3] == {**dict.fromkeys(everybody, "came"), "3": "late"}
    why = {(one.t, one.id): one.detail for one in read_outcomes(folder)}
    assert "this client is broken" in why[1, "2"]
    assert why[1, "3"].startswith("wrong length")
    assert why[1, "5"] == "its node left"
    assert why[2, "2"].startswith("not finite")


def check_a_killed_serverapp_goes_on(live, folder, settings):
    """Killed while clients train; the next run plays the round again, as if nothing had been."""
    settings = {**settings, "num_rounds": 6}
    for number in (5, 6):
        live.go(number)
    live.run(**settings)
    live.wait_for_file("training-0-4")
    (serverapp,) = live.pids("flwr-serverapp")
    os.kill(serverapp, signal.SIGKILL)
    live.wait_for(lambda: is_gone(serverapp), "the ServerApp to be gone")
    shutil.copytree(folder, folder.with_name("left"))
    third = live.run(**settings)
    assert live.wait_for_run(third) == "finished:completed"
    assert "4 rounds are done" in live.log(third)

    became = outcomes_of(folder)
    assert sorted(became) == [0, 1, 2, 3, 4, 5]
    local = Local(lr=0.1, epochs=4, batch_size=8)
    task = example_task(live)
    nodes = nodes_of(example_client(live), 6)
    known = Roster.from_json(checkpoint.numbers_of(folder / "server")["extra.roster"])
    for node, client in zip(nodes, known.clients, strict=True):
        node.id = client.node  # its id is bound to its key: nobody else would be let in
        node.config |= {"signals": str(live.signals)}
    again = UnderstudyStrategy(fdms(local=local), folder=folder.with_name("left"))
    assert set(became[4].values()) == set(became[5].values()) == {"came"}
    grid = LoopbackGrid(nodes)
    result = again.start(grid, ArrayRecord(task.make_model().state_dict()), num_rounds=6)
    state = checkpoint.resume(folder / "server", again.strategy, again.server.own)
    torch.testing.assert_close(state.params, again.server.state.params, rtol=1e-5, atol=1e-6)
    assert state.t == again.server.state.t == 6
    state.close()
    accuracy = task.central_evaluate(6, result.arrays)["accuracy"]
    assert accuracy > FLOOR


def is_gone(pid):
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def example_task(live):
    if str(live.app) not in sys.path:
        sys.path.insert(0, str(live.app))
    import digits_app.task

    return digits_app.task


def example_client(live):
    import digits_app.client_app

    return digits_app.client_app.app


def check_the_store(runs):
    rounds = results(runs, level="round", study="live")
    assert rounds["t"].tolist() == list(range(6))
    assert rounds["came"].tolist() == [6, 2, 4, 5, 6, 6]
    assert rounds["late"].tolist() == [0, 0, 0, 1, 0, 0]
    assert np.isfinite(rounds["test_accuracy"]).all()
    assert rounds["test_accuracy"].iloc[-1] > FLOOR
    clients = results(runs, level="client", study="live")
    assert clients["refused"].tolist() == [0, 0, 1, 1, 0, 0]


def outcomes_of(folder):
    became = {}
    for one in read_outcomes(folder):
        became.setdefault(one.t, {})[one.id] = one.outcome.name.lower()
        assert isinstance(one.outcome, Outcome)
    return became
