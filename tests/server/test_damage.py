"""Files that are damaged, or crafted by somebody: one CheckpointError with the file and the reason.

The counts are those of `make test`; `make test-full` flips and crafts more.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.crafted import contents_of, flipped, write_as_before, write_crafted
from understudy import (
    FDMS,
    Adam,
    CheckpointError,
    HoeffdingRace,
    Local,
    NormGuard,
    Population,
    Scaffold,
    ServerState,
    Stale,
    Strategy,
    load_state,
    resume,
    save_state,
)
from understudy.core.rng import generator
from understudy.memory.rows import RowStore
from understudy.memory.tensor_stream import Reader
from understudy.server.state import row_stores
from understudy.testing import play, snapshot

N, D = 7, 30
STATE = "state.safetensors"
STRATEGY = Strategy(
    compensator=Stale(), server=Adam(), local=Local(rule=Scaffold()), guard=NormGuard()
)
RACING = Strategy(compensator=FDMS(race=HoeffdingRace(threshold="code", scale=0.1, p=0.5)))


def begun(strategy: Strategy, folder: Path | None = None, rounds: int = 5) -> ServerState:
    population = Population(N, groups=np.arange(N) % 2)
    params = torch.linspace(-1, 1, D)
    state = strategy.init(population, params, seed=5, n_parameters=D - 2, folder=folder)
    for seed in range(rounds):
        play(strategy, state, seed)
    strategy.commit(state)
    return state


def gone_through(strategy: Strategy, folder: Path) -> str:
    """Resume, read all that is there, and play on: the bits of what that gives."""
    state = resume(folder, strategy)
    try:
        for _, store in row_stores(state):
            store.verify()
        for seed in (50, 51):
            play(strategy, state, seed, available=np.ones(N, dtype=bool))
        return snapshot(state)
    finally:
        state.close()


# -- flipped bits ----------------------------------------------------------------------------------


def flip_and_resume(strategy: Strategy, tmp_path: Path, flips: int) -> dict[str, int]:
    """Flip single bits of each file of a run, one at a time: an error, or the same bits as ever."""
    source = tmp_path / "source"
    begun(strategy, source).close()
    files = sorted(p.name for p in source.iterdir() if p.suffix in (".safetensors", ".rows"))
    shutil.copytree(source, tmp_path / "whole")
    expected = gone_through(strategy, tmp_path / "whole")
    refused = dict.fromkeys(files, 0)
    for number in range(flips):
        name = files[number % len(files)]
        folder = tmp_path / "flipped"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(source, folder)
        content = (folder / name).read_bytes()
        bit = int(generator(number, "flip").integers(len(content) * 8))
        (folder / name).write_bytes(flipped(content, bit))
        try:
            came, said = gone_through(strategy, folder), ""
        except CheckpointError as error:
            came, said = expected, str(error)
        assert came == expected, f"{name}, bit {bit}: not noticed"
        assert not said or name in said, (name, bit, said)
        refused[name] += bool(said)
    return refused


@pytest.mark.parametrize("strategy", [STRATEGY, RACING], ids=["stale", "fdms"])
def test_a_flipped_bit_is_noticed_or_changes_nothing(strategy: Strategy, tmp_path: Path) -> None:
    """Every bit of the state and of the population counts; in a row file those of free slots and
    of the gaps between rows do not."""
    refused = flip_and_resume(strategy, tmp_path, flips=60)
    flips = {name: len(range(i, 60, len(refused))) for i, name in enumerate(refused)}
    for name in refused:
        if name.endswith(".safetensors"):
            assert refused[name] == flips[name], name
    assert any(count for name, count in refused.items() if name.endswith(".rows"))


@pytest.mark.full
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("strategy", [STRATEGY, RACING], ids=["stale", "fdms"])
def test_a_thousand_flipped_bits_are_noticed_or_change_nothing(
    strategy: Strategy, tmp_path: Path
) -> None:
    refused = flip_and_resume(strategy, tmp_path, flips=1000)
    assert sum(refused.values()) > 400


def test_every_bit_of_a_small_export_is_guarded(tmp_path: Path) -> None:
    strategy = Strategy(compensator=Stale())
    state = strategy.init(Population(2), torch.zeros(2), seed=0)
    play(strategy, state, 0, available=np.ones(2, dtype=bool))
    save_state(state, tmp_path / "export")
    content, path = (tmp_path / "export").read_bytes(), tmp_path / "flipped"
    for bit in range(0, len(content) * 8, 7):
        path.write_bytes(flipped(content, bit))
        with pytest.raises(CheckpointError, match=str(path)):
            load_state(path, strategy)


def test_a_row_is_verified_once_and_those_written_here_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from understudy.memory import rows

    store = RowStore(4, 8, torch.float32, path=tmp_path / "a.rows")
    for client in range(3):
        store.put(client, torch.full((8,), float(client)))
    store.flush()
    slot, crc = store.slot.copy(), store.checksums
    assert crc[3] == 0
    assert (crc[:3] != 0).all()
    again = RowStore(4, 8, torch.float32, path=tmp_path / "a.rows")
    again.restore(slot, crc)
    again.put(2, torch.full((8,), 9.0))
    read: list[int] = []
    real = rows.zlib.crc32
    monkeypatch.setattr(rows.zlib, "crc32", lambda data: read.append(len(data)) or real(data))
    assert again.get(0).tolist() == [0.0] * 8
    assert read == [32]
    again.get(0)
    again.get(3)
    again.get(2)
    assert read == [32]
    assert again.gather(np.array([0, 1, 2, 3]))[:, 0].tolist() == [0, 1, 9, 0]
    assert read == [32, 32]
    again.block()
    assert again.verify() == 0
    assert read == [32, 32]


# -- older files -----------------------------------------------------------------------------------


def test_files_from_before_checksums_are_read_and_have_one_after_the_next_commit(
    tmp_path: Path,
) -> None:
    begun(STRATEGY, tmp_path / "run").close()
    shutil.copytree(tmp_path / "run", tmp_path / "whole")
    expected = gone_through(STRATEGY, tmp_path / "whole")
    for name in (STATE, "population-0.safetensors"):
        write_as_before(tmp_path / "run" / name)
    assert not Reader(tmp_path / "run" / STATE).verified
    state = resume(tmp_path / "run", STRATEGY)
    assert [store.verify() > 0 for _, store in row_stores(state)] == [True, True]
    STRATEGY.commit(state)
    state.close()
    assert Reader(tmp_path / "run" / STATE).verified
    again = resume(tmp_path / "run", STRATEGY)
    assert [store.verify() for _, store in row_stores(again)] == [0, 0]
    again.close()
    assert gone_through(STRATEGY, tmp_path / "run") == expected


# -- crafted files ---------------------------------------------------------------------------------

Change = Callable[[dict[str, Any], dict[str, Any]], None]
JUNK = {
    "a list": [1, 2],
    "a text": "x",
    "no number": float("nan"),
    "too large": 10**40,
    "negative": -5,
    "nothing": None,
    "a table": {"x": 1},
}


def put(where: str, name: str | None, value: Any) -> Change:
    def change(about: dict[str, Any], tensors: dict[str, Any]) -> None:
        if name is None:
            about[where] = value
        else:
            about[where][name] = value

    return change


def without(where: str, name: str | None = None) -> Change:
    def change(about: dict[str, Any], tensors: dict[str, Any]) -> None:
        table = about if name is None else about[where]
        table.pop(where if name is None else name)

    return change


def tensor(name: str, value: torch.Tensor | None) -> Change:
    def change(about: dict[str, Any], tensors: dict[str, Any]) -> None:
        if value is None:
            tensors.pop(name)
        else:
            tensors[name] = value

    return change


def crafted() -> dict[str, Change]:
    """Contents that no version of ours wrote, each under a checksum that fits."""
    made: dict[str, Change] = {}
    for kind, junk in JUNK.items():
        for where in ("numbers", "kinds", "rows", "strategy", "n_clients", "format", "population"):
            if (where, kind) not in (("rows", "a table"), ("kinds", "a table")):
                made[f"{where}: {kind}"] = put(where, None, junk)
        for name in ("t", "seed", "n_parameters"):
            if (name, kind) != ("seed", "too large"):  # any whole number is a seed
                made[f"{name}: {kind}"] = put("numbers", name, junk)
        made[f"row file: {kind}"] = put("rows", "compensator.rows", junk)
    for where in ("numbers", "kinds", "rows", "strategy", "n_clients", "format"):
        made[f"without {where}"] = without(where)
    for name in ("t", "seed", "n_parameters"):
        made[f"without {name}"] = without("numbers", name)
    made["without the row file"] = without("rows", "compensator.rows")
    made["a file elsewhere"] = put("rows", "compensator.rows", "../elsewhere/compensator-0.rows")
    made["an absolute file"] = put("rows", "compensator.rows", "/etc/passwd")
    made["a population elsewhere"] = put("population", None, "../population-0.safetensors")
    made["one file for two"] = put("rows", "local.own", "compensator-0.rows")
    made["more parameters than entries"] = put("numbers", "n_parameters", D + 1)
    made["a flag as a number"] = put("numbers", "t", True)
    made["half a round"] = put("numbers", "t", 2.5)
    ints = torch.arange(N)
    slots = {
        "below none": torch.full((N,), -2),
        "the same for two": torch.zeros(N, dtype=torch.int64),
        "beyond the file": ints + 10**12,
        "beyond all numbers": ints + 2**62,
        "floats": ints.double(),
        "too few": ints[:-1],
        "a matrix": ints[None],
    }
    for kind, value in slots.items():
        made[f"slots: {kind}"] = tensor("compensator.rows.slot", value)
    for kind, value in {
        "of other rows": torch.zeros(N, dtype=torch.uint32),
        "too few": torch.zeros(N - 1, dtype=torch.uint32),
        "floats": torch.zeros(N),
        "none": None,
    }.items():
        made[f"checksums: {kind}"] = tensor("compensator.rows.crc", value)
    for name in ("params", "active", "n_examples", "pending", "server.m", "local.common"):
        made[f"{name}: none"] = tensor(name, None)
        made[f"{name}: of bytes"] = tensor(name, torch.zeros(3, dtype=torch.int8))
        made[f"{name}: empty cube"] = tensor(name, torch.zeros((0, 0, 0)))
    made["active: too few"] = tensor("active", torch.ones(N - 1, dtype=torch.bool))
    made["pending: nobody"] = tensor("pending", torch.tensor([[N, 0]]))
    made["pending: below"] = tensor("pending", torch.tensor([[-1, 0]]))
    made["label counts of others"] = tensor("label_counts", torch.zeros((N + 1, 2)))
    return made


CRAFTED = crafted()


def test_there_are_many_crafted_files() -> None:
    assert len(CRAFTED) >= 90


@pytest.mark.parametrize("kind", CRAFTED)
def test_a_crafted_checkpoint_is_one_error_that_names_the_file(
    kind: str, template_run: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(template_run, folder)
    about, tensors = contents_of(folder / STATE)
    CRAFTED[kind](about, tensors)
    write_crafted(folder / STATE, about, tensors)
    before = sorted(path.name for path in folder.glob("*.rows"))
    with pytest.raises(CheckpointError) as refused:
        gone_through(STRATEGY, folder)
    assert str(folder) in str(refused.value)
    assert sorted(path.name for path in folder.glob("*.rows")) == before  # nothing was swept
    shutil.copy(template_run / STATE, folder / STATE)
    gone_through(STRATEGY, folder)  # and the folder is free


@pytest.fixture(scope="module")
def template_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("template") / "run"
    begun(STRATEGY, folder).close()
    return folder


POPULATIONS: dict[str, Change] = {
    "no number of clients": without("n_clients"),
    "a list of clients": put("n_clients", None, [1]),
    "a billion clients": put("n_clients", None, 10**9),
    "one more": put("n_clients", None, N + 1),
    "groups of others": tensor("groups", torch.zeros(3, dtype=torch.int64)),
    "groups of text": tensor("groups", torch.zeros((2, 2, 2))),
    "p above one": tensor("p", torch.full((N,), 2.0, dtype=torch.float64)),
    "negative examples": tensor("n_examples", torch.full((N,), -1.0, dtype=torch.float64)),
    "asymmetric": tensor("similarity", torch.arange(float(N * N)).reshape(N, N)),
}


@pytest.mark.parametrize("kind", POPULATIONS)
def test_a_crafted_population_is_one_error_that_names_the_file(
    kind: str, template_run: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(template_run, folder)
    path = folder / "population-0.safetensors"
    about, tensors = contents_of(path)
    POPULATIONS[kind](about, tensors)
    write_crafted(path, about, tensors)
    with pytest.raises(CheckpointError) as refused:
        resume(folder, STRATEGY)
    assert str(folder) in str(refused.value)


EXPORTS: dict[str, Change] = {
    "a negative client": tensor("compensator.rows.ids", torch.tensor([-1, 0, 1, 2, 3])),
    "a client twice": tensor("compensator.rows.ids", torch.tensor([0, 0])),
    "a client beyond": tensor("compensator.rows.ids", torch.tensor([N])),
    "clients in floats": tensor("compensator.rows.ids", torch.tensor([0.0])),
    "no rows": tensor("compensator.rows.rows", None),
    "narrow rows": tensor("compensator.rows.rows", torch.zeros((N, D - 1))),
    "rows of another type": tensor("compensator.rows.rows", torch.zeros((N, D)).double()),
    "fewer rows": tensor("compensator.rows.rows", torch.zeros((1, D))),
    "no matrix": tensor("compensator.rows.rows", torch.zeros(D)),
}


@pytest.mark.parametrize("kind", EXPORTS)
def test_a_crafted_export_is_one_error_that_names_the_file(kind: str, tmp_path: Path) -> None:
    save_state(begun(STRATEGY), tmp_path / "export")
    about, tensors = contents_of(tmp_path / "export")
    EXPORTS[kind](about, tensors)
    write_crafted(tmp_path / "export", about, tensors)
    with pytest.raises(CheckpointError, match=str(tmp_path / "export")):
        load_state(tmp_path / "export", STRATEGY)


def test_a_header_without_end_is_one_error(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    for number, words in enumerate(("[" * 100_000, '{"a":' * 100_000, "9" * 5000, "{}")):
        path = tmp_path / str(number)
        save_file({"params": torch.zeros(3)}, path, metadata={"understudy": words})
        with pytest.raises(CheckpointError, match=str(path)):
            load_state(path, STRATEGY)
