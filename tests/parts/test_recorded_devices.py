"""Traces and capacities that users bring: read by hand, against the formulas, and hostile ones."""

from __future__ import annotations

import json
import math
import os
import pickle
import struct
from datetime import datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy import (
    FedScaleTrace,
    FlashTrace,
    Local,
    Population,
    RecordedLatency,
    fedavg,
    plots,
    simulate,
)
from understudy.core.plain_pickle import read_plain_pickle
from understudy.core.rng import generator
from understudy.parts.recordings.fedscale import read_fedscale
from understudy.parts.recordings.flash import read_flash
from understudy.parts.recordings.kinds import read_recording
from understudy.parts.recordings.two_state import read_two_state
from understudy.plots.traces import trace_facts
from understudy.simulation import clustered_digits
from understudy.testing import check_availability

MIDNIGHT = datetime(2020, 1, 2)


def messages(*lines):
    """FLASH's text of (second after the reference, state)."""
    times = [(MIDNIGHT + timedelta(seconds=second), state) for second, state in lines]
    return "\n".join(f"{time:%Y-%m-%d %H:%M:%S}\t{state}" for time, state in times) + "\n"


PHONES = {
    # ready 40 .. 70 and 90 .. 100, where it falls silent ready; its own second 0 is 10
    "a": {
        "guid": "x",
        "model": "m",
        "messages": messages(
            (10, "WIFI"), (20, "battery_charged_on"), (30, "80.0%"), (40, "screen_lock"),
            (50, "screen_off"), (70, "4G"), (90, "wifi"), (100, "55%"),
        ),
    },
    # never locked
    "b": {"messages": messages((0, "wifi"), (0, "battery_charged_on"), (60, "screen_unlock"))},
}  # fmt: skip


@pytest.fixture
def flash(tmp_path):
    path = tmp_path / "state_traces.json"
    path.write_text(json.dumps(PHONES))
    return path


def pickled(path, value, protocol=pickle.DEFAULT_PROTOCOL):
    path.write_bytes(pickle.dumps(value, protocol=protocol))
    return path


def attendance(part, n_clients, rounds):
    """(rounds, devices), clients in the order of devices."""
    state = part.init(Population(n_clients))
    drawn = [part.draw(state, t, generator(0, "a", t)) for t in range(rounds)]
    return np.array(drawn)[:, np.argsort(state.device)].astype(int)


# -- FLASH -----------------------------------------------------------------------------------------


def test_flash_by_hand(flash):
    recording = read_flash(flash)
    assert recording.devices == ("a", "b")
    assert recording.sessions == (((30, 60), (80, 90)), ())
    assert (recording.lengths, recording.begins) == ((90, 60), (10, 0))
    # a has seconds 10 .. 99 of the run and starts again at 100: it is ready at 40 .. 70, 90 .. 99
    # (at second 0 it is where it was at 90, at 100 where it was at 10), and at 130 .. 160
    here = attendance(FlashTrace(flash, seconds_per_round=10), 2, 18)
    expected = [t for t in range(18) if 40 <= 10 * t <= 70 or 130 <= 10 * t <= 160]
    expected += [t for t in range(18) if 10 * t in (0, 90, 180)]
    np.testing.assert_array_equal(np.flatnonzero(here[:, 0]), sorted(expected))
    assert not here[:, 1].any()
    check_availability(FlashTrace(flash))


def ready_by_flash(device, second):
    """FLASH's rule, read from its definition, message by message."""
    lines = [line.split("\t") for line in device["messages"].split("\n") if line]
    times = [(datetime.fromisoformat(time) - MIDNIGHT).total_seconds() for time, _ in lines]
    now = (second - times[0]) % (times[-1] - times[0]) + times[0]
    is_now = {"charging": False, "wifi": False, "locked": False}
    spans, since = [], None
    for time, (_, state) in zip(times, lines, strict=True):
        state = state.lower()
        if state.startswith("battery_charged"):
            is_now["charging"] = state.endswith("on")
        elif state in ("wifi", "2g", "3g", "4g", "5g", "unknown"):
            is_now["wifi"] = state == "wifi"
        elif state in ("screen_lock", "screen_unlock"):
            is_now["locked"] = state == "screen_lock"
        if all(is_now.values()) and since is None:
            since = time
        if not all(is_now.values()) and since is not None:
            spans, since = [*spans, (since, time)], None
    spans += [] if since is None else [(since, times[-1])]
    return any(start <= now <= stop for start, stop in spans)


def test_flash_against_its_definition(tmp_path):
    states = ["wifi", "4g", "unknown", "battery_charged_on", "battery_charged_off", "screen_lock",
              "screen_unlock", "screen_on", "12%"]  # fmt: skip
    rng = np.random.default_rng(0)
    phones = {}
    for name in range(6):
        seconds = np.sort(rng.choice(4000, 120, replace=False)).tolist()
        phones[str(name)] = {
            "messages": messages(*((s, states[rng.integers(len(states))]) for s in seconds))
        }
    path = tmp_path / "phones.json"
    path.write_text(json.dumps(phones))
    here = attendance(FlashTrace(path, seconds_per_round=7), 6, 900)
    for device, phone in enumerate(phones.values()):
        expected = [ready_by_flash(phone, 7 * t) for t in range(900)]
        np.testing.assert_array_equal(here[:, device], expected)
    assert here.any(axis=0).sum() >= 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "expected a trace of FLASH, JSON"),
        ("[" * 100_000, "expected a trace of FLASH, JSON"),
        ("[1]", r"expected a trace of FLASH, JSON: .*, got \[1\]"),
        ("{}", "expected a trace of FLASH"),
        ('{"a": {"messages": 3}}', "device 'a': expected messages, a text"),
        ('{"a": 3}', "device 'a': expected messages"),
        (
            '{"a": {"messages": "now\\twifi"}}',
            "device 'a', message 1: .*YYYY-mm-dd",
        ),
        ('{"a": {"messages": "2020-01-02 00:00:00 wifi"}}', "device 'a', message 1"),
        ('{"a": {"messages": "2020-01-02 00:00:00+01:00\\twifi"}}', "device 'a', message 1"),
        ('{"a": {"messages": "\\n2020-01-02 00:00:00\\tflying"}}', "message 2: .*flying"),
        ('{"a": {"messages": "2020-01-02 00:00:00\\twifi"}}', "at least two different times"),
        ('{"a": {"messages": ""}}', "device 'a': expected messages of at least two"),
    ],
)
def test_a_bad_flash_trace_names_the_device(tmp_path, text, words):
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=words) as refused:
        FlashTrace(path).init(Population(2))
    assert "bad.json" in str(refused.value)
    assert len(str(refused.value)) < 600


# -- FedScale --------------------------------------------------------------------------------------

DEVICES = {
    1: {"duration": 211, "active": [10, 50], "inactive": [20, 50], "finish_time": 60, "model": "x"},
    2: {"duration": 1, "active": [0], "inactive": [45], "finish_time": 45, "model": "y"},
    7: {"duration": 0, "active": [], "inactive": [], "finish_time": 100.5, "model": "z"},
}


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_fedscale_is_its_formula(tmp_path, protocol):
    """active[k] ≤ s mod finish_time ≤ inactive[k], both ends included."""
    path = pickled(tmp_path / "behave", DEVICES, protocol)
    here = attendance(FedScaleTrace(path, seconds_per_round=5), 3, 60)
    for device, known in enumerate(DEVICES.values()):
        expected = [
            any(
                start <= (5 * t) % known["finish_time"] <= stop
                for start, stop in zip(known["active"], known["inactive"], strict=True)
            )
            for t in range(60)
        ]
        np.testing.assert_array_equal(here[:, device], expected)
    check_availability(FedScaleTrace(path))
    assert read_fedscale(path).devices == ("1", "2", "7")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([1], r"expected a trace of FedScale, a pickle: .*got \[1\]"),
        ({}, "expected a trace of FedScale"),
        ({1: 5}, "device 1: expected a trace"),
        ({1: {"active": [], "inactive": []}}, "device 1: expected finish_time, a number > 0"),
        ({1: {**DEVICES[1], "finish_time": 0}}, "finish_time, a number > 0, got 0"),
        ({1: {**DEVICES[1], "finish_time": math.nan}}, "finish_time"),
        ({1: {**DEVICES[1], "active": [1, -2]}}, "expected active, a list of seconds"),
        ({1: {**DEVICES[1], "active": [1, "2"]}}, "expected active"),
        ({1: {**DEVICES[1], "inactive": [1]}}, "as many times in inactive as in active, .* 1 and"),
    ],
)
def test_a_bad_fedscale_trace_names_the_device(tmp_path, value, words):
    path = pickled(tmp_path / "behave.pkl", value)
    with pytest.raises(ValueError, match=words) as refused:
        FedScaleTrace(path).init(Population(2))
    assert "behave.pkl" in str(refused.value)


def test_a_missing_file_is_named(tmp_path):
    for part in (FlashTrace, FedScaleTrace):
        with pytest.raises(FileNotFoundError, match=r"nowhere: no such file.*expected a trace"):
            part(tmp_path / "nowhere").init(Population(2))
    with pytest.raises(ValueError, match=r"seconds_per_round: .* got 0"):
        FlashTrace("x", seconds_per_round=0)
    with pytest.raises(ValueError, match="file: expected the path of a pickle, got 3"):
        RecordedLatency(3)


# -- pickles ---------------------------------------------------------------------------------------

plain = st.recursive(
    st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.integers() | st.text() | st.floats(allow_nan=False),
                                          inner)
    ),
    max_leaves=12,
)  # fmt: skip


@given(value=plain, protocol=st.integers(0, pickle.HIGHEST_PROTOCOL))
def test_plain_data_are_read_as_pickle_reads_them(tmp_path_factory, value, protocol):
    path = pickled(tmp_path_factory.getbasetemp() / "plain.pkl", value, protocol)
    assert repr(read_plain_pickle(path)) == repr(value)


class Runs:
    """Would write a file, were it unpickled in earnest."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_that_runs_something_is_refused(tmp_path, protocol):
    proof = tmp_path / "proof"
    path = pickled(tmp_path / "evil.pkl", {1: {"active": Runs(proof)}}, protocol)
    with pytest.raises(ValueError, match=r"evil.pkl: expected a pickle of plain data.*something"):
        FedScaleTrace(path).init(Population(1))
    assert not proof.exists()
    pickle.loads(path.read_bytes())
    assert proof.exists()  # in earnest it does


HOSTILE = {
    "a class": b"cos\nsystem\n(S'true'\ntR.",
    "a tuple": pickle.dumps((1, 2)),
    "None": pickle.dumps(None),
    "true": pickle.dumps(True),
    "true, as of old": pickle.dumps(True, 0),
    "bytes": pickle.dumps(b"x"),
    "bytearray8 of 4 EB": b"\x80\x05\x96" + struct.pack("<Q", 2**62) + b".",
    "text of 4 GB": b"\x80\x04X" + struct.pack("<I", 2**32 - 1) + b"abc.",
    "text of 16 EB": b"\x80\x04\x8d" + struct.pack("<Q", 2**64 - 1) + b"abc.",
    "text of -1": b"T" + struct.pack("<i", -1) + b".",
    "a memo at 4 billion, not read": b"K\x01r\xff\xff\xff\xffj\xfe\xff\xff\xff.",
    "a frame too long": b"\x80\x04\x95\xff.",
    "nothing": b"",
    "no end": b"K\x01",
    "empty": b".",
    "two": b"K\x01K\x02.",
    "a mark alone": b"(.",
    "items without a mark": b"]K\x01e.",
    "append to a number": b"K\x01K\x02a.",
    "a list as a key": b"}]K\x01s.",
    "nan as a key": pickle.dumps({math.nan: 1}),
    "an odd dict": b"(K\x01d.",
    "half a text": b"S'abc\n.",
    "text in bad UTF-8": b"\x8c\x01\xff.",
    "a number of a million digits": b"I" + b"9" * 1_000_000 + b"\n.",
    "a persistent id": b"Pid\n.",
    "an extension": b"\x82\x01.",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_what_is_no_plain_pickle_is_one_short_error(tmp_path, what):
    path = tmp_path / "bad.pkl"
    path.write_bytes(HOSTILE[what])
    with pytest.raises(ValueError, match=r"bad.pkl: expected a pickle of plain data") as refused:
        read_plain_pickle(path)
    assert len(str(refused.value)) < 400


def test_a_text_with_a_huge_memo_number_takes_no_memory(tmp_path):
    path = tmp_path / "memo.pkl"
    path.write_bytes(b"K\x01r\xff\xff\xff\xffK\x01.")
    with pytest.raises(ValueError, match="damaged"):  # two values; and no 32 GB on the way
        read_plain_pickle(path)


@given(content=st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "any.pkl"
    path.write_bytes(content)
    try:
        value = read_plain_pickle(path)
    except ValueError as error:
        value = str(error)
    assert type(value) in (dict, list, int, float, str)


# -- capacities ------------------------------------------------------------------------------------

SPEEDS = {
    0: {"computation": 20, "communication": 1000},
    1: {"computation": 5.5, "communication": 40},
}


def test_recorded_latency_is_fedscale_s_formula(tmp_path):
    """3 · batch · steps · ms/1000 + kilobits/kbps: of 10,000 parameters, 320 kilobits each way.

    Two epochs of ⌈30/8⌉ = 4 and ⌈5/8⌉ = 1 steps of 8: 64 and 16 examples.
    """
    path = pickled(tmp_path / "capacity", SPEEDS)
    part, local = RecordedLatency(path), Local(epochs=2, batch_size=8)
    population = Population(2, n_examples=[30, 5])
    state = part.init(population, 10_000, local)
    seconds = part.delay(state, np.array([0, 1]), 0, generator(0, "delay", 0))
    examples = {0: 64, 1: 16}
    for client, device in enumerate(state.device):
        known = SPEEDS[int(device)]
        expected = 3 * examples[client] * known["computation"] / 1000
        expected += 640 / known["communication"]
        assert math.isclose(seconds[client], expected)
    state.n_down = 2  # a correction travels too
    more = part.delay(state, np.array([0]), 0, generator(0, "delay", 0))
    assert math.isclose(more[0] - seconds[0], 320 / SPEEDS[int(state.device[0])]["communication"])


def test_a_simulation_with_recorded_devices(tmp_path, flash):
    speeds = pickled(tmp_path / "capacity", SPEEDS)
    behave = pickled(tmp_path / "behave", DEVICES)
    run = simulate(
        clustered_digits(), fedavg(), model="softmax", rounds=3,
        availability=FedScaleTrace(behave, seconds_per_round=5), delay=RecordedLatency(speeds),
    )  # fmt: skip
    logs = list(run)
    assert logs[-1].clock > 0


def test_bad_capacities_name_the_device(tmp_path):
    path = pickled(tmp_path / "c.pkl", {3: {"computation": 1, "communication": 0}})
    with pytest.raises(ValueError, match=r"c.pkl, device 3: expected communication, .*> 0, got 0"):
        RecordedLatency(path).init(Population(2), 10, Local(steps=1))
    with pytest.raises(ValueError, match=r"RecordedLatency needs population.n_examples"):
        RecordedLatency(pickled(path, SPEEDS)).init(Population(2), 10, Local(epochs=1))


# -- pictures --------------------------------------------------------------------------------------


def test_a_trace_is_told_by_its_beginning(tmp_path, flash):
    behave = pickled(tmp_path / "behave", DEVICES)
    old = pickled(tmp_path / "old", DEVICES, 0)
    two = tmp_path / "two.csv"
    two.write_text("device,t_s,state\na,0,AVL_TRAIN\na,900,UN_AVL\n")
    kinds = [read_recording(path)[0] for path in (flash, behave, old, two)]
    assert kinds == ["flash_trace", "fedscale_trace", "fedscale_trace", "trace"]
    facts = trace_facts(read_recording(flash)[1])
    # a is there 40 of 90 seconds, b never; visits of 30 and 10 seconds
    assert (facts.n_devices, facts.n_never) == (2, 1)
    assert math.isclose(facts.share, 40 / 90 / 2)
    assert facts.visit_seconds == 20


def test_the_picture_shows_who_is_there(flash):
    figure = plots.trace(read_flash(flash), seconds_per_round=10, title="phones")
    counted, lengths, table, often = figure.axes
    assert counted.get_title(loc="left") == "phones"
    image = table.images[0].get_array()
    expected = attendance(FlashTrace(flash, seconds_per_round=10), 2, 9).T
    np.testing.assert_array_equal(image, expected)  # a is first: it is there more often
    np.testing.assert_allclose(counted.lines[0].get_ydata(), 100 * expected.mean(axis=0))
    np.testing.assert_allclose(often.lines[0].get_xdata(), [100 * 40 / 90, 0])
    assert len(lengths.lines[0].get_xdata()) == 2
    with pytest.raises(ValueError, match=r"drop_first_seconds: expected less than .* 90 seconds"):
        plots.trace(read_flash(flash), drop_first_seconds=90)


def test_a_recording_of_many_devices_is_drawn_in_part(tmp_path):
    lines = "".join(f"d{i},0,AVL_TRAIN\nd{i},{60 + i},UN_AVL\n" for i in range(1200))
    path = tmp_path / "many.csv"
    path.write_text("device,t_s,state\n" + lines)
    figure = plots.trace(read_two_state(path), seconds_per_round=60)
    assert figure.axes[2].images[0].get_array().shape == (1000, 21)
