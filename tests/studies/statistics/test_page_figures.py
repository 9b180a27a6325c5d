"""The papers' figures and readings on the results page: what is told of them is counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.claims.page_figures import Figure, figure_lines, hours_words, read_figures, run_words
from tools.claims.page_readings import readings_lines
from tools.claims.results_book import Book, Sizes
from tools.claims.results_page import FIGURES
from understudy.studies.definition.builtins import NAMES
from understudy.studies.statistics.export import Exported, Row

DOCS = Path(__file__).parents[3] / "docs"
SIMILARITY = Figure("FL-FDMS", "fig. 3", "similarity", "fdms-fig3", ("mnist",))


@pytest.fixture(scope="module")
def sizes() -> Sizes:
    return Sizes()


def exported(cells, **measures: float) -> dict[str, Row]:
    return {cell.key: Row(cell.key, cell.labels, cell.seed, cell.task.rounds, measures)
            for cell in cells}  # fmt: skip


def test_what_was_run_is_told_with_its_size(sizes: Sizes) -> None:
    ours, paper = (SIMILARITY.cells(sizes, scale) for scale in ("results", "paper"))
    assert (len(ours), len(paper)) == (5, 10)
    assert run_words(SIMILARITY, {}, sizes) == "not run"
    reduced = "reduced: 40 of 100 rounds, 5 of 10 seeds"
    assert run_words(SIMILARITY, exported(ours), sizes) == reduced
    assert run_words(SIMILARITY, exported(ours[:4]), sizes) == (
        "reduced: 40 of 100 rounds, 4 of 10 seeds, 4 of 5 runs"
    )
    assert run_words(SIMILARITY, exported(paper), sizes) == "its own size"
    assert run_words(SIMILARITY, exported(paper[:3]), sizes) == "its own size, 3 of 10 seeds"
    both = exported(paper[:3]) | exported(ours)
    assert run_words(SIMILARITY, both, sizes) == f"its own size, 3 of 10 seeds; {reduced}"


def test_hours_are_those_of_what_is_missing(sizes: Sizes) -> None:
    figure = Figure("FL-FDMS", "fig. 3", "similarity", "fdms-fig3", ("cifar10",))
    ours, paper = (figure.cells(sizes, scale) for scale in ("results", "paper"))
    whole = f"its own size: {sizes.hours(paper):.1f}"
    assert hours_words(figure, exported(ours), sizes) == whole
    assert hours_words(figure, {}, sizes) == f"{whole}; reduced: under 0.1"
    assert hours_words(figure, exported(ours) | exported(paper), sizes) == "–"
    half = sizes.hours(paper[:5])
    assert hours_words(figure, exported(ours) | exported(paper[5:]), sizes) == (
        f"its own size: {half:.1f}"
    )


def test_more_seeds_than_the_papers_are_not_called_reduced(sizes: Sizes) -> None:
    figure = Figure("FedGS", "table 3", "F1", "fedgs-table3")
    rows = exported(figure.cells(sizes, "results")) | exported(figure.cells(sizes, "paper"))
    assert run_words(figure, rows, sizes) == "its own size; 2 more seeds"


def test_every_study_of_a_figure_is_on_the_list() -> None:
    figures = read_figures(DOCS / FIGURES)
    told = {figure.study for figure in figures}
    repeats = ("-fig", "-table", "-sigma", "-e", "-k40", "-fedprox", "-fmnist", "-rho", "-graphs")
    studies = {name for name in NAMES if name.startswith(("fdms-", "fedgs-", "fedar-"))
               and any(part in name for part in repeats)}  # fmt: skip
    assert studies <= told
    assert {figure.paper for figure in figures} == {"FL-FDMS", "FedGS", "FedAR"}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('study = "fdms-fig33"', "study: no built-in study named 'fdms-fig33'"),
        ('study = "fdms-fig3"\nblocks = ["svhn"]', "blocks: fdms-fig3 has no block 'svhn'"),
        ("", "expected either a study or no_run"),
        ('no_run = "a drawing"\npanels = 2', "panels: no such key"),
    ],
)
def test_what_cannot_be_read_is_told(tmp_path: Path, line: str, words: str) -> None:
    head = '[[figure]]\npaper = "FL-FDMS"\nplace = "fig. 3"\nshows = "scores"\n'
    (tmp_path / FIGURES).write_text(head + line)
    with pytest.raises(ValueError, match=r"^FL-FDMS, fig\. 3: ") as error:
        read_figures(tmp_path / FIGURES)
    assert words in str(error.value)


def test_without_a_file_there_is_no_section(tmp_path: Path, sizes: Sizes) -> None:
    assert list(figure_lines(read_figures(tmp_path / FIGURES), Book({}), sizes)) == []


def test_a_reading_is_told_by_its_gain_seed_by_seed(sizes: Sizes) -> None:
    cells = [cell for cell in sizes.cells("fdms-readings", "results")
             if cell.labels["block"] == "distance" and cell.seed < 3]  # fmt: skip
    # gains of 2, 4 and 6 points: 4 on average, t(0.975; 2)·2/√3 = 4.97
    accuracy = {"dropout": (0.70, 0.71, 0.72), "fdms": (0.72, 0.75, 0.78)}
    rows = []
    for cell in cells:
        value = accuracy[str(cell.labels["strategy"])][cell.seed]
        rows += exported([cell], accuracy_mean=value).values()
    # found by their keys, whatever study they were exported with
    book = Book({"fdms-fig1": Exported(rows=tuple(rows))})
    page = "\n".join(readings_lines("FL-FDMS", book, sizes))
    assert "| distance | fdms | 75.00 (+4.00 ± 4.97) | 3 |" in page
    assert "above `dropout`" in page
    assert "| race |" not in page
    assert "Not run, or not whole, and minutes of two cores: as_read " in page
    assert list(readings_lines("FL-FDMS", Book({}), sizes)) == []
    assert list(readings_lines("Other", book, sizes)) == []
