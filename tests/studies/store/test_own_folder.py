"""The folder of a simulation says what it is and how it ended, and commands show it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli import Command
from understudy import FixedDropout, fdms
from understudy.simulation import clustered_digits, simulate


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
