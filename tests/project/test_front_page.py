"""The first comparison: one table in README and documentation, and a picture of the same run."""

import re
import tomllib
import xml.etree.ElementTree as ET
from types import SimpleNamespace

import pytest
from sphinx.directives.code import LiteralIncludeReader

from tests.project.test_docs import ROOT, read
from tools.front_page import PICTURE, TABLE, picture, run_quickstart, with_table
from understudy.studies.definition import builtins


def test_the_front_page_shows_the_table_of_the_readme_and_a_picture():
    page = read(ROOT / "docs" / "index.md")
    asked = re.search(r"^```\{literalinclude\} (\S+)\n(.*?)^```$", page, re.M | re.S)
    assert asked, "no table"
    options = dict(re.findall(r'^:([\w-]+): "?(.+?)"?$', asked[2], re.M))
    file = ROOT / "docs" / asked[1]
    shown, _ = LiteralIncludeReader(
        str(file), options, SimpleNamespace(source_encoding="utf-8")
    ).read()
    (table,) = TABLE.findall(read(ROOT / "README.md"))
    assert shown == table
    assert f"```{{image}} {PICTURE.relative_to(ROOT / 'docs')}\n" in page


def test_the_picture_is_of_the_quickstart():
    """Its text is text: all strategies and situations are named in it."""
    words = {element.text for element in ET.parse(PICTURE).iter() if element.tag.endswith("text")}
    study = tomllib.loads(builtins.text("quickstart"))
    assert set(study["strategies"]) <= words
    assert set(study["availability"]) <= words
    assert PICTURE.stat().st_size < 60_000


def test_a_table_is_replaced_where_there_is_one():
    page = "# A\n```text\nquickstart: old\n1 2\n```\nand\n```text\nother\n```\n"
    assert with_table(page, "quickstart: \\1 new\n") == page.replace(
        "quickstart: old\n1 2\n", "quickstart: \\1 new\n"
    )
    with pytest.raises(ValueError, match="expected one text block that begins with 'quickstart: '"):
        with_table("# A\n", "quickstart: new\n")


@pytest.mark.process
def test_table_and_picture_of_a_small_run(tmp_path):
    printed = run_quickstart(tmp_path, ["--rounds", "1", "--seeds", "1"])
    assert printed.startswith("quickstart: ")
    assert printed.endswith("Report: runs/quickstart/report.html\n")
    assert max(map(len, printed.splitlines())) <= 80
    assert picture(tmp_path).startswith(b"<?xml")
