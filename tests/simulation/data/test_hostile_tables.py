"""CSV files that are none, or not what they seem: one error with the file's name and the line."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

from tests.cli import Command
from understudy.simulation import Federation

HEADER = "site,age,weight,ill"
ROWS = [f"s{i % 2},{i},{i / 2},{i % 2}" for i in range(20)]
WHOLE = "\n".join([HEADER, *ROWS, ""])


def with_row(row: str | bytes) -> bytes:
    """The whole table; its sixth line is another."""
    lines = [line.encode() for line in WHOLE.splitlines(keepends=True)]
    lines[5] = (row if isinstance(row, bytes) else row.encode()) + b"\n"
    return b"".join(lines)


def with_header(header: str) -> bytes:
    return WHOLE.replace(HEADER, header).encode()


HOSTILE: dict[str, tuple[bytes, str]] = {
    "empty": (b"", r": expected a CSV file with a header, got an empty one"),
    "blank lines": (b"\n \n\n", r": expected a CSV file with a header, got an empty one"),
    "headers only": (HEADER.encode(), r": expected at least one row after the header, got none"),
    "NUL": (with_row("s0,\x004,2,0"), r", line 6: expected a CSV file, got a byte 0x00"),
    "NUL in a name": (with_row("s0\x00,4,2,0"), r", line 6: expected a CSV file, got a byte 0x00"),
    "UTF-16": (WHOLE.encode("utf-16"), r", line 1: expected a CSV file in UTF-8, got the byte 0xf"),
    "Latin-1": (with_row(b"Z\xfcrich,4,2,0"), r", line 6: expected a CSV file in UTF-8, .* 0xfc"),
    "compressed": (gzip.compress(WHOLE.encode(), mtime=0), r", line 1: expected a CSV file in UTF"),
    "a row too long": (with_row("s0,4,2,0,9"), r", line 6: expected 4 fields, .* got 5"),
    "a row too short": (with_row("s0,4"), r", line 6: expected 4 fields, .* got 2"),
    # pandas takes the first column of such a file for an index, and shifts all others
    "all rows too long": (
        "\n".join([HEADER, *(f"{row},7" for row in ROWS)]).encode(),
        r", line 2: expected 4 fields, as in the header, got 5",
    ),
    "an open quote": (with_row('s0,"4,2,0'), r", line 21: expected 4 fields, .* got 2"),
    "a huge field": (
        with_row(f"s0,{'x' * 1_000_000},2,0"),
        r", line 6: expected a CSV file; field",
    ),
    "a name twice": (with_header("site,age,age,ill"), r", line 1: .* different names, got 'age'"),
    "many columns": (
        (HEADER + "," + ",".join(f"c{i}" for i in range(100_000)) + "\n").encode(),
        r", line 1: expected at most 100,000 columns, got 100,004",
    ),
    "other columns": (
        (",".join(f"c{i}" for i in range(50_000)) + "\n").encode(),
        r": client: the table has no column 'site'; it has 'c0', .* and 49,980 more",
    ),
    "infinity": (with_row("s0,inf,2,0"), r", line 6: features: column 'age': .* got inf"),
    "overflow": (with_row("s0,1e999,2,0"), r", line 6: features: column 'age': .* got inf"),
    "beyond 32 bits": (with_row("s0,1e300,2,0"), r", line 6: features: .* got 1e\+300"),
    "NaN": (with_row("s0,nan,2,0"), r", line 6: features: column 'age' has 1 missing value; "),
    "a gap": (with_row("s0,,2,0"), r", line 6: features: column 'age' has 1 missing value; "),
    "no client": (with_row(",4,2,0"), r", line 6: client: column 'site' has 1 missing value; "),
    "no label": (with_row("s0,4,2,"), r", line 6: label: column 'ill' has 1 missing value; "),
    "a word": (with_row("s0,four,2,0"), r", line 6: features: column 'age' .* \(such as 'four'\)"),
    "an underscore": (with_row("s0,1_000,2,0"), r", line 6: features: .* \(such as '1_000'\)"),
    "Arabic digits": (with_row("s0,\u0663,2,0"), r", line 6: features: .* \(such as '\u0663'\)"),
    "a long number": (
        with_row(f"s0,{'9' * 4000},2,0"),
        r", line 6: features: column 'age' does no",
    ),
    "a label below 0": (
        with_row("s0,4,2,-5"),
        r", line 6: label: column .ill. holds whole numbers below 0",
    ),
    "a web page": (b"<html>\n</html>\n", r": client: the table has no column 'site'; it has '<ht"),
    "escape codes": (b"\x1b]0;owned\x07,b,c\n1,2,3\n", r": client: the table has no column 'site'"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_file_is_one_short_error_that_names_it(kind: str, tmp_path: Path) -> None:
    content, words = HOSTILE[kind]
    path = tmp_path / "patients.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"^\S+/patients\.csv" + words) as said:
        Federation.from_table(path, client="site", label="ill")
    assert type(said.value) is ValueError  # none of pandas' or csv's own
    assert len(str(said.value)) < 900
    assert str(said.value).isprintable()


@pytest.mark.parametrize("kind", ["NUL", "a row too short", "infinity", "headers only"])
def test_so_is_a_hostile_file_to_test_with(kind: str, tmp_path: Path) -> None:
    content, words = HOSTILE[kind]
    (tmp_path / "patients.csv").write_text(WHOLE)
    (tmp_path / "others.csv").write_bytes(content)
    words = r"^\S+/others\.csv" + words.replace("features:", "test:")
    with pytest.raises(ValueError, match=words):
        Federation.from_table(
            tmp_path / "patients.csv", client="site", label="ill", test=tmp_path / "others.csv"
        )


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf" + WHOLE.encode(),
        WHOLE.replace("\n", "\r\n").encode(),
        WHOLE.replace("\n", "\r").encode(),
        WHOLE.replace("\n", "\n\n").encode(),
        WHOLE.replace("s0", '"s0"').replace("age", '"age"').encode(),
        WHOLE.rstrip().encode(),
    ],
)
def test_what_is_only_written_otherwise_is_read(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "patients.csv"
    path.write_bytes(content)
    federation = Federation.from_table(path, client="site", label="ill", standardise=False)
    assert federation.names == ("s0", "s1")
    np.testing.assert_array_equal(federation.x[:, 1], np.arange(20) / 2)


def test_names_with_line_breaks_do_not_shift_the_line_that_is_named(tmp_path: Path) -> None:
    path = tmp_path / "patients.csv"
    path.write_bytes(with_row("s0,4,x,0").replace(b"s1,1,", b'"s\n1",1,'))
    with pytest.raises(ValueError, match=r"patients\.csv, line 7: features: column 'weight'"):
        Federation.from_table(path, client="site", label="ill")


def test_a_table_of_pandas_with_a_name_twice_is_refused() -> None:
    frame = pandas.DataFrame([["a", 1, 2, 0]] * 4, columns=["site", "age", "age", "ill"])
    with pytest.raises(ValueError, match="features: the table has 2 columns 'age'"):
        Federation.from_table(frame, client="site", label="ill")


STUDY = """
name = "patients"
rounds = 1
[data]
name = "{module}:patients"
[model]
name = "softmax"
[strategies]
fedavg = "fedavg"
[availability]
phones = {{name = "trace", file = "{folder}/phones.csv"}}
"""
MODULE = """
from understudy.simulation import Federation

def patients():
    return Federation.from_table("{folder}/patients.csv", client="site", label="ill")
"""


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("patients.csv", HOSTILE["UTF-16"][0], "line 1: expected a CSV file in UTF-8"),
        ("patients.csv", HOSTILE["a row too long"][0], "line 6: expected 4 fields"),
        ("phones.csv", b"device,t_s,state\na\x00,1,UN_AVL\n", "line 2: expected a CSV file"),
    ],
)
def test_the_command_line_says_it_in_one_line(
    name: str,
    content: bytes,
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = f"hostile_table_{len(content)}"
    places: dict[str, Any] = {"folder": tmp_path, "module": module}
    (tmp_path / "study.toml").write_text(STUDY.format(**places))
    (tmp_path / f"{module}.py").write_text(MODULE.format(**places))
    (tmp_path / "patients.csv").write_text(WHOLE)
    (tmp_path / "phones.csv").write_text("device,t_s,state\na,1,AVL_TRAIN\na,900,UN_AVL\n")
    (tmp_path / name).write_bytes(content)
    monkeypatch.chdir(tmp_path)
    said = Command(capsys, monkeypatch)("run", tmp_path / "study.toml", "--jobs", "1")
    assert said.code in (1, 2)
    assert "Traceback" not in said.out + said.err
    assert f"{name}, {words}" in " ".join((said.out + said.err).split())
