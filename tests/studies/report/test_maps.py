"""What a report holds of a run for its map and casts: that of the store, in so many bytes."""

import json
import re
import zlib
from base64 import b64decode

import numpy as np
import pandas as pd
import pytest

from tests.dashboard.served import unpacked
from tests.peak import peak
from tests.studies.many_clients import write_run
from tests.studies.pages import Page
from tests.studies.small_study import NAME, store_small_study
from understudy.core.types import Outcome, RoundLog
from understudy.studies.report import maps
from understudy.studies.report.figure_data import FigureData
from understudy.studies.report.report import render
from understudy.studies.store.own_folder import refresh
from understudy.studies.store.store import Store, StoredCell
from understudy.views import inline
from understudy.views.columns import Columns


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return store_small_study(tmp_path_factory.mktemp("runs"), seeds=2)


@pytest.fixture(scope="module")
def page(runs):
    return render(runs, NAME)


def held(page):
    """The runs in a page: title → (note, head with arrays)."""
    (text,) = re.findall(r'<script type="application/json" id="maps-data">(.*?)</script>', page)
    return {
        one["title"]: (one["note"], unpacked(zlib.decompress(b64decode(one["data"]))))
        for one in json.loads(text)
    }


def test_the_numbers_are_those_of_the_store(runs, page):
    note, head = held(page)["fdms, alpha 0.5"]
    assert note == "Seed 0. Click a round to see who represented whom in it."
    with Store.open(runs) as store:
        (cell,) = (
            cell
            for cell in store.cells(NAME)
            if (cell.labels["strategy"], cell.labels["alpha"], cell.seed) == ("fdms", 0.5, 0)
        )
        logs = list(store.logs(cell.key))
    assert (head["n"], head["clients"], head["rounds"], head["rows"]) == (3, 6, 1, 1)
    assert np.array_equal(head["cells"] & 15, [log.outcome + 1 for log in logs])
    for at, log in enumerate(logs):
        own = slice(head["starts"][at], head["starts"][at + 1])
        assert np.array_equal(head["ids"][own], log.ids)
        assert np.array_equal(head["source"][own], log.source)
        assert np.array_equal(head["coef"][own], log.coef.astype(np.float32))
        assert head["casts"][at]["metrics"] == pytest.approx(dict(log.metrics))
    # some friend spoke: it is no map of those who came alone
    assert any((log.source != log.ids).any() for log in logs)


def test_each_strategy_has_its_first_seed_and_those_with_absences_come_first(page):
    titles = list(held(page))
    assert sorted(titles) == [
        "dropout, alpha 0.2",
        "dropout, alpha 0.5",
        "fdms, alpha 0.2",
        "fdms, alpha 0.5",
        "full",
        "uniform, alpha 0.2",
        "uniform, alpha 0.5",
    ]
    assert titles[-1] == "full"  # the one in which nobody was absent
    assert "The first seed of each strategy." in Page(page).words


def test_no_more_than_so_many(runs, monkeypatch):
    monkeypatch.setattr(maps, "MOST_MAPS", 2)
    page = render(runs, NAME)
    assert len(held(page)) == 2
    assert "5 more are not shown" in page


def test_the_policy_lets_in_the_script_of_the_page_alone(page):
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy"\s+content="([^"]*)"', page)
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.S)
    assert policy == (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src {inline.hash_source(script)}"
    )
    assert page.count("<script") == 2  # and its data, which is none
    assert "src=" not in "".join(re.findall(r"<script[^>]*>", page))


def test_static_attendance_is_for_pages_without_scripts(page):
    without = "".join(re.findall(r"<noscript>(.*?)</noscript>", page, re.S))
    assert re.findall(r'<figure id="(.*?)"', without) == [
        "attendance-alpha-0.2",
        "attendance-alpha-0.5",
    ]
    assert "With scripts allowed there is a map" in without


def cell(**facts):
    return StoredCell(
        key="k",
        labels={"strategy": "s"},
        seed=0,
        status="done",
        error=None,
        version=None,
        facts=facts,
        rounds=1,
        findings_metrics={},
    )


class Logs:
    def __init__(self, logs):
        self._logs = logs

    def logs(self, key, first=0):
        yield from self._logs[first:]


def many(n_rounds, n_clients):
    rng = np.random.default_rng(0)
    logs = []
    for t in range(n_rounds):
        outcome = np.where(rng.random(n_clients) < 0.5, Outcome.CAME, Outcome.UNAVAILABLE)
        ids = np.flatnonzero(outcome == Outcome.CAME)
        coef = rng.random(len(ids))
        logs.append(RoundLog(t, outcome.astype(np.int8), (), ids, ids, coef, {}, clock=float(t)))
    place = maps._Read(Logs(logs), "k")
    columns = Columns(place)
    columns.update()
    return columns, place


@pytest.mark.parametrize("most", [200_000, 60_000, 15_000, 4_000])
def test_a_large_run_is_reduced_until_it_fits_and_says_so(most):
    columns, place = many(150, 200)
    text, note = maps._fitted(cell(), columns, place, most)
    assert len(text) <= most
    head = unpacked(zlib.decompress(b64decode(text)))
    rounds = [one["round"] for one in head["casts"]]
    if most == 200_000:
        assert rounds == list(range(150))
        assert note == "Seed 0. Click a round to see who represented whom in it."
    elif not rounds:
        assert "casts of its rounds are on the live page only" in note
    else:
        every = rounds[1]
        assert rounds == [*range(0, 149, every), *([149] if 149 % every else [])]
        assert re.search(rf"every {every}(st|nd|rd|th) and the last", note)
    reduced = head["rounds"] > 1
    assert reduced == ("Reduced: " in note)
    assert (head["orders"] == ["number"]) == reduced
    if reduced and rounds:
        assert np.array_equal(head["own"], columns.cells()[rounds])


def test_one_round_that_is_too_large_has_no_cast():
    columns, place = many(1, 2000)
    text, note = maps._fitted(cell(), columns, place, 4_000)
    assert len(text) <= 4_000
    assert "casts of its rounds are on the live page only" in note


def test_a_run_that_cannot_be_small_is_left_out():
    columns, place = many(150, 200)
    names = [f"{number:080d}" for number in range(200)]
    assert maps._fitted(cell(names=names), columns, place, 500) is None


def test_names_are_text_in_the_page(page, monkeypatch, runs):
    monkeypatch.setattr(maps, "_titles", lambda data: {data.cells[0].key: "</script><b>x"})
    hostile = render(runs, NAME)
    assert "</script><b>x" in held(hostile)
    assert hostile.count("</script>") == page.count("</script>")


def test_memory_grows_with_the_map_and_not_with_the_logs(tmp_path, monkeypatch):
    monkeypatch.setattr(maps, "MOST_ROWS", 10_000)  # five rounds of 2,000 contributions

    def taken(n_rounds):
        folder = tmp_path / str(n_rounds)
        n_bytes, study = write_run(folder, n_rounds), refresh(folder)
        with Store.open(folder) as store:
            data = FigureData(store, study, pd.DataFrame(index=[0]))
            return n_bytes, peak(lambda: maps.maps_of(data))

    taken(1)  # what is imported only now is not counted
    (few, at_few), (many, at_many) = taken(32), taken(128)
    assert at_many - at_few < (many - few) / 3
