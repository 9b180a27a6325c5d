"""Texts that clients choose, metrics' names and errors: none is taken for the run's, or obeyed."""

import io
import json
import logging
import re
from contextlib import contextmanager

import numpy as np
import pytest
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from tests.cli import Command
from tests.flower.loopback import LoopbackGrid, nodes_of
from tests.flower.toy import first_arrays, play, reply_of, toy_app
from understudy.flower import UnderstudyStrategy, introduction, read_outcomes
from understudy.flower.messages import names
from understudy.flower.messages.metrics import LONGEST_NAME, MOST_METRICS, named
from understudy.studies import LiveLog, results
from understudy.studies.store.store import Store

ESCAPES = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202e\x00"  # clear, title, colour, direction
HOSTILE = f"gone{ESCAPES}wrong"


@contextmanager
def flowers_log():
    """The bytes that Flower's logger sends to a stream, and so to a terminal."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="utf-8", write_through=True)
    handler = logging.StreamHandler(stream)
    logger = logging.getLogger("flwr")
    logger.addHandler(handler)
    try:
        yield raw
    finally:
        logger.removeHandler(handler)
        stream.detach()  # or it would close the bytes


def assert_plain(raw: bytes) -> None:
    """Lines and tabs, and no other control character, C1 ones included."""
    text = raw.decode("utf-8")
    assert re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text) is None


def everyone_reports(**metrics):
    """An app whose clients all report these metrics in training and in evaluation."""
    app = ClientApp(mods=[introduction()])

    @app.train()
    def train(message, context):
        return reply_of(message, message.content.array_records["arrays"], 1, **metrics)

    @app.evaluate()
    def evaluate(message, context):
        numbers = MetricRecord({"num-examples": 1, **metrics})
        return Message(RecordDict({"metrics": numbers}), reply_to=message)

    return app


# -- names of metrics ------------------------------------------------------------------------------

CLAIMS = {
    **{f"{part}_accuracy": 1.0 for part in ("test", "validation", "train")},
    **dict.fromkeys(["accuracy", "accuracy_last10", "test_loss", "oracle_error", "strategy"], 2.0),
    **dict.fromkeys(["t", "seed", "came", "clock", "refused", "megabytes_up", "status"], 99.0),
}


@pytest.mark.parametrize("with_evaluate_fn", [False, True])
def test_no_name_of_a_client_is_taken_for_a_measure_of_the_run(
    tmp_path, capsys, monkeypatch, with_evaluate_fn
):
    grid = LoopbackGrid(nodes_of(everyone_reports(**CLAIMS), 3))
    ledger = LiveLog(tmp_path, study="clinics", strategy="mean")
    adapter = UnderstudyStrategy(clock=grid.time.clock(), ledger=ledger)
    adapter.start(
        grid,
        first_arrays(),
        num_rounds=2,
        evaluate_fn=(lambda *_: MetricRecord({"accuracy": 0.25})) if with_evaluate_fn else None,
    )

    own = {"test_accuracy": 0.25} if with_evaluate_fn else {}
    with Store.open(tmp_path) as store:
        (cell,) = store.cells("clinics")
        for log in store.logs(cell.key):
            theirs = {name for name in log.metrics if name.startswith("clients_")}
            assert {name: log.metrics[name] for name in log.metrics.keys() - theirs} == own
            assert log.metrics["clients_test_accuracy"] == 1.0  # kept, as what it is
            assert log.metrics["clients_train_test_accuracy"] == 1.0
    rounds = results(tmp_path, level="round", study="clinics")
    assert rounds["t"].tolist() == [0, 1]
    assert rounds["came"].tolist() == [3, 3]
    assert rounds["seed"].tolist() == [0, 0]
    assert rounds["strategy"].tolist() == ["mean", "mean"]
    (run,) = results(tmp_path, study="clinics").to_dict("records")
    assert {run.get("accuracy_last10", 0.25), run.get("accuracy_best", 0.25)} == {0.25}
    assert ("accuracy_last10" in run) == with_evaluate_fn
    assert not run.keys() & {"train_accuracy_last", "validation_accuracy_last", "oracle_error"}
    assert run["clients_accuracy_last"] == 2.0

    command = Command(capsys, monkeypatch)
    shown = command("show", "clinics", "--folder", tmp_path)
    assert ("25.0 %" in shown.out) == with_evaluate_fn
    assert "100.0 %" not in shown.out
    table = command("table", "clinics", "--folder", tmp_path)
    assert table.code == 0, table.err
    assert ("reported by" in " ".join(table.out.split())) != with_evaluate_fn


ALIKE = {  # prefix, what was measured, what the log has
    "loss and train_loss": (
        names.BY_CLIENTS_IN_TRAINING,
        {"train_loss": 0.5, "loss": 9.0},
        {"clients_train_train_loss": 0.5, "clients_train_loss": 9.0},
    ),
    "three of the same end": (
        names.BY_CLIENTS_IN_TRAINING,
        {"clients_train_loss": 1.0, "train_loss": 2.0, "train_train_loss": 3.0},
        {"clients_train_clients_train_loss": 1.0, "clients_train_loss": 2.0}
        | {"clients_train_train_loss": 3.0},
    ),
    "evaluation": (
        names.BY_CLIENTS,
        {"accuracy": 0.1, "clients_accuracy": 0.99},
        {"clients_accuracy": 0.1, "clients_clients_accuracy": 0.99},
    ),
    "not a number": (
        names.BY_CLIENTS,
        {"accuracy": float("nan"), "clients_accuracy": 0.99},
        {"clients_clients_accuracy": 0.99},
    ),
    "the server": (
        names.BY_SERVER,
        {"accuracy": 0.3, "test_accuracy": 0.9},
        {"test_accuracy": 0.3, "test_test_accuracy": 0.9},
    ),
}


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("case", ALIKE)
def test_a_metric_never_takes_the_place_of_another(case, backwards):
    prefix, measured, expected = ALIKE[case]
    record = MetricRecord(dict(sorted(measured.items(), reverse=backwards)))
    assert named(record, prefix) == expected


def test_an_evaluation_does_not_overwrite_what_was_said_in_training(tmp_path):
    app = ClientApp(mods=[introduction()])

    @app.train()
    def train(message, context):
        return reply_of(message, message.content.array_records["arrays"], 1, train_loss=0.5)

    @app.evaluate()
    def evaluate(message, context):
        numbers = {"num-examples": 1, "train_loss": 7.0, "clients_train_loss": 8.0, "loss": 2.0}
        return Message(RecordDict({"metrics": MetricRecord(numbers)}), reply_to=message)

    with flowers_log() as raw:
        play(LoopbackGrid(nodes_of(app, 2)), folder=tmp_path)
    (line,) = (tmp_path / "rounds.jsonl").read_text().splitlines()
    metrics = json.loads(line)["metrics"]
    theirs = {name: metrics[name] for name in metrics if name.startswith("clients_")}
    assert theirs == {"clients_train_loss": 0.5, "clients_loss": 2.0}
    assert (
        "2 metrics of evaluation are not logged: expected names that do not begin with train_, as "
        "those of training do, got ['train_loss', 'clients_train_loss']"
    ) in raw.getvalue().decode()


@pytest.mark.parametrize("n_clients", [2, 3])
def test_the_first_client_does_not_choose_the_metrics(n_clients):
    def behave(message, context):
        metrics = {"loss": 1.0} if context.node_config["partition-id"] else {"loss": 5.0, "f1": 1.0}
        return reply_of(message, message.content.array_records["arrays"], 1, **metrics)

    with flowers_log() as raw:
        adapter = play(LoopbackGrid(nodes_of(toy_app(behave), n_clients)))
    assert set(adapter.history[0].values()) == {"came"}
    found = adapter.result.train_metrics_clientapp
    assert {t: dict(means) for t, means in found.items()} == (
        {1: {"loss": 1.0}} if n_clients == 3 else {}
    )
    tie = "metrics of 2 clients are left out: two sets of keys are reported by 1 each"
    assert (tie in raw.getvalue().decode()) == (n_clients == 2)


def test_metrics_of_odd_names_are_left_out_and_the_others_used():
    longest = "x" * LONGEST_NAME

    def behave(message, context):
        number, arrays = context.node_config["partition-id"], message.content.array_records
        fine = {"train_loss": float(number), longest: 1.0}
        odd = {ESCAPES: 1.0, "a\nb": 1.0, longest + "x": 1.0, "": 1.0}
        return reply_of(message, arrays["arrays"], 1, **fine, **(odd if number == 1 else {}))

    with flowers_log() as raw:
        adapter = play(LoopbackGrid(nodes_of(toy_app(behave), 3)))
    assert set(adapter.history[0].values()) == {"came"}
    assert dict(adapter.result.train_metrics_clientapp[1]) == {"train_loss": 1.0, longest: 1.0}
    assert_plain(raw.getvalue())
    (line,) = [one for one in raw.getvalue().decode().splitlines() if "left out" in one]
    assert line.startswith(
        "1: 4 of its metrics are left out: expected printable names of at most 80 characters, at "
        "most 100 of them, got '\\x1b[2J"
    )


def test_metrics_beyond_the_number_allowed_are_left_out():
    counted = {f"m{place:03}": float(place) for place in range(MOST_METRICS + 5)}
    grid = LoopbackGrid(nodes_of(everyone_reports(**counted), 2))
    with flowers_log() as raw:
        adapter = play(grid)
    first = {f"m{place:03}": float(place) for place in range(MOST_METRICS)}
    assert dict(adapter.result.train_metrics_clientapp[1]) == first
    assert dict(adapter.result.evaluate_metrics_clientapp[1]) == first
    assert raw.getvalue().decode().count("5 of its metrics are left out") == 4  # 2 clients, twice


def test_the_users_own_aggregation_sees_no_odd_names():
    seen = []

    def noting(replies, key):
        seen.extend(sorted(record) for one in replies for record in one.metric_records.values())
        assert all("arrays" in one.array_records for one in replies)
        return MetricRecord({"train_loss": 0.5})

    grid = LoopbackGrid(nodes_of(everyone_reports(**{"train_loss": 1.0, "\x1b": 1.0}), 2))
    play(grid, train_metrics_aggr_fn=noting)
    assert seen == [["num-examples", "train_loss"]] * 2


# -- errors ----------------------------------------------------------------------------------------


def test_no_error_of_a_client_steers_the_servers_log(tmp_path):
    """One raises, one sends an array of such a name; the bytes are those that a terminal gets."""

    def behave(message, context):
        number = context.node_config["partition-id"]
        if number == 0:
            raise RuntimeError(HOSTILE)
        if number == 1:
            arrays = message.content.array_records["arrays"]
            return reply_of(message, ArrayRecord({HOSTILE: arrays["w"]}), 1)
        return None

    grid = LoopbackGrid(nodes_of(toy_app(behave), 3))
    with flowers_log() as raw:
        adapter = play(grid, folder=tmp_path / "run")
    assert adapter.history[0] == {"0": "error", "1": "refused", "2": "came"}
    assert_plain(raw.getvalue())
    text = raw.getvalue().decode()
    assert "\t> 0: error (error 2: " in text
    assert "gone\ufffd[2J\ufffd]0;owned" in text
    for one in [*adapter.outcomes, *read_outcomes(tmp_path / "run")]:
        assert_plain(one.detail.encode())
        assert "\n" not in one.detail


def test_a_client_cannot_add_lines_to_the_servers_log(monkeypatch):
    """Whatever part of a line is its own: here, what Flower says of bytes that it cannot read."""
    grid = LoopbackGrid(nodes_of(toy_app(), 2))
    pull = grid.pull_messages

    def broken(names):
        for reply in pull(names):
            if reply.metadata.message_type == "train" and reply.has_content():
                raise ValueError("bad\naggregate_train: 2 came\x1b[2J")
        return []

    monkeypatch.setattr(grid, "pull_messages", broken)
    with flowers_log() as raw:
        play(grid, introduce=False, clients=["a"], fraction_evaluate=0.0)
    assert_plain(raw.getvalue())
    lines = raw.getvalue().decode().splitlines()
    assert any("bad aggregate_train: 2 came" in line for line in lines)
    assert not [line for line in lines if line.startswith("aggregate_train: 2 came")]


def test_a_weighted_mean_is_what_it_was():
    adapter = play(LoopbackGrid(nodes_of(toy_app(), 3)))
    loss = np.average([0.0, 1.0, 2.0], weights=[1, 2, 3])
    assert adapter.result.train_metrics_clientapp[1]["train_loss"] == pytest.approx(loss)
