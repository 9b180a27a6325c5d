"""Clients by their names: in results, on the command line, in pictures and in the report."""

import re

import numpy as np
import pandas as pd
import pytest

from tests.cli import Command
from tests.studies.pages import Page
from understudy import Bernoulli, Gone, Study, plots, results, simulate, strategies
from understudy.simulation import Federation
from understudy.studies.report import client_figures, client_table, report
from understudy.studies.report.figure_data import FigureData
from understudy.studies.report.figures import pictures
from understudy.studies.statistics.frames import rows_of_clients
from understudy.studies.store.client_names import client_names
from understudy.studies.store.store import Store

NAMES = ("Mary's <b>", "North $x^2$", "south\x1b[31m", "west")
SIZES = (40, 60, 80, 100)


def hospitals() -> Federation:
    rng = np.random.default_rng(3)
    who = np.repeat(range(4), SIZES)
    x = rng.normal(size=(sum(SIZES), 4))
    y = ((x[:, 0] + (who == 3) * 3 * x[:, 1]) > 0).astype(int)
    made = Federation.from_arrays(x, y, clients=np.array(NAMES)[who])
    assert made.names == NAMES
    return made


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    study = Study(
        name="hospitals",
        data=hospitals(),
        model="softmax",
        strategies={
            "full": {"method": "fedavg", "availability": "always"},
            "dropout": "fedavg",
            "stale": "stale",
        },
        availability={"few": Gone(["west"], inner=Bernoulli(0.6))},
        baseline="dropout",
        rounds=6,
        seeds=2,
        per_client_every=6,
    )
    assert study.run(folder, progress=False).failed == {}
    return folder


@pytest.fixture(scope="module")
def clients(runs):
    return results(runs, level="client", study="hospitals")


def test_results_have_a_column_of_names(clients):
    own = clients[(clients["strategy"] == "stale") & (clients["seed"] == 1)]
    assert own["client"].tolist() == [0, 1, 2, 3]
    assert own["name"].tolist() == ["Mary's <b>", "North $x^2$", "south\ufffd[31m", "west"]
    assert own.set_index("name").loc["west", "came"] == 0


def test_clients_without_a_stored_name_are_called_by_their_numbers():
    assert client_names({}, 2) == ["0", "1"]
    assert client_names({"names": None}, 1) == ["0"]
    assert client_names({"names": ["a"]}, 2) == ["a", "1"]  # one joined later
    assert client_names({"names": {"not": "a list"}}, 1) == ["0"]


def test_the_table_of_clients_is_what_was_measured(runs, clients):
    page = Page(report.render(runs, "hospitals"))
    rows = page.rows("Clients")
    means = clients.groupby(["name", "strategy"])["accuracy"].mean().unstack() * 100
    difference = (means["stale"] - means["dropout"]).sort_values(kind="stable")
    assert {name for _, name in rows} == set(means.index)
    shown = [float(row["difference, points"].replace("−", "-")) for row in rows.values()]
    assert shown == sorted(shown)  # who loses most is first
    np.testing.assert_allclose(shown, difference.to_numpy(), atol=0.051)
    for (_, name), row in rows.items():
        assert row["dropout: accuracy, %"] == f"{means.loc[name, 'dropout']:.1f}"
        assert row["full: accuracy, %"] == f"{means.loc[name, 'full']:.1f}"
        own = clients[(clients["name"] == name) & (clients["strategy"] == "dropout")]
        assert row["attendance, %"] == f"{100 * own['came'].mean() / 6:.0f}"
        assert row["examples"] == str(own["n_examples"].iloc[0])
    words = " ".join(page.words.split())
    assert "Difference: stale, best mean over clients, minus dropout." in words


def test_losses_of_clients_have_the_digits_to_tell_them_apart(runs, clients, monkeypatch):
    monkeypatch.setattr(client_table, "METRICS", ("loss",))
    rows = Page(report.render(runs, "hospitals")).rows("Clients")
    means = clients.groupby(["name", "strategy"])["loss"].mean().unstack()
    decimals = 3 if means.to_numpy().max() >= 1 else 4
    for (_, name), row in rows.items():
        assert row["stale: loss"] == f"{means.loc[name, 'stale']:.{decimals}f}"
        assert len(row["difference"].partition(".")[2]) == decimals


def test_clients_who_are_all_served_alike_need_no_picture(runs, clients, monkeypatch):
    monkeypatch.setattr(FigureData, "clients_of", lambda *_: clients.assign(accuracy=1.0))
    with Store.open(runs) as store:
        data = FigureData(store, "hospitals", results(runs, study="hospitals"))
        drawn = list(client_figures.client_accuracies(data))
    assert drawn == []
    assert data.told["Accuracy over clients"] == ["Accuracy: 100 % for every client."]


@pytest.mark.parametrize(
    ("stored", "words"),
    [("own", "on the client's own held-out examples"), (None, "not on the client's own examples")],
)
def test_the_report_says_what_accuracies_are_measured_on(runs, tmp_path, stored, words):
    frames = []
    with Store.open(runs) as store:
        for cell in store.cells("hospitals"):
            facts = {name: value for name, value in cell.facts.items() if name != "per_client_test"}
            vars(cell)["facts"] = facts | ({} if stored is None else {"per_client_test": stored})
            frames.append(rows_of_clients(store, cell))
    assert words in client_table.tested_on(pd.concat(frames))


def test_names_cannot_break_the_page_or_a_picture(runs):
    page = report.render(runs, "hospitals")
    assert "<b>" not in page
    assert "Mary&#39;s &lt;b&gt;" in page
    assert "\x1b" not in page
    drawn = {picture.name: picture.figure for picture in pictures(runs, "hospitals")}
    axes = drawn["attendance-availability-few"].axes[0]
    words = [label.get_text() for label in axes.get_yticklabels()]
    assert words == ["Mary's <b>", r"North \$x^2\$", "south\ufffd[31m", "west"]
    plots.png(drawn["attendance-availability-few"])


def test_a_cell_is_shown_with_names(runs, clients, capsys, monkeypatch):
    key = clients.loc[clients["strategy"] == "stale", "key"].iloc[0]
    shown = Command(capsys, monkeypatch)("show", key[:8], "--folder", runs).out
    assert re.search(r"west +0 % +0 %", shown)
    assert re.search(r"(Mary's <b>|North \$x\^2\$|south.\[31m) +its own last update", shown)


def test_runs_bring_their_names_to_pictures():
    run = simulate(hospitals(), strategies.fdms(), model="softmax", rounds=4, seed=1,
                   availability=Bernoulli(0.6))  # fmt: skip
    list(run)
    for figure in (plots.attendance(run), plots.stood_in(run), plots.partition(run)):
        words = [label.get_text() for label in figure.axes[0].get_yticklabels()]
        assert words[3] == "west"
    values = plots.client_values({"a": np.ones((2, 4))}, names=NAMES)
    assert [label.get_text() for label in values.axes[0].get_xticklabels()][3] == "west"
    matrix = np.corrcoef(np.random.default_rng(0).normal(size=(4, 9)))
    ordered = plots.similarity(matrix, groups=[1, 0, 0, 0], names=NAMES)
    assert ordered.axes[0].get_xticklabels()[3].get_text() == "Mary's <b>"
    with pytest.raises(ValueError, match="names: expected 4 of them, got 1"):
        plots.attendance(np.ones((3, 4), dtype=bool), names=["a"])


def test_of_many_clients_both_ends_are_shown():
    rows = pd.DataFrame({"name": [f"h{i}" for i in range(80)], "attendance": range(80)})
    words = client_table._words(rows, ["attendance"])
    assert len(words) == client_table.MOST_CLIENTS + 1
    assert words[24] == ("h24", "24")
    assert words[25] == ("… 30 more", "")
    assert words[26] == ("h55", "55")


def test_a_study_that_measures_no_client_says_how_to(tmp_path):
    study = Study(
        name="plain",
        data=hospitals(),
        model="softmax",
        strategies={"dropout": "fedavg"},
        rounds=2,
        seeds=1,
        per_client_every=0,
    )
    study.run(tmp_path, progress=False)
    page = Page(report.render(tmp_path, "plain"))
    assert page.rows("Clients")["", "west"]["attendance, %"] == "100"
    assert "per_client_every = 2 does so after the last round" in page.words


def test_where_each_seed_divides_anew_only_the_first_is_shown(tmp_path):
    study = Study(
        name="anew",
        data={"name": "digits", "partition": "iid", "n_clients": 4, "seed": "run"},
        model="softmax",
        strategies={"dropout": "fedavg", "stale": "stale"},
        availability={"half": Bernoulli(0.5)},
        baseline="dropout",
        rounds=2,
        seeds=2,
        per_client_every=2,
    )
    study.run(tmp_path, progress=False)
    page = Page(report.render(tmp_path, "anew"))
    first = results(tmp_path, level="client", study="anew").query("seed == 0")
    own = first[(first["strategy"] == "dropout") & (first["name"] == "2")]["accuracy"].item()
    assert page.rows("Clients")["", "2"]["dropout: accuracy, %"] == f"{100 * own:.1f}"
    assert "Each seed divides the data anew, so only the first is shown." in page.words


def test_own_test_examples_are_measured_once_by_default():
    """A federation that knows whose its test examples are: each client's accuracy at the end."""
    federation = hospitals()
    owners = np.arange(len(federation.test)) % 4
    object.__setattr__(federation, "test_clients", owners)
    options = {"name": "s", "data": federation, "model": "softmax", "rounds": 7, "seeds": 1}

    def every(**more):
        study = Study(strategies={"a": "fedavg"}, **options, **more)
        return study.cells()[0].task.settings.per_client_every

    assert every() == 7
    assert every(per_client_every=0) == 0
    object.__setattr__(federation, "test_clients", None)
    assert every() == 0
