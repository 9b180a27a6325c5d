"""The folder of a simulation says what it is and how it ended, and commands show it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli import Command
from tests.peak import peak
from tests.studies.many_clients import write_run
from understudy import FixedDropout, fdms
from understudy.simulation import Run, Simulation, clustered_digits, simulate
from understudy.studies import LiveLog, results
from understudy.studies.store.own_folder import refresh


@pytest.fixture
def command(capsys, monkeypatch):
    return Command(capsys, monkeypatch)


def run_in(folder: Path, **options):
    options = {"model": "softmax", "availability": FixedDropout(0.5), "rounds": 4, **options}
    return simulate(clustered_digits(), fdms(), folder=folder, workers=1, **options)


def test_show_table_and_report_of_a_simulations_folder(tmp_path, command):
    run = run_in(tmp_path)
    for log in run:
        if log.t == 1:
            break
    shown = command("show", str(tmp_path))
    assert "simulation: 1 cell, 1 running" in shown.out  # another process could not write here
    run.close()
    assert "simulation: 1 cell, 1 stopped" in command("show", str(tmp_path)).out
    last = [log.metrics["test_accuracy"] for log in run_in(tmp_path)][-1]
    shown = command("show", str(tmp_path))
    assert "simulation: 1 cell, 1 done" in shown.out
    assert f"{last:.1%}".replace("%", " %") in shown.out
    assert f"{100 * last:.2f}" in command("table", str(tmp_path)).out
    assert command("report", str(tmp_path)).code == 0
    page = (tmp_path / "simulation" / "report.html").read_text()
    assert "digits" in page
    assert "live federation" not in page


def test_a_run_that_failed_says_so_and_is_done_once_it_was_resumed(tmp_path, command):
    def metric(outputs, labels):
        if not (tmp_path / "mended").exists():
            raise ArithmeticError("no such number")
        return 0.0

    with pytest.raises(ArithmeticError):
        list(run_in(tmp_path, metrics={"own": metric}))
    about = json.loads((tmp_path / "run.json").read_text())
    assert (about["status"], about["error"]) == ("failed", "ArithmeticError: no such number")
    (tmp_path / "mended").touch()
    list(run_in(tmp_path, metrics={"own": metric}))
    again = json.loads((tmp_path / "run.json").read_text())
    assert (again["status"], again["error"], again["run"]) == ("done", "", about["run"])
    run_in(tmp_path, metrics={"own": metric}).close()  # opened once more, for its model
    assert json.loads((tmp_path / "run.json").read_text())["status"] == "done"
    run_in(tmp_path, metrics={"own": metric}, rounds=6).close()
    assert json.loads((tmp_path / "run.json").read_text())["status"] == "running"


def test_after_half_a_round_the_same_call_resumes_in_the_same_process(tmp_path):
    def metric(outputs, labels):
        raise ArithmeticError("no such number")

    run = run_in(tmp_path, metrics={"own": metric})
    with pytest.raises(ArithmeticError):
        list(run)
    with pytest.raises(RuntimeError, match="make the run again by the same call"):
        list(run)
    assert run_in(tmp_path, metrics={"own": metric}).state.t == 0  # the folder is free


def test_ctrl_c_in_a_round_leaves_a_run_that_is_stopped(tmp_path, command):
    def metric(outputs, labels):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(run_in(tmp_path, metrics={"own": metric}))
    assert "simulation: 1 cell, 1 stopped" in command("show", str(tmp_path)).out


def test_a_second_iterator_does_not_fail_the_run(tmp_path):
    run = run_in(tmp_path)
    first = iter(run)
    next(first)
    run._playing.acquire()  # as another thread would in its round
    with pytest.raises(RuntimeError, match="by another thread"):
        list(run)
    run._playing.release()
    assert json.loads((tmp_path / "run.json").read_text())["status"] == "running"
    assert [log.t for log in first] == [1, 2, 3]


def test_a_run_with_fewer_rounds_is_only_looked_at(tmp_path):
    run = run_in(tmp_path, rounds=6)
    for log in run:
        if log.t == 2:
            break
    run.close()
    before = (tmp_path / "run.json").read_text()
    assert [log.t for log in run_in(tmp_path, rounds=1)] == [0]
    assert (tmp_path / "run.json").read_text() == before


def test_runs_have_names_of_their_own_and_a_store_takes_them(tmp_path):
    for seed in (0, 1):
        settings = Simulation(model="softmax", rounds=2, seed=seed)
        ledger = LiveLog(tmp_path, "mine")
        list(Run(clustered_digits(), fdms(), settings, journal=ledger))
    assert len(results(tmp_path, study="mine")) == 2


def test_an_error_that_is_another_one_is_shown(tmp_path, command):
    def metric(outputs, labels):
        raise ArithmeticError((tmp_path / "word").read_text())

    for word in ("first", "second"):
        (tmp_path / "word").write_text(word)
        with pytest.raises(ArithmeticError):
            list(run_in(tmp_path, metrics={"own": metric}))
        assert word in command("show", str(tmp_path)).out


def test_a_folder_called_simulation_is_found(tmp_path, command, monkeypatch):
    monkeypatch.chdir(tmp_path)
    list(run_in(Path("simulation")))
    assert "1 done" in command("show", "simulation").out


def test_what_is_no_journal_is_refused_by_name():
    settings = Simulation(model="softmax", rounds=1)
    with pytest.raises(TypeError, match="journal: expected a part with begin, append, flush"):
        Run(clustered_digits(), fdms(), settings, journal=object())


def test_a_long_run_is_stored_round_by_round_and_not_from_a_list_of_its_logs(tmp_path):
    few, many = write_run(tmp_path / "few", 32), write_run(tmp_path / "many", 128)
    write_run(tmp_path / "first", 1)
    refresh(tmp_path / "first")  # what is imported only now is not counted
    more = peak(lambda: refresh(tmp_path / "many")) - peak(lambda: refresh(tmp_path / "few"))
    assert more < (many - few) / 10
