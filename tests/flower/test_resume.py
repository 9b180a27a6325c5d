"""Nothing is lost: a ServerApp that dies in any round goes on from the last finished one."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord

from tests.crafted import contents_of, write_crafted
from tests.flower.loopback import LoopbackGrid, PretendTime, nodes_of
from tests.flower.toy import first_arrays, play, reply_of, round_of, toy_app
from understudy import MIFA, Always, FixedDropout, Markov, Outcome, Strategy, fdms
from understudy.flower import UnderstudyStrategy, read_outcomes, request_retirement
from understudy.memory.tensor_stream import CheckpointError
from understudy.server.state import leaves, row_stores
from understudy.studies import LiveLog, results, write_report
from understudy.studies.store.store import Store

STRATEGIES = {"fdms": fdms(), "mifa": Strategy(compensator=MIFA(wait=False))}


class Killed(BaseException):
    """As if the process were gone: nothing is tidied up that a kill would not."""


def noisy(message, context):
    """Each client moves differently in each round, so that rounds can be told apart."""
    number, t = context.node_config["partition-id"], round_of(message)
    rng = np.random.default_rng((number, t))
    values = message.content.array_records["arrays"]["w"].numpy()
    moved = (values + rng.normal(size=3)).astype(np.float32)
    return reply_of(message, ArrayRecord({"w": Array(moved)}), number + 1)


def saved(state):
    """All that a checkpoint holds, comparable."""
    found = {}
    for path, value in leaves(state):
        if path.startswith("extra."):
            continue
        found[path] = value.tolist() if isinstance(value, torch.Tensor | np.ndarray) else value
    for path, store in row_stores(state):
        found[path] = {int(i): store.get(int(i)).tolist() for i in np.flatnonzero(store.known)}
    return found


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("when", ["while clients train", "while it is evaluated"])
def test_a_killed_run_goes_on_with_identical_state(name, when, tmp_path):
    strategy, drill = STRATEGIES[name], FixedDropout(0.4)
    whole = play(LoopbackGrid(nodes_of(toy_app(noisy), 5)), strategy, rounds=6, availability=drill)

    folder = tmp_path / "run"
    grid = LoopbackGrid(nodes_of(toy_app(noisy), 5))
    pull = grid.pull_messages

    def killed_while_pulling(ids):
        if when == "while clients train" and round_of(grid.sent[-1]) == 3:
            raise Killed
        return pull(ids)

    grid.pull_messages = killed_while_pulling

    def after_round(t):
        if when == "while it is evaluated" and t == 3:
            raise Killed

    with pytest.raises(Killed):
        play(grid, strategy, rounds=6, availability=drill, folder=folder, after_round=after_round)
    again = play(
        LoopbackGrid(nodes_of(toy_app(noisy), 5, first_id=900)),  # as new SuperNodes would be
        strategy,
        rounds=6,
        availability=drill,
        folder=folder,
    )
    assert len(again.history) == 3  # rounds 3, 4, 5
    assert again.history == whole.history[3:]
    assert saved(again.server.state) == saved(whole.server.state)
    np.testing.assert_array_equal(
        again.result.arrays["w"].numpy(), whole.result.arrays["w"].numpy()
    )
    records = read_outcomes(folder)
    with open(folder / "outcomes.jsonl", "a") as file:
        file.write('{"t": 6, "cli')  # a line that is being written
    assert read_outcomes(folder) == records
    assert [one.t for one in records] == sorted(one.t for one in records)
    assert [sum(one.t == t for one in records) for t in range(6)] == [5] * 6


def joining(t):
    """Five nodes, and four more that connect when round `t` ends."""
    nodes = nodes_of(toy_app(noisy), 9)
    grid = LoopbackGrid(nodes[:5])

    def after_round(number):
        if number == t:
            grid.nodes |= {node.id: node for node in nodes[5:]}

    return grid, after_round


@pytest.mark.parametrize("stop", [5, 6])
def test_attendance_is_resumed_and_not_drawn_again_for_those_who_are_there_now(stop, tmp_path):
    """Drawn again with nine clients from the first round on, the newcomers would be others."""
    drill = Markov(0.5, 20)  # its sessions are long: what was drawn before matters
    grid, after_round = joining(2)
    whole = play(grid, fdms(), rounds=8, availability=drill, after_round=after_round)
    assert [len(outcomes) for outcomes in whole.history] == [5] * 4 + [9] * 4
    grid, after_round = joining(2)
    play(grid, fdms(), rounds=stop, availability=drill, after_round=after_round, folder=tmp_path)
    again = play(grid, fdms(), rounds=8, availability=drill, folder=tmp_path)
    assert again.history == whole.history[stop:]
    np.testing.assert_equal(saved(again.server.state), saved(whole.server.state))


@pytest.mark.parametrize("drill", [Always(), FixedDropout(0.5)])
def test_those_who_join_are_counted_by_the_simulated_absence(drill, tmp_path):
    grid, after_round = joining(1)
    play(grid, rounds=5, availability=drill, after_round=after_round, folder=tmp_path)
    again = play(grid, rounds=6, availability=drill, folder=tmp_path)
    came = sum(outcome == "came" for outcome in again.history[-1].values())
    assert (len(again.history[-1]), came) == (9, 9 if drill == Always() else 5)


def test_the_error_of_a_round_is_told_though_the_ledger_is_gone(tmp_path):
    class Gone(LiveLog):
        def begin(self, run, resolved, facts):
            if (tmp_path / "late").exists():
                raise RuntimeError("the store was moved")
            super().begin(run, resolved, facts)

    def after_round(t):
        if t == 1:
            (tmp_path / "late").touch()
            raise ArithmeticError("the true error")

    grid = LoopbackGrid(nodes_of(toy_app(noisy), 3))
    ledger, folder = Gone(tmp_path / "runs"), tmp_path / "run"
    with pytest.raises(ArithmeticError, match="the true error"):
        play(grid, rounds=3, ledger=ledger, folder=folder, after_round=after_round)
    about = json.loads((folder / "run.json").read_text())
    assert (about["status"], about["error"]) == ("failed", "ArithmeticError: the true error")


def test_what_is_no_journal_is_refused_at_once():
    with pytest.raises(TypeError, match="ledger: expected a part with begin, append, flush"):
        UnderstudyStrategy(ledger=object())


def test_another_availability_at_a_resume_is_drawn_from_the_first_round_on(tmp_path):
    grid = LoopbackGrid(nodes_of(toy_app(noisy), 5))
    play(grid, rounds=3, availability=Markov(0.5, 3), folder=tmp_path)
    again = play(grid, rounds=6, availability=FixedDropout(0.4), folder=tmp_path)
    grid = LoopbackGrid(nodes_of(toy_app(noisy), 5))
    whole = play(grid, rounds=6, availability=FixedDropout(0.4))
    assert again.history == whole.history[3:]


@pytest.mark.process
def test_a_process_killed_with_9_leaves_the_last_finished_round(tmp_path):
    program = f"""
import os, sys
sys.path[:0] = {sys.path!r}
from tests.flower.test_resume import noisy
from tests.flower.loopback import LoopbackGrid, PretendTime, nodes_of
from tests.flower.toy import play, toy_app
from understudy import fdms
def after_round(t):
    if t == 4:
        os.kill(os.getpid(), 9)
play(LoopbackGrid(nodes_of(toy_app(noisy), 4)), fdms(), rounds=9, folder={str(tmp_path / "run")!r},
     after_round=after_round)
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True)
    assert done.returncode == -9, done.stderr.decode()
    again = play(
        LoopbackGrid(nodes_of(toy_app(noisy), 4)), fdms(), rounds=6, folder=tmp_path / "run"
    )
    assert len(again.history) == 2
    whole = play(LoopbackGrid(nodes_of(toy_app(noisy), 4)), fdms(), rounds=6)
    assert saved(again.server.state) == saved(whole.server.state)


def played_once_with_a_silent_client(folder, **options):
    """The grid, its nodes, and what the checkpoint says of client 2, which owes an answer."""
    nodes = nodes_of(toy_app(), 3)
    nodes[2].silent = lambda m: "understudy-introduce" not in m.content["config"]
    grid = LoopbackGrid(nodes)
    play(grid, rounds=1, folder=folder, **options)
    (busy,) = json.loads((json_of_extra(folder))["extra.busy"])
    assert (busy["client"], busy["node"]) == (2, nodes[2].id)
    nodes[2].silent = lambda m: False
    return grid, nodes, busy


BRIEFLY = {"deadline": 30.0, "late_for": 20.0, "fraction_evaluate": 0.0}


def test_whoever_owed_an_answer_after_the_last_round_is_not_asked_before_it_is_free(tmp_path):
    """The new run cannot hear of the old one's answers, so it goes by the clock."""
    first, nodes, _ = played_once_with_a_silent_client(tmp_path / "run", **BRIEFLY)
    options = {"folder": tmp_path / "run", **BRIEFLY}
    second = LoopbackGrid(nodes, first.time)
    again = play(second, rounds=3, after_round=lambda t: second.time.sleep(30), **options)
    assert [one["2"] for one in again.history] == ["unavailable", "came"]

    third = LoopbackGrid(nodes, first.time)
    nodes[2].restart()
    assert play(third, rounds=4, **options).history == [{"0": "came", "1": "came", "2": "came"}]


def test_a_wall_clock_set_back_between_two_runs_keeps_nobody_busy_for_longer(tmp_path):
    """The new run sees a request of the future: it was made now at the latest."""
    first, nodes, busy = played_once_with_a_silent_client(tmp_path / "run", **BRIEFLY)
    assert busy["asked_at"] == pytest.approx(1e9 + first.time.seconds - 30, abs=5)  # wall clock
    again = LoopbackGrid(nodes, PretendTime())  # another process, whose clock begins anew
    again.time.wall_set_by = first.time.seconds - 3600.0
    options = {"folder": tmp_path / "run", **BRIEFLY}
    played = play(again, rounds=4, after_round=lambda t: again.time.sleep(30), **options)
    assert [one["2"] for one in played.history] == ["unavailable", "unavailable", "came"]


def test_a_busy_client_that_is_back_under_a_new_node_id_has_restarted(tmp_path):
    """As a SuperNode without a registered key is; the request of the old run died with it."""
    options = {"fraction_evaluate": 0.0}
    first, nodes, _ = played_once_with_a_silent_client(tmp_path / "run", **options)
    options["folder"] = tmp_path / "run"
    (*_, restarted) = nodes_of(toy_app(), 3, first_id=900)
    again = play(LoopbackGrid([*nodes[:2], restarted], first.time), rounds=2, **options)
    assert again.history == [{"0": "came", "1": "came", "2": "came"}]


def test_those_asked_in_an_interrupted_round_are_asked_again(tmp_path):
    """Else nobody could be asked for as long as a late answer is waited for."""
    nodes = nodes_of(toy_app(), 3)
    for node in nodes:
        node.silent = lambda m: round_of(m) == 1
    first = LoopbackGrid(nodes)
    pull = first.pull_messages

    def killed_while_pulling(ids):
        if round_of(first.sent[-1]) == 1:
            raise Killed
        return pull(ids)

    first.pull_messages = killed_while_pulling
    options = {"folder": tmp_path / "run", "fraction_evaluate": 0.0}
    with pytest.raises(Killed):
        play(first, rounds=2, **options)
    assert json.loads((json_of_extra(tmp_path / "run"))["extra.busy"]) == []
    for node in nodes:
        node.silent = lambda m: False
    again = play(LoopbackGrid(nodes, first.time), rounds=2, **options)
    assert again.history == [dict.fromkeys("012", "came")]


def json_of_extra(folder):
    from understudy.server.checkpoint import numbers_of

    return numbers_of(folder / "server")


def test_another_model_or_strategy_is_refused_by_name(tmp_path):
    options = {"folder": tmp_path / "run"}
    play(LoopbackGrid(nodes_of(toy_app(), 2)), fdms(), **options)
    with pytest.raises(CheckpointError, match="compensator is FDMS there, MIFA here"):
        play(LoopbackGrid(nodes_of(toy_app(), 2)), STRATEGIES["mifa"], **options)
    grid = LoopbackGrid(nodes_of(toy_app(), 2))
    adapter = UnderstudyStrategy(fdms(), clock=grid.time.clock(), **options)
    with pytest.raises(CheckpointError, match=r"holds another model: 'w' is .*\[3\].* there"):
        adapter.start(grid, first_arrays(width=4))


ROSTER = [{"id": "0"}, {"id": "1"}]
BUSY = {"client": 1, "node": 101, "activated": "", "asked_at": 1e9}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("model", "{"),
        ("model", "[" * 100_000),
        ("model", "[]"),
        ("model", '{"names": ["w"], "shapes": [[3]], "dtypes": ["float32"], "in_vector": [7]}'),
        ("model", '{"names": ["w"], "shapes": [[3]], "dtypes": ["float32"], "in_vector": [0, 0]}'),
        ("roster", ""),
        ("roster", "3"),
        ("roster", "[]"),
        ("roster", "[1, 2]"),
        ("roster", json.dumps([*ROSTER, {"id": "2"}])),
        ("roster", json.dumps([{"id": "0"}, {"id": "0"}])),
        ("roster", json.dumps([{"id": "0"}, {"id": 1}])),
        ("roster", json.dumps([{"id": "0"}, {"id": "1", "node": "far"}])),
        ("roster", json.dumps([{"id": "0"}, {"id": "1", "retired": "yes"}])),
        ("roster", json.dumps([{"id": "0"}, {"id": "1", "more": 1}])),
        ("busy", "nobody"),
        ("busy", '{"client": 1}'),
        ("busy", '[{"client": 1}]'),
        ("busy", json.dumps([{**BUSY, "client": 2}])),
        ("busy", json.dumps([{**BUSY, "client": True}])),
        ("busy", json.dumps([{**BUSY, "asked_at": "now"}])),
        ("busy", json.dumps([{**BUSY, "asked_at": float("inf")}])),
        ("busy", json.dumps([{**BUSY, "asked_at": 10**400}])),
    ],
)
def test_a_crafted_checkpoint_is_one_error_that_names_the_file(name, text, tmp_path):
    options = {"folder": tmp_path / "run", "rounds": 2}
    play(LoopbackGrid(nodes_of(toy_app(), 2)), **{**options, "rounds": 1})
    path = tmp_path / "run" / "server" / "state.safetensors"
    about, tensors = contents_of(path)
    whole = {**about, "numbers": dict(about["numbers"])}
    about["numbers"][f"extra.{name}"] = text
    write_crafted(path, about, tensors)
    with pytest.raises(CheckpointError, match=r"/run\b"):
        play(LoopbackGrid(nodes_of(toy_app(), 2)), **options)
    if name == "roster":
        with pytest.raises((CheckpointError, ValueError), match=r"state\.safetensors|a client"):
            request_retirement(tmp_path / "run", "nobody")
    write_crafted(path, whole, tensors)
    assert len(play(LoopbackGrid(nodes_of(toy_app(), 2)), **options).history) == 1


def test_a_run_that_is_done_is_not_played_again(tmp_path):
    options = {"folder": tmp_path / "run", "rounds": 2}
    first = play(LoopbackGrid(nodes_of(toy_app(), 2)), **options)
    again = play(LoopbackGrid([]), **options)
    assert again.history == []
    np.testing.assert_array_equal(
        again.result.arrays["w"].numpy(), first.result.arrays["w"].numpy()
    )


def test_the_log_is_in_the_store_and_tables_pictures_and_report_work(tmp_path):
    runs, folder = tmp_path / "runs", tmp_path / "run"

    def some_rounds(rounds, strategy, label, folder, crash=None):
        def after_round(t):
            if t == crash:
                raise Killed

        return play(
            LoopbackGrid(nodes_of(toy_app(noisy), 5)),
            strategy,
            rounds=rounds,
            folder=folder,
            availability=FixedDropout(0.4),
            after_round=after_round,
            ledger=LiveLog(runs, "clinics", label),
        )

    with pytest.raises(Killed):
        some_rounds(6, fdms(), "fdms", folder, crash=3)
    with Store.open(runs) as store:
        (cell,) = store.cells("clinics")
        assert (cell.status, cell.rounds) == ("failed", 3)
    some_rounds(6, fdms(), "fdms", folder)
    some_rounds(6, STRATEGIES["mifa"], "mifa", tmp_path / "other")
    with Store.open(runs) as store:
        cells = store.cells("clinics")
        assert [(cell.labels["strategy"], cell.status, cell.rounds) for cell in cells] == [
            ("fdms", "done", 6),
            ("mifa", "done", 6),
        ]
        assert cells[0].facts["names"] == ["0", "1", "2", "3", "4"]
        assert cells[0].facts["sizes"] == [1, 2, 3, 4, 5]
        logs = list(store.logs(cells[0].key))
    outcomes = read_outcomes(folder)
    for log in logs:
        told = {one.client: one.outcome for one in outcomes if one.t == log.t}
        assert {i: Outcome(int(became)) for i, became in enumerate(log.outcome)} == told
    rounds = results(runs, level="round", study="clinics")
    assert rounds["test_accuracy"].tolist()[:6] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    assert rounds["came"].tolist()[:6] == [3] * 6
    clients = results(runs, level="client", study="clinics")
    assert clients["wanted"].tolist() == [6] * 10
    page = write_report(runs, "clinics").read_text()
    assert "live federation" in page
    assert "flwr run with the same folder" in page
    assert "made in Python" not in page
    assert "5 clients with 1 to 5 training examples each" in page


def test_the_store_takes_absolute_folders_only():
    with pytest.raises(ValueError, match="folder: expected an absolute path"):
        LiveLog("runs")
