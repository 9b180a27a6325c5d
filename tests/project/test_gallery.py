"""The gallery: every script runs, its picture is on the page, and the page's answer is true."""

import re
import runpy
import xml.etree.ElementTree as ET

import pytest

from tests.project.test_docs import ROOT, read

SCRIPTS = sorted((ROOT / "examples" / "gallery").glob("*.py"))
SHOWN = ROOT / "docs" / "gallery"
LARGEST = 60_000  # bytes of a picture


def numbers(text):
    """Numbers of each line, by the words before its first colon."""
    return {
        line.rpartition(":")[0]: [float(word) for word in re.findall(r"\d+\.?\d*", line)]
        for line in text.splitlines()
    }


def compare_methods(names, text):
    mean = names["frame"].groupby(["availability", "strategy"])["accuracy_last"].mean() * 100
    anybody, grouped = mean["anybody may be missing"], mean["one of each group comes"]
    for memory in ("stale", "fedar"):
        assert anybody[memory] > anybody["fedavg"] + 4
    assert abs(anybody["fdms"] - anybody["fedavg"]) < 4
    alike = grouped[["stale", "fedar", "fdms"]]
    assert alike.min() > grouped["fedavg"] + 1
    assert alike.max() - alike.min() < 3


def who_is_left_out(names, text):
    left_out, remembered = numbers(text).values()
    often, seldom = left_out
    assert often > 85
    assert seldom < often - 40
    often_too, seldom_too = remembered
    assert often_too < often
    assert seldom_too > seldom + 30


def hospitals_csv(names, text):
    gain = names["together"] - names["alone"]
    assert list(gain.index) == ["Ashford", "Birch", "Castle", "Dale", "Elm", "Ferry"]
    assert gain[["Ashford", "Birch"]].min() > 8
    assert abs(gain["Ferry"]) < 3
    assert "Ashford          16" in text


def gone_for_good(names, text):
    found = numbers(text)
    assert found["fedavg"][0] == found["stale"][0] == found["fdms"][0]  # while everybody comes
    assert found["stale"][2] > found["stale"][0] - 0.05
    assert found["fedavg"][2] < found["fdms"][2] - 0.03 < found["stale"][2] - 0.1


def own_compensator(names, text):
    found = {name: 100 * values[0] for name, values in numbers(text).items()}
    assert found["same labels"] > found["fedavg"] + 2
    assert abs(found["fdms"] - found["fedavg"]) < 2


def server_step(names, text):
    found = numbers(text)
    steps = [best for *_, best in found.values()]
    assert len(set(steps)) > 1
    assert 0.5 < min(steps)
    assert max(steps) < 8  # within what was tried
    at_one, _, at_best, _ = zip(*found.values(), strict=True)
    assert all(best >= one for one, best in zip(at_one, at_best, strict=True))
    for order in (at_one, at_best):  # fedavg, stale, fdms
        assert order[1] == max(order)
    assert not set(names["TUNING"]) & set(names["FINAL"])


ANSWERS = {
    check.__name__: check
    for check in (
        compare_methods,
        who_is_left_out,
        hospitals_csv,
        gone_for_good,
        own_compensator,
        server_step,
    )
}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_answers_as_the_page_says(script, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    names = runpy.run_path(str(script))
    text = capsys.readouterr().out
    made = tmp_path / f"{script.stem}.svg"
    assert ET.parse(made).getroot().tag.endswith("svg")
    assert made.stat().st_size < LARGEST
    ANSWERS[script.stem](names, text)

    def words(printed):
        return [word for word in printed.split() if not re.search(r"\d", word)]

    assert words(text) == words(read(SHOWN / f"{script.stem}.txt")), "make gallery renews it"


def test_every_script_is_on_the_page_with_its_picture():
    page = read(ROOT / "docs" / "gallery.md")
    assert {script.stem for script in SCRIPTS} == set(ANSWERS)
    for script in SCRIPTS:
        assert f"```{{literalinclude}} ../examples/gallery/{script.name}\n" in page
        assert f"```{{literalinclude}} gallery/{script.stem}.txt\n" in page
        assert f"```{{image}} gallery/{script.stem}.svg\n" in page
        assert (SHOWN / f"{script.stem}.svg").stat().st_size < LARGEST
        code = read(script)
        question = code.partition("?")[0].removeprefix('"""')
        assert f"\n## {question}?\n" in page
        assert len(code.splitlines()) <= 60  # short enough to be read at once
    assert {path.stem for path in SHOWN.iterdir()} == set(ANSWERS)
