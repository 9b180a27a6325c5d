"""Federations with and without keys: a dead ClientApp, 100 MB of rubbish, a killed SuperLink."""

import os
import shutil
import signal
from contextlib import suppress

import psutil
import pytest
import torch

from tests.flower.live import PATIENCE, Live, is_gone, outcomes_of
from tests.flower.test_deployment import LOCAL, SETTINGS
from tests.flower.test_resume import saved
from understudy import fdms
from understudy.flower import UnderstudyStrategy, read_outcomes
from understudy.flower.clients.roster import Roster
from understudy.flower.rounds.live_state import LiveState
from understudy.server import checkpoint

pytestmark = [pytest.mark.full, pytest.mark.process, pytest.mark.timeout(3600)]

FAULTS = {1: "1:rubbish", 2: "1:cut", 3: "1:die", 4: "1:hang"}


@pytest.fixture(params=[True, False], ids=["insecure", "secure"])
def live(request, tmp_path):
    """Five nodes, ended whatever happens."""
    made = Live(tmp_path / "live", 5, insecure=request.param)
    try:
        yield made
    finally:
        made.stop()


def everybody(live):
    """Partitions, or the names of their keys."""
    return [f"{'' if live.federation.insecure else 'client-'}{number}" for number in range(5)]


def test_rubbish_restarts_and_a_killed_superlink(live, tmp_path, capsys):
    folder = tmp_path / "run"
    settings = {**SETTINGS, "deadline": PATIENCE, "folder": str(folder)}
    try:
        live.start(FAULTS)
        first_run(live, {**settings, "num_rounds": 4})
        check_first_run(live, folder)
        check_a_killed_superlink(live, folder, {**settings, "num_rounds": 6})
    except BaseException:
        with capsys.disabled():
            print(live.all_logs())
        raise


def first_run(live, settings):
    """No round reaches its deadline: Flower reports a dead ClientApp and a dead SuperNode itself,
    after about a minute."""
    live.go(0)
    run = live.run(**settings)
    live.wait_for_file("evaluated-1")
    live.go(1)
    live.wait_for_file("training-4-1")
    live.federation.kill("node-4", signal.SIGKILL)
    live.wait_for_file("evaluated-2")
    sent = live.sent("node-4")
    live.connect({4: ""})
    # without a key it is admitted at once, under another id; the dead one may count a while longer
    live.wait_for(lambda: live.federation.online() == 5, "five nodes, and not six")
    live.go(2)  # a node with a new id introduces itself in this round
    live.wait_for_file("evaluated-3")
    if live.federation.insecure:
        live.wait_for(lambda: live.sent("node-4") > sent, "the new node's introduction", pause=0.2)
    live.go(3)
    live.go(4)
    assert live.wait_for_run(run) == "finished:completed"


def check_first_run(live, folder):
    became, ids = outcomes_of(folder), everybody(live)
    all_came = dict.fromkeys(ids, "came")
    assert became == {
        0: all_came,
        1: dict(zip(ids, ["came", "refused", "refused", "error", "missing"], strict=True)),
        # under a new id it must first introduce itself; under its key it is known
        2: {**all_came, ids[4]: "unavailable" if live.federation.insecure else "came"},
        3: all_came,
    }
    why = {(one.t, one.id): one.detail for one in read_outcomes(folder)}
    assert why[1, ids[1]].startswith("too large: expected at most 1.0 MB, got 100.0 MB")
    assert why[1, ids[2]].startswith("unreadable")
    stored = Roster.from_json(checkpoint.numbers_of(folder / "server")["extra.roster"])
    assert [client.id for client in stored.clients] == ids


def check_a_killed_superlink(live, folder, settings):
    """The ServerApp ends with it; nodes find the new one; the next run resumes at round 5."""
    committed = state_of(folder)
    live.run(**settings)
    live.wait_for_file("training-0-4")
    (serverapp,) = live.pids("flwr-serverapp")
    live.federation.kill("superlink", signal.SIGKILL)
    for number in (5, 6):  # not before: the round must not be over; the ServerApp waits for it
        live.go(number)
    # Flower ends it, but was seen to leave it waiting for its deadline: then an operator does
    with suppress(psutil.TimeoutExpired, psutil.NoSuchProcess):
        psutil.Process(serverapp).wait(90)
    with suppress(ProcessLookupError):
        os.kill(serverapp, signal.SIGKILL)
    live.wait_for(lambda: is_gone(serverapp), "the ServerApp to end")
    left = folder.with_name("left")
    shutil.copytree(folder, left)
    before = state_of(left)
    assert before.t == 4
    assert saved(before) == saved(committed)
    live.federation.start_superlink()
    live.wait_for(lambda: live.federation.online() == 5, "all nodes to come back")
    again = live.run(**settings)
    assert live.wait_for_run(again) == "finished:completed"
    assert "resuming at round 5" in live.log(again)
    became = outcomes_of(folder)
    assert sorted(became) == [0, 1, 2, 3, 4, 5]
    assert became[5] == dict.fromkeys(everybody(live), "came")
    after = state_of(folder)
    assert after.t == 6
    assert not torch.equal(after.params, before.params)


def state_of(folder):
    """The last commit, as the adapter would resume it."""
    strategy = UnderstudyStrategy(fdms(local=LOCAL)).strategy
    state = checkpoint.resume(folder / "server", strategy, LiveState("", "", "", "", 0.0))
    state.close()
    return state
