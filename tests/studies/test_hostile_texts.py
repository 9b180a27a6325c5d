"""Texts that somebody else wrote: TOML, labels and titles that try to be more than texts."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from matplotlib.figure import Figure

from tests.cli import Command
from tests.studies.small_study import store_small_study
from understudy import plots
from understudy.core.printable import is_printable, printable
from understudy.studies import Study
from understudy.studies.definition.document import MOST_SEEDS, seeds_of
from understudy.studies.definition.errors import StudyError
from understudy.studies.definition.toml_text import DEEPEST
from understudy.studies.report.figure_data import Picture, file_name, with_own_names
from understudy.studies.report.figures import figures, pictures
from understudy.studies.statistics import tables
from understudy.studies.statistics.csv_cells import guarded, unguarded
from understudy.studies.statistics.export import export, export_level, read
from understudy.studies.store.store import Store

STUDY = """
name = "small"
rounds = 2
model = "softmax"
[data]
name = "digits"
partition = "iid"
n_clients = 3
[strategies]
fedavg = "fedavg"
"""
FORMULAS = ["=1+1", "+x", "-x", "@SUM(A1)", "=cmd|' /C calc'!A0", "'=x", "''@y", "-1", "−1", "x=1"]


# -- TOML ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "[" * 10_000 + "]" * 10_000,
        "x = " + "{a = " * 5_000 + "1" + "}" * 5_000,
        ".".join(["a"] * 20_000) + " = 1",
        "[" + ".".join(["a"] * 20_000) + "]",
        "x = " + "[" * (DEEPEST + 1) + "]" * (DEEPEST + 1),
        "x = " + "9" * 5_000,
        "rounds = \x00",
        "rounds = 1e",
    ],
)
def test_a_deep_or_long_text_is_an_error_of_the_study(tmp_path: Path, text: str) -> None:
    file = tmp_path / "study.toml"
    file.write_text(text)
    with pytest.raises(StudyError, match=r"study\.toml: not TOML"):
        Study.read(file)


def test_a_deep_value_on_the_command_line_is_an_error_of_its_key(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text(STUDY)
    with pytest.raises(StudyError, match="local") as refused:
        Study.read(file, overrides=["local.lr=" + "[" * 10_000])
    assert len(str(refused.value)) < 1000


@pytest.mark.parametrize("seeds", [10**12, MOST_SEEDS + 1, 2**64, [2**63], [0, 10**30]])
def test_seeds_that_no_store_holds_are_refused_at_once(seeds: Any) -> None:
    with pytest.raises(StudyError, match="seeds: expected at most 100000"):
        seeds_of(seeds)
    assert seeds_of([2**63 - 1]) == (2**63 - 1,)


@pytest.mark.parametrize(
    ("line", "on_path"),
    [
        ('title = "Note:this"', False),
        ('shows = "results:better"', False),
        ('model = "my_model:net"', True),
    ],
)
def test_a_title_with_a_colon_does_not_put_the_folder_on_the_path(
    tmp_path: Path, line: str, on_path: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder on the path hides modules of the same names: `random.py`, say."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "my_model.py").write_text("from torch import nn\nnet = lambda: nn.Linear(64, 10)\n")
    lines = [one for one in STUDY.splitlines() if one.partition(" ")[0] != line.partition(" ")[0]]
    (tmp_path / "study.toml").write_text("\n".join([line, *lines]))
    study = Study.read(tmp_path / "study.toml")
    assert (str(tmp_path) in sys.path) == on_path
    assert study.path == ((str(tmp_path),) if on_path else ())


@pytest.mark.parametrize(
    "line",
    [
        '[strategies."a\\u001b[31m"]\nmethod = "fedavg"',
        '[availability]\n"b\\u0000" = "always"',
        '[axes]\n"local.lr" = [{label = "x\\u202e", value = 0.1}, 0.2]',
    ],
)
def test_labels_are_printable(line: str) -> None:
    with pytest.raises(StudyError, match="printable"):
        Study.read(f"{STUDY}\n{line}\n")


def test_titles_are_printable() -> None:
    with pytest.raises(StudyError, match="title: expected printable"):
        Study.read(f'title = "\\u001b[2J"\n{STUDY}')


def test_a_block_with_single_brackets_is_an_error_of_the_study() -> None:
    """Found by the fuzzer: the keys of the one block were taken for names of blocks."""
    with pytest.raises(StudyError, match=r"block: expected tables, each headed \[\[block\]\]"):
        Study.read(f'{STUDY}\n[block]\nname = "mnist"\n')


def test_names_of_blocks_are_texts() -> None:
    with pytest.raises(StudyError, match="blocks: expected a list of the names of blocks"):
        Study.read(f"blocks = [[]]\n{STUDY}")


# -- labels of a store -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose labels and texts somebody has written anew."""
    runs = store_small_study(tmp_path_factory.mktemp("hostile") / "runs", seeds=2, alphas=(0.2,))
    names = {"full": "\x1b]0;owned\x07=1+1", "dropout": "x/y", "fdms": "x y", "uniform": "X Y"}
    with sqlite3.connect(runs / "understudy.sqlite") as connection:
        for position, text in connection.execute("SELECT position, labels FROM study_cells"):
            labels = json.loads(text)
            labels["strategy"] = names[labels["strategy"]]
            connection.execute(
                "UPDATE study_cells SET labels = ?, crc32 = NULL WHERE position = ?",
                (json.dumps(labels), position),
            )
        about = {"title": "<script>\x00\x1b[2J</script>", "name": "small", "baseline": "x/y"}
        connection.execute("UPDATE studies SET about = ?, crc32 = NULL", (json.dumps(about),))
    connection.close()
    return runs


def test_what_is_read_from_a_store_is_printable(hostile: Path) -> None:
    with Store.open(hostile) as store:
        assert is_printable(store.study("small").about["title"])
        assert {cell.labels["strategy"] for cell in store.cells("small")} == {
            "�]0;owned�=1+1", "x/y", "x y", "X Y",
        }  # fmt: skip


def test_commands_print_no_control_characters(
    hostile: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = Command(capsys, monkeypatch)
    for arguments in (["table"], ["table", "--format", "csv"], ["show"], ["report"]):
        said = command(*arguments, "--folder", hostile)
        assert said.code == 0, said.err
        assert is_printable(said.out + said.err)
    page = (hostile / "small" / "report.html").read_text()
    assert "<script>" not in page
    assert is_printable(page)
    said = command("show", "\x1b[31mno-such", "--folder", hostile)
    assert said.code == 2
    assert is_printable(said.err)


def test_each_picture_has_a_file_of_its_own(hostile: Path) -> None:
    made = figures(hostile, "small")
    names = [name.casefold() for name in made]
    assert len(set(names)) == len(names)
    assert len(made) == len(pictures(hostile, "small"))
    for figure in made.values():
        ElementTree.fromstring(plots.svg(figure))


def test_names_of_pictures() -> None:
    figure = Figure()
    given = [file_name("levels", label) for label in ("x/y", "x y", "X\\Y", "x" * 400, "../../up")]
    told = [picture.name for picture in with_own_names(Picture(n, "", figure, "") for n in given)]
    assert told[:3] == ["levels-x-y", "levels-x-y-2", "levels-X-Y-3"]
    assert max(len(name) for name in told) <= 130
    assert all("/" not in name and not name.startswith(".") for name in told)


def test_a_picture_with_control_characters_is_a_whole_svg_file() -> None:
    figure = Figure()
    figure.suptitle("a\x00b\x1bc<d>&")
    with pytest.warns(UserWarning, match="Glyph"):
        content = plots.svg(figure)
    ElementTree.fromstring(content)
    assert printable("a\x00b\x1b\n") == "a�b�\n"


# -- spreadsheets ----------------------------------------------------------------------------------


@pytest.mark.parametrize("word", FORMULAS)
def test_a_word_is_no_formula_and_comes_back(word: str) -> None:
    written = guarded(word)
    assert unguarded(written) == word
    assert written[0] not in "=+-@" or word == "-1"
    assert (written == word) == (word in ("-1", "−1", "x=1"))


def test_no_csv_file_has_a_formula(tmp_path: Path) -> None:
    """Of a study whose labels are formulas: each of the three ways to CSV."""
    runs = store_small_study(tmp_path / "runs", seeds=1, alphas=(0.2,))
    with sqlite3.connect(runs / "understudy.sqlite") as connection:
        connection.execute(
            "UPDATE study_cells SET labels = replace(labels, 'dropout', '=1+1'), crc32 = NULL"
        )
    connection.close()
    export(runs, "small", tmp_path / "out")
    whole = export_level(runs, "small", tmp_path / "out")
    texts = [(tmp_path / "out" / "small" / "cells.csv").read_text(), whole.read_text()]
    texts.append(tables.csv(pd.DataFrame({"=head": ["=1+1", "@x"], "number": [-1.5, 2.0]})))
    for text in texts:
        words = [word for line in csv.reader(io.StringIO(text)) for word in line]
        assert "'=1+1" in words
        assert not [word for word in words if word[:1] in ("=", "+", "@")]
    assert "-1.5" in texts[-1]
    labels = [row.labels["strategy"] for row in read(tmp_path / "out" / "small").rows]
    assert "=1+1" in labels
    before = texts[0]
    export(runs, "small", tmp_path / "out")  # the same rows, in their old places
    assert (tmp_path / "out" / "small" / "cells.csv").read_text() == before
