"""A real SuperLink and six SuperNodes with TLS and keys: faults, kills, a crash of the server."""

import os
import re
import shutil
import signal

import numpy as np
import pytest
from flwr.app import ArrayRecord

from tests.flower.live import PATIENCE, Live, example, importing_from, is_gone, outcomes_of
from tests.flower.loopback import LoopbackGrid, nodes_of
from tests.flower.test_resume import saved
from understudy import Local, fdms
from understudy.core.types import Outcome
from understudy.dashboard import answers
from understudy.dashboard.hub import Hub
from understudy.dashboard.places import Places
from understudy.dashboard.watched import Watch
from understudy.flower import UnderstudyStrategy, read_outcomes, request_same_as
from understudy.flower.clients.roster import Roster
from understudy.journal.follow import follow
from understudy.representation import ClientFacts, Thresholds, warnings_of
from understudy.server import checkpoint
from understudy.studies import results

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.timeout(1800)]

LOCAL = Local(lr=0.3, epochs=4, batch_size=8)
SETTINGS = {"lr": 0.3, "local_epochs": 4, "batch_size": 8, "quorum": 1.0}
FLOOR = 0.5  # of the accuracy after five rounds, which is 0.63; chance is 0.1
EVERYBODY = [f"client-{number}" for number in range(6)]  # the names of their keys
ALL_CAME = dict.fromkeys(EVERYBODY, "came")
# client → round:fault. A slow client answers when the test allows it.
FAULTS = {
    1: "4:slow",
    2: "2:raise;3:nan",
    3: "2:shape;3:slow",
    4: "2:hang",
    5: "2:hang",
}


@pytest.fixture
def live(tmp_path):
    """Six nodes, ended whatever happens."""
    made = Live(tmp_path / "live", 6)
    try:
        yield made
    finally:
        made.stop()


def test_a_crash_faults_kills_and_a_thief(live, tmp_path, capsys):
    folder, runs = tmp_path / "run", tmp_path / "runs"
    settings = {**SETTINGS, "folder": str(folder), "runs": str(runs)}
    try:
        live.start(FAULTS)
        assert live.listeners() == {"127.0.0.1"}
        crash(live, folder, settings)
        resume_after_the_crash(live, folder, settings)
        run = live.run(**settings, deadline=live.deadline(folder), num_rounds=5)
        round_2(live)
        round_3(live)
        round_4(live)
        assert live.wait_for_run(run) == "finished:completed"
        check_outcomes(folder)
        check_refusals(live, run)
        check_the_store(runs)
        check_the_page(folder)
    except BaseException:
        with capsys.disabled():
            print(live.all_logs())
        raise


def check_the_page(folder):
    """The dashboard shows what became of each client, and what was said of it."""
    hub = Hub(Places([folder]))
    hub.refresh()
    (run,) = hub.runs.values()
    assert (run.status, run.is_live, run.rounds) == ("done", True, 5)
    assert run.resolved["timing"]["quorum"] == 1.0
    rows = {row["id"]: row for row in answers.clients(hub, run, "")["rows"]}
    assert rows.keys() >= set(EVERYBODY)
    became = {name: [(cell & 15) - 1 for cell in rows[name]["last"]] for name in EVERYBODY}
    assert became["client-4"][2] == Outcome.MISSING
    assert became["client-4"][3] == Outcome.CAME
    assert became["client-0"] == [Outcome.CAME] * 5
    assert "not finite" in [one["reason"] for one in rows["client-2"]["refusals"]]
    assert rows["client-0"]["seconds"] > 0


def crash(live, folder, settings):
    """Everybody comes in round 0; the ServerApp is killed with -9 while clients train in round 1.

    Nobody is absent in these rounds, so their deadline is as long as anything is waited for.
    """
    live.go(0)
    live.run(**settings, deadline=PATIENCE, num_rounds=2)
    live.wait_for_file("evaluated-1")
    live.go(1)
    live.wait_for_file("training-0-1")
    (serverapp,) = live.pids("flwr-serverapp")
    os.kill(serverapp, signal.SIGKILL)
    live.wait_for(lambda: is_gone(serverapp), "the ServerApp to be gone")
    shutil.copytree(folder, folder.with_name("left"))


def resume_after_the_crash(live, folder, settings):
    """The next run repeats round 1, and comes to the state that no crash would have changed."""
    live.go(2)
    again = live.run(**settings, deadline=PATIENCE, num_rounds=2)
    assert live.wait_for_run(again) == "finished:completed"
    assert "resuming at round 2" in live.log(again)
    assert outcomes_of(folder) == {0: ALL_CAME, 1: ALL_CAME}

    task, client = example_app(live)
    left = folder.with_name("left")
    known = Roster.from_json(checkpoint.numbers_of(left / "server")["extra.roster"])
    nodes = nodes_of(client, 6)
    for node, client in zip(nodes, known.clients, strict=True):
        node.id = client.node
        node.config |= {"signals": str(live.signals)}
    # these nodes have no keys, so they are known by their numbers alone
    uncrashed = UnderstudyStrategy(fdms(local=LOCAL), folder=left, keys=False)
    first = ArrayRecord(task.make_model().state_dict())
    uncrashed.start(LoopbackGrid(nodes), first, num_rounds=2)
    state = checkpoint.resume(folder / "server", uncrashed.strategy, uncrashed.server.own)
    try:
        assert state.t == 2
        assert saved(state) == saved(uncrashed.server.state)
    finally:
        state.close()


def example_app(live):
    """Its task and its ClientApp, as the nodes have them."""
    with importing_from(live.app):
        import digits_app.client_app
        import digits_app.task

        return digits_app.task, digits_app.client_app.app


def round_2(live):
    """A ClientApp raises, one sends a wrong shape, two SuperNodes are killed while they train."""
    live.wait_for_file("training-4-2")
    live.federation.kill("node-4", signal.SIGKILL)
    live.wait_for_file("training-5-2")
    live.federation.kill("node-5", signal.SIGTERM)
    live.wait_for_file("evaluated-3")
    live.connect({4: "", 5: ""})  # both return with their keys
    connect_a_thief(live)
    live.go(3)


def connect_a_thief(live):
    """A registered key that claims an id which is not its own; and a key that nobody knows."""
    federation = live.federation
    example("make_keys").make_keys(live.folder / "more", 2, ["localhost"])
    for name, number in (("thief", 0), ("stranger", 1)):
        for ending in ("", ".pub"):
            shutil.copy(
                live.folder / "more" / f"client-{number}{ending}",
                federation.secrets / f"{name}{ending}",
            )
    federation.register("thief")
    claim = f"client-id='client-0' {live.config(0)}"
    federation.start_node(0, name="thief", key="thief", config=claim)
    federation.start_node(0, name="stranger", key="stranger", config=live.config(0))
    live.wait_for(
        lambda: federation.processes["stranger"].poll() is not None, "the stranger to be refused"
    )
    live.wait_for(lambda: federation.admissions("thief") == 1, "the thief to connect")


def round_3(live):
    """One sends NaN, one is slower than the deadline; the killed ones are back."""
    live.wait_for_file("training-3-3")
    live.wait_for_file("evaluated-4")
    live.wait_for(lambda: live.sent("thief") == 1, "the thief to introduce itself", pause=0.2)
    live.go(4)


def round_4(live):
    """The late answer arrives while the round waits for another; the thief is only itself."""
    before = live.sent("node-3")
    live.wait_for_file("training-1-4")
    live.answer(3)
    live.wait_for(lambda: live.sent("node-3") > before, "the late answer", pause=0.2)
    live.answer(1)
    live.go(5)


def check_outcomes(folder):
    became = outcomes_of(folder)
    absent = {"client-2": "error", "client-3": "refused"}
    absent |= {"client-4": "missing", "client-5": "missing"}
    assert became == {
        0: ALL_CAME,
        1: ALL_CAME,
        2: {**ALL_CAME, **absent},
        3: {**ALL_CAME, "client-2": "refused", "client-3": "missing"},
        4: {**ALL_CAME, "client-3": "late", "thief": "came"},
    }
    why = {(one.t, one.id): one.detail for one in read_outcomes(folder)}
    assert "this client is broken" in why[2, "client-2"]
    assert why[2, "client-3"].startswith("wrong length")
    assert why[2, "client-5"] == "its node left"
    assert why[3, "client-2"].startswith("not finite")
    assert why[3, "client-3"] == "no answer in time"


def check_refusals(live, run):
    assert live.federation.processes["stranger"].returncode != 0
    words = "node 'thief' claims the id 'client-0', which is not its own; it is 'thief'"
    assert words in live.log(run)


def check_the_store(runs):
    rounds = results(runs, level="round", study="live")
    assert rounds["t"].tolist() == list(range(5))
    assert rounds["came"].tolist() == [6, 6, 2, 4, 6]
    assert rounds["late"].tolist() == [0, 0, 0, 0, 1]
    assert np.isfinite(rounds["test_accuracy"]).all()
    assert rounds["test_accuracy"].iloc[-1] > FLOOR
    clients = results(runs, level="client", study="live")
    assert clients["refused"].tolist() == [0, 0, 1, 1, 0, 0, 0]


PLAIN = """
from flwr.app import Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.train()
def train(message, context):
    numbers = MetricRecord({"num-examples": 1})
    content = RecordDict({"arrays": message.content["arrays"], "metrics": numbers})
    return Message(content, reply_to=message)
"""


def test_a_killed_supernode_without_a_lasting_id_is_a_loud_line_and_can_be_continued(
    tmp_path, capsys
):
    """No TLS, no keys, an app that was never changed: its second start is another client."""
    live, folder = Live(tmp_path / "live", 2, insecure=True), tmp_path / "run"
    (live.app / "digits_app" / "client_app.py").write_text(PLAIN)
    # under FedAvg nothing represents an absent client
    settings = {"folder": str(folder), "quorum": 1.0, "strategy": "fedavg"}
    try:
        live.start({})
        live.go(0)
        live.go(1)
        run = live.run(**settings, deadline=PATIENCE, num_rounds=1)
        assert live.wait_for_run(run) == "finished:completed"
        first = outcomes_of(folder)[0]
        assert "client ids that do not last" in live.log(run)
        assert "ClientApp(mods=[introduction()])" in live.log(run)

        live.federation.kill("node-1", signal.SIGKILL)
        live.wait_for(lambda: live.federation.online() == 1, "the killed node to be gone")
        live.connect({1: ""})
        live.go(2)
        run = live.run(**settings, deadline=PATIENCE, num_rounds=2)
        assert live.wait_for_run(run) == "finished:completed"
        second = outcomes_of(folder)[1]
        (new,), (old,) = (
            set(second) - set(first),
            set(first) - {one for one, became in second.items() if became == "came"},
        )
        line = rf"{new} \(node \d+\) joined, and {old} \(node \d+\) has not been connected"
        assert re.search(line, live.log(run))

        request_same_as(folder, new, old)
        live.go(3)
        run = live.run(**settings, deadline=PATIENCE, num_rounds=3)
        assert live.wait_for_run(run) == "finished:completed"
        (kept,) = set(first) - {old}
        assert outcomes_of(folder)[2] == {kept: "came", new: "came"}
        a_node_that_is_gone_for_good_is_left_out(live, folder, settings, new)
    except BaseException:
        with capsys.disabled():
            print(live.all_logs())
        raise
    finally:
        live.stop()


def a_node_that_is_gone_for_good_is_left_out(live, folder, settings, client_id):
    """Killed again and not started: after two more rounds the log names it, and so does a watch."""
    server = live.app / "digits_app" / "server_app.py"
    options = "warn=Thresholds(rounds=2), min_available_nodes=1, min_train_nodes=1"
    text = server.read_text().replace("deadline=float(", f"{options}, deadline=float(", 1)
    assert options in text
    with_import = "\nfrom understudy.representation import Thresholds\nfrom understudy.flower"
    server.write_text(text.replace("\nfrom understudy.flower", with_import, 1))
    live.federation.kill("node-1", signal.SIGKILL)
    live.wait_for(lambda: live.federation.online() == 1, "the killed node to be gone")
    for number in (4, 5, 6):
        live.go(number)
    run = live.run(**settings, deadline=PATIENCE, num_rounds=6)
    assert live.wait_for_run(run) == "finished:completed"
    said = live.log(run)
    assert re.search(rf"{client_id}, .*was in none of the last 2 rounds' updates", said)
    assert said.count("Who was left out, and other warnings of 6 rounds") == 1
    (one,) = Watch([folder]).look()
    about = ClientFacts.told(one.run.facts, one.run.resolved)
    warnings = warnings_of(follow(folder), about, Thresholds(rounds=2))
    (number,) = (place for place, name in enumerate(about.names) if name == client_id)
    assert [warning.clients for warning in warnings.current] == [(number,)]
    assert about.deadline == PATIENCE
    # the page warns by the strategy's thresholds, and the client's row has turned
    hub = Hub(Places([folder]))
    hub.refresh()
    (run,) = hub.runs.values()
    told = answers.clients(hub, run, "")
    assert [one["clients"] for one in told["warnings"] if one["now"]] == [(number,)]
    (row,) = (one for one in told["rows"] if one["id"] == client_id)
    became = [(cell & 15) - 1 for cell in row["last"]]
    assert became[2] == Outcome.CAME
    assert not {Outcome.CAME, Outcome.LATE} & set(became[-2:])
    assert row["standIns"] == []
