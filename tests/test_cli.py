"""The command line: its own words, exactly, at 80 columns."""

import re
import warnings
from html.parser import HTMLParser

import numpy as np
import pytest
from scipy import stats

import understudy
from understudy.simulation.comparison import Played, Setting, compare, half_width, standings

with warnings.catch_warnings():
    # typer imports names that newer versions of click call deprecated
    warnings.simplefilter("ignore", DeprecationWarning)
    from typer.testing import CliRunner

    from understudy.cli import app

NUMBER = r"[+−]?\d+\.\d"


def invoke(*arguments, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    return CliRunner().invoke(app, list(arguments))


class Cells(HTMLParser):
    """The text of each cell of the page's only table, row by row."""

    def __init__(self, page):
        super().__init__()
        self.rows, self.inside = [], False
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self.inside = True

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.rows[-1][-1] += data


def test_version(monkeypatch):
    result = invoke("--version", monkeypatch=monkeypatch)
    assert result.exit_code == 0
    assert result.output == f"understudy {understudy.__version__}\n"


@pytest.fixture(scope="module")
def two_rounds(tmp_path_factory):
    """The output of a short run and the page that it wrote."""
    folder = tmp_path_factory.mktemp("runs") / "new" / "quickstart"
    with pytest.MonkeyPatch.context() as monkeypatch:
        result = invoke(
            "run", "--rounds", "2", "--seeds", "2", "--folder", str(folder), monkeypatch=monkeypatch
        )
    assert result.exit_code == 0, result.output
    return result.output, folder / "report.html"


INTRODUCTION = """\
20 clients hold 64 handwritten digits each, in 5 clusters of two classes.
In every round but the first, 70 % of them are missing.
2 rounds, 2 seeds.
"""
HEADER = " method    for an absent client      accuracy, %   minus dropout   fluctuation"
NOTES = """\
Accuracy: mean over the last 2 rounds, then over seeds. ±: half a 95 % interval
over seeds; differences are taken seed by seed. Fluctuation: standard deviation
over the last 2 rounds, in points. uniform and fedgs ask for a fifth of the
clients only, full needs all of them.
"""
METHODS = ["full", "dropout", "stale", "fedar", "fedvarp", "fdms", "uniform", "fedgs"]


def test_run_says_what_it_does(two_rounds):
    output, page = two_rounds
    text = "\n".join(line.rstrip() for line in output.splitlines()) + "\n"
    assert text.startswith(INTRODUCTION)
    assert f"\n{NOTES}Report: {page}\n" in text
    lines = text.splitlines()
    header = next(i for i, line in enumerate(lines) if line.lstrip().startswith("method"))
    assert lines[header].split() == HEADER.split()
    table = lines[header + 2 : header + 2 + len(METHODS)]
    assert [line.split()[0] for line in table] == METHODS
    for line in table:
        assert re.search(rf"{NUMBER} ± {NUMBER} +({NUMBER} ± {NUMBER}|–) +{NUMBER}$", line), line
    assert all(len(line) <= 80 for line in lines if not line.startswith("Report: "))


def test_the_pages_numbers_are_the_tables(two_rounds):
    output, page = two_rounds
    header, *rows = Cells(page.read_text(encoding="utf-8")).rows
    assert len(header) == 5
    assert [row[0] for row in rows] == METHODS
    printed = {line.split()[0]: line for line in output.splitlines() if line.split()}
    for row in rows:
        words = " ".join(printed[row[0]].split())
        assert words == " ".join(" ".join(row).split())


def test_the_page_needs_nothing_else(two_rounds):
    _, page = two_rounds
    text = page.read_text(encoding="utf-8")
    assert text.count("<svg") == 2
    assert "<script" not in text
    loaded = re.findall(r'(?:src|href)="([^"]+)"', text)
    outside = [address for address in loaded if not address.startswith(("#", "data:"))]
    assert outside == ["https://doi.org/10.24432/C50P49"]
    assert "@import" not in text
    assert [file.name for file in page.parent.iterdir()] == ["report.html"]


@pytest.mark.parametrize("option", ["--rounds", "--seeds"])
def test_numbers_below_one_are_refused(option, monkeypatch):
    result = invoke("run", option, "0", monkeypatch=monkeypatch)
    assert result.exit_code == 2
    assert "0 is not in the range x>=1" in result.output


def test_a_folder_that_cannot_be_made_is_refused_before_anything_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("in the way")
    result = invoke("run", "--folder", "file/x", monkeypatch=monkeypatch)
    assert result.exit_code == 2
    assert "clients hold" not in result.output
    assert "Invalid value for --folder: file/x: Not a directory" in result.output


def test_list_names_every_registered_part_with_its_parameters(monkeypatch):
    result = invoke("list", monkeypatch=monkeypatch)
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert max(map(len, lines)) <= 80
    assert "  fixed_dropout    alpha=0.5, keep_one_per_group=True, first_round_full=True" in lines
    assert "  bernoulli        p_min=0.1, seed=0" in lines
    assert "  everyone         –" in lines
    assert "  sgd       lr=1.0, schedule=constant" in lines
    blocks = "\n".join(lines).split("\n\n")
    for registered in (understudy.registry.SAMPLERS, understudy.registry.STRATEGIES):
        block = next(b for b in blocks if b.splitlines()[0] == registered.role).splitlines()
        names = [line.split()[0] for line in block[1:] if re.match(r"  \S", line)]
        assert names == list(registered)


def test_standings_by_hand():
    """Two seeds. Baseline 50 and 60 % at the end, fdms 55 and 69 %: differences 5 and 9 points,
    mean 7, sample deviation 2√2, half-width t(0.975; 1) · 2√2 / √2 = 12.706 · 2 = 25.41.

    Only the last ten rounds count. fdms swings by one point around its mean, so its fluctuation
    is 1; the baseline does not.
    """
    setting = Setting(rounds=12, seeds=2)
    swing = np.tile([0.01, -0.01], 5)

    def played(name, seed, final, swing=0.0):
        accuracy = np.concatenate([[0.9, 0.1], np.full(10, final) + swing])
        return Played(name, seed, accuracy, accuracy, np.zeros((20, 20)))

    runs = [
        played(contender.name, seed, final=[0.5, 0.6][seed])
        for seed in range(2)
        for contender in setting.contenders()
        if contender.name != "fdms"
    ]
    runs += [played("fdms", 0, 0.55, swing), played("fdms", 1, 0.69, swing)]
    row = next(row for row in standings(setting, runs) if row.name == "fdms")
    assert row.accuracy == pytest.approx(62)
    assert row.difference == pytest.approx(7)
    assert row.difference_half_width == pytest.approx(25.4124, abs=1e-3)
    assert row.fluctuation == pytest.approx(1)
    assert row.cells()[3] == "+7.0 ± 25.4"
    baseline = next(row for row in standings(setting, runs) if row.name == "dropout")
    assert baseline.cells()[2:] == ("55.0 ± 63.5", "–", "0.0")


def test_half_width_is_scipys_interval():
    values = np.array([3.0, 5.0, 4.5, 8.0])
    low, high = stats.t.interval(0.95, 3, loc=values.mean(), scale=stats.sem(values))
    assert half_width(values) == pytest.approx((high - low) / 2)
    assert np.isnan(half_width(values[:1]))


def test_the_comparison_repeats_to_the_same_bits():
    setting = Setting(rounds=2, seeds=1)
    for one, same in zip(compare(setting), compare(setting), strict=True):
        assert one.name == same.name
        np.testing.assert_array_equal(one.accuracy, same.accuracy)
        np.testing.assert_array_equal(one.loss, same.loss)
        np.testing.assert_array_equal(one.stood_in, same.stood_in)
