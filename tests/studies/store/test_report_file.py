"""A report that does not show the latest results is marked, in the page and on the terminal."""

import pytest

from tests.studies.pages import Page
from understudy.cli import main
from understudy.studies.definition.study import Study
from understudy.studies.report.report import write_report
from understudy.studies.store.report_file import is_outdated, mark_outdated, report_path
from understudy.studies.store.store import Store

TEXT = """
name = "x"
rounds = 2
seeds = 1
model = "softmax"
strategies = ["fedavg", "fdms"]
availability.half = { name = "fixed_dropout", alpha = 0.5 }

[data]
name = "digits"
partition = "clustered"
n_clients = 6
n_clusters = 3
per_client = 20
"""
MARK = "This report is outdated."


def run(folder, **changes):
    study = Study.read(TEXT, None, changes)
    study.run(folder, on="here", progress=False)


def outdated(folder):
    with Store.open(folder) as store:
        return is_outdated(store, folder, "x")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A study whose report was written, then run with one more seed."""
    folder = tmp_path_factory.mktemp("place") / "runs"
    run(folder)
    assert not outdated(folder)  # there is none
    path = write_report(folder, "x")
    assert path == report_path(folder, "x")
    fresh = path.read_text(encoding="utf-8")
    run(folder)  # nothing is left to run
    assert path.read_text(encoding="utf-8") == fresh
    assert not outdated(folder)
    run(folder, seeds=2)
    return folder


def test_a_run_marks_the_report_that_is_there(written):
    page = report_path(written, "x").read_text(encoding="utf-8")
    assert page.count(MARK) == 1
    assert MARK in Page(page).words  # it is still a whole page
    assert page.index(MARK) < page.index("<h1>")
    assert outdated(written)


def test_it_is_marked_once(written):
    before = report_path(written, "x").read_bytes()
    mark_outdated(written, "x")
    assert report_path(written, "x").read_bytes() == before
    mark_outdated(written, "none")  # no report, nothing to mark


def said(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert not ended.value.code
    return capsys.readouterr()


def test_show_and_table_say_so_until_it_is_rewritten(written, monkeypatch, capsys):
    monkeypatch.chdir(written.parent)
    path = "runs/x/report.html"
    words = f"{path} is outdated: it was written before the latest results. Rewrite it: "
    shown = " ".join(said(capsys, "show", "x").out.split())
    assert shown.endswith(f"{words}understudy report x")
    table = said(capsys, "table", "x", "--format", "csv")
    assert table.err == f"{words}understudy report x\n"
    assert "outdated" not in table.out
    # from elsewhere the command names the folder
    monkeypatch.chdir(written.parent.parent)
    told = said(capsys, "table", "x", "--folder", str(written), "--format", "csv").err
    assert f"understudy report x --folder {written.parent.name}/runs\n" in told
    monkeypatch.chdir(written.parent)
    said(capsys, "report", "x")
    assert not outdated(written)
    assert MARK not in report_path(written, "x").read_text(encoding="utf-8")
    assert said(capsys, "table", "x", "--format", "csv").err == ""
    assert "outdated" not in said(capsys, "show", "x").out


def test_a_report_of_an_older_version_counts_as_outdated(written, tmp_path):
    page = report_path(written, "x")
    text = page.read_text(encoding="utf-8")
    page.write_text("<!doctype html>\n<body>\n<h1>old</h1>", encoding="utf-8")
    assert outdated(written)
    page.write_text(text, encoding="utf-8")
