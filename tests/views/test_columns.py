"""Rounds as columns, and the map reduced to a screen."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.dashboard.played import own_run, play, played
from understudy.core.types import Outcome, RoundLog
from understudy.journal.follow import RoundsFile
from understudy.views.columns import Columns
from understudy.views.reduced import reduced
from understudy.views.wire import packed, plain


class Logs:
    """A place of rounds in memory."""

    def __init__(self, logs):
        self.logs = logs

    def new(self, since):
        yield from self.logs[since:]


def columns_of(logs):
    columns = Columns(Logs(logs))
    columns.update()
    return columns


def voices_by_hand(logs):
    """Client by client: what spoke for each in the last of these rounds, and how old it was."""
    last = logs[-1]
    known, asked = {}, {}  # the round that the newest known update began in, and that asked last
    for log in logs[:-1]:
        for client, outcome in enumerate(log.outcome):
            if outcome == Outcome.CAME:
                known[client] = log.t
            elif outcome == Outcome.LATE and client in asked:
                known[client] = max(known.get(client, -1), asked[client])
            elif outcome == Outcome.MISSING:
                asked[client] = log.t
    found = []
    for client, outcome in enumerate(last.outcome):
        speakers = [
            source
            for who, source, coef in zip(last.ids, last.source, last.coef, strict=True)
            if who == client and coef != 0
        ]
        if client in speakers and outcome == Outcome.CAME:
            found.append(1)
        elif client in speakers:
            age = last.t - known.get(client, last.t - 1)
            found.append(4 + sum(age >= least for least in (2, 4, 8, 16)))
        elif any(source >= 0 for source in speakers):
            found.append(2)
        else:  # a mean of others: it holds nothing of a client that never came
            ever_came = any(log.outcome[client] == Outcome.CAME for log in logs)
            found.append(3 if speakers and ever_came else 0)
    return found


@st.composite
def rounds(draw):
    n_clients = draw(st.integers(1, 5))
    made = []
    for t in range(draw(st.integers(1, 20))):
        outcome = draw(
            st.lists(st.sampled_from(list(Outcome)), min_size=n_clients, max_size=n_clients)
        )
        who = st.integers(0, n_clients - 1)
        terms = draw(
            st.lists(
                st.tuples(who, st.integers(-1, n_clients - 1), st.sampled_from([0.0, 0.5, -1.0]))
            )
        )
        ids, source, coef = zip(*terms, strict=True) if terms else ((), (), ())
        made.append(
            RoundLog(
                t, np.array(outcome, dtype=np.int8), (), np.array(ids, dtype=np.int64),
                np.array(source, dtype=np.int64), np.array(coef, dtype=np.float64), {},
            )
        )  # fmt: skip
    return made


@given(rounds())
@settings(max_examples=60, deadline=None)
def test_a_cell_tells_what_became_of_a_client_and_what_spoke_for_it(logs):
    cells = columns_of(logs).cells()
    assert cells.shape == (len(logs), len(logs[0].outcome))
    assert (cells & 15).tolist() == [(log.outcome + 1).tolist() for log in logs]
    assert (cells[-1] >> 4).tolist() == voices_by_hand(logs)


def test_who_owes_an_answer_is_told_from_the_round_it_was_asked_in():
    columns = columns_of([played(t) for t in range(3)])
    assert columns.pending.tolist() == [-1, 0, -1, 0]
    assert columns.seen.tolist() == [2, -1, 2, -1]


def test_clients_that_join_later_were_not_there_before():
    columns = columns_of([played(0, 2), played(1, 4)])
    assert columns.cells()[0].tolist()[2:] == [0, 0]
    assert columns.joined.tolist() == [0, 0, 1, 1]
    assert columns.numbers("metric test_accuracy").tolist() == [0.5, 0.51]


def test_only_new_rounds_are_read_and_replaced_ones_are_noticed(tmp_path):
    with own_run(tmp_path) as log:
        play(log, 0, 1, 2)
        columns = Columns(RoundsFile(tmp_path / "rounds.jsonl"))
        columns.update()
        assert (columns.n, columns.epoch) == (3, 0)
        play(log, 3)
        columns.update()
        assert (columns.n, columns.epoch) == (4, 0)
    lines = (tmp_path / "rounds.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "rounds.jsonl").write_bytes(b"".join(lines[:3]))  # as a resumed run cuts it
    columns.update()
    assert (columns.n, columns.epoch) == (3, 1)


def test_a_round_that_was_played_again_in_another_way_is_read_again(tmp_path):
    logs = [played(0), played(1)]
    place = Logs(logs)
    columns = Columns(place)
    columns.update()
    logs[1] = played(1, clock=99.0)
    columns.update()
    assert columns.epoch == 1
    assert columns.numbers("clock").tolist() == [1.0, 99.0]


def test_reading_stops_in_between_and_goes_on():
    columns = Columns(Logs([played(t) for t in range(5)]))
    columns.update(seconds=0)
    assert columns.n == 1
    columns.update()
    assert columns.n == 5


@pytest.mark.parametrize("shape", [(7, 9), (12, 4), (1, 30)])
def test_a_map_that_fits_is_sent_as_it_is(shape):
    cells = np.random.default_rng(0).integers(0, 9, shape).astype(np.uint8)
    small, down, right = reduced(cells, *shape)
    assert (down, right) == (1, 1)
    assert (small == cells).all()


def test_a_pixel_shows_the_commonest_of_its_cells():
    cells = np.random.default_rng(1).integers(0, 4, (6, 8)).astype(np.uint8)
    small, down, right = reduced(cells, 3, 4)
    assert (small.shape, down, right) == ((3, 4), 2, 2)
    for i, j in np.ndindex(3, 4):
        counts = Counter(cells[2 * i : 2 * i + 2, 2 * j : 2 * j + 2].ravel().tolist())
        most = max(counts.values())
        assert small[i, j] == min(code for code, n in counts.items() if n == most)


@given(st.integers(1, 70), st.integers(1, 70), st.integers(1, 20), st.integers(1, 20))
@settings(max_examples=60, deadline=None)
def test_a_map_is_never_larger_than_the_screen_and_keeps_what_is_everywhere(n, m, rows, columns):
    cells = np.full((n, m), 7, dtype=np.uint8)
    small, down, right = reduced(cells, rows, columns)
    assert small.shape[0] <= rows
    assert small.shape[1] <= columns
    assert small.shape[0] * down >= n
    assert small.shape[1] * right >= m
    assert (small == 7).all()


def test_columns_travel_as_a_head_and_bytes_at_multiples_of_eight():
    body = packed(
        {"n": 2},
        {"t": np.array([1, 2]), "x": np.array([0.5, np.nan]), "c": np.zeros((2, 3), np.uint8)},
    )
    length = int.from_bytes(body[:4], "little")
    import json

    head = json.loads(body[4 : 4 + length])
    assert [(f["name"], f["kind"], f["shape"]) for f in head["fields"]] == [
        ("t", "Int32Array", [2]),
        ("x", "Float32Array", [2]),
        ("c", "Uint8Array", [2, 3]),
    ]
    begin = -(-(4 + length) // 8) * 8
    assert np.frombuffer(body, "<i4", 2, begin + head["fields"][0]["offset"]).tolist() == [1, 2]
    assert all(field["offset"] % 8 == 0 for field in head["fields"])


def test_plain_data_has_nothing_that_steers_and_nothing_that_is_no_json():
    assert plain({"a": [np.float64("nan"), np.int64(3), "x\x1b[31m\u202e"]}) == {
        "a": [None, 3, "x\ufffd[31m\ufffd"]
    }
    assert len(plain("x" * 10_000)) == 4000
