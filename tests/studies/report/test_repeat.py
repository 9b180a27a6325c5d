"""The commands of a report, typed where it was written."""

from __future__ import annotations

import re
import shlex

import pytest

from tests.cli import Command
from tests.studies.texts import text
from understudy.studies import Study
from understudy.studies.definition import builtins
from understudy.studies.report.report import write_report

STUDY = text(top="seeds = 1").replace('name = "small"', "")


def commands_in(page: str) -> list[str]:
    (block,) = re.findall(r"<pre>(understudy run.*?)</pre>", page, re.DOTALL)
    return block.replace("&#39;", "'").splitlines()


@pytest.fixture
def command(capsys, monkeypatch):
    return Command(capsys, monkeypatch)


def test_an_edited_copy_of_a_built_in_study_in_another_folder(tmp_path, monkeypatch, command):
    """Whoever types what the page says finds every cell done."""
    (tmp_path / "project" / "studies").mkdir(parents=True)
    (tmp_path / "project" / "studies" / "fdms-fig1.toml").write_text(STUDY)
    monkeypatch.chdir(tmp_path / "project")
    asked = ["studies/fdms-fig1.toml", "--folder", "../out"]
    assert command("run", *asked, "--set", "rounds=2").code == 0
    path = tmp_path / "out" / "fdms-fig1" / "report.html"
    page = path.read_text(encoding="utf-8")
    first, second = commands_in(page)
    assert first == f"understudy run {asked[0]} --set rounds=2 --folder ../out"
    assert second == "understudy report fdms-fig1 --folder ../out"
    assert f"<code>{second}</code> rewrites this page." in page
    assert str(tmp_path) not in page
    assert "0, 2 done" in command(*shlex.split(first)[1:], "--dry-run").out
    assert command(*shlex.split(second)[1:]).code == 0
    assert path.read_text(encoding="utf-8") == page
    # written from elsewhere, its commands work from there
    monkeypatch.chdir(tmp_path)
    moved = commands_in(write_report("out", "fdms-fig1").read_text(encoding="utf-8"))
    assert moved == [
        "understudy run project/studies/fdms-fig1.toml --set rounds=2 --folder out",
        "understudy report fdms-fig1 --folder out",
    ]
    assert "0, 2 done" in command(*shlex.split(moved[0])[1:], "--dry-run").out


def test_in_the_usual_folder_nothing_is_said_of_it(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text(STUDY)
    assert command("run", "mine.toml").code == 0
    page = (tmp_path / "runs" / "mine" / "report.html").read_text(encoding="utf-8")
    assert commands_in(page) == ["understudy run mine.toml", "understudy report mine"]


def test_which_studies_are_built_in(tmp_path):
    own = builtins.source("quickstart")
    assert builtins.built_in("quickstart").about()["built_in"] is True
    assert Study.read(own).about()["built_in"] is True
    copy = tmp_path / "quickstart.toml"
    copy.write_bytes(own.read_bytes())
    assert Study.read(copy).about()["built_in"] is False
    assert Study.read(text()).about()["built_in"] is False
