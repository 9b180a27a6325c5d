"""From a table to an answer, at a small size: what is run, written, told, and run again."""

import math
import re
import runpy
import subprocess
import sys

import pytest

import understudy
from tests.tryout.tables import sales
from understudy.studies.definition.study import Study
from understudy.tryout.plan import METHODS, name_of
from understudy.tryout.run import planned

SMALL = {"client": "shop", "rounds": 2, "seeds": 2, "progress": False, "on": "here"}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sales().drop(columns="units").to_csv("t.csv", index=False)
    return tmp_path


@pytest.fixture(scope="module")
def tried(tmp_path_factory):
    place = tmp_path_factory.mktemp("tried")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        sales().drop(columns="units").to_csv("t.csv", index=False)
        return place, understudy.try_out("t.csv", target="sold", **SMALL)


def test_the_study_has_every_method_where_some_are_missing_and_none_where_one_is_gone(tried):
    _, done = tried
    seen = {(c.labels["strategy"], c.labels["availability"]) for c in done.study.cells()}
    assert seen == {
        ("everyone", None),
        ("pooled", None),
        ("left out", "2 of 3 missing"),
        *((name, "2 of 3 missing") for name in METHODS),
        ("left out", "without north"),
    }
    assert len(done.outcome.done) == 2 * len(seen)
    assert not done.outcome.failed


def test_the_findings_are_differences_of_the_stored_runs(tried):
    place, done = tried
    runs = understudy.results(place / "runs", study="try-t")
    found = done.findings

    def values(strategy, mode=None):
        rows = runs[runs["strategy"] == strategy]
        rows = rows if mode is None else rows[rows["availability"] == mode]
        return rows.drop_duplicates("seed").set_index("seed")["accuracy_tail"]

    assert found.everyone == values("everyone").to_dict()
    at_times, gone = found.situations
    assert (at_times.label, at_times.gone) == ("2 of 3 missing", None)
    assert (gone.label, gone.gone, gone.methods) == ("without north", "north", ())
    lost = (values("left out", "2 of 3 missing") - values("everyone")).mean()
    assert at_times.loss.mean == pytest.approx(lost)
    assert at_times.loss.p is None  # of two seeds
    assert {one.name for one in at_times.methods} == set(METHODS)
    means = [one.mean for one in at_times.methods]
    assert means == sorted(means, reverse=True)
    assert {one.name for one in gone.clients} == {"north", "south", "west"}
    assert {one.tested_on for one in gone.clients} == {8.0, 6.0, 4.0}
    costs = {one.name: one.memory for one in found.costs}
    assert costs["stale"] >= 3 * 4 * found.n_parameters  # three rows of 32 bits
    assert costs["fdms"] < costs["stale"]


def test_it_is_told_in_four_answers(tried):
    _, done = tried
    text = str(done)
    assert text.startswith("In short. 2 of 3 missing: ")
    for question in (
        "What do I lose when clients are missing?\n- With everybody in every round, accuracy is ",
        "\n\nWhich clients lose most?\n- ",
        "\n\nWhich method recovers it?\n- 2 of 3 missing: ",
        "\n\nWhat would it cost on the server?\n- The model has ",
    ):
        assert question in text
    assert "not tested (a test takes 5 seeds)" in text
    assert "nan" not in text.lower().replace("finance", "")


def test_the_page_holds_the_answer_and_asks_the_network_for_nothing(tried, monkeypatch):
    place, done = tried
    monkeypatch.chdir(place)
    page = done.files["answer"].read_text("utf-8")
    for _, sentences in done.answers:
        for sentence in sentences:
            assert sentence.replace("'", "&#39;").replace("<", "&lt;").replace(">", "&gt;") in page
    assert page.count("<img ") == 1  # of the situation in which methods were tried
    assert not re.search(r'(src|href)="(?!data:|report\.html)', page)
    assert '<a href="report.html">' in page
    assert "default-src 'none'" in page


def test_what_is_left_behind_repeats_it(tried, monkeypatch):
    place, done = tried
    monkeypatch.chdir(place)
    assert sorted(done.files) == ["answer", "program", "report", "study"]
    again = Study.read(done.files["study"])
    keys = {cell.key for cell in done.study.cells()}
    assert {cell.key for cell in again.cells()} == keys
    head = done.files["study"].read_text("utf-8").splitlines()[0]
    assert head.endswith("To repeat it: understudy run runs/try-t/study.toml")
    names = runpy.run_path(str(done.files["program"]), run_name="not main")
    assert {cell.key for cell in names["study"].cells()} == keys


def test_the_same_call_runs_nothing_again_and_a_frame_is_kept_as_a_file(tried, monkeypatch):
    place, done = tried
    monkeypatch.chdir(place)
    frame = sales().drop(columns="units")
    other = understudy.try_out(frame, target="sold", **SMALL)
    assert other.study.name == "try-table"
    assert (place / "runs" / "try-table" / "table.csv").is_file()
    assert not other.outcome.done  # the same content: all runs are there
    assert str(other) == str(done)


@pytest.mark.slow
@pytest.mark.process
def test_the_program_prints_a_table_of_the_stored_runs(tried):
    place, done = tried
    printed = subprocess.run(
        [sys.executable, str(done.files["program"])],
        cwd=place, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert "| left out" in printed
    of_clients = printed.split("\n\n")[-1]
    rows = [line.split() for line in of_clients.splitlines()]
    assert ["name", "north", "south", "west"] in rows
    assert "pooled" not in of_clients  # it has no clients
    clients = understudy.results(place / "runs", level="client", study="try-t")
    own = clients[(clients["strategy"] == "left out") & (clients["name"] == "west")]
    gone = own[own["availability"] == "without north"]["accuracy"].mean()
    (line,) = [line for line in of_clients.splitlines() if line.startswith("without north")]
    assert float(line.split()[-1]) == pytest.approx(gone, abs=5e-4)
    assert "everyone" in printed


def test_a_regression_with_its_own_tuned_steps(folder):
    sales().drop(columns="sold").to_csv("u.csv", index=False)
    done = understudy.try_out(
        "u.csv", target="units", missing=0.4, methods=["fedar"], tune=True, **SMALL
    )
    (one,) = done.findings.situations
    assert one.label == "1 of 3 missing"
    assert [method.name for method in one.methods] == ["fedar"]
    assert done.study.tune is not None
    assert done.findings.scale.metric == "r2"
    assert all(math.isfinite(who.everyone) for who in one.clients)
    assert 0 < done.findings.errors["everyone"] < 200  # in units, of which there are some 50


def test_each_situation_has_tuned_steps_of_its_own_and_pooled_training_has_none(folder):
    plan = planned("t.csv", client="shop", target="sold", rounds=8, methods=["stale"], tune=True)
    trials = {(c.labels["block"], c.labels["strategy"]) for c in plan.study.tuning()}
    assert trials == {
        ("2 of 3 missing", "left out"),
        ("2 of 3 missing", "stale"),
        ("2 of 3 missing", "everyone"),
        ("without north", "left out"),
        ("without north", "everyone"),
    }
    of_everyone = [c.key for c in plan.study.tuning() if c.labels["strategy"] == "everyone"]
    assert len(of_everyone) == 2 * len(set(of_everyone))  # the same runs in both


def test_a_rise_of_the_last_quarter_is_read_from_the_stored_rounds(folder):
    done = understudy.try_out("t.csv", target="sold", missing=0.4, methods=[], **SMALL | {
        "rounds": 8})  # fmt: skip
    rounds = understudy.results(folder / "runs", level="round", study="try-t")
    everyone = rounds[rounds["strategy"] == "everyone"].pivot(
        index="t", columns="seed", values="test_accuracy"
    )
    gains = everyone.loc[7] - everyone.loc[5]
    error = gains.std() / math.sqrt(2)
    assert done.findings.rise == pytest.approx(gains.mean() if gains.mean() > error else 0.0)
    assert (done.findings.rounds, done.findings.tail) == (8, 1)


def test_nothing_runs_where_something_is_wrong(folder):
    for wrong, words in (
        ({"methods": ["nix"]}, "methods: no method 'nix'; known: fedavg, "),
        ({"model": "resnet18"}, "model: expected one of 'mlp', 'softmax', got 'resnet18'"),
        ({"name": "../x"}, "name: expected a name of letters"),
        ({"task": "both"}, "task: expected one of 'classes', 'regression', got 'both'"),
    ):
        with pytest.raises(ValueError, match=re.escape(words)):
            planned("t.csv", client="shop", target="sold", **wrong)
    with pytest.raises(TypeError, match="table: expected a path or a data frame of pandas, got l"):
        planned([1, 2], client="shop", target="sold")
    assert not (folder / "runs" / "understudy.sqlite").exists()


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("a/patients.csv", "try-patients"),
        ("klinik daten (2).csv", "try-klinik-daten-2"),
        ("Städte.parquet", "try-Stadte"),
        ("数据.csv", "try-table"),
    ],
)
def test_the_name_of_a_study_is_that_of_its_file(file, name):
    assert name_of(file) == name
