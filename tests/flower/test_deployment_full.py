"""A second federation, without keys; the SuperLink itself is killed; messages of 100 MB."""

import shutil
import signal

import pytest
import torch

from tests.flower.live import Live
from tests.flower.test_deployment import SETTINGS, is_gone, outcomes_of
from understudy import Local, fdms
from understudy.flower import UnderstudyStrategy, read_outcomes
from understudy.flower.roster import Roster
from understudy.flower.server import LiveState
from understudy.server import checkpoint

pytestmark = [pytest.mark.full, pytest.mark.process, pytest.mark.timeout(3000)]


@pytest.fixture(params=[True, False], ids=["insecure", "secure"])
def live(request, tmp_path):
    """Five nodes, ended whatever happens."""
    made = Live(tmp_path / "live", 5, insecure=request.param)
    try:
        yield made
    finally:
        made.stop()


def test_rubbish_restarts_and_a_killed_superlink(live, tmp_path, capsys):
    folder = tmp_path / "run"
    try:
        plan = {1: "1:rubbish", 2: "1:cut", 3: "1:die", 4: "1:hang"}
        # a ClientApp that dies is noticed by Flower after 67 s
        deadline = max(100.0, round(20 * live.start(plan), 1))
        settings = {**SETTINGS, "deadline": deadline, "folder": str(folder), "quorum": 1.0}
        first_run(live, {**settings, "num_rounds": 4})
        check_first_run(live, folder)
        check_a_killed_superlink(live, folder, {**settings, "num_rounds": 6})
    except BaseException:
        with capsys.disabled():
            print(live.all_logs())
        raise


def first_run(live, settings):
    live.go(0)
    run = live.run(**settings)
    live.wait_for_file("evaluated-1")
    live.go(1)
    live.wait_for_file("training-4-1")
    live.federation.kill("node-4", signal.SIGKILL)
    live.wait_for_file("evaluated-2")

    def is_back():
        process = live.federation.processes.get("node-4")
        if process is None or process.poll() is not None:
            live.federation.start_node(4, config=live.config(4))
        return live.federation.online() == 5

    # without a key it comes at once, under another id; the dead one counts for a minute more
    live.wait_for(is_back, "five nodes, and not six")
    live.go(2)  # now the newcomer says who it is
    live.wait_for_file("evaluated-3")
    live.go(3)
    live.go(4)
    assert live.wait_for_run(run) == "finished:completed"


def check_first_run(live, folder):
    became = outcomes_of(folder)
    everybody = [str(number) for number in range(5)]
    assert became[0] == dict.fromkeys(everybody, "came")
    assert became[1] == {
        "0": "came",
        "1": "refused",
        "2": "refused",
        "3": "error",
        "4": "missing",
    }
    why = {(one.t, one.id): one.detail for one in read_outcomes(folder)}
    assert why[1, "1"].startswith("too large: expected at most 1.0 MB, got 100.0 MB")
    assert why[1, "2"].startswith("unreadable")
    # under a new id it must first say who it is; under its key it is known
    assert became[2]["4"] == ("unavailable" if live.federation.insecure else "came")
    assert became[3] == dict.fromkeys(everybody, "came")
    stored = Roster.from_json(checkpoint.numbers_of(folder / "server")["extra.roster"])
    assert [client.id for client in stored.clients] == everybody


def check_a_killed_superlink(live, folder, settings):
    """The server app dies with it; nodes find the new one; the next run goes on."""
    for number in (5, 6):
        live.go(number)
    live.run(**settings)
    live.wait_for_file("training-0-4")
    (serverapp,) = live.pids("flwr-serverapp")
    live.federation.kill("superlink", signal.SIGKILL)
    live.wait_for(lambda: is_gone(serverapp), "the ServerApp to end with its SuperLink")
    left = folder.with_name("left")
    shutil.copytree(folder, left)
    before = state_of(left)
    assert before.t == 4
    live.federation.start_superlink()
    live.wait_for(lambda: live.federation.online() == 5, "all nodes to come back")
    again = live.run(**settings)
    assert live.wait_for_run(again) == "finished:completed"
    assert "4 rounds are done" in live.log(again)
    became = outcomes_of(folder)
    assert sorted(became) == [0, 1, 2, 3, 4, 5]
    assert list(became[5].values()).count("came") == 5
    after = state_of(folder)
    assert after.t == 6
    assert not torch.equal(after.params, before.params)


def state_of(folder):
    """The last commit, as the adapter would take it up."""
    local = Local(lr=0.1, epochs=4, batch_size=8)
    strategy = UnderstudyStrategy(fdms(local=local)).strategy
    state = checkpoint.resume(folder / "server", strategy, LiveState("", "", "", "", 0.0))
    state.close()
    return state
