"""A report with references: captions, clients, metrics and lines as they are measured."""

from __future__ import annotations

import numpy as np
import pytest

from tests.studies.pages import Page
from understudy import Study, compare, results
from understudy.simulation import Federation
from understudy.studies.report import report
from understudy.studies.report.figures import pictures

NAMES = ("east", "north", "south")


def hospitals() -> Federation:
    """Class 2 is one hospital's, and so rare that no model predicts it."""
    rng = np.random.default_rng(5)
    who = np.repeat(range(3), (40, 60, 80))
    x = rng.normal(size=(180, 3))
    y = (x[:, 0] + 0.3 * who > 0.3).astype(int)
    y[[41, 52, 63, 74, 85]] = 2
    return Federation.from_arrays(x, y, clients=np.array(NAMES)[who], test=0.4)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    study = Study(
        name="hospitals",
        data={"name": f"{__name__}:hospitals"},
        model="softmax",
        strategies=["fedavg", "stale"],
        availability={"half": {"name": "bernoulli", "p": 0.5}},
        local={"lr": 0.1, "epochs": 2, "batch_size": 8},
        baseline="fedavg",
        references=["everyone", "pooled"],
        metrics=["auc", "f1", "balanced_accuracy", "recall"],
        rounds=20,
        seeds=3,
        per_client_every=20,
    )
    assert study.run(folder, on="here", progress=False).failed == {}
    return folder


@pytest.fixture(scope="module")
def page(runs):
    return Page(report.render(runs, "hospitals"))


@pytest.fixture(scope="module")
def words(page):
    return " ".join(page.words.split())


def test_accuracies_on_own_rows_are_called_so_beside_pooled_data(page, words):
    assert words.count("on the client's own held-out examples") == 2, "table and picture"
    assert "not on the client's own examples" not in words


def test_clients_are_means_over_all_seeds_that_share_the_data(runs, page, words):
    found = results(runs, level="client")
    found = found[found["strategy"] != "pooled"]
    means = 100 * found.groupby(["name", "strategy"])["accuracy"].mean().unstack()
    rows = page.rows("Clients")
    assert {name for _, name in rows} == set(NAMES)
    for (_, name), row in rows.items():
        for strategy in ("fedavg", "stale", "everyone"):
            assert row[f"{strategy}: accuracy, %"] == f"{means.loc[name, strategy]:.1f}"
        assert not any("pooled" in head for head in row), "it has no clients"
    assert "means over 3 seeds" in words
    assert "Each seed divides the data anew" not in words


def test_metrics_that_a_study_asks_for_are_in_its_report(runs, page, words):
    frame = results(runs)
    rows = page.rows("Other metrics")
    constant = rows.pop(("", "(constant prediction)"))
    assert [name for _, name in rows] == ["fedavg", "stale", "everyone", "pooled"]
    means = frame.groupby("strategy").mean(numeric_only=True)
    for (_, name), row in rows.items():
        assert row["last AUC"].startswith(f"{means.loc[name, 'test_auc_last']:.4f}")
        balanced = 100 * means.loc[name, "test_balanced_accuracy_last"]
        assert row["last balanced accuracy, %"].startswith(f"{balanced:.2f}")
        assert row["last recall of 2, %"] == "0", "that nobody recognises a class is a result"
    first = frame.iloc[0]
    assert constant["last F1"] == f"{first['reference_f1']:.4f}"
    assert constant["last balanced accuracy, %"] == (
        f"{100 * first['reference_balanced_accuracy']:.2f}"
    )
    assert constant["last recall of 2, %"] == "–"


def test_references_are_described_once_and_not_as_fedavg(page, words):
    assert words.count("For reference, and not tested:") == 1
    rows = page.rows("Strategies")
    assert rows["", "pooled"]["what it is"].startswith("One client holds all training data")
    assert rows["", "everyone"]["what it is"].startswith("The baseline with everybody present")
    assert "3 clients with 24 to 48 training examples each" in words
    assert "client_tests" not in words, "what is measured is no difference of a method"


def test_the_table_tells_no_difference_in_what_is_measured(runs):
    text = compare(results(runs), "accuracy_last").to_text()
    assert "client_tests" not in text


def test_curves_show_the_most_frequent_class(runs):
    frame = results(runs)
    drawn = {one.name: one.figure for one in pictures(runs, "hospitals")}
    figure = drawn["convergence-test_accuracy"]
    (axes,) = figure.axes
    (line,) = [one for one in axes.get_lines() if one.get_linestyle() == ":"]
    constant = 100 * frame["reference_accuracy"].iloc[0]
    assert list(line.get_ydata()) == pytest.approx([constant, constant])
    assert figure.legends[0].get_texts()[-1].get_text() == "most frequent class"
    shares = drawn["largest-share"]
    told = [one.get_text() for one in shares.legends[0].get_texts()]
    assert told == ["fedavg", "stale", "everyone"], "one client alone has all of its update"
