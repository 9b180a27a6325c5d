"""A new measure is one value: tables, axes, summaries and reports find it by themselves."""

import pytest

from tests.cli import Command
from tests.studies.pages import Page
from tests.studies.texts import study
from understudy import plots, results
from understudy.measures import MEASURES, Measure, RunNumbers
from understudy.simulation import clustered_digits, simulate
from understudy.studies.report.report import write_report

NAME = "accuracy_first"


def first(run: RunNumbers) -> float | None:
    return float(run.accuracy[0]) if len(run.accuracy) else None


@pytest.fixture
def toy(monkeypatch):
    made = Measure(NAME, "first accuracy", "test accuracy in the first round", unit="%",
                   unit_of_difference="points", scale=100.0, lower_is_better=False,
                   about="First accuracy: before anyone has learnt much.", of=first,
                   table="Beginnings")  # fmt: skip
    monkeypatch.setitem(MEASURES, NAME, made)
    return made


def test_one_value_is_a_measure_everywhere(toy, tmp_path, capsys, monkeypatch):
    made = study(overrides=["rounds=3", f"metric={NAME}"])  # a study may ask for it
    made.run(tmp_path, on="here", progress=False)
    runs, rounds = results(tmp_path / "small"), results(tmp_path / "small", level="round")
    begun = rounds[rounds["t"] == 0].set_index("key")["test_accuracy"]
    assert runs[NAME].tolist() == begun[runs["key"]].tolist()

    command = Command(capsys, monkeypatch)
    said = command("table", "small", "--folder", str(tmp_path), "--metric", NAME).out
    mean = 100 * runs.loc[runs["strategy"] == "drop", NAME].mean()
    assert said.split()[:4] == ["first", "strategy", "came", "accuracy,"]  # its head, broken
    assert f"{mean:.2f}" in said
    assert toy.about in " ".join(said.split())
    assert NAME in command("list", "measures").out

    assert plots.intervals(runs, NAME).axes[0].get_xlabel() == "test accuracy in the first round, %"

    page = Page(write_report(tmp_path, "small").read_text(encoding="utf-8"))
    assert "first accuracy, %" in [word for row in page.tables["First accuracy"] for word in row]


def test_a_report_gives_it_a_column(toy, tmp_path):
    study(overrides=["rounds=3"]).run(tmp_path, on="here", progress=False)
    page = Page(write_report(tmp_path, "small").read_text(encoding="utf-8"))
    assert page.tables["Beginnings"][0] == ["strategy", "first accuracy, %"]
    assert toy.about in " ".join(page.words.split())


def test_pictures_of_runs_compute_it(toy):
    run = simulate(clustered_digits(), "fedavg", model="softmax", rounds=2, workers=1)
    list(run)
    label, accuracy = plots.intervals(run, NAME).axes[0], run.logs[0].metrics["test_accuracy"]
    assert label.get_xlabel() == "test accuracy in the first round, %"
    assert label.containers[0].lines[0].get_xdata()[0] == pytest.approx(100 * accuracy)
