"""A run that has a folder goes on where it stopped, to the same bits, or says why it does not."""

from __future__ import annotations

import copy
import functools
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from tests.server.test_kill import WAIT, Child
from tests.simulation.small import all_facts, facts
from understudy import (
    FDMS,
    Bernoulli,
    Blind,
    CheckpointError,
    Combined,
    Deadline,
    Extrapolated,
    Failure,
    FedGS,
    FixedDropout,
    FolderInUse,
    Latency,
    Local,
    Markov,
    Momentum,
    NormGuard,
    Stale,
    Strategy,
    fedexp,
    mifa,
    power_of_choice,
    scaffold,
)
from understudy.core.rng import generator
from understudy.server import loop
from understudy.simulation import Federation, Run, clustered_digits, simulate
from understudy.simulation.training.trainers import loop_trainer as training
from understudy.testing import snapshot

ROUNDS = 6
LOCAL = Local(lr=0.1, epochs=1, batch_size=8)


@functools.cache
def data() -> Federation:
    whole = clustered_digits(n_clients=10, n_clusters=5, per_client=24, seed=1)
    held = tuple(mine[:4] for mine in whole.clients)
    clients = tuple(mine[4:] for mine in whole.clients)
    return replace(whole, clients=clients, validation=held)


def first(outputs: torch.Tensor, labels: torch.Tensor) -> float:
    """A metric of the user's own."""
    return float(outputs[0, 0])


def second(outputs: torch.Tensor, labels: torch.Tensor) -> float:
    return float(outputs[0, 1])


def halved(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return cross_entropy(outputs, labels) / 2


def normed() -> nn.Module:
    # a large eps: remembered steps can carry running variances of blank pixels below zero
    norm = nn.BatchNorm1d(64, eps=1.0)
    return nn.Sequential(nn.Flatten(), norm, nn.Dropout(0.2), nn.Linear(64, 10))


# memory with late updates in flight; variates; friends, a sampler and a guard; nothing at all;
# losses that clients are asked for; a server that sees rows, means of models
DELAY = Deadline(Combined(Failure(0.1), Latency(step_spread=1.0, seed=1)), seconds=0.12)
SETTINGS: dict[str, dict[str, Any]] = {
    "memory": {
        "strategy": mifa(wait=False, local=LOCAL, server=Momentum(lr=0.1)),
        "model": normed,
        "availability": Markov(0.6, 2),
        "delay": DELAY,
        "oracle": True,
    },
    "variates": {
        "strategy": scaffold(local=LOCAL),
        "model": "softmax",
        "availability": Bernoulli(p_min=0.3),
        "delay": DELAY,
    },
    "friends": {
        "strategy": Strategy(
            sampler=Blind(FedGS(m=6)), compensator=FDMS(), local=LOCAL, guard=NormGuard()
        ),
        "model": "mlp",
        "availability": FixedDropout(0.5),
    },
    "models": {
        "strategy": Strategy(compensator=Stale("model"), local=LOCAL),
        "model": "softmax",
        "availability": Markov(0.5, 3),
    },
    "means": {
        "strategy": fedexp(
            local=LOCAL, server=Extrapolated(Momentum(beta=0.5), epsilon=0.0, damping=0.5)
        ),
        "model": "softmax",
        "availability": Bernoulli(p_min=0.3),
        "evaluate_mean_of": 3,
    },
    "losses": {
        "strategy": power_of_choice(4, candidates=7, local=LOCAL),
        "model": "mlp",
        "availability": Bernoulli(p_min=0.5),
    },
}


def call(folder: Path | None, setting: str = "memory", **changes: Any) -> Run:
    arguments = {
        "rounds": ROUNDS,
        "seed": 3,
        "metrics": {"first": first},
        "evaluate": ("test", "validation"),
        "per_client_every": 2,
        "workers": 1,
        **SETTINGS[setting],
        **changes,
    }
    strategy = arguments.pop("strategy")
    federation = arguments.pop("federation", data())
    return simulate(federation, strategy, folder=folder, **arguments)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Each setting played through without a stop: (facts of the logs, state), both to the bit."""

    @functools.cache
    def played(setting: str) -> tuple[list[dict[str, Any]], str]:
        run = call(tmp_path_factory.mktemp("whole"), setting)
        logs = all_facts(run)
        return logs, snapshot(run.state)

    return played


def play(folder: Path, setting: str, n_rounds: int, **changes: Any) -> None:
    """Play until so many rounds are logged, and break off."""
    with call(folder, setting, **changes) as run:
        for log in run:
            if log.t + 1 >= n_rounds:
                break


# -- stopped and resumed ---------------------------------------------------------------------------


@pytest.mark.parametrize("setting", SETTINGS)
def test_broken_off_at_any_round_it_goes_on_to_the_same_bits(setting, whole, tmp_path):
    logs, state = whole(setting)
    for stop in range(1, ROUNDS):
        folder = tmp_path / str(stop)
        play(folder, setting, stop)
        run = call(folder, setting)
        assert run.state.t == stop
        assert all_facts(run) == logs
        assert snapshot(run.state) == state
        assert run.frame()["t"].tolist() == list(range(ROUNDS))


@pytest.mark.parametrize("setting", SETTINGS)
def test_stopped_after_every_single_round(setting, whole, tmp_path):
    logs, state = whole(setting)
    for stop in range(1, ROUNDS + 1):
        play(tmp_path, setting, stop)
    run = call(tmp_path, setting)
    assert run.state.t == ROUNDS
    assert all_facts(run) == logs
    assert snapshot(run.state) == state


def test_there_was_something_at_stake():
    """Late updates in flight at most stops, memories, absences."""
    run = call(None, "memory")
    in_flight = [len(run._own.flight.ids) for _ in run]
    assert sum(n > 0 for n in in_flight) >= 4
    outcomes = {int(outcome) for log in call(None, "memory") for outcome in log.outcome}
    assert outcomes >= {0, 1, 3, 4}  # came, late, unavailable, missing


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_folder_changes_no_bit(setting, whole):
    assert all_facts(call(None, setting)) == whole(setting)[0]


def test_the_same_call_on_a_finished_run_yields_what_is_stored(whole, tmp_path):
    list(call(tmp_path))
    before = (tmp_path / "rounds.jsonl").read_bytes()
    run = call(tmp_path)
    assert all_facts(run) == whole("memory")[0]
    assert (tmp_path / "rounds.jsonl").read_bytes() == before
    timed = [dict(log.timings) for log in call(tmp_path)]
    assert all(timing["round"] > 0 for timing in timed), "timings are stored too"


def test_a_run_left_alone_before_its_first_round(whole, tmp_path):
    call(tmp_path).close()
    run = call(tmp_path)
    assert run.state.t == 0
    assert all_facts(run) == whole("memory")[0]


def test_breaking_off_among_the_stored_logs_and_going_on(whole, tmp_path):
    """Iterating again goes on where it stopped, whoever made the logs."""
    play(tmp_path, "memory", 4)
    run = call(tmp_path)
    seen = []
    for stop in (1, 2, 5):
        for log in run:
            seen.append(facts(log))
            if log.t + 1 >= stop:
                break
    seen += all_facts(run)
    assert seen == whole("memory")[0]
    assert run.frame()["t"].tolist() == list(range(ROUNDS))


def test_rounds_may_be_raised(whole, tmp_path):
    run = call(tmp_path, rounds=2)
    assert len(list(run)) == 2
    assert len(list(call(tmp_path, rounds=4))) == 4
    run = call(tmp_path)
    logs = list(run)
    assert [log.t for log in logs] == list(range(ROUNDS))
    expected, state = whole("memory")
    assert snapshot(run.state) == state
    for log, other in zip(all_facts(logs), expected, strict=True):
        # what was a last round was evaluated client by client, too
        assert log | {"client_metrics": None} == other | {"client_metrics": None}


def test_rounds_may_be_lowered_and_nothing_is_lost(whole, tmp_path):
    play(tmp_path, "memory", 4)
    assert all_facts(call(tmp_path, rounds=2)) == whole("memory")[0][:2]
    assert all_facts(call(tmp_path)) == whole("memory")[0]


def test_evaluation_may_come_less_often(whole, tmp_path):
    play(tmp_path, "memory", 2)
    run = call(tmp_path, evaluate_every=3)
    logs = list(run)
    assert [log.t for log in logs if log.metrics] == [0, 1, 2, 5]
    assert snapshot(run.state) == whole("memory")[1]


@pytest.mark.process
def test_workers_may_change(whole, tmp_path, monkeypatch):
    """Worth it or not: all clients through worker processes in the middle of the run."""
    monkeypatch.setattr(training, "WORTH_WORKERS", 0)
    play(tmp_path, "memory", 2, workers=1)
    play(tmp_path, "memory", 4, workers=2)
    run = call(tmp_path, workers=1)
    assert all_facts(run) == whole("memory")[0]
    assert snapshot(run.state) == whole("memory")[1]


@pytest.mark.parametrize("setting", ["variates", "friends"])
@pytest.mark.process
def test_workers_change_no_bit(setting, whole, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "WORTH_WORKERS", 0)
    run = call(tmp_path, setting, workers=2)
    assert all_facts(run) == whole(setting)[0]
    assert snapshot(run.state) == whole(setting)[1]


# -- refused by name -------------------------------------------------------------------------------


def spoilt_labels() -> Federation:
    labels = data().y.clone()
    labels[0] = (labels[0] + 1) % 10
    return replace(data(), y=labels)


def moved_example() -> Federation:
    clients = list(data().clients)
    clients[1], clients[0] = np.append(clients[1], clients[0][0]), clients[0][1:]
    return replace(data(), clients=tuple(clients))


def other_weights() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return normed()


STRATEGY = SETTINGS["memory"]["strategy"]
OTHERS: dict[str, tuple[dict[str, Any], str]] = {
    "seed": ({"seed": 4}, "seed is 3 there, 4 here"),
    "parameter of the availability": (
        {"availability": Markov(0.6, 3)},
        "availability.session is 2 there, 3 here",
    ),
    "availability": (
        {"availability": Bernoulli(p_min=0.3)},
        "availability is Markov there, Bernoulli here",
    ),
    "availability without a state": ({"availability": None}, "availability is Markov there, Alw"),
    "parameter of the delay": (
        {"delay": replace(DELAY, seconds=0.2)},
        "delay.seconds is 0.12 there, 0.2 here",
    ),
    "nested delay": (
        {"delay": Deadline(Combined(Failure(0.2), DELAY.latency.second), 0.12)},
        "delay.latency.first.p is 0.1 there, 0.2 here",
    ),
    "delay": ({"delay": Failure(0.1)}, "delay is Deadline there, Failure here"),
    "no delay": ({"delay": None}, "delay is .* there, None here"),
    "labels": ({"federation": "spoilt_labels"}, "data is '[0-9a-f]+' there, '[0-9a-f]+' here"),
    "who holds what": ({"federation": "moved_example"}, "data is"),
    "no validation": ({"federation": "no_validation"}, "data is"),
    "groups": ({"federation": "no_groups"}, "data is"),
    "model": ({"model": "softmax"}, "model is '[0-9a-f]+' there, '[0-9a-f]+' here"),
    "first weights": ({"model": other_weights}, "model is"),
    "loss": ({"loss": halved}, "loss is .*cross_entropy.* there, .*halved.* here"),
    "another metric": ({"metrics": {"first": second}}, "metrics.first is .*first.*second"),
    "one more metric": (
        {"metrics": {"first": first, "other": second}},
        "metrics.other is None there, .*second",
    ),
    "no metrics": ({"metrics": None}, "metrics.first is .*first.* there, None here"),
    "evaluate": ({"evaluate": ("test",)}, r"evaluate is \['test', 'validation'\] there, \['test"),
    "per_client_every": ({"per_client_every": 0}, "per_client_every is 2 there, 0 here"),
    "oracle": ({"oracle": False}, "oracle is True there, False here"),
    "field of the strategy": (
        {"strategy": replace(STRATEGY, local=replace(LOCAL, lr=0.2))},
        "local.lr is 0.1 there, 0.2 here",
    ),
    "part of the strategy": (
        {"strategy": replace(STRATEGY, compensator=Stale())},
        "compensator is MIFA there, Stale here",
    ),
    "part's parameter": (
        {"strategy": replace(STRATEGY, server=Momentum(lr=0.25))},
        "server.lr is 0.1 there, 0.25 here",
    ),
}
FEDERATIONS = {
    "spoilt_labels": spoilt_labels,
    "moved_example": moved_example,
    "no_validation": lambda: replace(data(), validation=None),
    "no_groups": lambda: replace(data(), groups=None),
}


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("kept")
    play(folder, "memory", 3)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path): path.read_bytes() for path in files if path.name not in ("lock", "writer")}


@pytest.mark.parametrize("what", OTHERS)
def test_anything_else_that_differs_is_refused_by_name(what, kept):
    changes, words = OTHERS[what]
    changes = dict(changes)
    if "federation" in changes:
        changes["federation"] = FEDERATIONS[changes["federation"]]()
        if changes["federation"].validation is None:
            changes["evaluate"] = ("test",)
    before = contents(kept)
    with pytest.raises(CheckpointError, match=words) as refused:
        call(kept, **changes)
    assert str(kept) in str(refused.value)
    assert contents(kept) == before


def test_after_all_refusals_the_right_call_goes_on(whole, kept):
    run = call(kept)
    assert run.state.t == 3
    assert all_facts(run) == whole("memory")[0]


@pytest.mark.parametrize(
    "changes",
    [
        {"loss": functools.partial(cross_entropy, label_smoothing=0.1)},
        {"loss": nn.CrossEntropyLoss(label_smoothing=0.1)},
        {"metrics": {"other": functools.partial(torch.nn.functional.cross_entropy)}},
        {"availability": FixedDropout(np.float64(0.5))},
    ],
    ids=["partial", "module", "metric", "number"],
)
def test_objects_are_told_by_what_they_are_not_by_where_they_lie(changes, tmp_path):
    """In the next process they lie elsewhere."""
    run = call(tmp_path, "models", **changes)
    assert " at 0x" not in run._own.about
    next(iter(run))
    run.close()
    assert all_facts(call(tmp_path, "models", **copy.deepcopy(changes))) == all_facts(
        call(None, "models", **changes)
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            functools.partial(cross_entropy, label_smoothing=0.1),
            functools.partial(cross_entropy, label_smoothing=0.2),
        ),
        (nn.CrossEntropyLoss(label_smoothing=0.1), nn.CrossEntropyLoss(label_smoothing=0.2)),
    ],
    ids=["partial", "module"],
)
def test_a_loss_with_another_setting_is_another_loss(one, other, tmp_path):
    play(tmp_path, "models", 2, loss=one)
    with pytest.raises(CheckpointError, match="loss"):
        call(tmp_path, "models", loss=other)


# -- errors in the middle --------------------------------------------------------------------------

_failing_calls = 0  # evaluations from now on until one fails; 0: none does


def fragile(outputs: torch.Tensor, labels: torch.Tensor) -> float:
    """A metric that may fail."""
    global _failing_calls
    _failing_calls -= 1
    if _failing_calls == 0:
        raise ArithmeticError("a metric of the user's")
    return 0.5


def gone_on(run: Run) -> tuple[list[dict[str, Any]], BaseException | None]:
    """The logs of a run, and the error that ended it."""
    seen: list[dict[str, Any]] = []
    try:
        seen.extend(facts(log) for log in run)
    except Exception as error:
        return seen, error
    return seen, None


@pytest.mark.parametrize("with_folder", [True, False])
def test_an_error_in_a_round_never_costs_a_log(with_folder, tmp_path, monkeypatch):
    """The metric fails in round 3. Going on with the same run repeats it, or says why it cannot."""
    options = {"metrics": {"fragile": fragile}, "evaluate": ("test",), "per_client_every": 0}
    folder = tmp_path / "run" if with_folder else None
    expected = all_facts(call(None, **options))
    monkeypatch.setattr(loop, "COMMIT_EVERY", 0.0)
    monkeypatch.setattr(sys.modules[__name__], "_failing_calls", 4)
    run = call(folder, **options)
    seen, error = gone_on(run)
    assert isinstance(error, ArithmeticError)
    assert seen == expected[:3]
    rest, error = gone_on(run)
    if error is None:
        assert seen + rest == expected
    else:
        assert rest == []
        assert "round" in str(error)
    run.close()
    if with_folder:
        assert all_facts(call(folder, **options)) == expected


def test_a_log_file_that_was_cut_is_an_error_and_the_folder_is_free_again(tmp_path):
    play(tmp_path, "models", 3)
    path = tmp_path / "rounds.jsonl"
    stored = path.read_bytes()
    path.write_bytes(stored[:-20])
    for _ in range(2):  # the first refusal must not keep the folder locked
        with pytest.raises((ValueError, CheckpointError), match=r"rounds.jsonl: .*3 rounds"):
            call(tmp_path, "models")
    path.write_bytes(stored)
    assert len(list(call(tmp_path, "models"))) == ROUNDS


# -- one writer ------------------------------------------------------------------------------------


def test_a_second_writer_is_refused(tmp_path):
    run = call(tmp_path)
    next(iter(run))
    with pytest.raises(FolderInUse, match=f"pid {os.getpid()} on {socket.gethostname()}"):
        call(tmp_path)
    assert len(list(run)) == ROUNDS - 1
    assert len(list(call(tmp_path))) == ROUNDS  # a finished run lets go of its folder


# -- killed ----------------------------------------------------------------------------------------

ROOT = Path(__file__).parents[2]
PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from tests.simulation.test_resume import main
main(*sys.argv[2:])
"""
MANY = 40  # rounds of a run that is killed
SLOWLY = 0.2  # seconds a round: there are many left when a signal arrives


def main(folder: str, commit_every: str, workers: str, pace: str) -> None:
    """The child: the same call, whoever was killed before; `pace` seconds between two rounds."""
    loop.COMMIT_EVERY = float(commit_every)
    training.WORTH_WORKERS = 0
    try:
        for log in call(Path(folder), rounds=MANY, workers=int(workers), metrics=None):
            print("round", log.t, flush=True)
            time.sleep(float(pace))
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        raise
    print("finished", flush=True)


def child(folder: Path, commit_every: float, workers: int, pace: float = 0.01) -> Child:
    settings = (str(commit_every), str(workers), str(pace))
    return Child("-c", PROGRAM, str(ROOT), str(folder), *settings)


def killed(folder: Path, number: int, workers: int) -> None:
    """A child is killed after some rounds of its own, at a random moment."""
    rng = generator(number, "kill a simulation")
    with child(folder, float(rng.choice([0.0, 0.02, 2.0])), workers) as process:
        process.wait_for("round")
        time.sleep(rng.uniform(0.0, 0.3))
        process.kill()
        assert process.process.returncode in (-signal.SIGKILL, 0)


@functools.cache
def uninterrupted() -> tuple[list[dict[str, Any]], torch.Tensor]:
    run = call(None, rounds=MANY, metrics=None)
    logs = list(run)
    assert all(np.isfinite(log.metrics["test_loss"]) for log in logs), "a run worth comparing"
    return all_facts(logs), run.state.params


def assert_resumes(folder: Path) -> None:
    run = call(folder, rounds=MANY, metrics=None)
    logs, params = uninterrupted()
    assert all_facts(run) == logs
    assert torch.equal(run.state.params, params)


@pytest.mark.timeout(900)
@pytest.mark.process
def test_a_few_kills_change_no_bit(tmp_path):
    for number in range(3):
        killed(tmp_path, number, workers=1)
    assert_resumes(tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.process
def test_many_kills_change_no_bit(tmp_path, workers):
    for number in range(12):
        folder = tmp_path / str(number // 4)
        killed(folder, 100 + number, workers)
        if number % 4 == 3:
            assert_resumes(folder)


@pytest.mark.timeout(600)
@pytest.mark.process
def test_an_interrupt_leaves_a_folder_to_go_on_from(tmp_path):
    """Ctrl-C while commits are two seconds apart: what was played is committed on the way out."""
    with child(tmp_path, 1e9, 1, SLOWLY) as process:
        for _ in range(5):
            line = process.wait_for("round")
        process.process.send_signal(signal.SIGINT)
        process.wait_for("interrupted")
    n_seen = int(line.split()[1]) + 1
    run = call(tmp_path, rounds=MANY, metrics=None)
    assert run.state.t >= n_seen
    run.close()
    assert_resumes(tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.process
def test_control_c_reaches_the_workers_too_and_the_folder_is_whole(tmp_path):
    """A terminal sends it to all processes of a group at once, and here twice."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(ROOT), str(tmp_path), "1e9", "2", str(SLOWLY)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        for _ in range(3):
            assert process.stdout.readline().startswith("round")
        children = psutil.Process(process.pid).children(recursive=True)
        assert len(children) >= 2
        for _ in range(2):
            os.killpg(process.pid, signal.SIGINT)
            time.sleep(0.1)
        said, _ = process.communicate(timeout=WAIT)
        assert process.returncode != 0, said
        _, alive = psutil.wait_procs(children, timeout=WAIT)
        assert [child for child in alive if child.status() != psutil.STATUS_ZOMBIE] == []
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(WAIT)
    assert_resumes(tmp_path)


if __name__ == "__main__":
    main(*sys.argv[1:])
