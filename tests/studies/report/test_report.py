"""The report of a study that was really run: its numbers are those of the store."""

import json
import sqlite3
from statistics import mean, stdev

import numpy as np
import pandas as pd
import pytest

from tests.studies.pages import Page
from tests.studies.small_study import ABOUT, NAME, cells, store_small_study
from understudy._version import __version__
from understudy.measures import main_metric
from understudy.studies.report import figures, page_figures, report
from understudy.studies.report.figure_data import FigureData, title_of
from understudy.studies.report.repeat import command
from understudy.studies.report.report_text import in_words, merged, sentence
from understudy.studies.statistics.frames import results
from understudy.studies.statistics.groups import groups_of
from understudy.studies.store.schema import StoreError
from understudy.studies.store.store import Store, StoredCell

BROKEN, WAITING = 3, 20  # positions: uniform at alpha 0.2 with seed 0; uniform at 0.5 with seed 2
T_OF_TWO = 4.302653  # 0.975 quantile of Student's t with 2 degrees of freedom


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return store_small_study(folder, broken=(BROKEN,), waiting=(WAITING,))


@pytest.fixture(scope="module")
def page(runs):
    return report.write_report(runs, NAME).read_text(encoding="utf-8")


def accuracies(runs, strategy, alpha):
    """Seed → [accuracy by round], from the database itself."""
    found = {}
    with sqlite3.connect(runs / "understudy.sqlite") as database:
        for key, labels, seed in database.execute("SELECT key, labels, seed FROM study_cells"):
            labels = json.loads(labels)
            if labels["strategy"] == strategy and labels["alpha"] in (alpha, None):
                rows = database.execute(
                    "SELECT metrics FROM rounds WHERE key = ? ORDER BY t", (key,)
                )
                found[seed] = [json.loads(text)["test_accuracy"] for (text,) in rows]
    return found


# -- numbers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["full", "dropout", "fdms"])
@pytest.mark.parametrize("alpha", [0.2, 0.5])
def test_the_table_says_what_is_in_the_store(runs, page, strategy, alpha):
    """Of three rounds the last counts, a tenth of them being less than one; ± is t · s / √3."""
    by_seed = [100 * values[-1] for values in accuracies(runs, strategy, alpha).values()]
    assert len(by_seed) == 3
    half = T_OF_TWO * stdev(by_seed) / 3**0.5
    row = Page(page).rows("Accuracy, last round")[f"alpha {alpha}", strategy]
    assert row["accuracy, last round, %"] == f"{mean(by_seed):.2f} ± {half:.2f}"
    assert row["seeds"] == "3"


def test_differences_are_held_against_the_baseline(runs, page):
    rows = Page(page).rows("Accuracy, last round")
    fdms, dropout = (accuracies(runs, name, 0.2) for name in ("fdms", "dropout"))
    gaps = [100 * (fdms[seed][-1] - dropout[seed][-1]) for seed in range(3)]
    half = T_OF_TWO * stdev(gaps) / 3**0.5
    assert stdev(gaps) > 0
    shown = rows["alpha 0.2", "fdms"]["minus dropout, points"].replace("−", "-")
    assert shown == f"{mean(gaps):+.2f} ± {half:.2f}"
    assert rows["alpha 0.5", "dropout"]["minus dropout, points"] == "–"


def test_cells_that_are_not_done_are_left_out_of_tables_and_told(runs, page):
    found = Page(page)
    assert found.rows("Accuracy, last round")["alpha 0.2", "uniform"]["seeds"] == "2"
    assert found.rows("Accuracy, last round")["alpha 0.5", "uniform"]["seeds"] == "2"
    assert "19 of 21 cells done, 1 failed, 1 waiting" in found.words
    assert "Not included: 2 unfinished cells." in found.words


def test_all_cells_are_listed_with_their_own_number(runs, page):
    listed = Page(page).tables["All cells"][1:]
    assert len(listed) == 21
    for row, cell in zip(listed, cells(), strict=True):
        strategy, availability, alpha, seed, status, rounds, accuracy, _, key = row
        assert (strategy, int(seed), key) == (cell.labels["strategy"], cell.seed, cell.key)
        assert availability == ("–" if strategy == "full" else "fixed")
        assert alpha == ("–" if strategy == "full" else str(cell.labels["alpha"]))
        if status == "done":
            own = accuracies(runs, strategy, cell.labels["alpha"])[cell.seed]
            assert (rounds, accuracy) == ("3", f"{100 * own[-1]:.2f}")
    assert [row[4] for row in listed].count("done") == 19
    assert listed[BROKEN][4:6] == ["failed", "1"]
    assert listed[WAITING][4:] == ["waiting", "0", "–", "–", cells()[WAITING].key]


def test_more_measures_stand_side_by_side(runs, page):
    found = Page(page)
    rows = found.rows("More about accuracy and loss")
    best = [100 * max(values) for values in accuracies(runs, "fdms", 0.2).values()]
    half = T_OF_TWO * stdev(best) / 3**0.5
    assert rows["alpha 0.2", "fdms"]["best accuracy, %"] == f"{mean(best):.2f} ± {half:.2f}"
    price = found.rows("Cost of reaching the target")
    assert list(price["alpha 0.5", "fdms"]) == [
        "strategy",
        "reached",
        "rounds to target, where reached",
        "megabytes to target, where reached",
    ]
    for name in ("full", "dropout", "fdms"):
        reached = [max(own) >= ABOUT["target"] for own in accuracies(runs, name, 0.5).values()]
        assert price["alpha 0.5", name]["reached"] == f"{sum(reached)} of 3"
    similar = found.rows("Results of the analyses")
    assert set(similar) == {("alpha 0.2", "fdms"), ("alpha 0.5", "fdms")}  # nobody else has any


# -- words -------------------------------------------------------------------------------------


def test_the_page_tells_what_was_asked(page):
    words = " ".join(Page(page).words.split())
    assert "Friends & <stand-ins>" in words
    assert "Absent clients are represented, or not." in words
    assert "digits, divided as clustered; 6 clients with 20 training examples each" in words
    assert "softmax; 650 parameters" in words  # 64 pixels × 10 classes + 10
    assert "test accuracy 30 %" in words
    assert "FixedDropout(alpha = 0.2 | 0.5" in words  # the axis
    assert "doi.org/10.24432/C50P49" in words  # who gave the data


def test_what_failed_is_told_with_its_error(page):
    words = Page(page).words
    assert "strategy uniform, availability fixed, alpha 0.2, seed 0" in words
    assert "ValueError: <b>no</b> luck" in words
    assert "Traceback: in line 1" in words


def test_nothing_in_the_page_is_markup_by_accident(page):
    assert "Friends &amp; &lt;stand-ins&gt;" in page
    assert "<stand-ins>" not in page
    assert "<b>" not in page


def test_the_page_stands_alone(page):
    found = Page(page)
    assert len(found.addresses) > 10
    assert all(address.startswith(("data:", "#")) for address in found.addresses)
    assert "@import" not in page
    assert "url(" not in page


def test_the_same_results_give_the_same_page(runs, page):
    assert report.render(runs, NAME) == page
    assert not list((runs / NAME).glob("*.new"))


def test_a_large_picture_is_a_png(runs, monkeypatch):
    monkeypatch.setattr(page_figures, "LARGEST_SVG", 0)
    assert "data:image/svg" not in report.render(runs, NAME)
    assert "data:image/png;base64,iVBOR" in report.render(runs, NAME)


def test_before_the_first_cell_is_done_there_is_a_page_too(tmp_path):
    with Store.open(tmp_path, write=True) as store:
        store.save_study("empty", {"name": "empty"}, cells(), __version__)
    words = Page(report.write_report(tmp_path, "empty").read_text()).words
    assert "No cell is done yet." in words
    assert "0 of 21 cells done, 21 waiting" in words


def test_results_of_another_version_are_shown_as_such(tmp_path):
    made = cells(seeds=1, alphas=())
    with Store.open(tmp_path, write=True) as store:
        store.save_study(NAME, ABOUT, made, __version__)
        store.begin(made[0].key, made[0].resolved, {"n_clients": 6}, "0.0.7")
        store.fail(made[0].key, "no")
    rows = Page(report.render(tmp_path, NAME)).tables["To repeat"]
    assert ["computed by 0.0.7", "1 cell; --again runs all cells again"] in rows


def test_an_unknown_study_is_an_error_that_names_the_known(runs):
    with pytest.raises(StoreError, match="no study 'smal'; there: small"):
        report.write_report(runs, "smal")


def test_the_command_that_repeats_it():
    about = {"file": "quickstart.toml", "scale": "quick"}
    assert command(about, "quickstart") == "understudy run quickstart --scale quick"
    # a file of one's own that has the name of a built-in study
    assert command({"file": "mine.toml"}, "quickstart") == "understudy run mine.toml"
    about = {"file": "my study.toml", "scale": None, "overrides": ["rounds=5"]}
    assert command(about, "mine") == "understudy run 'my study.toml' --set rounds=5"
    assert command({"file": None}, "mine") is None


def test_a_copy_of_a_built_in_study_is_no_built_in_study():
    """Stores of before do not say which it is: by the names."""
    about = {"file": "quickstart.toml", "built_in": True}
    assert command(about, "quickstart") == "understudy run quickstart"
    # --set name=mine
    renamed = {**about, "overrides": ["name=mine"]}
    assert command(renamed, "mine") == "understudy run quickstart --set name=mine"
    copied = {"file": "quickstart.toml", "built_in": False, "path": "../quickstart.toml"}
    assert command(copied, "quickstart") == "understudy run quickstart.toml"


def test_commands_name_the_folder_and_a_path_from_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    about = {"file": "mine.toml", "built_in": False, "path": "../studies/mine.toml"}
    assert command(about, "mine", "runs") == "understudy run studies/mine.toml"
    assert command(about, "mine", tmp_path / "runs") == "understudy run studies/mine.toml"
    assert command(about, "mine", "my runs") == (
        "understudy run studies/mine.toml --folder 'my runs'"
    )
    assert command({**about, "path": "../-x.toml"}, "mine") == "understudy run ./-x.toml"
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    assert command(about, "mine", "../runs") == (
        "understudy run ../studies/mine.toml --folder ../runs"
    )


# -- pictures ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def drawn(runs):
    return figures.figures(runs, NAME)


def test_there_is_a_picture_of_everything_that_was_measured(drawn):
    kinds = {
        "differences",
        "convergence-test_accuracy",
        "convergence-test_loss",
        "substitution-error",
        "sampling-counts",
        "client-accuracy",
        "similarity-fdms",
        "largest-share",
    }
    expected = {f"{kind}-{alpha}" for kind in kinds for alpha in (0.2, 0.5)}
    expected |= {"levels-alpha", "stood-in-fdms", "attendance-alpha-0.2", "attendance-alpha-0.5"}
    assert set(drawn) == expected


def test_curves_are_the_means_of_the_stored_rounds(runs, drawn):
    axes = drawn["convergence-test_accuracy-0.5"].axes[0]
    legend = drawn["convergence-test_accuracy-0.5"].legends[0]
    names = [text.get_text() for text in legend.get_texts()]
    assert names == ["full", "dropout", "fdms", "uniform"]  # the reference is in every group
    for name, line in zip(names[:3], axes.lines, strict=False):
        expected = 100 * np.mean(list(accuracies(runs, name, 0.5).values()), axis=0)
        np.testing.assert_allclose(line.get_ydata(), expected)
    assert axes.get_title(loc="left") == "alpha 0.5"


def test_stand_ins_are_counted_from_the_logs(runs, drawn):
    """fdms at alpha 0.2 with seed 0; client 0's cluster is {0, 1}, and so on: in order already."""
    key = next(c.key for c in cells() if c.labels["strategy"] == "fdms" and c.seed == 0)
    counts = np.zeros((6, 6))
    with Store.open(runs) as store:
        for log in store.logs(key):
            for absent, source, _ in log.stand_ins:
                counts[absent, source] += source >= 0
    assert counts.sum() > 0
    shown = drawn["stood-in-fdms"].axes[0].images[0].get_array()
    np.testing.assert_array_equal(shown.filled(0), counts)


def test_levels_show_the_reference_across(runs, drawn):
    axes = drawn["levels-alpha"].axes[0]
    full = 100 * np.mean([values[-1] for values in accuracies(runs, "full", 0.2).values()])
    np.testing.assert_allclose(axes.lines[0].get_ydata(), [full, full])
    assert len(axes.containers) == 3


def at_the_end(folder, never):
    """Names of the pictures of a price that the cells at these places never paid."""
    frame = results(folder, study=NAME).assign(rounds_to_target=2.0)
    frame.loc[never, "rounds_to_target"] = np.nan
    with Store.open(folder) as store:
        data = FigureData(store, NAME, frame)
        data.about = {**data.about, "metric": "rounds_to_target"}
        return [picture.name for picture in figures.levels(data)]


def test_a_price_that_not_all_runs_paid_is_not_drawn(runs, tmp_path):
    """A mean over two fast seeds of five would look best; tables say how many reached it."""
    assert at_the_end(runs, []) == ["levels-alpha"]
    assert at_the_end(runs, [2]) == []
    alone = store_small_study(tmp_path, alphas=(0.2,), seeds=2, rounds=2)
    assert at_the_end(alone, []) == ["at-the-end"]
    assert at_the_end(alone, [1]) == []


def test_figures_are_saved_in_the_formats_that_are_asked_for(drawn, tmp_path):
    chosen = {"levels-alpha": drawn["levels-alpha"]}
    (written,) = figures.save(chosen, tmp_path, ["pdf"])
    content = written.read_bytes()
    assert written.name == "levels-alpha.pdf"
    assert content.startswith(b"%PDF-")
    assert b"/FontFile2" in content  # TrueType, embedded
    assert b"CreationDate" not in content
    assert figures.save(chosen, tmp_path / "again", ["pdf"])[0].read_bytes() == content


def test_figures_are_saved_as_png_and_svg(drawn, tmp_path):
    chosen = {name: drawn[name] for name in ("levels-alpha", "stood-in-fdms")}
    written = figures.save(chosen, tmp_path / "new")
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == sorted(
        ["levels-alpha.png", "levels-alpha.svg", "stood-in-fdms.png", "stood-in-fdms.svg"]
    )
    assert {path.suffix: path.read_bytes()[:5] for path in written[:2]} == {
        ".png": b"\x89PNG\r",
        ".svg": b"<?xml",
    }


def test_a_study_without_groups_shows_its_strategies_side_by_side(tmp_path):
    store_small_study(tmp_path, seeds=2, rounds=2, alphas=(0.5,))
    drawn = figures.figures(tmp_path, NAME)
    assert "at-the-end" in drawn
    assert "convergence-test_accuracy" in drawn
    assert drawn["convergence-test_accuracy"].axes[0].get_title(loc="left") == ""


# -- groups and words --------------------------------------------------------------------------


def stored(seed=0, key=None, **labels):
    return StoredCell(key or repr((labels, seed)), labels, seed, "done", None, "1", {}, 1, {})


def test_references_are_in_every_group_and_own_cells_come_first():
    given = [
        stored(strategy="full", availability=None, lr=None),
        stored(strategy="a", availability="x", lr=1),
        stored(strategy="a", availability="x", lr=2),
        stored(strategy="b", availability="x", lr=None),
        stored(strategy="b", availability="x", lr=2),
    ]
    first, second = groups_of(given)
    assert (title_of(first), title_of(second)) == ("lr 1", "lr 2")
    assert first.cells == (0, 1, 3)
    assert second.cells == (0, 2, 4)


def test_twins_under_two_labels_are_both_shown():
    given = [stored(key="k", strategy="a", m=1), stored(key="k", strategy="b", m=1)]
    (group,) = groups_of(given)
    assert group.cells == (0, 1)
    assert title_of(group) == ""


def test_two_cells_of_one_place_are_refused():
    given = [stored(key="k", strategy="a", m=1), stored(key="other", strategy="a", m=1)]
    with pytest.raises(ValueError, match=r"strategy 'a' at \(1\) with seed 0, got two"):
        groups_of(given)


def test_descriptions_in_words():
    one = {"class": "FDMS", "similarity": "cosine", "race": None}
    assert in_words(one) == "FDMS(similarity = cosine)"
    assert in_words({"class": "Plain"}) == "Plain"
    assert in_words([1, 0.5, True]) == "[1, 0.5, yes]"
    other = {"class": "FDMS", "similarity": "distance", "race": None}
    assert in_words(merged([one, other, one])) == "FDMS(similarity = cosine | distance)"
    assert in_words(merged([one, {"class": "Ignore"}])) == "FDMS(similarity = cosine) | Ignore"


def test_sentences():
    assert sentence("what is lost") == "What is lost."
    assert sentence("σ grows!") == "σ grows!"
    assert sentence(None) is None


def test_the_main_metric_is_the_studys_own_or_the_first_there_is():
    runs = pd.DataFrame({"loss_last": [1.0], "test_f1_last": [0.5], "accuracy_last10": [np.nan]})
    assert main_metric(runs) == "loss_last"
    assert main_metric(runs, "test_f1_last") == "test_f1_last"
    assert main_metric(runs, "accuracy_best") == "loss_last"
    assert main_metric(runs[["test_f1_last"]]) == "test_f1_last"
    assert main_metric(runs[["accuracy_last10"]]) is None


def test_the_main_metric_of_a_live_federation_is_not_of_training_where_there_is_another():
    by_clients = [  # the best first
        "clients_accuracy_last",
        "clients_loss_last",
        "clients_f1_last",
        "clients_train_accuracy_last",
    ]
    runs = pd.DataFrame({name: [0.5] for name in [*reversed(by_clients), "test_f1_last"]})
    assert main_metric(runs) == "test_f1_last"  # the server's own
    for first, name in enumerate(by_clients):
        assert main_metric(runs[by_clients[first:][::-1]]) == name
