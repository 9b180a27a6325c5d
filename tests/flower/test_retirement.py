"""Clients that leave for good: never asked again, and what is remembered of them erased."""

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord

from tests.cli import Command
from tests.crafted import flipped
from tests.flower.loopback import LoopbackGrid, nodes_of
from tests.flower.toy import files_with, first_arrays, play, reply_of, round_of, toy_app
from understudy import FDMS, MIFA, CheckpointError, HoeffdingRace, Population, Strategy, fedavg
from understudy.flower import UnderstudyStrategy, introduction, request_retirement
from understudy.flower.clients.retirement import requested_retirements
from understudy.server.state import row_stores
from understudy.simulation import clustered_digits, simulate


@pytest.fixture
def command(capsys, monkeypatch):
    return Command(capsys, monkeypatch)


def test_a_retired_client_is_wanted_no_more_and_its_memory_is_erased(tmp_path):
    secret = np.full(3, 1234.5, dtype=np.float32)

    def behave(message, context):
        if context.node_config["partition-id"] == 1:
            moved = message.content.array_records["arrays"]["w"].numpy() + secret
            return reply_of(message, ArrayRecord({"w": Array(moved)}))
        return None

    def counts(context):
        return [7777.0 + context.node_config["partition-id"], 1.0]

    nodes = nodes_of(toy_app(behave, mods=[introduction(counts)]), 3)
    grid, folder = LoopbackGrid(nodes), tmp_path / "run"
    strategy = Strategy(compensator=MIFA(wait=False), weighting="clients")
    options = {"folder": folder, "fraction_evaluate": 0.0}
    play(grid, strategy, rounds=1, **options)
    needles = secret.tobytes(), np.float64(7778.0).tobytes()
    assert files_with(folder, needles[0]) == ["compensator-0.rows"]
    assert files_with(folder, needles[1]) == ["population-0.safetensors", "state.safetensors"]

    adapter = play(LoopbackGrid(nodes), strategy, rounds=3, retired=("1",), **options)
    assert adapter.history == [{"0": "came", "2": "came"}] * 2
    state = adapter.server.state
    assert state.active.tolist() == [True, False, True]
    assert np.isnan(state.n_examples[1])
    assert files_with(folder, needles[0]) == []
    assert files_with(folder, needles[1]) == []
    again = play(LoopbackGrid(nodes), strategy, rounds=4, retired=("1", "nobody"), **options)
    assert again.history == [{"0": "came", "2": "came"}]


def test_nothing_that_was_computed_from_a_retired_client_alone_stays_on_disk(tmp_path):
    """FDMS keeps how alike two clients are in the rows of both; a declared population may hold
    anything of a client."""

    def behave(message, context):
        rng = np.random.default_rng((context.node_config["partition-id"], round_of(message)))
        values = message.content.array_records["arrays"]["w"].numpy()
        arrays = ArrayRecord({"w": Array(values + rng.normal(size=3).astype(np.float32))})
        return reply_of(message, arrays, 7 + context.node_config["partition-id"])

    rng, folder = np.random.default_rng(0), tmp_path / "run"
    similarity = rng.random((4, 4))
    declared = Population(
        4,
        features=rng.random((4, 2)),
        similarity=similarity + similarity.T,
        p=rng.random(4),
        groups=np.array([3, 0x5EC2E7C0DE, 3, 4]),
    )
    strategy = Strategy(compensator=FDMS(race=HoeffdingRace(scale=0.05, delta_f=0.001)))
    nodes = nodes_of(toy_app(behave), 4)
    options = {"folder": folder, "fraction_evaluate": 0.0, "clients": tuple("0123")}
    options["population"] = declared
    first = play(LoopbackGrid(nodes), strategy, rounds=3, **options)
    others, score = [0, 2, 3], first.server.state.compensator.score
    needles = [score.get(other)[1].numpy().tobytes() for other in others]
    needles += [value.tobytes() for value in (*declared.features[1], declared.p[1])]
    needles += [declared.similarity[other, 1].tobytes() for other in range(4)]
    needles.append(declared.groups[1].tobytes())
    assert all(files_with(folder, needle) for needle in needles)

    again = play(LoopbackGrid(nodes), strategy, rounds=3, retired=("1",), **options)
    assert [files_with(folder, needle) for needle in needles] == [[]] * len(needles)
    known = again.server.state.population
    np.testing.assert_array_equal(known.features[others], declared.features[others])
    pairs = np.ix_(others, others)
    np.testing.assert_array_equal(known.similarity[pairs], declared.similarity[pairs])
    assert known.p.tolist() == [declared.p[0], 0.0, *declared.p[2:]]
    assert known.groups.tolist() == [3, 3, 3, 4]
    for path, store in row_stores(again.server.state):
        assert not store.known[1], path
    played = play(LoopbackGrid(nodes), strategy, rounds=5, **options)
    assert played.history == [dict.fromkeys("023", "came")] * 2


def test_a_client_can_be_retired_between_two_rounds():
    nodes = nodes_of(toy_app(), 3)
    grid = LoopbackGrid(nodes)
    adapter = UnderstudyStrategy(
        Strategy(compensator=MIFA(wait=False)), clock=grid.time.clock(), fraction_evaluate=0.0
    )
    seen = []

    def evaluate(number, arrays):
        if number == 1:
            adapter.retire("2")
        if number:
            seen.append([one.id for one in adapter.outcomes])

    adapter.start(grid, first_arrays(), num_rounds=3, evaluate_fn=evaluate)
    assert [one.id for one in adapter.outcomes] == ["0", "1"]
    (store,) = [store for _, store in row_stores(adapter.server.state)]
    assert store.known.tolist() == [True, True, False]
    torch.testing.assert_close(store.get(2), torch.zeros(3))


def test_a_client_of_a_running_federation_is_retired_by_a_command(tmp_path, command):
    """Named in the run's folder, between two rounds, by somebody else."""
    nodes, folder = nodes_of(toy_app(), 3), tmp_path / "run"
    strategy = Strategy(compensator=MIFA(wait=False))
    found = []

    def after_round(t):
        if t == 1:  # the first round is committed
            found.append(command("retire", str(folder), "2"))

    options = {"folder": folder, "fraction_evaluate": 0.0}
    adapter = play(LoopbackGrid(nodes), strategy, rounds=4, after_round=after_round, **options)
    assert [sorted(one) for one in adapter.history] == [["0", "1", "2"]] * 2 + [["0", "1"]] * 2
    (said,) = found
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("2: retired before the next round")
    (store,) = [store for _, store in row_stores(adapter.server.state)]
    assert store.known.tolist() == [True, True, False]

    # where no round is left, the next run does it when it starts
    assert command("retire", str(folder), "0", "1").code == 0
    again = play(LoopbackGrid([]), strategy, rounds=4, **options)
    assert again.server.state.active.tolist() == [False, False, False]


@pytest.mark.parametrize(
    "line",
    [
        b"\xff\xfe",
        b"\x00\x00\x00\x00",
        b"hospital\x1b[2J",
        b"{",
        b"{}",
        b'{"id": "0"}',  # without its checksum
        b'{"id": 0, "crc32": 1}',
        b'{"id": "0", "crc32": 1}',
        b"[" * 100_000 + b', "crc32": 1}',
    ],
)
def test_a_damaged_file_of_requests_is_named_with_its_line(line, tmp_path, command):
    folder = tmp_path / "run"
    options = {"folder": folder, "fraction_evaluate": 0.0}
    play(LoopbackGrid(nodes_of(toy_app(), 3)), rounds=1, **options)
    assert command("retire", str(folder), "1").code == 0
    with open(folder / "retired", "ab") as file:
        file.write(line + b"\n")
    with pytest.raises(CheckpointError, match=r"run/retired, line 2: damaged: expected") as said:
        play(LoopbackGrid(nodes_of(toy_app(), 3)), rounds=2, **options)
    assert len(str(said.value)) < 400
    assert str(said.value).isprintable()
    with pytest.raises(CheckpointError, match=r"run/retired, line 2: damaged: expected"):
        play(LoopbackGrid([]), rounds=1, **options)  # where no round is left, too


def test_no_flipped_bit_retires_somebody_else_or_nobody(tmp_path, command):
    folder = tmp_path / "run"
    play(LoopbackGrid(nodes_of(toy_app(), 3)), rounds=1, folder=folder)
    assert command("retire", str(folder), "2").code == 0
    content = (folder / "retired").read_bytes()
    assert requested_retirements(folder) == ["2"]
    for bit in range(8 * len(content)):
        (folder / "retired").write_bytes(flipped(content, bit))
        with pytest.raises(CheckpointError, match=r"run/retired, line 1: damaged"):
            requested_retirements(folder)


def test_what_is_no_file_of_requests_is_not_taken_for_an_empty_one(tmp_path):
    assert requested_retirements(tmp_path) == []
    (tmp_path / "retired").symlink_to("gone")
    with pytest.raises(CheckpointError, match=r"/retired: expected a file .* got something"):
        requested_retirements(tmp_path)
    (tmp_path / "retired").unlink()
    (tmp_path / "retired").mkdir()
    with pytest.raises(CheckpointError, match=r"/retired: expected a file .* got a folder"):
        requested_retirements(tmp_path)


def test_only_clients_of_a_live_federation_can_be_retired(tmp_path, command):
    play(LoopbackGrid(nodes_of(toy_app(), 2)), folder=tmp_path / "run")
    said = command("retire", str(tmp_path / "run"), "0", "clinic")
    assert said.code == 2
    assert said.err == "understudy: 'clinic': expected the id of a client: 0, 1\n"
    assert not (tmp_path / "run" / "retired").exists()
    with pytest.raises(ValueError, match="expected the folder of a live federation"):
        request_retirement(tmp_path, "0")


def test_a_simulated_run_has_no_clients_to_retire(tmp_path, command):
    data = clustered_digits(n_clients=4, n_clusters=2, per_client=8)
    list(simulate(data, fedavg(), model="softmax", rounds=1, folder=tmp_path / "simulated"))
    said = command("retire", str(tmp_path / "simulated"), "0")
    assert said.code == 2
    assert "simulated: expected the folder of a live federation, found a run that" in said.err
    assert not (tmp_path / "simulated" / "retired").exists()


@pytest.mark.parametrize("target", ["precious", "nowhere"])
def test_a_request_is_not_written_through_a_link(target, tmp_path, command):
    play(LoopbackGrid(nodes_of(toy_app(), 2)), folder=tmp_path / "run")
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "run" / "retired").symlink_to(tmp_path / target)
    said = command("retire", str(tmp_path / "run"), "0")
    assert said.code == 2
    assert "retired: is a symbolic link" in said.err
    assert (tmp_path / "precious").read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()


def test_who_is_retired_before_joining_never_takes_part():
    nodes = nodes_of(toy_app(), 3)
    nodes[2].online = False

    def after_round(t):
        nodes[2].online = True

    adapter = play(LoopbackGrid(nodes), rounds=4, retired=("2",), after_round=after_round)
    assert [sorted(one) for one in adapter.history] == [["0", "1"]] * 4
    assert adapter.server.state.active.tolist() == [True, True, False]


def test_a_crash_between_retiring_and_erasing_leaves_nothing(tmp_path, monkeypatch):
    def behave(message, context):
        if context.node_config["partition-id"] == 0:
            moved = message.content.array_records["arrays"]["w"].numpy() + np.float32(1234.5)
            return reply_of(message, ArrayRecord({"w": Array(moved)}))
        return None

    folder, strategy = tmp_path / "run", Strategy(compensator=MIFA(wait=False))
    nodes = nodes_of(toy_app(behave), 2)
    options = {"folder": folder, "fraction_evaluate": 0.0}
    play(LoopbackGrid(nodes), strategy, **options)
    secret = np.full(3, 1234.5, dtype=np.float32).tobytes()

    def killed(state):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("understudy.server.strategy.erase_free_rows", killed)
        with pytest.raises(KeyboardInterrupt):
            play(LoopbackGrid(nodes), strategy, retired=("0",), **options)
    assert files_with(folder, secret) == ["compensator-0.rows"]
    play(LoopbackGrid(nodes), strategy, **options)
    assert files_with(folder, secret) == []
