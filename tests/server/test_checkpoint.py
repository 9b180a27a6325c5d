"""What survives: saved and loaded, committed and resumed, or refused with a clear message."""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from tests.crafted import contents_of, write_crafted
from understudy import (
    FDMS,
    MIFA,
    Adam,
    Arrivals,
    Blind,
    Capped,
    CheckpointError,
    FedAR,
    FedGS,
    FedVARP,
    FolderInUse,
    HoeffdingRace,
    Local,
    Momentum,
    NormGuard,
    Population,
    Scaffold,
    Sgd,
    SqrtCutoff,
    Stale,
    Strategy,
    Uniform,
    Yogi,
    load_state,
    resume,
    save_state,
)
from understudy.core.types import Setup
from understudy.memory import rows
from understudy.memory.rows import RowStore
from understudy.memory.tensor_stream import Reader
from understudy.parts.samplers.uniform import Everyone
from understudy.server.state import ServerState, leaves, row_stores
from understudy.testing import play, snapshot, updates_for

N, D = 9, 20
STATE = "state.safetensors"

# threshold so low that candidates are eliminated from the third round on
RACE = HoeffdingRace(threshold="code", scale=0.1, horizon=2, max_friends=1, beta=1.0, p=0.5)
STRATEGIES = {
    "fdms with a race": Strategy(compensator=FDMS(race=RACE)),
    "stale updates": Strategy(compensator=Stale(), server=Momentum(), weighting="examples"),
    "stale models": Strategy(compensator=Stale("model"), server=Yogi()),
    "fedar": Strategy(
        sampler=Uniform(0.5), compensator=FedAR(rho=0.3, cutoff=SqrtCutoff()), local=Local(lr=0.5)
    ),
    "mifa": Strategy(compensator=MIFA()),
    "fedvarp": Strategy(sampler=Blind(Uniform(4)), compensator=FedVARP()),
    "scaffold, adam, guard": Strategy(
        server=Adam(), local=Local(rule=Scaffold()), guard=NormGuard(1.1)
    ),
    "fedgs from updates": Strategy(
        sampler=FedGS(m=4, graph="updates"), compensator=Stale(), weighting="examples"
    ),
    "capped": Strategy(sampler=Blind(Uniform(6)), compensator=Capped(FDMS(), 0.2)),
}
each_strategy = pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
STALE = STRATEGIES["stale updates"]


def begun(
    strategy: Strategy, folder: Path | None = None, *, n: int = N, rounds: int = 0
) -> ServerState:
    params = torch.linspace(-1, 1, D, dtype=torch.float64)
    state = strategy.init(Population(n), params, seed=5, n_parameters=D - 2, folder=folder)
    state.commit_every = None
    for seed in range(rounds):
        play(strategy, state, seed)
    return state


def go_on(strategy: Strategy, state: ServerState, rounds: int) -> list[list[Any]]:
    """Rounds at addresses that depend on nothing but the state; who spoke for whom in each."""
    spoken = []
    for _ in range(rounds):
        _, applied = play(strategy, state, 7)
        filled = applied.contributions
        spoken.append([filled.ids.tolist(), filled.source.tolist(), filled.coef.tolist()])
    return spoken


def assert_same(one: ServerState, other: ServerState) -> None:
    """Field by field, so that a difference is named; then all bits at once."""
    ours, theirs = dict(leaves(one)), dict(leaves(other))
    assert list(ours) == list(theirs)
    for path, value in ours.items():
        assert type(value) is type(theirs[path]), path
        if isinstance(value, RowStore):
            assert value.known.tolist() == theirs[path].known.tolist(), path
            for client in np.flatnonzero(value.known):
                assert torch.equal(value.get(client), theirs[path].get(client)), path
        elif isinstance(value, torch.Tensor):
            assert value.dtype == theirs[path].dtype, path
            assert torch.equal(value, theirs[path]), path
        elif isinstance(value, np.ndarray):
            assert value.dtype == theirs[path].dtype, path
            np.testing.assert_array_equal(value, theirs[path], err_msg=path)
        else:
            assert value == theirs[path], path
    assert snapshot(one) == snapshot(other)


def committed_round(folder: Path) -> int:
    return int(Reader(folder / STATE).about["numbers"]["t"])


# -- there and back --------------------------------------------------------------------------------


@each_strategy
def test_a_saved_state_is_the_state_and_goes_on_to_the_same_bits(
    strategy: Strategy, tmp_path: Path
) -> None:
    state = begun(strategy, rounds=8)
    save_state(state, tmp_path / "export.safetensors")
    again = load_state(tmp_path / "export.safetensors", strategy)
    assert_same(state, again)
    assert go_on(strategy, state, 6) == go_on(strategy, again, 6)
    assert_same(state, again)


@each_strategy
def test_a_resumed_run_goes_on_from_its_last_commit_to_the_same_bits(
    strategy: Strategy, tmp_path: Path
) -> None:
    """Rounds after the commit write rows too; none of them may be seen after the crash."""
    in_memory = begun(strategy, rounds=8)
    state = begun(strategy, tmp_path, rounds=8)
    assert_same(in_memory, state)
    strategy.commit(state)
    for seed in range(50, 54):
        play(strategy, state, seed)
    state.close()
    again = strategy.resume(tmp_path, strategy)
    again.commit_every = 0.0
    assert_same(in_memory, again)
    assert go_on(strategy, in_memory, 6) == go_on(strategy, again, 6)
    assert_same(in_memory, again)
    again.close()
    once_more = resume(tmp_path, strategy)
    assert_same(in_memory, once_more)
    once_more.close()


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str
)
def test_every_floating_type_is_kept(dtype: torch.dtype, tmp_path: Path) -> None:
    strategy = Strategy(compensator=Stale(), server=Momentum())
    state = strategy.init(Population(5), torch.ones(7, dtype=dtype), seed=0, folder=tmp_path / "r")
    for seed in range(4):
        play(strategy, state, seed)
    strategy.commit(state)
    save_state(state, tmp_path / "export")
    state.close()
    loaded, resumed = load_state(tmp_path / "export", strategy), resume(tmp_path / "r", strategy)
    for again in (loaded, resumed):
        assert again.params.dtype == again.server.m.dtype == again.compensator.rows.dtype == dtype
        assert torch.equal(again.params, state.params)
        assert torch.equal(again.server.m, state.server.m)
        rows = again.compensator.rows
        assert rows.known.any()
        for client in range(5):
            assert torch.equal(rows.get(client), state.compensator.rows.get(client))
    assert snapshot(loaded) == snapshot(resumed)
    resumed.close()


@dataclasses.dataclass
class OddState:
    numbers: Any
    rows: RowStore | None


@dataclasses.dataclass(frozen=True)
class Odd(Everyone):
    """Everyone, and a state of whatever it was given."""

    numbers: Any = None
    rows: torch.dtype | None = None

    def init(self, setup: Setup) -> OddState:  # type: ignore[override]
        return OddState(self.numbers, None if self.rows is None else setup.rows(2, self.rows))


STORABLE = [
    *(np.array([3, 0, 1]).astype(kind) for kind in ("i2", "u2", "u4", "u8", "?", "f2", ">i4")),
    *(torch.tensor([3, 0, 1]).to(kind) for kind in (torch.int16, torch.uint16, torch.uint32)),
    *(torch.tensor([3, 0, 1]).to(kind) for kind in (torch.uint64, torch.bool, torch.float8_e5m2)),
    np.broadcast_to(np.int16(7), (3,)),  # read-only
    np.arange(6, dtype=np.int16)[::-2],
    np.array(-5, dtype=np.int16),
]


@pytest.mark.parametrize("numbers", STORABLE, ids=lambda numbers: str(numbers.dtype))
def test_whatever_a_file_can_hold_is_kept(numbers: Any, tmp_path: Path) -> None:
    strategy = Strategy(sampler=Odd(numbers, rows=torch.int16))
    state = strategy.init(Population(5), torch.ones(7), folder=tmp_path / "r")
    state.sampler.rows.put(3, torch.tensor([-300, 7], dtype=torch.int16))
    strategy.commit(state)
    save_state(state, tmp_path / "export")
    state.close()
    for again in (load_state(tmp_path / "export", strategy), resume(tmp_path / "r", strategy)):
        kept = again.sampler.numbers
        assert type(kept) is type(numbers)
        assert kept.shape == numbers.shape
        assert kept.tolist() == numbers.tolist()
        if isinstance(numbers, np.ndarray):
            assert kept.dtype == numbers.dtype.newbyteorder("=")
        else:
            assert kept.dtype == numbers.dtype
        assert again.sampler.rows.get(3).tolist() == [-300, 7]
        again.close()


@pytest.mark.parametrize(
    ("numbers", "found"),
    [
        (np.array([1j]), "complex128"),
        (torch.tensor([1j]), "complex64"),
        (np.array([1.0], dtype=np.longdouble), str(np.dtype(np.longdouble))),
        (np.array(["2024-01-01"], dtype="datetime64[D]"), "datetime64[D]"),
        (np.array(["a"]), "<U1"),
    ],
    ids=str,
)
def test_what_no_file_can_hold_is_refused_at_once_naming_the_field(
    numbers: Any, found: str, tmp_path: Path
) -> None:
    strategy = Strategy(sampler=Odd(numbers))
    with pytest.raises(TypeError) as refused:
        strategy.init(Population(5), torch.ones(7), folder=tmp_path)
    told = str(refused.value)
    assert told.startswith("state.sampler.numbers: ")
    assert told.endswith(f"got {found}")
    assert "float32" in told
    assert "int16" in told
    begun(STALE, tmp_path).close()  # the folder is free for another try
    state = strategy.init(Population(5), torch.ones(7))  # nothing is stored
    play(strategy, state, 0)
    with pytest.raises(TypeError, match=r"^state\.sampler\.numbers: "):
        save_state(state, tmp_path / "export")


def test_rows_that_no_file_can_hold_are_refused_naming_the_field(tmp_path: Path) -> None:
    strategy = Strategy(sampler=Odd(rows=torch.complex64))
    state = strategy.init(Population(5), torch.ones(7))
    with pytest.raises(TypeError, match=r"^state\.sampler\.rows: .* got complex64$"):
        save_state(state, tmp_path / "export")


def test_the_population_and_the_facts_learnt_come_back(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(4, 3))
    population = Population(
        4,
        n_examples=[5, np.nan, 7, np.nan],
        label_counts=[[1, 2], [3, 4], [np.nan, np.nan], [5, 6]],
        features=features,
        similarity=features @ features.T,
        p=[0.1, 0.2, 0.3, 1],
        groups=[0, 1, 0, 1],
    )
    strategy = Strategy()
    state = strategy.init(population, torch.zeros(2), folder=tmp_path / "run")
    cohort = strategy.select(state, np.ones(4, dtype=bool))
    told = Arrivals([1, 2], torch.ones(2, 2), n_examples=[9, 8], label_counts=[[7, 7], [8, 8]])
    strategy.apply(state, cohort, told)
    strategy.commit(state)
    save_state(state, tmp_path / "export")
    state.close()
    resumed = resume(tmp_path / "run", strategy)
    for again in (load_state(tmp_path / "export", strategy), resumed):
        for item in dataclasses.fields(Population):
            np.testing.assert_array_equal(
                getattr(again.population, item.name), getattr(population, item.name), item.name
            )
        known = again.known_population()
        np.testing.assert_array_equal(known.n_examples, [5, 9, 8, np.nan])
        np.testing.assert_array_equal(known.label_counts, [[1, 2], [7, 7], [8, 8], [5, 6]])
        assert known.groups.tolist() == [0, 1, 0, 1]
        assert known.groups.dtype == np.int64
    resumed.close()


def test_the_export_is_a_plain_safetensors_file(tmp_path: Path) -> None:
    state = begun(STALE, rounds=6)
    path = tmp_path / "export.safetensors"
    save_state(state, path)
    rows = state.compensator.rows
    with safe_open(path, framework="pt") as file:
        assert torch.equal(file.get_tensor("params"), state.params)
        assert torch.equal(file.get_tensor("server.m"), state.server.m)
        ids = file.get_tensor("compensator.rows.ids")
        assert ids.tolist() == np.flatnonzero(rows.known).tolist()
        stored = file.get_tensor("compensator.rows.rows")
        assert stored.shape == (len(ids), D)
        for client, row in zip(ids.tolist(), stored, strict=True):
            assert torch.equal(row, rows.get(client))
        about = json.loads(file.metadata()["understudy"])
    assert about["numbers"]["t"] == 6
    assert about["strategy"]["compensator"] == {"class": "Stale", "kind": "update"}
    assert [item.name for item in tmp_path.iterdir()] == ["export.safetensors"]


def test_a_run_in_a_folder_can_be_exported_and_the_export_needs_no_folder(tmp_path: Path) -> None:
    state = begun(STALE, tmp_path / "run", rounds=5)
    save_state(state, tmp_path / "export")
    state.close()
    for file in (tmp_path / "run").iterdir():
        file.unlink()
    assert_same(begun(STALE, rounds=5), load_state(tmp_path / "export", STALE))


def test_loaded_tensors_are_aligned_copies(tmp_path: Path) -> None:
    """The file aligns to 8 bytes; a result may depend on alignment, so it is not mapped."""
    state = begun(STALE, rounds=3)
    save_state(state, tmp_path / "export")
    loaded = load_state(tmp_path / "export", STALE)
    (tmp_path / "export").write_bytes(b"")  # a map would now be cut off
    assert loaded.params.data_ptr() % 64 == loaded.server.m.data_ptr() % 64 == 0
    assert_same(state, loaded)


def test_nothing_is_unpickled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = begun(STALE, tmp_path / "run", rounds=3)
    STALE.commit(state)
    save_state(state, tmp_path / "export")
    state.close()

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("something was unpickled")

    for module, name in ((pickle, "load"), (pickle, "loads"), (torch, "load"), (np, "load")):
        monkeypatch.setattr(module, name, refuse)
    loaded, resumed = load_state(tmp_path / "export", STALE), resume(tmp_path / "run", STALE)
    assert_same(loaded, resumed)
    resumed.close()


# -- refused ---------------------------------------------------------------------------------------


DIFFERENT = [
    (Strategy(), Strategy(compensator=Stale()), "compensator is Ignore there, Stale here"),
    (
        Strategy(compensator=FedAR(rho=0.1)),
        Strategy(compensator=FedAR(rho=0.25)),
        "compensator.rho is 0.1 there, 0.25 here",
    ),
    (
        Strategy(compensator=Capped(FDMS(), 0.2)),
        Strategy(compensator=Capped(FDMS("distance"), 0.2)),
        "compensator.inner.similarity is 'cosine' there, 'distance' here",
    ),
    (
        Strategy(server=Sgd(lr=1.0)),
        Strategy(server=Sgd(lr=0.5)),
        "server.lr is 1.0 there, 0.5 here",
    ),
    (
        Strategy(),
        Strategy(local=Local(batch_size=8, epochs=2)),
        "local.epochs is 1 there, 2 here; local.batch_size is 32 there, 8 here",
    ),
    (Strategy(), Strategy(guard=NormGuard()), "guard"),
    (Strategy(guard=NormGuard()), Strategy(), "guard"),
    (
        Strategy(weighting="examples"),
        Strategy(weighting="clients"),
        "weighting is 'examples' there, 'clients' here",
    ),
    # an int counts clients, a float is a share: not the same, though 1 == 1.0
    (
        Strategy(sampler=Uniform(1)),
        Strategy(sampler=Uniform(1.0)),
        "sampler.m is 1 there, 1.0 here",
    ),
]


@pytest.mark.parametrize(
    ("theirs", "ours", "sentence"), DIFFERENT, ids=[sentence for _, _, sentence in DIFFERENT]
)
def test_another_strategy_is_refused_naming_the_field_and_both_values(
    theirs: Strategy, ours: Strategy, sentence: str, tmp_path: Path
) -> None:
    state = begun(theirs, tmp_path / "run")
    save_state(state, tmp_path / "export")
    state.close()
    with pytest.raises(CheckpointError, match="another strategy") as refused:
        load_state(tmp_path / "export", ours)
    assert sentence in str(refused.value)
    assert str(tmp_path / "export") in str(refused.value)
    with pytest.raises(CheckpointError, match="another strategy") as refused:
        resume(tmp_path / "run", ours)
    assert sentence in str(refused.value)
    assert str(tmp_path / "run") in str(refused.value)
    resume(tmp_path / "run", theirs).close()  # the refusal let go of the folder


def test_another_format_is_refused_naming_both(tmp_path: Path) -> None:
    state = begun(STALE, tmp_path / "run", rounds=2)
    save_state(state, tmp_path / "export")
    state.close()
    for path, read in (
        (tmp_path / "export", lambda: load_state(tmp_path / "export", STALE)),
        (tmp_path / "run" / STATE, lambda: resume(tmp_path / "run", STALE)),
    ):
        whole = path.read_bytes()
        about, tensors = contents_of(path)
        write_crafted(path, {**about, "format": 9}, tensors)
        with pytest.raises(CheckpointError, match=r"format 9\b.*reads format 1\b") as refused:
            read()
        assert str(path) in str(refused.value)
        path.write_bytes(whole)


def test_cut_short_at_any_length_is_refused(tmp_path: Path) -> None:
    """Every length: within the size of the header, within the header, within the data."""
    strategy = Strategy(compensator=Stale())
    state = strategy.init(Population(3), torch.zeros(2), seed=0)
    play(strategy, state, 0, available=np.ones(3, dtype=bool))
    save_state(state, tmp_path / "export")
    whole, cut = (tmp_path / "export").read_bytes(), tmp_path / "cut"
    for length in range(len(whole)):
        cut.write_bytes(whole[:length])
        with pytest.raises(CheckpointError, match="cut short") as refused:
            load_state(cut, strategy)
        assert str(cut) in str(refused.value)
    cut.write_bytes(whole + b"\0")
    with pytest.raises(CheckpointError, match="not a checkpoint"):
        load_state(cut, strategy)
    cut.write_bytes(whole)
    assert snapshot(load_state(cut, strategy)) == snapshot(state)


@pytest.mark.parametrize("left", [0, 4, 100, 0.5, -1])
def test_a_run_whose_state_file_is_cut_short_is_refused(left: float, tmp_path: Path) -> None:
    begun(STALE, tmp_path, rounds=2).close()
    whole = (tmp_path / STATE).read_bytes()
    length = int(len(whole) * left) if isinstance(left, float) else left
    (tmp_path / STATE).write_bytes(whole[:length])
    with pytest.raises(CheckpointError, match="cut short") as refused:
        resume(tmp_path, STALE)
    assert str(tmp_path / STATE) in str(refused.value)
    (tmp_path / STATE).write_bytes(whole)
    resume(tmp_path, STALE).close()


def foreign_files() -> dict[str, tuple[Callable[[Path], object], str]]:
    tensors = {"params": torch.zeros(3)}
    return {
        "empty": (lambda path: path.write_bytes(b""), "cut short, or not a checkpoint"),
        "text": (lambda path: path.write_text("hello " * 100), "not a checkpoint"),
        "zeros": (lambda path: path.write_bytes(bytes(1000)), "not a checkpoint"),
        "pickle": (lambda path: torch.save(tensors, path), "not a checkpoint"),
        "safetensors": (lambda path: save_file(tensors, path), "not a checkpoint of understudy"),
        "safetensors with words": (
            lambda path: save_file(tensors, path, metadata={"format": "pt"}),
            "not a checkpoint of understudy",
        ),
        "our word, not ours": (
            lambda path: save_file(tensors, path, metadata={"understudy": "hello"}),
            "checkpoint",
        ),
        "our word, a number": (
            lambda path: save_file(tensors, path, metadata={"understudy": "3"}),
            "checkpoint",
        ),
        "absent": (lambda path: None, "no such file"),
        "folder": (lambda path: path.mkdir(), "no such file"),
    }


@pytest.mark.parametrize("kind", foreign_files())
def test_a_file_of_someone_else_is_refused(kind: str, tmp_path: Path) -> None:
    make, message = foreign_files()[kind]
    path = tmp_path / "some file"
    make(path)
    with pytest.raises(CheckpointError, match=message) as refused:
        load_state(path, STALE)
    assert str(path) in str(refused.value)


def test_a_checkpoint_that_lacks_a_field_is_refused_naming_it(tmp_path: Path) -> None:
    state = begun(STALE, rounds=2)
    save_state(state, tmp_path / "export")
    about, tensors = contents_of(tmp_path / "export")
    for name in ("params", "server.m", "active", "compensator.last_seen", "compensator.rows.ids"):
        rest = {key: value for key, value in tensors.items() if key != name}
        write_crafted(tmp_path / "lacking", about, rest)
        with pytest.raises(CheckpointError, match=re.escape(f"{name} is missing")):
            load_state(tmp_path / "lacking", STALE)


def test_the_file_of_a_folder_and_the_export_are_not_mixed_up(tmp_path: Path) -> None:
    state = begun(STALE, tmp_path / "run", rounds=2)
    save_state(state, tmp_path / "export")
    state.close()
    with pytest.raises(CheckpointError, match=r"belongs to a run's folder; use resume"):
        load_state(tmp_path / "run" / STATE, STALE)
    (tmp_path / "export").replace(tmp_path / "run" / STATE)
    with pytest.raises(CheckpointError, match=r"load_state") as refused:
        resume(tmp_path / "run", STALE)
    assert str(tmp_path / "run" / STATE) in str(refused.value)


def test_a_missing_row_file_is_refused_naming_it(tmp_path: Path) -> None:
    state = begun(STALE, tmp_path, rounds=3)
    STALE.commit(state)
    state.close()
    [rows] = tmp_path.glob("*.rows")
    moved = rows.rename(tmp_path / "elsewhere")
    with pytest.raises(CheckpointError, match=rf"points to {rows.name}, which is missing"):
        resume(tmp_path, STALE)
    moved.rename(rows)
    again = resume(tmp_path, STALE)
    assert_same(begun(STALE, rounds=3), again)
    again.close()


def test_a_row_file_cut_short_is_refused_and_not_made_longer(tmp_path: Path) -> None:
    """A row takes 20 x 8 = 160 bytes, a slot 192; all nine clients came, so 9 slots are needed."""
    state = begun(STALE, tmp_path)
    play(STALE, state, 0, available=np.ones(N, dtype=bool))
    known = int(state.compensator.rows.known.sum())
    STALE.commit(state)
    state.close()
    [rows] = tmp_path.glob("*.rows")
    whole = rows.read_bytes()
    for length in (0, 1, known * 192 - 192, known * 192 - 33):
        rows.write_bytes(whole[:length])
        with pytest.raises(CheckpointError, match="cut short") as refused:
            resume(tmp_path, STALE)
        assert rows.name in str(refused.value)
        assert str(length) in str(refused.value)
        assert rows.stat().st_size == length
    rows.write_bytes(whole[: known * 192])  # spare slots hold nothing
    again = resume(tmp_path, STALE)
    assert snapshot(again) == snapshot(state)
    again.close()


def test_a_missing_or_foreign_population_file_is_refused_naming_it(tmp_path: Path) -> None:
    begun(STALE, tmp_path).close()
    [file] = tmp_path.glob("population-*.safetensors")
    whole = file.read_bytes()
    file.write_bytes(whole[:20])
    with pytest.raises(CheckpointError, match="cut short") as refused:
        resume(tmp_path, STALE)
    assert str(file) in str(refused.value)
    file.unlink()
    with pytest.raises(CheckpointError, match="no such file") as refused:
        resume(tmp_path, STALE)
    assert str(file) in str(refused.value)
    file.write_bytes(whole)
    resume(tmp_path, STALE).close()


def test_a_folder_that_holds_a_run_is_not_begun_anew(tmp_path: Path) -> None:
    state = begun(STALE, tmp_path, rounds=4)
    STALE.commit(state)
    before = snapshot(state)
    state.close()
    with pytest.raises(CheckpointError, match=r"already holds a run; .*resume") as refused:
        begun(STALE, tmp_path)
    assert str(tmp_path) in str(refused.value)
    again = resume(tmp_path, STALE)
    assert snapshot(again) == before
    again.close()


def test_one_call_begins_a_run_and_takes_it_up(tmp_path: Path) -> None:
    """Stopped in the middle, and started again by the same lines: the same bits."""

    def started(folder: Path, rounds: int) -> str:
        state = STALE.init(Population(5), torch.zeros(4), seed=3, folder=folder, resume=True)
        while state.t < rounds:
            play(STALE, state, 7)
        STALE.commit(state)
        bits = snapshot(state)
        state.close()
        return bits

    expected = started(tmp_path / "whole", 6)
    started(tmp_path / "stopped", 2)
    assert started(tmp_path / "stopped", 6) == expected
    assert started(tmp_path / "stopped", 6) == expected  # nothing is left to play


def test_what_is_taken_up_must_have_been_begun_alike(tmp_path: Path) -> None:
    given = {"population": Population(5), "params": torch.zeros(4), "seed": 3, "resume": True}
    STALE.init(**given, folder=tmp_path).close()
    cases = {
        "seed is 3 there, 4 here": {"seed": 4},
        "d is 4 there, 6 here": {"params": torch.zeros(6), "n_parameters": 4},
        "n_parameters is 4 there, 3 here": {"n_parameters": 3},
        "n_clients is 5 there, 6 here": {"population": Population(6)},
    }
    for words, other in cases.items():
        with pytest.raises(CheckpointError, match=f"holds another run: {words}$"):
            STALE.init(**given | other, folder=tmp_path)
    with pytest.raises(CheckpointError, match="another strategy"):
        Strategy().init(**given, folder=tmp_path)
    state = STALE.init(**given, folder=tmp_path)  # each refusal let go of the folder
    STALE.grow(state, Population(8))
    state.close()
    grown = STALE.init(**given, folder=tmp_path)  # clients that joined later are no difference
    assert grown.n_clients == 8
    grown.close()


def test_without_a_folder_there_is_nothing_to_take_up() -> None:
    assert STALE.init(Population(2), torch.zeros(2), resume=True).t == 0


def test_the_loop_of_the_readme_can_be_run_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", readme, re.M | re.S)
    (program,) = [block for block in blocks if "resume=True" in block]
    exec(program, {})
    assert capsys.readouterr().out == "[0 1 2]\n[0 1 1]\n2 rounds done\n"
    exec(program, {})
    assert capsys.readouterr().out == "2 rounds done\n"


def test_there_is_nothing_to_resume_in_an_empty_folder(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(CheckpointError, match="holds no run") as refused:
            resume(folder, STALE)
        assert str(folder) in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_died_before_its_first_commit_leaves_the_folder_free(tmp_path: Path) -> None:
    (tmp_path / "compensator-0.rows").write_bytes(b"half a row")
    (tmp_path / "population-0.safetensors").touch()
    (tmp_path / f"{STATE}.new").write_bytes(b"half a state")
    state = begun(STALE, tmp_path, rounds=3)
    assert_same(begun(STALE, rounds=3), state)
    state.close()


def test_a_state_of_another_strategy_is_refused_wherever_it_is_given() -> None:
    other = Strategy(compensator=FedAR(rho=0.5))
    state = begun(other)
    everyone = np.ones(N, dtype=bool)
    cohort = other.select(state, everyone)
    before = snapshot(state)
    mine = Strategy(compensator=FedAR(rho=0.1))
    sentence = r"another strategy: compensator\.rho is 0\.5 there, 0\.1 here"
    with pytest.raises(ValueError, match=sentence):
        mine.select(state, everyone)
    with pytest.raises(ValueError, match=sentence):
        mine.apply(state, cohort, Arrivals.none())
    with pytest.raises(ValueError, match=sentence):
        mine.grow(state, Population(N + 1))
    assert snapshot(state) == before
    assert state.n_clients == N
    equal = Strategy(compensator=FedAR(rho=0.5))  # another object, the same strategy
    equal.apply(state, equal.select(state, everyone), Arrivals.none())
    assert state.t == 1


def test_a_cohort_of_another_round_is_refused() -> None:
    strategy = Strategy()
    state = begun(strategy)
    cohort = strategy.select(state, np.ones(N, dtype=bool))
    strategy.apply(state, cohort, Arrivals.none())
    before = snapshot(state)
    with pytest.raises(ValueError, match=r"cohort: of round 0, but the state is in round 1"):
        strategy.apply(state, cohort, updates_for([(0, 0)], state.params))
    assert snapshot(state) == before


# -- one folder, one writer ------------------------------------------------------------------------


def test_a_second_writer_in_this_process_is_refused_naming_it(tmp_path: Path) -> None:
    """`tests/test_kill.py` does the same from another process."""
    state = begun(STALE, tmp_path, rounds=1)
    for attempt in (lambda: resume(tmp_path, STALE), lambda: begun(STALE, tmp_path)):
        with pytest.raises(FolderInUse, match=rf"pid {os.getpid()} on ") as refused:
            attempt()
        assert str(tmp_path) in str(refused.value)
    play(STALE, state, 1)
    STALE.commit(state)  # the refused ones did no harm
    state.close()
    again = resume(tmp_path, STALE)
    assert again.t == 2
    again.close()


# -- what is written, and when ---------------------------------------------------------------------


def test_files_that_no_commit_points_to_are_swept_and_others_stay(tmp_path: Path) -> None:
    state = begun(STALE, tmp_path, rounds=3)
    STALE.commit(state)
    save_state(state, tmp_path / "mine.safetensors")
    (tmp_path / "notes.txt").write_text("mine")
    before = {path.name for path in tmp_path.iterdir()}
    state.close()
    (tmp_path / "compensator-7.rows").write_bytes(bytes(100))
    (tmp_path / "population-3.safetensors").touch()
    (tmp_path / f"{STATE}.new").write_bytes(b"half")
    again = resume(tmp_path, STALE)
    assert {path.name for path in tmp_path.iterdir()} == before
    assert_same(begun(STALE, rounds=3), again)
    again.close()


def test_growing_and_retiring_in_a_folder(tmp_path: Path) -> None:
    """The same story in memory and in a folder; in the folder it breaks off after each step that
    commits, with rounds that are lost."""

    def lose(strategy: Strategy, state: ServerState) -> ServerState:
        strategy.commit(state)
        for seed in range(30, 33):
            play(strategy, state, seed)
        state.close()
        again = strategy.resume(tmp_path / name, strategy)
        again.commit_every = None
        return again

    for name, strategy in STRATEGIES.items():
        in_memory = begun(strategy, rounds=4)
        in_folder = begun(strategy, tmp_path / name, rounds=4)
        for seed, n in ((3, N + 2), (4, N + 2), (5, N + 20)):
            for state in (in_memory, in_folder):
                strategy.grow(state, Population(n))
                go_on(strategy, state, 2)
            in_folder = lose(strategy, in_folder)
            assert_same(in_memory, in_folder)
            for state in (in_memory, in_folder):
                strategy.retire(state, seed)
                go_on(strategy, state, 2)
            in_folder = lose(strategy, in_folder)
            assert_same(in_memory, in_folder)
        n_files = len(list((tmp_path / name).glob("*.rows")))
        assert n_files == len(list(row_stores(in_folder))), "no file is left over"
        assert not any(store.known[[3, 4, 5]].any() for _, store in row_stores(in_folder))
        in_folder.close()


def test_growing_is_committed_at_once(tmp_path: Path) -> None:
    state = begun(STALE, tmp_path, rounds=2)
    STALE.grow(state, Population(N + 5, groups=np.arange(N + 5)))
    state.close()
    again = resume(tmp_path, STALE)
    assert (again.t, again.n_clients, again.population.n_clients) == (2, N + 5, N + 5)
    assert again.population.groups.tolist() == list(range(N + 5))
    again.close()


def test_growing_after_label_counts_were_learnt_on_the_way() -> None:
    """The graph was begun from updates, because nothing else was known then, and stays so."""
    strategy = Strategy(sampler=FedGS(m=3))
    state = begun(strategy)
    cohort = strategy.select(state, np.ones(N, dtype=bool))
    deltas = updates_for([(int(i), 0) for i in cohort.asked], state.params).deltas
    told = Arrivals(cohort.asked, deltas, label_counts=np.ones((len(cohort.asked), 2)))
    strategy.apply(state, cohort, told)
    first = {int(i): state.sampler.first.get(int(i)).clone() for i in cohort.asked}
    strategy.grow(state, Population(N + 2))
    assert state.n_clients == N + 2
    for client, row in first.items():
        assert torch.equal(state.sampler.first.get(client), row)
    go_on(strategy, state, 3)


def test_label_counts_that_were_told_once_need_not_be_told_again_on_growing(tmp_path: Path) -> None:
    """They live in the state; the larger population may do without, also after a crash."""
    strategy = Strategy(sampler=FedGS(m=3, graph="labels"))
    population = Population(N, label_counts=np.arange(2.0 * N).reshape(N, 2))
    state = strategy.init(population, torch.zeros(D), folder=tmp_path)
    strategy.grow(state, Population(N + 1))
    before = snapshot(state)
    state.close()
    again = resume(tmp_path, strategy)
    assert snapshot(again) == before
    np.testing.assert_array_equal(again.label_counts[:N], population.label_counts)
    go_on(strategy, again, 3)
    again.close()


def test_a_commit_writes_the_rows_that_changed_and_little_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """N = 200 clients of 8,000 bytes each hold 1.6 MB. Three come in a round: 3 x 8,000 bytes are
    written to the rows before the commit, none in it; the small file holds the model, momentum
    and some arrays over clients: 16,000 bytes + 200 x 50 + the header."""
    n, d = 200, 1000
    strategy = Strategy(compensator=Stale(), server=Momentum())
    state = strategy.init(Population(n), torch.zeros(d, dtype=torch.float64), folder=tmp_path)
    state.commit_every = None
    everyone = np.ones(n, dtype=bool)
    cohort = strategy.select(state, everyone)
    strategy.apply(state, cohort, updates_for([(i, 0) for i in range(n)], state.params))
    strategy.commit(state)
    written: list[int] = []
    pwrite = os.pwrite

    def counting(fd: int, data: Any, offset: int) -> int:
        written.append(len(data))
        return pwrite(fd, data, offset)

    monkeypatch.setattr(os, "pwrite", counting)
    [rows] = tmp_path.glob("*.rows")
    few = np.isin(np.arange(n), [0, 5, 10])
    for t in range(1, 4):
        cohort = strategy.select(state, few)
        strategy.apply(state, cohort, updates_for([(5 * i, t) for i in range(3)], state.params))
        assert written == [8000] * 3
        written.clear()
        touched, size = rows.stat().st_mtime_ns, rows.stat().st_size
        strategy.commit(state)
        assert written == []
        assert (rows.stat().st_mtime_ns, rows.stat().st_size) == (touched, size)
        assert (tmp_path / STATE).stat().st_size < 16_000 + 200 * 50 + 4000
        assert committed_round(tmp_path) == t + 1
    state.close()


def test_what_never_changes_is_written_once(tmp_path: Path) -> None:
    population = Population(N, similarity=np.eye(N))
    state = STALE.init(population, torch.zeros(D, dtype=torch.float64), folder=tmp_path)
    [file] = tmp_path.glob("population-*.safetensors")
    before = (file.name, file.stat().st_mtime_ns, file.stat().st_ino)
    for seed in range(3):
        play(STALE, state, seed)
        STALE.commit(state)
    state.close()
    again = resume(tmp_path, STALE)
    play(STALE, again, 3)
    STALE.commit(again)
    again.close()
    [file] = tmp_path.glob("population-*.safetensors")
    assert (file.name, file.stat().st_mtime_ns, file.stat().st_ino) == before


def test_rows_are_on_the_disk_before_the_rename_and_the_rename_before_the_next_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order that makes the rename the commit, also when the power fails: rows written, rows
    synced, the new small file synced, renamed, the folder synced."""
    state = begun(STALE, tmp_path, rounds=2)
    events: list[str] = []
    real = {name: getattr(os, name) for name in ("pwrite", "fsync", "replace")}

    def named(fd: int) -> str:
        for path in (tmp_path, *tmp_path.iterdir()):
            if os.path.samestat(os.fstat(fd), path.stat()):
                return "folder" if path == tmp_path else path.suffix
        return "?"

    def pwrite(fd: int, data: Any, offset: int) -> int:
        events.append(f"write {named(fd)}")
        return int(real["pwrite"](fd, data, offset))

    def fsync(fd: int) -> None:
        events.append(f"sync {named(fd)}")
        real["fsync"](fd)

    def replace(source: Path, target: Path) -> None:
        events.append(f"rename {Path(target).name}")
        real["replace"](source, target)

    for name, spy in (("pwrite", pwrite), ("fsync", fsync), ("replace", replace)):
        monkeypatch.setattr(os, name, spy)
    play(STALE, state, 2)
    STALE.commit(state)
    rename = events.index(f"rename {STATE}")
    last_write = max(at for at, event in enumerate(events) if event == "write .rows")
    assert last_write < events.index("sync .rows") < rename
    assert last_write < events.index("sync .new") < rename
    assert "sync folder" in events[rename:]
    assert events.count(f"rename {STATE}") == 1
    state.close()


def test_apply_commits_as_often_as_it_is_told(tmp_path: Path) -> None:
    state = begun(STALE, tmp_path, rounds=2)
    assert committed_round(tmp_path) == 0  # None: only `commit` commits
    state.commit_every = 0.0
    play(STALE, state, 2)
    assert committed_round(tmp_path) == 3
    state.commit_every = 1e9
    play(STALE, state, 3, available=np.zeros(N, dtype=bool), late=False)
    assert committed_round(tmp_path) == 3
    state.close()
    again = resume(tmp_path, STALE)
    assert again.commit_every == 2.0
    again.close()


def test_a_commit_is_due_when_the_spare_slots_have_run_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """N = 40 has 16 spare slots: 10 clients a round fill them in the second round."""
    monkeypatch.setattr(rows, "SMALL", 0)  # as if 40 rows were many megabytes
    strategy = Strategy(compensator=Stale())
    state = strategy.init(Population(40), torch.zeros(3), folder=tmp_path)
    state.commit_every = 1e9
    commits = []
    for t in range(6):
        cohort = strategy.select(state, np.ones(40, dtype=bool))
        strategy.apply(state, cohort, updates_for([(i, t) for i in range(10)], state.params))
        commits.append(committed_round(tmp_path))
    # in round 1 the same ten rows are overwritten in place: no slot is taken
    assert commits == [0] * 6
    for t in range(6, 9):
        cohort = strategy.select(state, np.ones(40, dtype=bool))
        ids = range(10 * (t - 5), 10 * (t - 4))
        strategy.apply(state, cohort, updates_for([(i, t) for i in ids], state.params))
        commits.append(committed_round(tmp_path))
    assert commits[6:] == [7, 7, 9]
    state.close()


def test_a_commit_that_fails_leaves_the_one_before_and_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = begun(STALE, tmp_path, rounds=3)
    STALE.commit(state)
    play(STALE, state, 3)
    before = snapshot(state)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    for name in ("fsync", "replace"):
        with monkeypatch.context() as patched:
            patched.setattr(os, name, full)
            with pytest.raises(OSError, match="No space left"):
                STALE.commit(state)
        assert committed_round(tmp_path) == 3
        assert snapshot(state) == before
    STALE.commit(state)
    assert committed_round(tmp_path) == 4
    state.close()
    again = resume(tmp_path, STALE)
    assert snapshot(again) == before
    again.close()


def test_a_round_that_broke_off_is_never_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full in the middle of a round leaves some rows new and some old. A driver
    that commits "at the end", in spite of the error, must not make that the run's state."""
    state = begun(STALE, tmp_path, rounds=3)
    STALE.commit(state)
    before, pwrite, calls = snapshot(state), os.pwrite, []

    def nearly_full(fd: int, data: Any, offset: int) -> int:
        calls.append(offset)
        if len(calls) > 2:
            raise OSError(28, "No space left on device")
        return pwrite(fd, data, offset)

    monkeypatch.setattr(os, "pwrite", nearly_full)
    with pytest.raises(OSError, match="No space left"):
        play(STALE, state, 3, available=np.ones(N, dtype=bool))
    monkeypatch.undo()
    assert len(calls) == 3
    try:
        STALE.commit(state)
    except (RuntimeError, ValueError, CheckpointError) as refused:
        assert "round" in str(refused)  # noqa: PT017
    state.close()
    again = resume(tmp_path, STALE)
    assert snapshot(again) == before
    again.close()


def test_nobody_joins_or_leaves_and_nothing_is_saved_in_the_middle_of_a_round(
    tmp_path: Path,
) -> None:
    state = begun(STALE, tmp_path / "r", rounds=3)
    cohort = STALE.select(state, np.ones(N, dtype=bool))
    arrivals = updates_for([(int(client), state.t) for client in cohort.asked], state.params)
    filled = STALE.fill(state, cohort, arrivals)
    before, files = snapshot(state), {path.name for path in (tmp_path / "r").iterdir()}
    for change in (
        lambda: STALE.grow(state, Population(N + 2)),
        lambda: STALE.retire(state, 1),
        lambda: save_state(state, tmp_path / "export"),
    ):
        with pytest.raises(RuntimeError, match="round 3 was interrupted"):
            change()
        assert snapshot(state) == before
        assert (state.n_clients, state.population.n_clients) == (N, N)
        assert {path.name for path in (tmp_path / "r").iterdir()} == files
    assert not (tmp_path / "export").exists()
    STALE.finish(state, filled)
    STALE.grow(state, Population(N + 2))
    STALE.retire(state, 1)
    assert state.n_clients == N + 2
    assert not state.active[1]
    state.close()


def test_resuming_needs_no_memory_for_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice the machine's memory in rows, none of them written: holes in a file. (Where the
    system hands out any amount of memory unseen, this shows nothing.)"""
    d = 1_000_000
    n = 2 * psutil.virtual_memory().total // (4 * d)
    plenty = type("Usage", (), {"free": 2**62})
    monkeypatch.setattr("understudy.server.footprint.shutil.disk_usage", lambda _: plenty)
    strategy = Strategy(sampler=Uniform(2), compensator=Stale())
    try:
        state = strategy.init(Population(n), torch.zeros(d), folder=tmp_path)
    except OSError as error:
        pytest.skip(f"this file system has no files of that size: {error}")
    play(strategy, state, 0, available=np.ones(n, dtype=bool))
    strategy.commit(state)
    before = snapshot(state)
    state.close()
    again = resume(tmp_path, strategy)
    assert snapshot(again) == before
    again.close()


def test_strategies_are_described_by_class_and_hyper_parameters(tmp_path: Path) -> None:
    """As plain data in the file, for a person or another program to read."""
    strategy = Strategy(sampler=FedGS(m=3, graph="updates"), server=Momentum(lr=0.5))
    save_state(begun(strategy), tmp_path / "export")
    described = Reader(tmp_path / "export").about["strategy"]
    assert described["class"] == "Strategy"
    assert described["sampler"]["class"] == "FedGS"
    assert described["sampler"]["m"] == 3
    assert described["server"]["lr"] == 0.5
    assert described["server"]["schedule"].endswith("constant")  # a registered name, or its place
    assert described["guard"] is None
