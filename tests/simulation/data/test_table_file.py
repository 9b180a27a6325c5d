"""Tables in files as studies name them: how they are written, and what a cell is known by."""

import shutil

import numpy as np
import pytest

from tests.tryout.tables import sales
from understudy.simulation.data.table_columns import Column
from understudy.simulation.data.table_file import (
    Written,
    how_written,
    numbers_among_words,
    read_table,
    table,
)
from understudy.studies.definition.study import Study


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a,b\n1.5,x\n", Written()),
        ("a;b\n1,5;x\n", Written(";", ",")),
        ("a;b\n1.5;x\n", Written(";")),
        ("a\tb\n1,5\tx\n", Written("\t", ",")),
        ('a,b\n"1,5",x\n', Written()),  # a comma between columns is no decimal sign
        ("größe, cm;b\n1;2\n3;4\n", Written(";")),  # nor one in a name a separator
        ("a|b\n1|2\n", Written("|")),
    ],
)
def test_how_a_file_is_written_is_found_out(text, written, folder):
    (folder / "t.csv").write_text(text, "utf-8")
    assert how_written(folder / "t.csv") == written
    (folder / "t.csv").write_bytes("a;b\nä;1,5\n".encode("cp1252"))
    assert how_written(folder / "t.csv") == Written(";", ",", "cp1252")


@pytest.mark.parametrize("content", [b"a,b\n\x00\x01\n", b"a,b\n\x81\x8d\n"])
def test_what_is_no_text_is_refused(content, folder):
    (folder / "t.csv").write_bytes(content)
    with pytest.raises(ValueError, match=r"t.csv: expected a CSV file in UTF-8; save it as CSV"):
        how_written(folder / "t.csv")
    with pytest.raises(ValueError, match=r"t.xlsx: expected a CSV or Parquet file; save the sheet"):
        how_written(folder / "t.xlsx")
    with pytest.raises(FileNotFoundError, match=r"nix.csv: no such file, neither here nor under"):
        read_table("nix.csv", "a")


def test_equal_names_of_columns_are_refused(folder):
    (folder / "t.csv").write_text("a,b,a\n1,2,3\n")
    with pytest.raises(ValueError, match=r"t.csv: expected columns of different names, got 'a' tw"):
        read_table("t.csv", "a")


def test_numbers_among_words():
    values = np.array(["1.5", "2,25", "1.234,5", "<3", None, "inf", "-4"], dtype=object)
    read = numbers_among_words(Column("x", values))
    np.testing.assert_array_equal(read, [1.5, 2.25, 1234.5, np.nan, np.nan, np.nan, -4.0])


def test_a_parquet_file_is_the_same_federation(folder):
    pytest.importorskip("pyarrow")
    frame = sales()
    frame.loc[0, "shop"] = None
    frame.to_csv("t.csv", index=False)
    frame.to_parquet("t.parquet")
    one, other = (
        table(file, "shop", "sold", drop=["units"], encode=["kind"], seed=1)
        for file in ("t.csv", "t.parquet")
    )
    assert one.x.equal(other.x)
    assert one.names == other.names == ("north", "south", "west")
    assert int(one.sizes.sum()) + len(one.test) == 89  # nobody's row is left out


def study(file):
    data = {"name": "table", "file": file, "client": "shop", "target": "sold", "encode": ["kind"]}
    return Study(
        "t", data={**data, "drop": ["units"], "seed": "run"}, model="softmax",
        strategies=["fedavg"], rounds=1, seeds=2,
    )  # fmt: skip


def test_a_cell_is_known_by_what_is_in_the_file_and_not_by_its_name(folder):
    sales().to_csv("t.csv", index=False)
    before = [cell.key for cell in study("t.csv").cells()]
    assert len(set(before)) == 2
    (folder / "elsewhere").mkdir()
    shutil.copy("t.csv", "elsewhere/u.csv")
    assert [cell.key for cell in study("elsewhere/u.csv").cells()] == before
    sales().assign(size=0.5).to_csv("t.csv", index=False)
    assert not {cell.key for cell in study("t.csv").cells()} & set(before)
