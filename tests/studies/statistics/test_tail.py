"""The measure in the head is the measure: how many rounds are averaged, and which is shown."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
import torch

from tests.cli import Command
from tests.studies.texts import study
from understudy import Federation, Study, compare, plots, results
from understudy.measures import RunNumbers, main_metric, measure
from understudy.measures.run_numbers import tail_length
from understudy.studies.report.report import write_report
from understudy.studies.statistics.summary import summarise


@pytest.mark.parametrize(
    ("evaluated", "averaged"), [(1, 1), (8, 1), (15, 1), (19, 1), (20, 2), (30, 3), (100, 10),
                                (500, 10)]
)  # fmt: skip
def test_a_short_tail(evaluated, averaged):
    """A tenth of the evaluated rounds, at least one, at most ten; of 0, 1, 2, … n − 1."""
    rounds = pd.DataFrame({"t": range(2 * evaluated), "clock": 0.0})
    rounds["test_accuracy"] = [t / 2 if t % 2 == 0 else np.nan for t in range(2 * evaluated)]
    measures = summarise(rounds, None, {}, None)
    assert tail_length(evaluated) == averaged
    assert measures["accuracy_tail"] == evaluated - 1 - (averaged - 1) / 2
    assert measures["accuracy_last10"] == evaluated - 1 - (min(evaluated, 10) - 1) / 2
    assert RunNumbers(rounds).n_evaluated == evaluated


@pytest.mark.parametrize(
    ("name", "evaluated", "head", "about"),
    [
        ("accuracy_tail", (8, 8), "accuracy, last round, %", "Accuracy: of the last evaluated"),
        ("accuracy_tail", (50, 50), "accuracy, mean of last 5, %", "mean of the last 5 evaluated"),
        ("accuracy_tail", (30, 50), "accuracy, mean of last 3 to 5, %", "the last 3 to 5 eval"),
        ("accuracy_tail", None, "accuracy, %", "mean of the last tenth of the evaluated rounds"),
        ("accuracy_last10", (8, 8), "accuracy, mean of last 8, %", "the last 8 evaluated rounds"),
        ("accuracy_last10", (40, 40), "accuracy, mean of last 10, %", "mean of the last 10 eval"),
        ("accuracy_last10", None, "accuracy, mean of last 10, %", "mean of the last 10 evaluated"),
        ("fluctuation", (8, 8), "fluctuation, points", "over the last 8 evaluated rounds."),
        ("loss_fluctuation", (60, 60), "fluctuation of the loss", "last 20 evaluated rounds."),
    ],
)
def test_head_and_note_tell_how_many_rounds(name, evaluated, head, about):
    shown = measure(name, evaluated)
    assert shown.head == head
    assert about in shown.about


def test_tables_plots_and_report_show_the_tail(tmp_path):
    """Of 20 rounds the last two; the last round's own accuracy stands beside it in the report."""
    study(top="seeds = 3", overrides=["rounds=20"]).run(tmp_path, on="here", progress=False)
    frame, by_round = results(tmp_path / "small"), results(tmp_path / "small", level="round")
    assert frame["rounds_evaluated"].tolist() == [20] * 6
    last = by_round[by_round["t"] >= 18].groupby("key")["test_accuracy"].mean()
    assert frame["accuracy_tail"].tolist() == pytest.approx(last[frame["key"]].tolist())
    found = compare(frame, baseline="drop")
    assert found.metric == "accuracy_tail"
    assert "accuracy, mean of last 2, %" in found.to_markdown()
    assert "Accuracy: mean of the last 2 evaluated rounds." in found.to_markdown()
    axes = plots.intervals(frame[frame["seed"] < 9]).axes[0]
    assert axes.get_xlabel() == "test accuracy, mean of last 2, %"
    page = write_report(tmp_path, "small").read_text(encoding="utf-8")
    heads = re.findall(r"<th[^>]*>([^<]*)</th>", page)
    at = heads.index("accuracy, mean of last 2, %")
    assert heads[at + 1] == "last accuracy, %"
    assert heads.count("last accuracy, %") == 1  # not again among further measures
    mean = 100 * frame.loc[frame["strategy"] == "fdms", "accuracy_last"].mean()
    assert f">{mean:.2f} ± " in page


def test_rows_of_runs_of_different_lengths():
    rows = [
        {"strategy": name, "seed": seed, "accuracy_tail": 0.5, "rounds_evaluated": n}
        for name, n in (("a", 30), ("b", 50))
        for seed in range(2)
    ]
    head = "accuracy, mean of last 3 to 5, %"
    assert head in compare(pd.DataFrame(rows)).to_markdown()


def test_a_regression_is_compared_in_python_as_on_the_command_line(tmp_path, capsys, monkeypatch):
    """It has no accuracy: the loss is what tables, `compare`, plots and `understudy show` show."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3)).astype(np.float32)
    data = Federation.from_arrays(
        x, x.sum(axis=1, keepdims=True), clients=np.repeat(np.arange(6), 10)
    )
    made = Study("numbers", data=data, model=torch.nn.Linear(3, 1), loss="mse_loss", rounds=2,
                 seeds=2, strategies=["fedavg", "stale"], baseline="fedavg")  # fmt: skip
    made.run(tmp_path, on="here", progress=False)
    frame = results(tmp_path / "numbers")
    assert "accuracy_tail" not in frame
    assert compare(frame).metric == "loss_last"
    assert plots.differences(frame, "fedavg").axes[0].get_xlabel().startswith("last test loss")
    shown = Command(capsys, monkeypatch)("show", "numbers", "--folder", str(tmp_path)).out
    lines = shown.splitlines()
    assert lines[2].split() == ["cell", "strategy", "seed", "rounds", "loss"]
    first = frame[(frame["strategy"] == "fedavg") & (frame["seed"] == 0)].iloc[0]
    assert lines[3].split() == [first["key"][:8], "fedavg", "0", "2", f"{first['loss_last']:#.4g}"]


def test_a_study_that_asks_for_a_measure_gets_it():
    frame = pd.DataFrame({"strategy": ["a", "a"], "seed": [0, 1], "accuracy_tail": 0.5,
                          "loss_last": 1.0, "rounds_to_target": np.nan})  # fmt: skip
    assert compare(frame).metric == "accuracy_tail"
    frame.attrs["metric"] = "loss_last"
    assert compare(frame).metric == "loss_last"
    frame.attrs["metric"] = "rounds_to_target"  # nobody reached it, which is a result
    assert compare(frame).metric == "rounds_to_target"
    frame.attrs["metric"] = "nothing_of_the_kind"
    assert main_metric(frame) == "accuracy_tail"
