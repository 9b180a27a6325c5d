"""The attendance map: its cells by hand, its legend, and a run as a notebook shows it."""

import base64
import io
import re
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from tests.representation.rounds import AWAY, CAME, ERROR, LATE, MISSING, NOT, REFUSED, played
from understudy import Gone, fedavg, plots, stale
from understudy.plots.represented import KINDS, Presence, presence
from understudy.simulation import clustered_digits, simulate


def test_cells_by_hand():
    """A client joins in round 2; 1's update of round 0 is remembered, and grows old."""
    rows = [
        ([CAME, CAME, LATE], [(0, 0, 0.5), (1, 1, 0.5)]),
        ([CAME, AWAY, ERROR], [(0, 0, 0.5), (1, 1, 0.5)]),
        ([CAME, AWAY, REFUSED, NOT], [(0, 0, 0.5), (1, 1, 0.4), (2, 0, 0.1), (3, -1, 0.1)]),
        ([CAME, MISSING, AWAY, CAME], [(0, 0, 0.5), (2, 0, 0.1), (3, 3, 0.1)]),
        ([CAME, AWAY, AWAY, AWAY], [(0, 0, 0.5), (2, -1, 0.1), (3, -1, 0.1)]),
    ]
    logs = [played(t, outcome, spoken) for t, (outcome, spoken) in enumerate(rows)]
    c = Presence
    expected = [
        [c.CAME, c.CAME, c.LATE, c.NOT_THERE],
        [c.CAME, c.REMEMBERED, c.ERROR, c.NOT_THERE],
        [c.CAME, c.REMEMBERED_2, c.REFUSED, c.NOBODY],  # no mean holds anything of 3 by now
        [c.CAME, c.NOBODY, c.OTHERS, c.CAME],
        [c.CAME, c.NOBODY, c.NOBODY, c.MIXTURE],
    ]
    np.testing.assert_array_equal(presence(logs), expected)


@pytest.mark.parametrize(
    ("age", "cell"), [(1, 2), (2, 3), (4, 3), (5, 4), (16, 4), (17, 5), (100, 5)]
)
def test_classes_of_age(age, cell):
    spoken = [(0, 0, 0.5), (1, 1, 0.5)]
    logs = [played(0, [CAME, CAME], spoken)]
    logs += [played(t, [AWAY, CAME], spoken) for t in range(1, age + 1)]
    assert presence(logs)[-1].tolist() == [cell, Presence.CAME]


def test_the_legend_names_what_is_there():
    logs = [played(0, [CAME, CAME]), played(1, [CAME, AWAY])]
    (legend,) = plots.represented(logs).legends
    assert [text.get_text() for text in legend.get_texts()] == ["came", "nobody"]
    assert list(KINDS) == list(range(len(KINDS)))
    assert len({colour for colour, _ in KINDS.values()}) == len(KINDS)
    with pytest.raises(ValueError, match="expected at least one run with rounds"):
        plots.represented([])


def hospitals():
    names = ("St. <b>Mary", "$x^2$", "south\x1b[31m", *(f"h{number}" for number in range(17)))
    return replace(clustered_digits(), names=names)


def test_a_run_in_a_notebook_has_its_map_and_its_warnings():
    run = simulate(
        hospitals(),
        fedavg(),
        model="softmax",
        availability=Gone(["St. <b>Mary"]),
        rounds=6,
        evaluate=(),
    )
    before = run._repr_html_()
    assert "<img" not in before
    assert "0 of 6 rounds done" in before
    list(run)
    page = run._repr_html_()
    assert "6 of 6 rounds done" in page
    assert "<li>St. &lt;b&gt;Mary, 5 % of the examples, was in none of the updates so far" in page
    assert "<b>" not in page
    assert "\x1b" not in page
    (picture,) = re.findall(r'src="data:image/png;base64,([^"]+)"', page)
    shown = Image.open(io.BytesIO(base64.b64decode(picture)))
    assert shown.width > 300
    assert 'alt="Rounds by clients: who came in each of 6 rounds' in page


def test_a_large_map_is_drawn_on_request_only(monkeypatch):
    monkeypatch.setattr("understudy.plots.run_page.MOST_CELLS", 20)
    run = simulate(hospitals(), fedavg(), model="softmax", rounds=2, evaluate=())
    iterator = iter(run)
    next(iterator)
    assert "<img" in run._repr_html_()
    next(iterator)
    page = run._repr_html_()
    assert "<img" not in page
    assert "plots.represented(run) does" in page
    run.close()


def test_runs_side_by_side_have_a_panel_each():
    def one(strategy):
        run = simulate(
            hospitals(), strategy, model="softmax", availability=Gone([3]), rounds=4, evaluate=()
        )
        list(run)
        return run

    figure = plots.represented({"fedavg": one(fedavg()), "stale": [one(stale())]}, title="both")
    assert [axes.get_title() for axes in figure.axes] == ["fedavg", "stale"]
    assert figure.axes[0].get_yticklabels()[0].get_text() == "St. <b>Mary"
    plots.png(figure)


def test_thousands_of_clients_are_drawn():
    rng = np.random.default_rng(0)
    logs = [
        played(t, np.where(rng.random(3000) < 0.3, CAME, AWAY).tolist(), [(0, 0, 1.0)])
        for t in range(30)
    ]
    assert len(plots.png(plots.represented(logs))) > 1000
