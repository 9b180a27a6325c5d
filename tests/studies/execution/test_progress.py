"""What one sees while a study runs: on a terminal, in a notebook, and elsewhere."""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path

import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient
from rich.console import Console

from understudy import FixedDropout, Study, fedavg
from understudy.core.types import RoundLog
from understudy.studies.definition.cell import Cell
from understudy.studies.execution import notebook_progress, progress
from understudy.studies.execution.run_cell import measured_in


def cells_of(seeds: int) -> list[Cell]:
    study = Study(
        name="friends",
        data={"name": "digits", "partition": "iid", "n_clients": 4},
        model="softmax",
        strategies={"fedavg": fedavg()},
        availability={"half": FixedDropout(0.5)},
        rounds=10,
        seeds=seeds,
    )
    return study.cells()


def test_bars_show_cells_rounds_and_accuracy() -> None:
    screen = StringIO()
    bars = progress.Bars(Console(file=screen, force_terminal=True, width=100))
    cells = cells_of(2)
    bars.start("friends", cells, 3, "2 cells at once")
    bars.begun(cells[0], 0)
    bars.progress(cells[0].key, 1, "accuracy 45.7%")
    bars._progress.refresh()  # by itself ten times a second
    bars.ended(cells[0].key, well=True)
    bars.begun(cells[1], 0)
    bars.ended(cells[1].key, well=False)
    bars.close()
    shown = screen.getvalue()
    for words in ("friends", "2 cells at once", "3/5 cells", "fedavg · half · 0", "1/10", "45.7%"):
        assert words in shown, words
    assert "4/5 cells, 1 failed" in shown


def test_what_is_shown_of_a_round_is_an_accuracy_or_else_a_loss() -> None:
    def log(**metrics: float) -> RoundLog:
        none = np.zeros(0, dtype=np.int64)
        return RoundLog(0, np.zeros(1, dtype=np.int8), (), none, none, np.zeros(0), {}, metrics)

    assert measured_in(log(test_loss=0.53, test_accuracy=0.4567)) == "accuracy 45.7%"
    assert measured_in(log(test_loss=0.53, test_r2=0.9)) == "loss 0.5300"
    assert measured_in(log()) == ""


def test_a_line_for_each_cell_where_nothing_can_be_drawn_anew(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines, cells = progress.Lines(), cells_of(3)
    lines.start("friends", cells, 2, "2 cells at once")
    for cell in cells:
        lines.begun(cell, 0)
    lines.progress(cells[1].key, 9, "accuracy 40.0%")
    lines.progress(cells[2].key, 3, "accuracy 40.0%")
    lines.progress(cells[1].key, 10, "accuracy 45.7%")
    lines.progress(cells[0].key, 10, "")  # never evaluated
    lines.ended(cells[1].key, well=True)
    lines.ended(cells[0].key, well=True)
    lines.ended(cells[2].key, well=False)
    lines.say("Stopped.")
    lines.close()
    assert capsys.readouterr().err == (
        "friends: 5 cells, 2 of them done already; 2 cells at once\n"
        "[3/5] fedavg · half · 1: 10 rounds, accuracy 45.7%\n"
        "[4/5] fedavg · half · 0: 10 rounds\n"
        "[5/5] fedavg · half · 2: failed\n"
        "Stopped.\n"
    )


def test_bars_on_a_terminal_and_lines_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert isinstance(progress.display(True), progress.Lines)
    assert isinstance(progress.display(False), progress.Quiet)
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich: as on a terminal
    assert isinstance(progress.display(True), progress.Bars)
    assert isinstance(progress.display(False), progress.Quiet)


def test_a_notebook_bar_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(notebook_progress, "monotonic", lambda: now)
    drawn: list[str] = []

    class Handle:
        def update(self, bar: object) -> None:
            drawn.append(repr(bar))

    bar, cells = notebook_progress.NotebookProgress(), cells_of(2)
    monkeypatch.setattr("IPython.display.display", lambda bar, display_id: Handle())
    bar.start("<friends>", cells, 1, "two at once")
    assert bar._repr_html_() == (
        '<progress value="0" max="20"></progress> &lt;friends&gt;: 1/3 cells, 0% of the rounds, '
        "0:00<br><small>two at once</small>"
    )
    bar.begun(cells[0], 4)  # goes on where it stopped; drawn a moment ago
    assert drawn == []
    now += 60.0
    bar.progress(cells[0].key, 5, "accuracy 30.0%")
    now += 60.0
    bar.ended(cells[0].key, well=True)
    now += 3600.0
    bar.ended(cells[1].key, well=False)
    bar.close()
    assert drawn == [
        "<friends>: 1/3 cells, 25% of the rounds, 1:00, 3:00 left",
        "<friends>: 2/3 cells, 50% of the rounds, 2:00, 2:00 left",
        "<friends>: 2/3 cells, 1 failed, 100% of the rounds, 1:02:00",
        "<friends>: 2/3 cells, 1 failed, 100% of the rounds, 1:02:00",
    ]


RUN = """
from understudy import FixedDropout, Study, compare, results

study = Study(
    name="friends",
    data={"name": "digits", "partition": "iid", "n_clients": 4},
    model="softmax",
    strategies=["fedavg", "fdms"],
    availability={"half": FixedDropout(0.5)},
    rounds=2,
    seeds=2,
    baseline="fedavg",
)
outcome = study.run("runs", on="here")
"""


@pytest.mark.process
def test_a_study_in_a_notebook(tmp_path: Path) -> None:
    cells = (RUN, "compare(results('runs'), 'accuracy_last')")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, timeout=200, kernel_name="python3").execute(cwd=str(tmp_path))
    (bar,) = notebook.cells[0].outputs  # one, drawn anew; and nothing on stderr
    pattern = r"friends: 4/4 cells, 100% of the rounds, \d:\d\d"
    assert re.fullmatch(pattern, bar.data["text/plain"])
    assert re.fullmatch(f'<progress value="8" max="8"></progress> {pattern}', bar.data["text/html"])
    (table,) = notebook.cells[1].outputs
    assert table.data["text/html"].startswith('<div class="tex2jax_ignore mathjax_ignore">\n<table')
    assert "minus fedavg," in table.data["text/plain"]  # text is text: rich would display it
