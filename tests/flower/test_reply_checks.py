"""Checks of replies: whatever a client sends is an update, or refused with a reason."""

import io
import logging
import pickle

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

from tests.flower.loopback import LoopbackGrid, nodes_of
from tests.flower.toy import first_arrays, moved, play, reply_of, toy_app
from understudy.flower import Limits, UnderstudyStrategy, load_arrays, save_arrays
from understudy.flower.clients.identity import Node
from understudy.flower.messages.requests import Collected, Request
from understudy.flower.rounds.live_round import LiveRound


def npy(values, pickled=False):
    buffer = io.BytesIO()
    np.save(buffer, values, allow_pickle=pickled)
    return buffer.getvalue()


def arrays(values=None, *, data=None, name="w", stype="numpy.ndarray", shape=(3,)):
    data = (
        npy(np.zeros(3, dtype=np.float32) if values is None else values) if data is None else data
    )
    return ArrayRecord({name: Array("float32", shape, stype, data)})


def header_only(shape):
    """A header that promises much, and three numbers."""
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        buffer, {"descr": "<f4", "fortran_order": False, "shape": shape}
    )
    return buffer.getvalue() + bytes(12)


class Harm:
    """Unpickled, it would leave a trace."""

    unpickled = False

    def __reduce__(self):
        return setattr, (Harm, "unpickled", True)


def pickled():
    return npy(np.array([Harm(), 1, 2], dtype=object), pickled=True)


BAD = {
    "nan": (arrays(np.array([1, np.nan, 2], dtype=np.float32)), "not finite"),
    "infinite": (arrays(np.array([1, np.inf, 2], dtype=np.float32)), "not finite"),
    "wrong shape": (arrays(np.zeros(4, dtype=np.float32)), "wrong length"),
    "another shape than it says": (arrays(np.zeros((3, 1), dtype=np.float32)), "wrong length"),
    "wrong type": (arrays(np.zeros(3, dtype=np.float64)), "wrong type"),
    "backwards": (arrays(np.zeros(3, dtype=">f4")), "wrong type"),
    "another name": (arrays(name="v"), "wrong length"),
    "nothing": (ArrayRecord(), "wrong length"),
    "cut short": (arrays(data=npy(np.zeros(3, dtype=np.float32))[:-5]), "unreadable"),
    "too long": (arrays(data=npy(np.zeros(3, dtype=np.float32)) + b"more"), "unreadable"),
    "no array": (arrays(data=b"\x00" * 100), "unreadable"),
    "empty": (arrays(data=b""), "unreadable"),
    "a header that promises much": (arrays(data=header_only((10**12,))), "wrong length"),
    "a pickle": (arrays(data=pickled()), "wrong type"),
    "another serialisation": (arrays(stype="pickle"), "wrong type"),
    "rubbish": (arrays(data=np.random.default_rng(0).bytes(3_000_000)), "too large"),
}


@pytest.mark.parametrize(("record", "reason"), BAD.values(), ids=BAD)
def test_bad_arrays_are_refused_with_a_reason(record, reason):
    def behave(message, context):
        return reply_of(message, record) if context.node_config["partition-id"] == 1 else None

    adapter = play(LoopbackGrid(nodes_of(toy_app(behave), 3)), rounds=2)
    assert adapter.history == [{"0": "came", "1": "refused", "2": "came"}] * 2
    assert adapter.outcomes[1].detail.startswith(f"{reason}: "), adapter.outcomes[1]
    # the other two: (1·1 + 3·3) / 4 a round
    np.testing.assert_allclose(adapter.result.arrays["w"].numpy(), np.full(3, 5.0))
    assert not Harm.unpickled


def test_a_pickle_would_have_been_noticed():
    pickle.loads(pickle.dumps(Harm()))
    assert Harm.unpickled
    Harm.unpickled = False


@pytest.mark.parametrize("n_examples", [0, -3, float("nan"), float("inf"), 1e12, [1, 2]])
def test_bad_example_counts_are_refused(n_examples):
    def behave(message, context):
        if context.node_config["partition-id"] == 1:
            return reply_of(message, message.content.array_records["arrays"], n_examples)
        return None

    adapter = play(LoopbackGrid(nodes_of(toy_app(behave), 3)))
    assert adapter.history == [{"0": "came", "1": "refused", "2": "came"}]
    assert adapter.outcomes[1].detail.startswith("bad n_examples")


@pytest.mark.parametrize("content", [
    RecordDict(),
    RecordDict({"arrays": first_arrays()}),
    RecordDict({"metrics": MetricRecord({"num-examples": 1})}),
    RecordDict({"a": first_arrays(), "b": first_arrays(), "m": MetricRecord({"num-examples": 1})}),
], ids=["empty", "no metrics", "no arrays", "two records"])  # fmt: skip
def test_replies_of_another_form_are_refused(content):
    def behave(message, context):
        if context.node_config["partition-id"] == 1:
            return Message(content, reply_to=message)
        return None

    adapter = play(LoopbackGrid(nodes_of(toy_app(behave), 3)))
    assert adapter.history == [{"0": "came", "1": "refused", "2": "came"}]


@pytest.mark.parametrize("record", [
    MetricRecord({"num-examples": 1, "more": [0.5] * 200_000}),
    ConfigRecord({"more": "x" * 1_600_000}),
    ConfigRecord({"more": [b"x" * 800_000] * 2}),
], ids=["metrics", "text", "bytes"])  # fmt: skip
def test_the_size_limit_counts_more_than_arrays(record):
    def behave(message, context):
        reply = reply_of(message, message.content.array_records["arrays"])
        if context.node_config["partition-id"] == 1:
            reply.content["metrics" if "num-examples" in record else "more"] = record
        return reply

    adapter = play(LoopbackGrid(nodes_of(toy_app(behave), 3)))
    assert adapter.history == [{"0": "came", "1": "refused", "2": "came"}]
    assert adapter.outcomes[1].detail == "too large: expected at most 1.0 MB, got 1.6 MB"


def test_an_update_beyond_the_norm_is_refused_or_clipped():
    def behave(message, context):
        if context.node_config["partition-id"] == 1:
            return reply_of(message, moved(message.content.array_records["arrays"], -1000.0), 2)
        return None

    def after_one_round(limits):
        return play(LoopbackGrid(nodes_of(toy_app(behave), 3)), limits=limits)

    refused = after_one_round(Limits(norm=10.0))
    assert refused.history == [{"0": "came", "1": "refused", "2": "came"}]
    assert "norm: expected at most 10" in refused.outcomes[1].detail
    clipped = after_one_round(Limits(norm=10.0, clip=True))
    assert clipped.history == [{"0": "came", "1": "came", "2": "came"}]
    expected = (1 * 1 + 3 * 3 - 2 * 10 / np.sqrt(3)) / 6
    np.testing.assert_allclose(clipped.result.arrays["w"].numpy(), np.full(3, expected), rtol=1e-6)
    with pytest.raises(ValueError, match="clip: expected a norm"):
        Limits(clip=True)


def test_what_is_only_informative_costs_nobody_an_update():
    odd = {"client-id": 5, "label-counts": ["a", "b"], "num-steps": "many"}

    def behave(message, context):
        arrays = moved(message.content.array_records["arrays"], 1)
        metrics = MetricRecord({"num-examples": 1, "train_loss": float("nan")})
        content = {"arrays": arrays, "metrics": metrics, "understudy": ConfigRecord(odd)}
        return Message(RecordDict(content), reply_to=message)

    adapter = play(LoopbackGrid(nodes_of(toy_app(behave), 2)))
    assert set(adapter.history[0].values()) == {"came"}


def test_integer_arrays_keep_the_servers_value_and_types_stay():
    first = ArrayRecord(
        {
            "bn.running_mean": Array(np.zeros(2, dtype=np.float32)),
            "w": Array(np.zeros((2, 2), dtype=np.float16)),
            "count": Array(np.array(7)),
            "b": Array(np.zeros(1, dtype=np.float64)),
        }
    )

    def behave(message, context):
        own = message.content.array_records["arrays"]
        changed = {
            name: Array(np.asarray(array.numpy() + 1, dtype=array.dtype))
            for name, array in own.items()
        }
        return reply_of(message, ArrayRecord(changed))

    grid = LoopbackGrid(nodes_of(toy_app(behave), 2))
    adapter = UnderstudyStrategy(clock=grid.time.clock())
    result = adapter.start(grid, first, num_rounds=2)
    found = {name: (array.dtype, array.numpy().tolist()) for name, array in result.arrays.items()}
    assert found == {
        "bn.running_mean": ("float32", [2.0, 2.0]),
        "w": ("float16", [[2.0, 2.0], [2.0, 2.0]]),
        "count": ("int64", 7),
        "b": ("float64", [2.0]),
    }
    state = adapter.server.state
    assert state.n_parameters == 5  # w and b; the buffer comes last
    assert len(state.params) == 7


def test_arrays_are_read_from_safetensors_only(tmp_path):
    save_arrays(moved(first_arrays(), 2.0), tmp_path / "model.safetensors")
    np.testing.assert_array_equal(
        load_arrays(tmp_path / "model.safetensors")["w"].numpy(), np.full(3, 2.0)
    )
    (tmp_path / "model.pt").write_bytes(pickle.dumps(Harm()))
    with pytest.raises(Exception, match="header"):
        load_arrays(tmp_path / "model.pt")
    assert not Harm.unpickled


def many_fields():
    return npy(np.zeros(3, dtype=[(f"field{place}", "<f4") for place in range(300)]))


LONG = {  # all but the last are smaller than a reply may be
    "serialisation": (lambda: arrays(stype="A" * 900_000), "wrong type"),
    "type": (lambda: arrays(data=many_fields()), "wrong type"),
    "shape": (lambda: arrays(data=header_only((1,) * 2000)), "wrong length"),
    "header": (lambda: arrays(data=b"\x93NUMPY\x01\x00\xff\xff" + b"A" * 0xFFFF), "unreadable"),
    "megabytes of serialisation": (lambda: arrays(stype="A" * 5_000_000), "too large"),
}


@pytest.mark.parametrize("kind", LONG)
def test_what_a_client_sends_does_not_fill_the_servers_log(kind, tmp_path, caplog):
    made, reason = LONG[kind]

    def behave(message, context):
        if context.node_config["partition-id"] == 1:
            return reply_of(message, made(), 1)
        return None

    caplog.set_level(logging.INFO, logger="flwr")
    adapter = play(LoopbackGrid(nodes_of(toy_app(behave), 2)), folder=tmp_path)
    assert adapter.history[0] == {"0": "came", "1": "refused"}
    detail = adapter.outcomes[1].detail
    assert detail.startswith(f"{reason}: ")
    assert len(detail) <= 300
    assert max(len(record.getMessage()) for record in caplog.records) < 2000
    assert (tmp_path / "outcomes.jsonl").stat().st_size < 2000


def test_why_a_client_was_lost_is_kept_in_short():
    round_ = LiveRound(0, 0.0, sent={"message": Request("train", Node(1), 0, 0.0, 0)})
    round_.found = Collected(unreadable={"message": "x" * 10**6})
    round_.take([], read=lambda *_: None)
    assert round_.why[0] == ("unreadable: " + "x" * 10**6)[:999] + "…"
