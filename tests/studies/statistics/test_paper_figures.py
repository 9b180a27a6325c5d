"""The papers' own figures on the results page: their numbers, and that none is without them."""

import math
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tools.claims import results_page
from tools.claims.paper_figures import (
    FIGURES,
    by_age,
    caption,
    of_clients,
    of_one_length,
    pairs_by_round,
    score_matrix,
)
from tools.claims.results_book import Book, Sizes
from tools.claims.results_pictures import is_curve, pictures
from understudy.studies.statistics.export import Exported, Row

DOCS = Path(__file__).parents[3] / "docs"


def row(key, seed=0, rounds=2, measures=None, **labels):
    return Row(key, {"strategy": "a", **labels}, seed, rounds, measures or {})


def evaluated(*rounds):
    return [{"round": float(at), "test_accuracy": 0.1, "test_loss": 2.0} for at in rounds]


def text_of(picture):
    return {word.text for word in ET.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")}


def test_clients_of_all_seeds_are_drawn_as_they_were_exported():
    rows = (row("k0"), row("k1", seed=1), row("k2", strategy="b"), row("bare", strategy="c"))
    exported = Exported(
        rows, clients={"k0": {"picked": [2, 0]}, "k1": {"picked": [1, 1]}, "k2": {"picked": [0, 2]}}
    )
    frame = of_clients(rows, exported, "picked")
    assert frame.to_dict("list") == {
        "strategy": ["a", "a", "a", "a", "b", "b"],
        "seed": [0, 0, 1, 1, 0, 0],
        "client": [0, 1, 0, 1, 0, 1],
        "picked": [2, 0, 1, 1, 0, 2],
    }
    assert of_clients(rows, exported, "accuracy").empty


def test_counts_over_other_rounds_are_left_out():
    short, long = row("s", rounds=100), row("l", rounds=300)
    other = row("o", rounds=100, strategy="b")
    assert of_one_length([short, long, other]) == [short, other]
    assert of_one_length([short, row("m", rounds=300, strategy="b")])[0].rounds == 300  # a tie
    assert of_one_length([]) == []


def test_scores_are_a_symmetric_table():
    exported = Exported(
        (row("k"),), clients={"k": {"group": [1, 0, 1]}}, scores={"k": {(0, 1): 0.25, (0, 2): 0.5}}
    )
    table, groups = score_matrix(exported, "k")
    nan = math.nan
    expected = [[nan, 0.25, 0.5], [0.25, nan, nan], [0.5, nan, nan]]
    assert np.array_equal(table, np.array(expected), equal_nan=True)
    assert groups == [1, 0, 1]
    assert score_matrix(Exported(scores={"k": {(0, 1): 1.0}}), "k")[1] is None


def test_comparisons_are_drawn_without_the_first_round():
    points = [
        {"round": 1.0, "pairs_needed": 190.0},
        {"round": 2.0, "pairs_needed": 45.0},
        {"round": 3.0, "test_accuracy": 0.5},
        {"round": 4.0, "pairs_needed": 8.0},
    ]
    frame = pairs_by_round((row("k"),), Exported((row("k"),), {"k": points}))
    assert frame["t"].tolist() == [1, 3]
    assert frame["comparisons_needed"].tolist() == [45, 8]


def test_shapley_values_by_age():
    rows = [
        row(f"k{age}{seed}", seed, measures={"shapley_client": age + seed}, rounds_away=float(age))
        for age in (6, 0)
        for seed in (0, 1)
    ]
    found = by_age([*rows, row("none", rounds_away=3.0)], "shapley_client")
    assert {age: values.tolist() for age, values in found.items()} == {0: [0, 1], 6: [6, 7]}


def whole_book():
    """A study of each figure, with two seeds and all that the figure needs."""
    fig3 = (row("r0", availability="missing", block="mnist"),)
    counts = tuple(
        row(f"c{name}{seed}", seed, strategy=name, availability="YMF", block="fmnist")
        for name in ("fedgs_a1", "uniform")
        for seed in (0, 1)
    )
    accuracies = (row("t0", strategy="fedar"), row("t1", strategy="mifa"))
    ages = tuple(
        row(f"s{age}", measures={"shapley_loss_client": -0.1 * age}, rounds_away=float(age))
        for age in range(7)
    )
    races = (row("p0", strategy="fdms"),)
    needed = [{"round": float(at), "pairs_needed": 45.0 - at} for at in (1, 2, 3)]
    studies = {
        "fdms-fig3": Exported(fig3, {"r0": evaluated(1, 2)}, {"r0": {"group": [0, 0, 1]}},
                              {"r0": {(0, 1): 0.9, (0, 2): 0.1, (1, 2): 0.2}}),
        "fdms-fig4": Exported(races, {"p0": needed}),
        "fedgs-fig4": Exported(counts, {one.key: evaluated(1, 2) for one in counts},
                               {one.key: {"picked": [3, 1, 0]} for one in counts}),
        "fedar-fig1": Exported(ages, {one.key: evaluated(1, 2) for one in ages}),
        "fedar-table3": Exported(accuracies, {one.key: evaluated(1, 2) for one in accuracies},
                                 {one.key: {"accuracy": [0.5, 0.25, 1.0]} for one in accuracies}),
    }  # fmt: skip
    return Book(studies)


def test_every_figure_is_drawn_and_has_a_caption():
    drawn = pictures(whole_book())
    assert list(drawn) == [
        ("fdms-fig3", "mnist-scores.svg"),
        ("fdms-fig3", "mnist.svg"),
        ("fdms-fig4", "all-pairs.svg"),
        ("fedar-fig1", "shapley.svg"),
        ("fedar-table3", "all-clients.svg"),
        ("fedar-table3", "all.svg"),
        ("fedgs-fig4", "fmnist-counts.svg"),
        ("fedgs-fig4", "fmnist.svg"),
    ]
    captions = [bool(caption(*key)) for key in drawn]
    assert captions == [True, False, True, True, True, False, True, False]
    assert {"mnist, seed 0", "R"} <= text_of(drawn["fdms-fig3", "mnist-scores.svg"])
    # counts 3, 1, 0 in both seeds: their variance is 14/9
    legend = text_of(drawn["fedgs-fig4", "fmnist-counts.svg"])
    assert {"fedgs_a1 (variance 1.56)", "uniform (variance 1.56)", "times picked, rounds"} <= legend
    assert {"fedar", "mifa"} <= text_of(drawn["fedar-table3", "all-clients.svg"])


def test_no_figure_without_its_numbers():
    bare = {
        study: Exported(exported.rows, {one.key: () for one in exported.rows})
        for study, exported in whole_book().studies.items()
    }
    ages = bare["fedar-fig1"].rows
    bare["fedar-fig1"] = Exported(tuple(row(one.key, rounds_away=1.0) for one in ages[:1]), {})
    assert set(bare) == set(FIGURES)
    assert pictures(Book(bare)) == {}


@pytest.mark.parametrize(("rounds", "n_pictures"), [((1,), 0), ((1, 2), 1)])
def test_one_dot_is_no_picture(rounds, n_pictures):
    rows = (row("k0"), row("k1", seed=1))
    book = Book({"mine": Exported(rows, {"k0": evaluated(*rounds), "k1": evaluated(*rounds)})})
    assert len(pictures(book)) == n_pictures
    frame = pd.DataFrame({"t": [0, 0, 1], "test_loss": [2.0, 1.0, math.nan]})
    assert not is_curve(frame, "test_loss")


def test_the_readme_splits_verdicts_by_size_as_the_page_does():
    claims, book, _ = results_page.read_all(DOCS)
    sizes = Sizes()
    counts = results_page.counted(results_page.judged_claims(claims, book, sizes), book, sizes)
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    assert {name.partition(", ")[2] for name in counts} == {"its own size", "all data", "reduced"}
    for name, row_of in counts.items():
        assert f"| {name} | {sum(row_of)} |" in readme
    assert results_page.with_verdicts(readme, counts) == readme, "make results renews it"
