"""What the page is told, without a browser."""

import asyncio
import contextlib
import json
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from tests.dashboard.played import (
    NAMES,
    RESOLVED,
    facts,
    own_run,
    play,
    played,
    refused,
    stored_run,
)
from tests.dashboard.served import served
from understudy import fdms, fedavg, fedgs, fedprox
from understudy.core.types import Outcome, RoundLog
from understudy.dashboard import routes
from understudy.dashboard.hub import Hub
from understudy.dashboard.places import Places
from understudy.journal.file import LogFile
from understudy.memory.run_folder import ROUNDS
from understudy.simulation import clustered_digits, simulate
from understudy.studies.store.store import FILE


@pytest.fixture
def opened():
    """Opens a page on folders."""
    with contextlib.ExitStack() as stack:
        yield lambda *folders: stack.enter_context(served(*folders))


def test_a_running_run_a_killed_one_and_a_finished_one(tmp_path, opened):
    folder = tmp_path / "run"
    page = opened(folder)
    assert page.get("/api/overview")["troubles"][0]["words"] == "is not there"
    with own_run(folder) as log:
        play(log, 0, 1)
        hub = page.hub
        hub.refresh()
        run = page.get("/api/overview")["runs"][0]
        assert (run["status"], run["rounds"], run["of"], run["live"]) == ("running", 2, 40, True)
    assert len(hub.refresh()) == 1  # its lock is gone, though no file has changed
    run = page.get("/api/overview")["runs"][0]
    assert run["status"] == "stopped"
    assert "can be resumed" in run["error"]
    log.finish()
    hub.refresh()
    assert page.get("/api/overview")["runs"][0]["status"] == "done"


def test_a_page_catches_up_from_the_last_round_it_has(tmp_path, opened):
    with own_run(tmp_path / "run") as log:
        play(log, 0, 1, 2)
        page = opened(tmp_path / "run")
        whole = page.get(f"{page.run}/columns")
        assert whole["t"].tolist() == [0, 1, 2]
        np.testing.assert_allclose(whole["metric test_accuracy"], [0.5, 0.51, 0.52], rtol=1e-6)
        play(log, 3, 4)
        rest = page.get(f"{page.run}/columns", since=whole["n"], epoch=whole["epoch"])
        assert rest["t"].tolist() == [3, 4]
        anew = page.get(f"{page.run}/columns", since=5, epoch=7)  # of another life of the server
        assert anew["t"].tolist() == [0, 1, 2, 3, 4]
        newest = page.get(f"{page.run}/map", first=3)
        assert newest["cells"].shape == (2, 4)


def test_the_cast_of_a_round_has_the_numbers_of_the_store(tmp_path, opened):
    stored_run(tmp_path, n_rounds=3)
    page = opened(tmp_path)
    cast = page.get(f"{page.run}/rounds/1")
    log = played(1)
    assert cast["ids"] == log.ids.tolist()
    assert cast["source"] == log.source.tolist()
    assert cast["coef"] == log.coef.tolist()
    assert cast["names"] == list(NAMES)
    assert cast["metrics"] == {"test_accuracy": 0.51, "test_loss": 1.0}
    assert page.ask(f"{page.run}/rounds/7").status_code == 404


def test_every_client_has_a_row_and_those_nobody_speaks_for_come_first(tmp_path, opened):
    with own_run(tmp_path / "run") as log:
        play(log, 0)
        log.append(refused(1))
        log.flush()
        page = opened(tmp_path / "run")
        rows = page.get(f"{page.run}/clients")["rows"]
        assert rows[0]["id"] == "hospital-d"
        last = rows[0]
        assert (last["seen"], last["pending"], last["attendance"]) == (-1, 0, 0.0)
        assert last["refusals"][0]["reason"] == "not finite"
        assert [row["share"] for row in rows] == [0.25] * 4
        assert last["standIns"] == []
        found = page.get(f"{page.run}/clients", search="ITAL-B")["rows"]
        assert [row["id"] for row in found] == ["hospital-b"]
        assert found[0]["standIns"] == [{"source": 0, "coef": 0.25}]


def test_who_answers_with_what_is_refused_is_seen_and_adds_nothing(tmp_path, opened):
    with own_run(tmp_path / "run") as log:
        play(log, 0)
        outcome = np.array([Outcome.CAME, Outcome.REFUSED, Outcome.ERROR, Outcome.LATE], np.int8)
        log.append(RoundLog(**{**vars(played(1)), "outcome": outcome}))
        log.flush()
        rows = opened(tmp_path / "run")
        rows = rows.get(f"{rows.run}/clients")["rows"]
    seen = {row["id"]: (row["seen"], row["taken"]) for row in rows}
    assert list(map(seen.get, NAMES)) == [(1, 1), (1, -1), (1, 0), (1, 1)]


def test_studies_of_one_name_are_told_apart_by_their_folders(tmp_path, opened):
    for folder in ("north/runs", "south/runs", "west"):
        stored_run(tmp_path / folder)
    for folder in ("east/lab/run", "north/lab/run"):
        with own_run(tmp_path / folder) as log:
            play(log, 0)
    stored_run(tmp_path / "alone", study="another")
    page = opened(*(tmp_path / name for name in ("north", "south", "west", "east", "alone")))
    overview = page.get("/api/overview")
    assert sorted(run["study"] for run in overview["runs"]) == [
        "another",
        "east/lab/run",
        "north/lab/run",
        "north/runs/live",
        "south/runs/live",
        f"{tmp_path.name}/west/live",
    ]
    study = next(run for run in overview["runs"] if run["study"] == "south/runs/live")
    compared = page.get(f"/api/studies/{study['studyId']}/comparison")
    assert compared["study"] == "south/runs/live"


def test_a_folder_above_is_looked_into(tmp_path, opened, monkeypatch):
    stored_run(tmp_path / "runs")
    (tmp_path / "runs" / "study").mkdir()
    monkeypatch.chdir(tmp_path / "runs" / "study")
    assert len(opened(Path("..")).get("/api/overview")["runs"]) == 1


@pytest.mark.parametrize(
    ("strategy", "label"),
    [
        (fedavg(), "fedavg"),
        (fedgs(m=2), "fedgs"),
        (fdms(), "fdms"),
        (fedprox(mu=0.1), "proximal"),
    ],
)
def test_a_strategy_is_called_by_what_is_not_fedavg_s(strategy, label, tmp_path, opened):
    folder = tmp_path / "run"
    digits = clustered_digits(n_clients=4, n_clusters=2)
    list(simulate(digits, strategy, model="softmax", rounds=1, folder=folder))
    page = opened(folder)
    (told,) = page.get("/api/overview")["runs"]
    assert told["strategy"] == label
    lines = page.get("/api/sparklines", runs=told["id"])
    assert lines["kinds"] == {told["id"]: "accuracy"}


def test_a_run_s_own_folder_tells_what_its_rounds_measured_of_clients(tmp_path, opened):
    with own_run(tmp_path / "run") as log:
        per_client = {"accuracy": np.array([0.9, 0.5, 0.8, 0.2])}
        log.append(RoundLog(**{**vars(played(0)), "client_metrics": per_client}))
        outcome = np.array([Outcome.CAME, Outcome.NOT_WANTED] * 2, np.int8)
        log.append(RoundLog(**{**vars(played(1)), "outcome": outcome}))
        log.flush()
        page = opened(tmp_path / "run")
        found = page.get(f"{page.run}/arrays")
    assert found["clientMetrics"] == {"accuracy": [0.9, 0.5, 0.8, 0.2]}
    assert found["counts"]["wanted"] == [2, 1, 2, 1]


@pytest.mark.parametrize(
    "strange", ["abc", 5, None, {"a": 1}, ["x", None, {}], [[1], [2, 3]], True]
)
@pytest.mark.parametrize("fact", ["names", "sizes", "left", "groups", "label_counts"])
def test_facts_of_a_run_may_be_anything(tmp_path, opened, fact, strange):
    log = LogFile(tmp_path / ROUNDS, 0)
    log.begin("ab" * 16, RESOLVED, {**facts(), fact: strange})
    play(log, 0, 1)
    page = opened(tmp_path)
    for part in ("", "/columns", "/map?order=cluster", "/clients", "/rounds/0", "/arrays"):
        answer = page.ask(f"{page.run}{part}")
        assert answer.status_code == 200, answer.text


def test_the_map_can_be_ordered_and_a_bad_question_is_answered_in_words(tmp_path, opened):
    stored_run(tmp_path)
    page = opened(tmp_path)
    assert page.get(f"{page.run}/map", order="attendance")["order"].tolist() == [0, 2, 1, 3]
    assert page.get(f"{page.run}/map", order="left out")["order"].tolist() == [3, 0, 1, 2]
    for bad in ({"order": "size"}, {"first": "-1"}, {"rows": "many"}):
        answer = page.ask(f"{page.run}/map", bad)
        assert answer.status_code == 400
        assert "expected" in answer.json()["error"]


@pytest.mark.parametrize("damage", ["no database", "a table is gone", "a checksum"])
def test_a_damaged_store_is_a_state_that_is_explained(tmp_path, opened, damage):
    stored_run(tmp_path).finish()
    page = opened(tmp_path)
    page.get(f"{page.run}/columns")
    if damage == "no database":
        for path in tmp_path.glob(f"{FILE}*"):
            path.unlink()
        (tmp_path / FILE).write_bytes(b"no database" * 1000)
    else:
        with sqlite3.connect(tmp_path / FILE) as connection:
            if damage == "a table is gone":
                connection.execute("DROP TABLE rounds")
            else:
                connection.execute("UPDATE rounds SET came = came + 1 WHERE t = 1")
                connection.execute("UPDATE runs SET changed = 'never' WHERE 1")
        connection.close()
    page.hub.refresh()
    told = page.get("/api/overview")
    words = " ".join(
        [run["error"] for run in told["runs"]] + [t["words"] for t in told["troubles"]]
    )
    assert "damaged" in words or "no such table" in words
    assert str(tmp_path) not in words
    for run in told["runs"]:
        for part in ("", "/columns", "/map", "/clients", "/rounds/0", "/arrays"):
            answer = page.ask(f"/api/runs/{run['id']}{part}")
            assert answer.status_code in (200, 404), answer.text


def test_a_damaged_line_of_a_run_is_told_where_its_rounds_are_shown(tmp_path, opened):
    folder = tmp_path / "run"
    with own_run(folder) as log:
        play(log, 0, 1, 2)
    rounds = folder / "rounds.jsonl"
    rounds.write_bytes(rounds.read_bytes().replace(b'"clock": 2.0', b'"clock": 9.0'))
    page = opened(folder)
    told = page.get(f"{page.run}/columns")
    assert told["unreadable"]
    assert "line 2: damaged" in told["error"]
    assert str(tmp_path) not in told["error"]


def test_names_of_others_are_cut_and_steer_nothing(tmp_path, opened):
    hostile = ("<script>alert(1)</script>", "x" * 10_000, "\u202eevil", "\x1b[31mred")
    stored_run(tmp_path, names=hostile, labels={"clinic": "\u202e<b>"})
    page = opened(tmp_path)
    names = page.get(page.run)["names"]
    assert names[0] == hostile[0]  # text, which the page shows as such
    assert len(names[1]) == 80
    assert "\u202e" not in names[2]
    assert "\x1b" not in names[3]
    assert "\u202e" not in page.ask("/api/overview").text


def test_folders_are_found_below_a_given_one_but_not_through_links(tmp_path, opened):
    stored_run(tmp_path / "given" / "deep" / "runs")
    stored_run(tmp_path / "elsewhere")
    (tmp_path / "given" / "link").symlink_to(tmp_path / "elsewhere")
    runs = opened(tmp_path / "given").get("/api/overview")["runs"]
    assert len(runs) == 1


def test_who_listens_is_told_all_at_first_and_then_what_changed(tmp_path):
    folder = tmp_path / "run"

    async def watched(log):
        hub = Hub(Places([folder]))
        watching = asyncio.create_task(hub.watch())
        stream = routes._stream(hub, None)
        first = await anext(stream)
        play(log, 1)
        second = await asyncio.wait_for(anext(stream), 30)
        other = routes._stream(hub, None)  # who comes later takes no news away
        play(log, 2)
        third = [await anext(other), await asyncio.wait_for(anext(stream), 30)]
        watching.cancel()
        await stream.aclose()
        await other.aclose()
        events = (first, second, *third)
        return hub, [json.loads(event.data)["runs"][0]["rounds"] for event in events]

    with own_run(folder) as log:
        play(log, 0)
        hub, told = asyncio.run(watched(log))
    assert told == [1, 2, 3, 3]
    assert not hub.listeners
