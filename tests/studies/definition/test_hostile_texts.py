"""Texts that somebody else wrote: TOML, labels and titles that try to be more than texts."""

from __future__ import annotations

import csv
import io
import json
import re
import sqlite3
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from matplotlib.figure import Figure
from rich.console import Console

import understudy
from tests.cli import Command
from tests.studies.small_study import store_small_study
from understudy import plots
from understudy.core.printable import is_printable, one_line, printable
from understudy.core.types import Reason, Refusal
from understudy.studies import Study, compare, results
from understudy.studies.definition.document import MOST_SEEDS, seeds_of
from understudy.studies.definition.errors import StudyError
from understudy.studies.definition.toml_text import DEEPEST
from understudy.studies.execution.notebook_progress import NotebookProgress
from understudy.studies.execution.progress import Bars, Lines, Quiet
from understudy.studies.report.figure_data import Picture, file_name, with_own_names
from understudy.studies.report.figures import figures, pictures
from understudy.studies.statistics import tables
from understudy.studies.statistics.csv_cells import guarded, unguarded
from understudy.studies.statistics.export import export, export_level, read
from understudy.studies.statistics.text_table import TextTable
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
# clear the screen, set the title, turn red (in one character), turn the direction, end the line
HOSTILE = "a\x1b[2J\x1b]0;owned\x07\x9b31m\u202e\u200f\rb\nunderstudy: all is well"
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
        connection.execute(  # texts that only `show KEY` prints, or errors
            "UPDATE runs SET error = ?, version = ?, crc32 = NULL, "
            "resolved = json_patch(resolved, ?)",
            (HOSTILE, HOSTILE, json.dumps({HOSTILE: {"class": HOSTILE, "text": HOSTILE, "n": 1}})),
        )
        connection.execute(
            "UPDATE rounds SET crc32 = NULL, metrics = json_set(metrics, ?, 1.0)",
            (f'$."test_{HOSTILE}"',),
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
    with Store.open(hostile) as store:
        key = store.cells("small")[0].key
    tables = [["table", "--format", form] for form in ("text", "markdown", "latex", "csv")]
    shown = [["show"], ["show", key], ["show", key[:8]], ["report"], ["plot"], ["doctor"]]
    for arguments in [*tables, ["table", "--pair", "rounds"], *shown]:
        said = command(*arguments, "--folder", hostile)
        assert said.code == 0, said.err
        assert_plain(said.out + said.err)
        lines = said.out.splitlines() if arguments[:1] == ["show"] else []
        # an error's own lines are shown as lines; elsewhere a break is none
        assert sum(line == "understudy: all is well" for line in lines) == (len(arguments) == 2)
    page = (hostile / "small" / "report.html").read_text()
    assert page.count("<script>") == 1  # the page's own, allowed by its hash
    assert is_printable(page)
    for arguments in (
        ["show", HOSTILE], ["show", HOSTILE, "--folder", HOSTILE], ["run", HOSTILE],
        ["table", "--metric", HOSTILE, "--folder", hostile], ["list", HOSTILE],
        ["table", "--baseline", HOSTILE, "--folder", hostile], [HOSTILE],
        ["run", "--set", f"{HOSTILE}=1"], ["doctor", HOSTILE], ["retire", HOSTILE, HOSTILE],
        ["new-app", str(hostile / "new" / HOSTILE)],
    ):  # fmt: skip
        said = command(*arguments)
        assert said.code in (0, 1, 2)
        assert_plain(said.out + said.err)
        assert "understudy: all is well" not in said.err.splitlines()


def assert_plain(text: str) -> None:
    """By the bytes, not by our own rule: no control character but tab and newline, C1 included."""
    codes = {ord(character) for character in text.encode("utf-8").decode("utf-8")}
    assert not codes & {*range(9), *range(11, 32), *range(127, 160), 0x202E, 0x200F, 0x2028}


def test_the_command_as_a_process_sends_no_escapes(hostile: Path) -> None:
    """The bytes of the real thing."""
    with Store.open(hostile) as store:
        key = store.cells("small")[0].key
    command = [sys.executable, "-m", "understudy", "show", key, "--folder", str(hostile)]
    said = subprocess.run(command, capture_output=True, timeout=300, check=True)
    assert b"configuration" in said.stdout
    assert_plain(said.stdout.decode() + said.stderr.decode())


def test_a_table_on_a_terminal_has_no_escapes_of_others(hostile: Path) -> None:
    """Rich writes escapes of its own there; markup in a label is none either."""
    cells = (("[link=http://x]a[/link]", HOSTILE), ("[bold]b[/bold]", "c"))
    table = TextTable(("[red]head", HOSTILE), cells, frozenset({1}), (HOSTILE,))
    terminal = Console(file=io.StringIO(), force_terminal=True, color_system="truecolor", width=80)
    terminal.print(tables.rich_table(table))
    comparison = compare(results(hostile, study="small"), "accuracy_last")
    terminal.print(comparison.to_rich())
    written = terminal.file.getvalue()  # type: ignore[attr-defined]
    assert_plain(re.sub(r"\x1b\[[\d;]*m", "", written))  # colours
    assert "[link=http://x]a" in written
    assert "[bold]b" in written


@pytest.mark.parametrize("kind", [Quiet, Lines, NotebookProgress])
def test_progress_prints_no_escapes(kind: Any, capsys: pytest.CaptureFixture[str]) -> None:
    kind().say(HOSTILE)
    said = capsys.readouterr()
    assert_plain(said.out + said.err)
    assert "owned" in said.out + said.err


def test_progress_on_a_terminal_prints_no_escapes_of_others() -> None:
    terminal = Console(file=io.StringIO(), force_terminal=True, width=80)
    bars = Bars(terminal)
    bars.start(HOSTILE, [], 0, f"[link=http://x]{HOSTILE}")
    bars.say(HOSTILE)
    bars.close()
    written = terminal.file.getvalue()  # type: ignore[attr-defined]
    assert "owned" in written
    assert "\x1b]" not in written  # no title, no link
    assert "\x1b[2J\x1b]0" not in written
    assert not {"\x07", "\x9b", "\u202e"} & set(written)


def test_an_error_that_nobody_foresaw_comes_with_a_plain_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError(HOSTILE)

    monkeypatch.setattr("understudy.commands.stored_study.find", broken)
    said = Command(capsys, monkeypatch)("table")
    assert said.code == 1
    assert said.err.startswith("Traceback (most recent call last)")
    assert "RuntimeError: a\ufffd[2J\ufffd]0;owned" in said.err
    assert_plain(said.out + said.err)


def test_refusals_are_printable_lines() -> None:
    refusal = Refusal(HOSTILE, Reason.UNREADABLE, HOSTILE)
    assert_plain(str(refusal))
    assert "\n" not in str(refusal) + refusal.detail


def test_nothing_is_printed_but_through_the_functions_that_escape() -> None:
    """Where the package prints or logs: a new place belongs here, and passes `printable`."""
    places = {
        r"typer\.(secho|echo)\(|click\.echo\(": {"commands/text.py"},
        r"(?<![\w.])print\(": {
            "commands/errors.py",
            "studies/execution/progress.py",
            "studies/execution/notebook_progress.py",
            "simulation/training/kernels/compile.py",  # a path, for who builds it
            "representation/warnings.py",  # an example
            "tryout/run.py",  # an example
            "tryout/script.py",  # in the program that it writes
        },
        r"console\.print\(": {
            "commands/text.py",
            "studies/execution/progress.py",
            "studies/statistics/tables.py",
        },
        r"sys\.std(out|err)\.write\(": set(),
        r"warnings\.warn\(": {
            "flower/rounds/outcomes.py",
            "simulation/data/federation.py",  # names through `shown`, which escapes them
        },
        r"getLogger\(.flwr": {"flower/log.py"},
        r"rich\.text import Text": {
            "studies/statistics/tables.py",
            "dashboard/terminal.py",  # names through `one_line`
            "dashboard/terminal_clients.py",
        },
    }
    package = Path(understudy.__file__).parent
    for pattern, known in places.items():
        found = {
            path.relative_to(package).as_posix()
            for path in package.rglob("*.py")
            if re.search(pattern, path.read_text(encoding="utf-8"))
        }
        assert found == known, pattern


@pytest.mark.parametrize(
    "character",
    [
        *"\x00\x07\x08\x0b\x1b\x7f\x80\x85\x9b\x9f\r\u061c\u200e\u200f\u2028\u2029",
        *"\u202a\u202e\u2066\u2069\ufeff\ufff9\ufffe\uffff\U000e0041\ud800",
    ],
)
def test_no_such_character_is_printable(character: str) -> None:
    assert not is_printable(f"a{character}b")
    assert printable({"x": [f"a{character}b"]}) == {"x": ["a\ufffdb"]}
    assert one_line(f"a{character}\nb") == "a\ufffd b"


@pytest.mark.parametrize(
    "text", ["α ≤ 0.5 – 3 %", "naïve", "日本語", "سلام", "👩\u200d🔬", "a\tb\nc"]
)
def test_texts_of_all_languages_are_printable(text: str) -> None:
    assert is_printable(text)
    assert printable(text) == text


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
