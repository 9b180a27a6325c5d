"""The store: rounds come back to the bit, transactions are whole, other schemas are handled."""

from __future__ import annotations

import errno
import json
import os
import random
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from tests.simulation.small import federation, plain
from understudy import Bernoulli, fdms
from understudy.analysis.findings import Findings
from understudy.core.types import Outcome, Reason, Refusal, RoundLog
from understudy.journal.arrays import pack, unpack
from understudy.simulation import simulate
from understudy.studies.definition.cell import Cell, DataRecipe, Task
from understudy.studies.store import connection, schema
from understudy.studies.store import store as store_module
from understudy.studies.store.connection import StoreFull
from understudy.studies.store.schema import StoreError
from understudy.studies.store.store import FILE, Store

KEY = "00112233aabbccdd"


def log(t: int, n_clients: int = 5, **changes: Any) -> RoundLog:
    """A round that depends on nothing but its number."""
    rng = np.random.default_rng(t)
    plain_log = RoundLog(
        t=t,
        outcome=rng.integers(0, len(Outcome), n_clients).astype(np.int8),
        refusals=(),
        ids=np.arange(n_clients),
        source=rng.integers(-1, n_clients, n_clients),
        coef=rng.random(n_clients),
        notes={"step_norm": rng.random()},
        metrics={"test_accuracy": rng.random()},
        timings={"train": rng.random()},
        client_metrics={"accuracy": rng.random(n_clients)},
    )
    return replace(plain_log, **changes)


def whole(one: RoundLog) -> dict[str, Any]:
    """All fields, timings too, comparable to the bit."""
    refusals = [(type(r.id), plain(r.id), r.reason, r.detail) for r in one.refusals]
    found = {item.name: plain(getattr(one, item.name)) for item in fields(one)}
    orders = [list(getattr(one, name)) for name in ("notes", "metrics", "client_metrics")]
    return {**found, "refusals": refusals, "orders": orders}


def begun(folder: Path, key: str = KEY) -> Store:
    store = Store.open(folder, write=True)
    store.begin(key, {"rounds": 9}, {"n_clients": 5}, "0.1.0")
    return store


def cell(key: str, seed: int = 0, **labels: Any) -> Cell:
    task = Task(DataRecipe("synthetic"), "softmax", fdms(), rounds=3, seed=seed)
    return Cell(labels, task, {}, key)


# -- bits --------------------------------------------------------------------------------------

dtypes = st.one_of(
    arrays_of.integer_dtypes(endianness="?"),
    arrays_of.unsigned_integer_dtypes(endianness="?"),
    arrays_of.floating_dtypes(endianness="?"),
    arrays_of.boolean_dtypes(),
    arrays_of.unicode_string_dtypes(endianness="<", max_len=3),
)
any_array = dtypes.flatmap(
    lambda dtype: arrays_of.arrays(dtype, arrays_of.array_shapes(min_dims=0, min_side=0))
)


@given(any_array)
def test_an_array_comes_back_to_the_bit_and_can_be_written(array: np.ndarray[Any, Any]) -> None:
    back = unpack(pack(array))
    assert plain(back) == plain(array)
    assert back.flags.writeable


@given(
    arrays_of.arrays(
        np.int64, 30, elements=st.sampled_from([-(2**63), -(2**62), -1, 0, 1, 2**62, 2**63 - 1])
    )
)
def test_steps_between_far_integers_do_not_overflow(array: np.ndarray[Any, Any]) -> None:
    assert plain(unpack(pack(array))) == plain(array)


def test_a_view_with_strides_is_packed_by_its_elements() -> None:
    table = np.arange(24).reshape(4, 6)
    assert np.array_equal(unpack(pack(table.T[::2])), table.T[::2])


def test_signs_of_zero_and_payloads_of_nan_survive() -> None:
    """float32 is taken only where every bit returns: -0.0 does, a NaN's lowest bit does not."""
    strange = np.array([0x7FF0000000000001, 0x7FF8000000000000], dtype=np.uint64).view(np.float64)
    for array in (np.array([-0.0, 0.0, 0.5]), strange, np.array([1e300, 5e-324])):
        assert unpack(pack(array)).tobytes() == array.tobytes()
    assert b"<f4" in pack(np.array([-0.0, 0.5]))
    assert b"<f8" in pack(strange)


def test_objects_are_refused() -> None:
    with pytest.raises(TypeError, match="got one of object"):
        pack(np.array([{}, None], dtype=object))


def test_the_format_of_a_blob_stays_readable() -> None:
    """Files are read by later versions: these bytes were written down, not made here.

    1000, 1001, 1003 as steps 1000, 1, 2 in 2 bytes: low bytes e8 01 02, then high bytes 03 00 00;
    0.5 and -2.0 as float32, 3f000000 and c0000000, lowest bytes first. The body is a zlib stream
    of one stored block (78 01, 01, length, its complement, data, Adler-32).
    """
    steps = b"<i8 (3) <i2 1\n" + bytes.fromhex("7801 01 0600 f9ff e80102030000 058c00ef")
    halves = b"<f8 (2,1) <f4 0\n" + bytes.fromhex("7801 01 0800 f7ff 0000000000003fc0 01460100")
    assert unpack(steps).tolist() == [1000, 1001, 1003]
    assert unpack(halves).tolist() == [[0.5], [-2.0]]


numbers = st.floats(allow_nan=True, allow_infinity=True)
mappings = st.dictionaries(st.text(max_size=5), numbers, max_size=3)
client_ids = st.one_of(
    st.integers(), st.text(max_size=4), numbers, st.booleans(), st.none(), st.binary(max_size=3),
    st.tuples(st.integers(), st.text(max_size=2)),
)  # fmt: skip


@st.composite
def round_logs(draw: st.DrawFn) -> RoundLog:
    n = draw(st.integers(1, 6))
    floats = arrays_of.arrays(np.float64, st.integers(0, 6), elements=numbers)
    per_client = arrays_of.arrays(np.float64, n, elements=numbers)
    ids = arrays_of.arrays(np.int64, st.integers(0, 6), elements=st.integers(-1, n - 1))
    refusal = st.builds(Refusal, client_ids, st.sampled_from(Reason), st.text(max_size=8))
    return RoundLog(
        t=draw(st.integers(0, 10**6)),
        outcome=draw(arrays_of.arrays(np.int8, n, elements=st.integers(0, 7))),
        refusals=tuple(draw(st.lists(refusal, max_size=3))),
        ids=draw(ids),
        source=draw(ids),
        coef=draw(floats),
        notes=draw(mappings),
        metrics=draw(mappings),
        megabytes_up=draw(numbers),
        megabytes_down=draw(numbers),
        timings=draw(mappings),
        clock=draw(numbers),
        client_metrics=draw(st.dictionaries(st.text(max_size=4), per_client, max_size=2)),
        errors=draw(st.none() | floats),
    )


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store for many examples, each a replay of the one round."""
    with begun(tmp_path_factory.mktemp("runs")) as store:
        yield store


@given(one=round_logs())
def test_a_log_comes_back_to_the_bit(shared: Store, one: RoundLog) -> None:
    shared.add_rounds(KEY, [one])
    assert [whole(back) for back in shared.logs(KEY, one.t, one.t + 1)] == [whole(one)]


def test_an_id_that_python_cannot_write_down_comes_back_as_its_text(tmp_path: Path) -> None:
    class Odd:
        def __repr__(self) -> str:
            return "<odd>"

    ids = (Odd(), np.int64(7), np.float32(0.5))
    refusals = tuple(Refusal(who, Reason.UNKNOWN_ID, "") for who in ids)
    with begun(tmp_path) as store:
        store.add_rounds(KEY, [log(0, refusals=refusals)])
        (back,) = store.logs(KEY)
    assert [(type(r.id), r.id) for r in back.refusals] == [(str, "<odd>"), (int, 7), (float, 0.5)]


def test_the_logs_of_a_simulation_come_back_and_make_the_same_frame(tmp_path: Path) -> None:
    run = simulate(
        federation(dtype=torch.float32),
        fdms(),
        model="softmax",
        availability=Bernoulli(p_min=0.6),
        rounds=5,
        evaluate_every=2,
        per_client_every=2,
        oracle=True,
        workers=1,
    )
    played = list(run)
    with begun(tmp_path) as store:
        store.add_rounds(KEY, played)
        assert [whole(back) for back in store.logs(KEY)] == [whole(one) for one in played]
        frame, told = store.rounds(KEY), run.frame()
    assert any(one.errors is not None and len(one.errors) for one in played)
    for name in told.columns:
        values = told[name].to_numpy(dtype=np.float64)
        assert np.array_equal(frame[name].to_numpy(dtype=np.float64), values, equal_nan=True), name


def test_logs_are_read_from_first_up_to_last(tmp_path: Path) -> None:
    n = store_module.BATCH * 2 + 3
    with begun(tmp_path) as store:
        store.add_rounds(KEY, [log(t) for t in range(n)])
        assert [one.t for one in store.logs(KEY)] == list(range(n))
        assert [one.t for one in store.logs(KEY, 60, 70)] == list(range(60, 70))
        assert [one.t for one in store.logs(KEY, n)] == []
        assert store.n_rounds(KEY) == n


# -- runs and studies --------------------------------------------------------------------------


def test_last_metrics_are_those_of_the_last_round_that_was_evaluated(tmp_path: Path) -> None:
    with begun(tmp_path) as store:
        assert store.last_metrics(KEY) == {}
        measured = ({"test_loss": 3.0}, {"test_loss": 2.0}, {}, {})
        store.add_rounds(KEY, [log(t, metrics=found) for t, found in enumerate(measured)])
        assert store.last_metrics(KEY) == {"test_loss": 2.0}


def test_a_replayed_round_overwrites_all_of_itself(tmp_path: Path) -> None:
    """Round 1 had a metric per client and errors; its replay has not, and nothing is left over."""
    first = [log(t, errors=np.ones(5)) for t in range(3)]
    again = [log(1, client_metrics={}, metrics={"test_loss": 1.0}), log(2), log(3)]
    with begun(tmp_path) as store:
        store.add_rounds(KEY, first)
        store.add_rounds(KEY, again)
        assert [whole(one) for one in store.logs(KEY)] == [whole(one) for one in first[:1] + again]
        assert store._query("SELECT count(*) FROM client_metrics") == [(3,)]  # of 0, 2, 3
        assert store._query("SELECT count(*) FROM round_arrays") == [(4,)]


def test_the_life_of_a_run(tmp_path: Path) -> None:
    found = Findings({"sigma": 0.5, "nothing": float("nan")}, {"matrix": np.eye(3)})
    with begun(tmp_path) as store:
        store.save_study("one", {}, [cell(KEY, strategy="a"), cell("else", strategy="b")], "0.1.0")
        store.add_rounds(KEY, [log(0)])
        assert [one.status for one in store.cells("one")] == ["running", "waiting"]
        store.stop(KEY)
        assert store.status(KEY) == "stopped"
        store.fail(KEY, "ValueError: \ud800 no")
        assert store.cells("one")[0].error == "ValueError: \\ud800 no"
        store.begin(KEY, {"rounds": 9}, {"n_clients": 5}, "0.2.0")
        assert (store.status(KEY), store.n_rounds(KEY)) == ("running", 1)
        store.finish(KEY, found)
        done = store.cells("one")[0]
        assert (done.status, done.error, done.version, done.rounds) == ("done", None, "0.2.0", 1)
        assert list(done.findings_metrics) == ["sigma", "nothing"]
        assert done.findings_metrics["sigma"] == 0.5
        assert np.isnan(done.findings_metrics["nothing"])
        assert plain(store.arrays(KEY)) == plain(dict(found.arrays))
        assert store.resolved(KEY) == {"rounds": 9}
        assert store.studies()[0].n_done == 1
        store.forget(KEY)
        assert [one.status for one in store.cells("one")] == ["waiting", "waiting"]
        for table in ("rounds", "round_arrays", "client_metrics", "client_counts", "run_arrays"):
            assert store._query(f"SELECT count(*) FROM {table}") == [(0,)], table


def test_a_run_that_begins_anew_takes_the_place_of_the_earlier_one_at_once(tmp_path: Path) -> None:
    with begun(tmp_path) as store:
        store.add_rounds(KEY, [log(t) for t in range(6)])
        store.fail(KEY, "it broke off")
        assert (store.version(KEY), store.version("of nobody")) == ("0.1.0", None)
        with pytest.raises(TypeError):  # a round that cannot be kept: the earlier run is whole
            store.begin_anew(KEY, {}, {}, "0.2.0", [log(0, notes={"mood": object()})])
        assert (store.status(KEY), store.n_rounds(KEY)) == ("failed", 6)
        new = log(0, n_clients=3)
        store.begin_anew(KEY, {"rounds": 7}, {"n_clients": 3}, "0.2.0", [new])
        assert (store.status(KEY), store.version(KEY)) == ("running", "0.2.0")
        assert [whole(one) for one in store.logs(KEY)] == [whole(new)]
        assert store.resolved(KEY) == {"rounds": 7}
        assert len(store.client_counts(KEY)["wanted"]) == 3


def test_findings_do_not_outlive_the_run_they_are_of(tmp_path: Path) -> None:
    with begun(tmp_path) as store:
        store.add_rounds(KEY, [log(0, outcome=np.zeros(5, dtype=np.int8))])
        store.finish(KEY, Findings({"sigma": 0.5}, {"matrix": np.eye(3)}))
        assert store.client_counts(KEY)["came"].tolist() == [1] * 5
        store.add_rounds(KEY, [log(1, outcome=np.zeros(5, dtype=np.int8))])
        assert store.arrays(KEY) == {}
        assert store.client_counts(KEY)["came"].tolist() == [2] * 5


def test_a_run_that_never_began_is_an_error(tmp_path: Path) -> None:
    actions: list[Callable[[Store], None]] = [
        lambda store: store.add_rounds("ffff", [log(0)]),
        lambda store: store.finish("ffff", None),
        lambda store: store.fail("ffff", "x"),
        lambda store: store.stop("ffff"),
    ]
    with begun(tmp_path) as store:
        for action in actions:
            with pytest.raises(KeyError, match="ffff: no such run"):
                action(store)
        store.add_rounds(KEY, [log(0)])  # no transaction was left open


def test_studies_replace_their_cells_and_share_runs(tmp_path: Path) -> None:
    labels = {"strategy": "fdms", "availability": None, "alpha": 0.3, "K": 5, "flag": True}
    with begun(tmp_path) as store:
        store.finish(KEY, None)
        store.save_study("b", {"target": 0.9}, [cell("x", seed=3, **labels), cell(KEY)], "0.1.0")
        store.save_study("a", {}, [cell(KEY)], "0.1.0")
        store.save_study("b", {"target": 0.8}, [cell(KEY, seed=4, **labels)], "0.2.0")
        told = [(s.name, dict(s.about), s.n_cells, s.n_done, s.version) for s in store.studies()]
        assert told == [("a", {}, 1, 1, "0.1.0"), ("b", {"target": 0.8}, 1, 1, "0.2.0")]
        (only,) = store.cells("b")
        assert (only.key, only.seed, dict(only.labels)) == (KEY, 4, labels)
        assert list(only.labels) == list(labels)
        assert type(only.labels["K"]) is int
        with pytest.raises(StoreError, match=r"no study 'c'; there: a, b"):
            store.cells("c")


def test_bytes_of_ten_thousand_clients(tmp_path: Path) -> None:
    """1,000 rounds must stay below 1 GB; here it is a fifth of that, so that it stays so.

    A fifth comes; friends are drawn evenly and weights are unequal, which compresses worst.
    """
    n, rounds = 10_000, 10
    rng = np.random.default_rng(0)
    share = rng.random(n)
    played = []
    for t in range(rounds):
        here = rng.random(n) < 0.2
        came, absent = np.flatnonzero(here), np.flatnonzero(~here)
        ids = np.concatenate([came, absent])
        source = np.concatenate([came, rng.choice(came, len(absent))])
        outcome = np.where(here, Outcome.CAME, Outcome.UNAVAILABLE).astype(np.int8)
        played.append(
            log(t, 1, outcome=outcome, ids=ids, source=source, coef=share[ids],
                client_metrics={"accuracy": rng.random(n)} if t == 9 else {})
        )  # fmt: skip
    with begun(tmp_path) as store:
        store.add_rounds(KEY, played)
    assert (tmp_path / FILE).stat().st_size / rounds * 1000 < 0.2e9


# -- several processes -------------------------------------------------------------------------


def test_rounds_are_on_the_disk_when_add_rounds_returns(tmp_path: Path) -> None:
    """Nothing here can cut the power, so the promise is read off: WAL, and 2 = FULL."""
    with begun(tmp_path) as store:
        assert store._query("PRAGMA synchronous") == [(2,)]
        assert store._query("PRAGMA journal_mode") == [("wal",)]


def test_a_reader_and_the_writer_do_not_wait_for_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "PATIENCE", 0.0)  # who would wait fails
    with begun(tmp_path) as writer, Store.open(tmp_path) as reader:
        writer.add_rounds(KEY, [log(0)])
        with writer._transaction():
            writer._connection.execute("UPDATE rounds SET came = 99")
            assert reader.rounds(KEY)["came"].tolist() != [99]
        assert reader.rounds(KEY)["came"].tolist() == [99]

        reader._connection.execute("BEGIN")  # as a long query would
        assert reader.n_rounds(KEY) == 1
        writer.add_rounds(KEY, [log(1)])
        assert reader.n_rounds(KEY) == 1
        reader._connection.execute("COMMIT")
        assert reader.n_rounds(KEY) == 2


def test_half_read_logs_do_not_keep_the_writers_log_from_being_folded_in(tmp_path: Path) -> None:
    """wal_checkpoint returns (busy, pages of the log, pages moved): all are moved."""
    with begun(tmp_path) as writer, Store.open(tmp_path) as reader:
        writer.add_rounds(KEY, [log(t) for t in range(5)])
        reading = reader.logs(KEY)
        next(reading)
        writer.add_rounds(KEY, [log(t) for t in range(5, 9)])
        ((busy, pages, moved),) = writer._query("PRAGMA wal_checkpoint(TRUNCATE)")
        assert (busy, pages, moved) == (0, 0, 0)  # emptied
        assert [one.t for one in reading] == list(range(1, 9))


def test_a_reader_cannot_write(tmp_path: Path) -> None:
    begun(tmp_path).close()
    with Store.open(tmp_path) as reader:
        with pytest.raises(StoreError, match="opened for reading"):
            reader.stop(KEY)
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            reader._connection.execute("DELETE FROM runs")


def test_a_writer_that_never_gets_its_turn_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "PATIENCE", 0.0)
    with begun(tmp_path) as one, Store.open(tmp_path, write=True) as other:
        with one._transaction(), pytest.raises(StoreError, match=f"{FILE}: another process kept"):
            other.stop(KEY)
        other.stop(KEY)
        assert one.status(KEY) == "stopped"


WRITE = """
import sys
sys.path.insert(0, {here!r})
from tests.studies.store.test_store import begun, log
from pathlib import Path
folder, key, transactions = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
with begun(folder, key) as store:
    first = store.n_rounds(key)
    for t in range(first, first + 3 * transactions, 3):
        store.add_rounds(key, [log(t), log(t + 1), log(t + 2)])
        print(t + 3, flush=True)
"""


def writer_process(folder: Path, key: str, transactions: int) -> subprocess.Popen[str]:
    """Writes three rounds a transaction once it is told to, and prints how many are safe."""
    script = WRITE.format(here=str(Path(__file__).parents[3]))
    command = [sys.executable, "-c", script, str(folder), key, str(transactions)]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.process
def test_two_processes_make_the_file_and_write_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "runs"
    both = [writer_process(folder, key, 40) for key in ("first", "second")]
    for process in both:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in both:
        process.communicate()
        assert process.returncode == 0
    with Store.open(folder) as store:
        for key in ("first", "second"):
            assert [whole(one) for one in store.logs(key)] == [whole(log(t)) for t in range(120)]


@pytest.mark.process
def test_killed_while_writing_whole_transactions_are_there(tmp_path: Path) -> None:
    """What was said to be safe is there, nothing is there by halves, and writing goes on."""
    moment = random.Random(0)
    with begun(tmp_path) as store:
        store.save_study("one", {}, [cell(KEY)], "0.1.0")
    for _ in range(3):
        process = writer_process(tmp_path, KEY, 100_000)
        output = process.stdout
        assert output is not None
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
        safe = 0
        for _ in range(moment.randint(1, 12)):
            safe = int(output.readline())
        process.kill()
        safe = max([safe, *(int(line) for line in output if line.endswith("\n"))])
        process.wait()
        output.close()
        process.stdin.close()
        with Store.open(tmp_path) as store:
            n = store.n_rounds(KEY)
            assert n >= safe
            assert n % 3 == 0
            assert [whole(one) for one in store.logs(KEY)] == [whole(log(t)) for t in range(n)]
            assert store._query("PRAGMA integrity_check") == [("ok",)]
            assert store.cells("one")[0].status == "running"


# -- schemas and files that are not ours -------------------------------------------------------


def add_colour(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE runs ADD COLUMN colour TEXT")
    connection.execute("UPDATE runs SET colour = 'blue'")


def broken(connection: sqlite3.Connection) -> None:
    connection.execute("DROP TABLE rounds")
    raise OSError("power cut")


@pytest.mark.parametrize("write", [False, True])
def test_an_older_schema_is_migrated_with_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: bool
) -> None:
    with begun(tmp_path) as store:
        store.add_rounds(KEY, [log(0)])
    monkeypatch.setattr(schema, "STEPS", (*schema.STEPS, add_colour))
    with Store.open(tmp_path, write=write) as store:
        assert store._query("SELECT colour FROM runs") == [("blue",)]
        assert store._query("PRAGMA user_version") == [(len(schema.STEPS),)]
        assert [whole(one) for one in store.logs(KEY)] == [whole(log(0))]
    with Store.open(tmp_path, write=True) as store:  # and only once
        assert store._query("SELECT colour FROM runs") == [("blue",)]


def test_a_new_file_gets_all_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "STEPS", (*schema.STEPS, add_colour, lambda connection: None))
    with Store.open(tmp_path, write=True) as store:
        assert store._query("SELECT colour FROM runs") == []
        assert store._query("PRAGMA user_version") == [(len(schema.STEPS),)]


def test_a_migration_that_breaks_off_leaves_the_old_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with begun(tmp_path) as store:
        store.add_rounds(KEY, [log(0)])
    with monkeypatch.context() as patch:
        patch.setattr(schema, "STEPS", (*schema.STEPS, add_colour, broken))
        with pytest.raises(OSError, match="power cut"):
            Store.open(tmp_path)
    with Store.open(tmp_path) as store:
        assert store._query("PRAGMA user_version") == [(len(schema.STEPS),)]
        assert [whole(one) for one in store.logs(KEY)] == [whole(log(0))]
        assert "colour" not in str(store._query("SELECT sql FROM sqlite_master"))


@pytest.mark.parametrize("write", [False, True])
def test_a_newer_schema_is_refused_and_left_alone(tmp_path: Path, write: bool) -> None:
    begun(tmp_path).close()
    newer = len(schema.STEPS) + 1
    connection = sqlite3.connect(tmp_path / FILE)
    connection.execute(f"PRAGMA user_version = {newer}")
    connection.commit()
    connection.close()
    before = (tmp_path / FILE).read_bytes()
    with pytest.raises(StoreError, match=rf"{FILE}: has schema {newer}, .* up to {newer - 1}"):
        Store.open(tmp_path, write=write)
    assert (tmp_path / FILE).read_bytes() == before


@pytest.mark.parametrize("write", [False, True])
def test_somebody_elses_database_is_refused_and_left_alone(tmp_path: Path, write: bool) -> None:
    connection = sqlite3.connect(tmp_path / FILE)
    connection.execute("CREATE TABLE addresses (name)")
    connection.commit()
    connection.close()
    before = (tmp_path / FILE).read_bytes()
    with pytest.raises(StoreError, match=f"{FILE}: a database, but not one of understudy's"):
        Store.open(tmp_path, write=write)
    assert (tmp_path / FILE).read_bytes() == before


@pytest.mark.parametrize("write", [False, True])
def test_what_is_no_database_is_named(tmp_path: Path, write: bool) -> None:
    (tmp_path / FILE).write_text("a poem\n" * 100)
    with pytest.raises(StoreError, match=rf"{tmp_path / FILE}: damaged, or no SQLite database"):
        Store.open(tmp_path, write=write)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    with begun(tmp_path) as store:
        store.add_rounds(KEY, [log(t) for t in range(200)])
    with open(tmp_path / FILE, "r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (os.path.getsize(tmp_path / FILE) - 4096))
    with pytest.raises(StoreError, match=f"{FILE}: damaged"), Store.open(tmp_path) as store:
        list(store.logs(KEY))


def test_a_folder_without_runs_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=f"{tmp_path}: no runs here"):
        Store.open(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_a_strange_name(tmp_path: Path) -> None:
    folder = tmp_path / "a ?mode=rw#1 %20é"
    begun(folder).close()
    with Store.open(folder) as store:
        assert store.status(KEY) == "running"
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]


# -- the disk ----------------------------------------------------------------------------------


def test_a_full_disk_is_told_and_what_was_there_stays(tmp_path: Path) -> None:
    """SQLite reports a file that may not grow any more by the same error as a full disk."""
    with begun(tmp_path) as store:
        store.add_rounds(KEY, [log(0)])
        pages = store._query("PRAGMA page_count")[0][0]
        store._query(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StoreFull) as caught:
            store.add_rounds(KEY, [log(t, 5000) for t in range(1, 5)])
        assert caught.value.errno == errno.ENOSPC
        assert caught.value.folder == tmp_path
        assert str(caught.value).startswith(f"{tmp_path}: the disk is full: ")
        assert str(caught.value).endswith(" bytes free")
        store._query("PRAGMA max_page_count = 1000000")
        assert [one.t for one in store.logs(KEY)] == [0]
        store.add_rounds(KEY, [log(1)])  # room was made: it goes on
        assert store.n_rounds(KEY) == 2


SMALL_DISK = """
import json, os, sqlite3, subprocess, sys
sys.path.insert(0, {here!r})
from tests.studies.store.test_store import KEY, begun, log
from understudy.studies.store.connection import StoreFull
from understudy.studies.store.store import Store
from pathlib import Path
folder = Path(sys.argv[1])
mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(folder)]
if subprocess.run(mount, capture_output=True).returncode:
    sys.exit(77)
told = {{}}
with begun(folder) as store:
    for t in range(1000):
        try:
            store.add_rounds(KEY, [log(t, 3000)])
        except StoreFull as error:
            told = {{"t": t, "free": error.free, "text": str(error)}}
            break
    told["left"] = [one.t for one in store.logs(KEY)]
subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
with Store.open(folder) as store:
    told["read_only"] = store.n_rounds(KEY)
subprocess.run(["mount", "-o", "remount,rw,size=16m", str(folder)], check=True)
database = sqlite3.connect(folder / "understudy.sqlite", isolation_level=None)
database.execute("DROP TABLE round_totals")
for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
    database.execute(f"ALTER TABLE {{table}} DROP COLUMN crc32")
database.execute("PRAGMA user_version = 1")
database.close()
subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
with Store.open(folder) as store:
    told["older_read_only"] = store.n_rounds(KEY)
    told["unverified"] = store.unverified(KEY)
print(json.dumps(told))
"""


def on_a_small_disk(folder: Path) -> Mapping[str, Any]:
    """A disk of 1 MB that only this process sees is filled, then made read-only."""
    script = SMALL_DISK.format(here=str(Path(__file__).parents[3]))
    command = ["unshare", "--map-root-user", "--mount", sys.executable, "-c", script, str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("no command unshare")
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("this machine lets nobody mount a disk of their own")
    assert done.returncode == 0, done.stderr
    told: Mapping[str, Any] = json.loads(done.stdout)
    return told


def test_a_disk_that_is_really_full_and_one_that_is_read_only(tmp_path: Path) -> None:
    told = on_a_small_disk(tmp_path)
    assert told["t"] > 3
    assert told["free"] < 2**18
    assert told["text"] == f"{tmp_path}: the disk is full: {told['free']:,} bytes free"
    assert told["left"] == list(range(told["t"]))
    assert told["read_only"] == told["t"]
    assert told["older_read_only"] == told["t"]  # by a copy in memory with today's tables
    assert told["unverified"] == told["t"]
