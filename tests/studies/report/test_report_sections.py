"""The parts of a report: contents, strategies, stand-ins, ranges, how to repeat it."""

import re

import numpy as np
import pytest

from tests.studies.pages import Page
from tests.studies.small_study import ABOUT, NAME, RECIPE, cells, store_small_study
from tests.studies.texts import study as small
from understudy import FixedDropout, Local, fdms, fdms_dropout, fedavg
from understudy._version import __version__
from understudy.core.types import Outcome
from understudy.simulation import clustered_digits
from understudy.studies.definition.cell import Cell, Task
from understudy.studies.definition.study import Study
from understudy.studies.report import report
from understudy.studies.report.figure_data import LARGEST_SHARE, FigureData, Picture
from understudy.studies.report.figures import figures, pictures_of
from understudy.studies.report.repeat import repeat
from understudy.studies.report.shared_range import shared_range
from understudy.studies.report.stand_ins import REPRESENTED, by_round
from understudy.studies.statistics.frames import results
from understudy.studies.store.store import Store, StoredCell


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return store_small_study(tmp_path_factory.mktemp("runs"), rounds=4, seeds=2)


@pytest.fixture(scope="module")
def page(runs):
    return report.render(runs, NAME)


# -- contents and conclusion -------------------------------------------------------------------


def test_every_entry_of_the_contents_leads_to_a_section(page):
    links = re.findall(r'<li><a href="#([^"]+)">([^<]+)</a>', page)
    headings = re.findall(r'<section[^>]* id="([^"]+)"[^>]*>\s*<h2>([^<]+)</h2>', page)
    assert links == headings
    assert [name for name, _ in links][:3] == ["results", "strategies", "clients"]
    assert len(links) > 8


def test_the_page_begins_with_what_came_out(page):
    words = " ".join(Page(page).words.split())
    first = words.index("with 2 seeds this may be chance")
    assert first < words.index("participants per round")


def test_the_page_says_what_it_was_made_from(page):
    words = " ".join(Page(page).words.split())
    assert "all 14 cells done, 56 rounds, as of" in words  # 14 cells of 4 rounds
    rewrite = r"; understudy report small --folder [^ ]+ rewrites this page"
    assert re.search(rewrite, words)


# -- strategies --------------------------------------------------------------------------------


def test_a_strategy_is_one_line_and_full_is_not_dropout(page):
    rows = {row[0]: row[1:] for row in Page(page).tables["Strategies"][1:]}
    assert list(rows) == ["full", "dropout", "fdms", "uniform"]
    fedavg = "FedAvg: everyone is wanted, those who come are averaged by their examples."
    assert rows["full"] == [fedavg, "availability Always instead of FixedDropout"]
    assert rows["dropout"] == [fedavg, "the baseline"]
    assert rows["uniform"] == [
        f"{fedavg} Here: sampler Uniform.",  # else it would contradict what stands beside it
        "sampler Uniform(m=3); clients asked 3 of 6 instead of all",
    ]
    assert rows["fdms"][0].startswith("FL-FDMS: ")
    assert rows["fdms"][1] == "compensator FDMS(similarity=cosine)"


def test_the_setting_tells_what_clients_weigh(page, tmp_path):
    assert ["Weighting", "examples"] in Page(page).tables["Setting"]
    small(overrides=["rounds=1", "weighting=paper"]).run(tmp_path, on="here", progress=False)
    papers = report.render(tmp_path, "small")
    assert ["Weighting", "examples (drop); clients (fdms)"] in Page(papers).tables["Setting"]
    assert "stand in for the absent. Here: weighting clients." in papers


def test_settings_that_are_not_the_methods_own_are_named(tmp_path):
    """An option of the method, and local training that the other strategies do not have."""
    slower = fdms("distance", local=Local(lr=0.05, epochs=1, batch_size=10))
    task = Task(RECIPE, "softmax", slower, 1, availability=fdms_dropout(0.5), seed=0)
    other = next(cell for cell in cells(rounds=1, seeds=1) if cell.labels["strategy"] == "dropout")
    labels = {"strategy": "slower", "availability": "fixed", "alpha": 0.5}
    made = [other, Cell.of({**other.labels, "alpha": 0.5}, other.task), Cell.of(labels, task)]
    with Store.open(tmp_path, write=True) as store:
        store.save_study(NAME, ABOUT, made, __version__)
        for cell in made:
            store.begin(cell.key, cell.resolved, {"n_clients": 6}, __version__)
    rows = {row[0]: row[2] for row in Page(report.render(tmp_path, NAME)).tables["Strategies"]}
    assert rows["slower"] == (
        "compensator FDMS(similarity=distance); availability.alpha 0.5 instead of 0.2; "
        "local.lr 0.05 instead of 0.1"
    )


def test_a_strategy_made_in_python_with_an_availability_of_its_own(tmp_path):
    """It is stored as a table of its fields, not by a method's name."""
    local = Local(lr=0.05, epochs=1, batch_size=10)
    study = Study(
        name="mine",
        data=clustered_digits(n_clients=6, n_clusters=3, per_client=16),
        model="softmax",
        strategies={
            "full": {"method": fedavg(local=local), "availability": "always"},
            "fdms": fdms(local=local),
        },
        availability={"half": FixedDropout(0.5)},
        rounds=1,
    )
    study.run(tmp_path, jobs=1, progress=False)
    rows = {row[0]: row[1:] for row in Page(report.render(tmp_path, "mine")).tables["Strategies"]}
    assert rows["full"][0].startswith("FedAvg: ")
    assert rows["full"][1] == "the first, compared with the others"
    assert rows["fdms"][0].startswith("FL-FDMS: ")
    assert rows["fdms"][1] == (
        "compensator FDMS(similarity=cosine); availability FixedDropout(alpha=0.5, "
        "keep_one_per_group=off, first_round_full=off, counts=compositions) instead of Always"
    )


# -- stand-ins ---------------------------------------------------------------------------------


def test_what_stood_in_is_counted_from_the_logs(runs, page):
    """Of fdms at alpha 0.5 with seed 0, round by round."""
    key = next(
        cell.key
        for cell in cells(rounds=4, seeds=2)
        if cell.labels["strategy"] == "fdms" and cell.labels["alpha"] == 0.5
    )
    absent, others, represented = [], [], []
    with Store.open(runs) as store:
        for log in store.logs(key):
            away = {k for k in range(6) if log.outcome[k] != Outcome.CAME}
            spoken = {k for k, source, coef in log.stand_ins if coef != 0 and source >= 0}
            absent.append(len(away))
            others.append(len(spoken & away))
            represented.append(len(spoken & away) / len(away) if away else np.nan)
        frame = by_round(store.logs(key))
    assert sum(others) > 0
    assert frame["absent"].tolist() == absent
    assert frame["other"].tolist() == others
    np.testing.assert_array_equal(frame[REPRESENTED], represented)
    row = Page(page).rows("What represented absent clients")["alpha 0.5", "fdms"]
    assert row["did not come"] == f"{np.mean(absent):.1f}"
    assert row["another client's update"] == f"{np.mean(others):.1f}"
    assert row["own last update"] == "–"


def drawn_with(runs, change):
    """Pictures by name, and sentences, of rounds and stand-ins that are changed."""
    with Store.open(runs) as store:
        data = FigureData(store, NAME, results(runs, study=NAME))
        for cell in data.cells:
            change(data, cell)
        return {one.name: one.figure for one in pictures_of(data)}, data.told


def test_a_picture_shows_the_share_of_the_absent_by_round(runs):
    def missed_one(data, cell):
        frame = data.stand_ins_in(cell)
        if cell.labels["strategy"] == "fdms":
            frame.loc[3, REPRESENTED] = 0.5

    drawn = drawn_with(runs, missed_one)[0]["represented-0.5"]
    (line,) = drawn.axes[0].lines  # only fdms lets anyone stand in
    assert [text.get_text() for text in drawn.legends[0].get_texts()] == ["fdms"]
    assert line.get_ydata().tolist()[-2:] == [100.0, 50.0]


def test_a_flat_picture_is_told_in_a_sentence(runs, page):
    """fdms represents all of the absent in every round: a line at 100 % would say no more."""
    assert "represented-0.5" not in figures(runs, NAME)
    words = " ".join(Page(page).words.split())
    sentence = "100 % in every round of alpha 0.5."
    assert f"Absent clients that are represented: {sentence}" in words
    assert page.count('<section id="stand-ins">') == 1


def test_results_that_are_all_the_same_are_told_in_a_sentence(runs):
    """Neither a row of marks at 100 %, nor differences of 0 on an axis of thousandths."""
    frame = results(runs, study=NAME)
    frame[["accuracy_tail", "accuracy_last", "accuracy_last10"]] = 1.0
    with Store.open(runs) as store:
        data = FigureData(store, NAME, frame)
        drawn = [one.name for one in pictures_of(data)]
    assert not [name for name in drawn if name.startswith(("differences", "levels", "at-the-end"))]
    assert data.told["Differences"] == [
        f"alpha {alpha}: each strategy comes to the same as dropout with every seed."
        for alpha in (0.2, 0.5)
    ]
    (sentence,) = data.told["Final results"]
    assert sentence.startswith("Test accuracy, ")
    assert sentence.endswith(": 100 % in every run.")


def test_a_section_without_pictures_keeps_its_table(runs):
    """Nobody stands in for anybody: the table says who was not represented."""
    alone = [cell for cell in cells(rounds=4, seeds=2) if cell.labels["strategy"] == "dropout"]
    with Store.open(runs, write=True) as store:
        store.save_study("alone", {**ABOUT, "name": "alone"}, alone, __version__)
    content = report.render(runs, "alone")
    rows = Page(content).rows("What represented absent clients")
    assert rows["alpha 0.5", "dropout"]["not represented"] != "–"
    assert '<a href="#stand-ins">' in content


def test_attendance_without_absence_is_told_in_a_sentence(runs):
    full = [cell for cell in cells(rounds=4, seeds=2) if cell.labels["strategy"] == "full"]
    with Store.open(runs, write=True) as store:
        store.save_study("present", {**ABOUT, "name": "present"}, full, __version__)
    content = report.render(runs, "present")
    assert "very client came in every round." in Page(content).words
    assert not any(name.startswith("attendance") for name in figures(runs, "present"))


def test_the_largest_share_is_drawn_where_rounds_have_noted_it(runs):
    def noted(data, cell):
        shares = [0.25, 0.25, 0.25, 0.5] if cell.labels["strategy"] == "fdms" else np.nan
        data._rounds[cell.key] = data.rounds_in(cell).assign(**{LARGEST_SHARE: shares})

    axes = drawn_with(runs, noted)[0]["largest-share-0.2"].axes[0]
    assert [line.get_ydata().tolist() for line in axes.lines] == [[25.0, 25.0, 25.0, 50.0]]
    assert axes.get_ylabel() == "largest share of one row, %"


# -- zeros -------------------------------------------------------------------------------------


def test_zeros_are_told_in_a_sentence(runs):
    frame = results(runs, study=NAME)
    frame["fluctuation"] = 0.0
    frame["count_variance"] = [1.5 if name == "uniform" else 0.0 for name in frame["strategy"]]
    frame["client_accuracy_variance"] = frame["count_variance"]
    for name in ("client_accuracy_mean", "client_accuracy_worst10", "client_accuracy_best10"):
        frame[name] = np.nan
    page = Page(report.render(runs, NAME, frame))
    first = page.rows("More about accuracy and loss")
    assert not any("fluctuation" in head for row in first.values() for head in row)
    assert "0 in every run: fluctuation." in page.words
    over = page.rows("Over clients")
    assert {strategy for _, strategy in over} == {"uniform"}
    assert "Not listed: 0 in all columns." in page.words
    words = [word for table in page.tables.values() for row in table for word in row]
    assert not any(re.fullmatch(r"0\.0+ ± 0\.0+", word) for word in words)


# -- ranges ------------------------------------------------------------------------------------


def test_panels_of_one_measure_share_their_range(runs):
    drawn = figures(runs, NAME)
    for kind in ("convergence-test_accuracy", "convergence-test_loss", "substitution-error"):
        first, second = (drawn[f"{kind}-{alpha}"].axes[0].get_ylim() for alpha in (0.2, 0.5))
        assert first == second
    first, second = (drawn[f"differences-{alpha}"].axes[0].get_xlim() for alpha in (0.2, 0.5))
    assert first == second
    # but not those of two measures
    accuracy, loss = (drawn[f"convergence-test_{name}-0.2"] for name in ("accuracy", "loss"))
    assert accuracy.axes[0].get_ylim() != loss.axes[0].get_ylim()


def test_a_shared_range_holds_all_of_them():
    from matplotlib.figure import Figure

    def picture(low, high, caption):
        figure = Figure()
        figure.add_subplot().set_ylim(low, high)
        return Picture("name", "section", figure, caption)

    given = [picture(0, 2, "a"), picture(-1, 1, "a"), picture(5, 9, "b")]
    shared = shared_range(given, by_caption=True)
    assert [one.figure.axes[0].get_ylim() for one in shared] == [(-1, 2), (-1, 2), (5, 9)]
    assert {one.figure.axes[0].get_ylim() for one in shared_range(given)} == {(-1, 9)}


# -- tuning ------------------------------------------------------------------------------------


def test_picked_values_have_a_table_of_their_own(tmp_path, page):
    assert "Tuning" not in Page(page).tables
    about = {
        **ABOUT,
        "tune": {
            "values": {"local.lr": [0.1, 0.5, 1.0], "server": [{"name": "sgd"}, {"name": "adam"}]},
            "seeds": [1000, 1001],
            "metric": "validation_loss",
        },
        "picks": {
            "dropout": {"local.lr": 0.5, "server": "sgd"},
            "fdms": {"local.lr": 1.0, "server": "adam"},
        },
        "edges": {"fdms": {"local.lr": [1.0, "largest"]}},
    }
    with Store.open(tmp_path, write=True) as store:
        store.save_study(NAME, about, cells(seeds=1), __version__)
    found = Page(report.render(tmp_path, NAME))
    assert found.tables["Tuning"] == [
        ["strategy", "local.lr", "server", "at the edge of its range"],
        ["dropout", "0.5", "sgd", "–"],
        ["fdms", "1", "adam", "local.lr: the largest tried"],
    ]
    words = " ".join(found.words.split())
    assert "Tried: 3 values of local.lr × 2 values of server." in words
    assert "Picked by validation_loss, mean over the seeds 1000, 1001." in words


# -- how to repeat it --------------------------------------------------------------------------


def stored(study, tmp_path):
    with Store.open(tmp_path, write=True) as store:
        store.save_study(study.name, study.about(), study.cells(), __version__)
        return store.study(study.name)


def cell_with(**facts):
    return StoredCell("k", {"strategy": "a"}, 0, "done", None, __version__, facts, 1, {})


def test_the_commands_have_the_scale_and_every_override(tmp_path):
    from understudy.studies.definition.builtins import source

    changes = ["rounds=2", "strategies.fdms.similarity=distance", "seeds=[7, 8]"]
    study = Study.read(source("quickstart"), "results", changes)
    run, rewrite = repeat(stored(study, tmp_path), []).commands
    assert run == (
        "understudy run quickstart --scale results --set rounds=2 "
        "--set strategies.fdms.similarity=distance --set 'seeds=[7, 8]'"
    )
    assert rewrite == "understudy report quickstart"


def test_an_override_that_no_command_can_say_is_told(tmp_path):
    from understudy.studies.definition.builtins import source

    changes = {"rounds": 2, "strategies.fdms": fdms("distance")}
    study = Study.read(source("quickstart"), None, changes)
    found = repeat(stored(study, tmp_path), [])
    assert found.commands[0] == "understudy run quickstart --scale quick --set rounds=2"
    assert ("not in the command", "given as Python objects: strategies.fdms") in found.rows


def test_versions_and_machines_are_those_that_ran_the_cells(tmp_path):
    study = stored(Study.read("name = 'x'\n" + SMALL), tmp_path)
    versions = {"Python": "3.11.7", "torch": "2.13.0", "CPU": "x86_64 AVX2"}
    one, other = cell_with(versions=versions), cell_with(versions={**versions, "torch": "2.14.0"})
    same = ("for the same bits", "Python 3.11.7, torch 2.13.0, CPU x86_64 AVX2")
    assert repeat(study, [one, one]).rows[-1] == same
    subject, words = repeat(study, [one, other]).rows[-1]
    assert (subject, words[:32]) == ("different versions", "bits may differ: 1 cells with Py")
    needed = dict(repeat(study, [cell_with(data="mnist")]).rows)["needs data"]
    assert needed.startswith("mnist: understudy doctor")


SMALL = """
rounds = 1
data = "digits"
model = "softmax"
strategies = ["fedavg"]
"""


def test_the_study_is_shown_as_toml(tmp_path):
    study = Study.read("name = 'x'\n" + SMALL, None, ["rounds=3"])
    stored(study, tmp_path)
    words = Page(report.render(tmp_path, "x")).words
    assert "rounds = 3\n" in words  # the override is in it
    assert '[strategies]\nfedavg = "fedavg"\n' in words
