"""What the page is told, without a browser."""

import asyncio
import contextlib
import json
import sqlite3

import numpy as np
import pytest

from tests.dashboard.played import NAMES, own_run, play, played, refused, stored_run
from tests.dashboard.served import served
from understudy.dashboard import routes
from understudy.dashboard.hub import Hub
from understudy.dashboard.places import Places
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
        assert last["standIns"] == []
        found = page.get(f"{page.run}/clients", search="ITAL-B")["rows"]
        assert [row["id"] for row in found] == ["hospital-b"]
        assert found[0]["standIns"] == [{"source": 0, "coef": 0.25}]


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
