"""A report says who was left out: the strategies with one warning together, names as text."""

import re

from tests.representation.rounds import CAME, MISSING, played
from understudy.studies.report import report
from understudy.studies.store.live import LiveCell
from understudy.studies.store.store import Store


def stored(folder, outcome):
    """Two strategies with these outcomes in eight rounds."""
    cells = [LiveCell(f"{n:016x}", {"strategy": name}, 0) for n, name in enumerate(("a", "b<i>"))]
    resolved = {
        "data": {"class": "live"},
        "model": {"class": "arrays"},
        "strategy": {"compensator": {"class": "Ignore"}},
        "rounds": 8,
        "seed": 0,
        "analysis": [],
        "evaluate_every": 1,
        "availability": {"class": "live"},
    }
    facts = {"n_clients": 3, "names": ["x", "<script>y", "z"], "sizes": [2, 2, 4], "left": []}
    with Store.open(folder, write=True) as store:
        store.save_study("night", {"title": "Night", "live": True}, cells, "0")
        for cell in cells:
            store.begin(cell.key, resolved, facts, "0")
            logs = [played(t, outcome, metrics={"server_accuracy": 0.5}) for t in range(8)]
            store.add_rounds(cell.key, logs)
            store.finish(cell.key)
    return report.render(folder, "night")


def test_a_warning_of_several_strategies_is_told_once(tmp_path):
    page = stored(tmp_path, [CAME, MISSING, CAME])
    (section,) = re.findall(r'<section id="left-out">(.*?)</section>', page, re.DOTALL)
    lines = [" ".join(line.split()) for line in re.findall(r"<li>(.*?)</li>", section, re.DOTALL)]
    assert lines == [
        ("a and b&lt;i&gt;: &lt;script&gt;y, 25 % of the examples, was in none of the updates so "
        "far (8 rounds): it did not answer.")
    ]  # fmt: skip
    assert '<a href="#left-out">Who was left out</a>' in page


def test_where_nobody_was_left_out_there_is_no_such_section(tmp_path):
    assert "left-out" not in stored(tmp_path, [CAME, CAME, CAME])
