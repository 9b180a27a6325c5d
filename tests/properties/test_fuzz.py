"""Whatever arrives, and whatever bytes a checkpoint has: our errors only, and nothing spoilt.

A few examples in every run, thousands in `make test-full`.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from understudy import (
    FDMS,
    MIFA,
    Adam,
    Arrivals,
    CheckpointError,
    FedVARP,
    Local,
    Population,
    Reason,
    Scaffold,
    Stale,
    Strategy,
    resume,
)
from understudy.server.state import leaves, row_stores
from understudy.testing import play, snapshot

N, D = 6, 5
STATE = "state.safetensors"
STRATEGIES = [
    Strategy(compensator=FDMS(), server=Adam()),
    Strategy(compensator=Stale(), weighting="examples"),
    Strategy(compensator=MIFA(wait=False)),
    Strategy(compensator=FedVARP(), max_norm=1e6),
    Strategy(local=Local(rule=Scaffold())),
]
NUMBERS = st.one_of(
    st.integers(-3, 12),
    st.floats(width=64),
    st.sampled_from([None, True, "1", b"1", 10**400, -(10**5000), 1e-39, 3.4e38, 1e308, [1], {}]),
)
ENTRIES = st.one_of(
    st.floats(-2, 2, width=32),
    st.sampled_from([3.4e38, -3.4e38, 1e30, 1e18, 1e-45, float("nan"), float("inf")]),
)
DELTAS = st.one_of(
    st.lists(ENTRIES, min_size=D, max_size=D).map(torch.tensor),
    st.lists(ENTRIES, min_size=D, max_size=D).map(lambda v: np.array(v, dtype=np.float32)),
    st.sampled_from([None, "x", torch.ones(D - 1), torch.ones(D).double(), torch.ones(1, D)]),
)
LETTERS = st.lists(
    st.tuples(NUMBERS, DELTAS, NUMBERS, NUMBERS, NUMBERS, st.one_of(st.just(0), NUMBERS)),
    max_size=8,
)


def hostile_rounds(strategy: Strategy, rounds: list[list[Any]]) -> None:
    """Honest clients 0 and 1 come in every round, with whatever else; all stays finite."""
    state = strategy.init(Population(N, n_examples=np.full(N, 10.0)), torch.zeros(D), seed=1)
    for letters in rounds:
        cohort = strategy.select(state, np.ones(N, dtype=bool))
        junk = [letter for letter in letters if letter[0] not in (0, 1)]
        columns = list(zip(*junk, strict=True)) if junk else [()] * 6
        ids, deltas, n_examples, n_steps, losses, start = columns
        applied = strategy.apply(
            state,
            cohort,
            Arrivals(
                ids=[0, 1, *ids],
                deltas=[torch.ones(D), -torch.ones(D), *deltas],
                n_examples=[10, 10, *n_examples],
                n_steps=[2, 2, *n_steps],
                losses=[1.0, 1.0, *losses],
                start_round=[state.t, state.t, *start],
            ),
        )
        assert {0, 1} <= set(applied.contributions.ids.tolist())
        for refusal in applied.refusals:
            assert refusal.id not in (0, 1)
            assert isinstance(refusal.reason, Reason)
            assert len(str(refusal)) < 2000
        assert torch.isfinite(state.params).all()
        for path, value in leaves(state):
            if isinstance(value, torch.Tensor):
                assert torch.isfinite(value).all(), path
        for path, store in row_stores(state):
            assert torch.isfinite(store.gather(np.arange(N)).double()).all(), path


@settings(max_examples=60)
@given(st.sampled_from(STRATEGIES), st.lists(LETTERS, min_size=1, max_size=3))
def test_whatever_arrives_is_taken_or_refused(strategy: Strategy, rounds: list[Any]) -> None:
    hostile_rounds(strategy, rounds)


@pytest.mark.full
@pytest.mark.timeout(3000)
@settings(max_examples=3000, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(STRATEGIES), st.lists(LETTERS, min_size=1, max_size=6))
def test_thousands_of_hostile_rounds(strategy: Strategy, rounds: list[Any]) -> None:
    hostile_rounds(strategy, rounds)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("fuzz") / "run"
    strategy = STRATEGIES[1]
    state = strategy.init(Population(N), torch.zeros(D), seed=1, folder=folder)
    for seed in range(3):
        play(strategy, state, seed)
    strategy.commit(state)
    bits = snapshot(state)
    state.close()
    return folder, bits


EDITS = st.lists(
    st.tuples(st.sampled_from("ox+-"), st.integers(0, 2**20), st.binary(min_size=1, max_size=9)),
    min_size=1,
    max_size=4,
)


def edited(content: bytes, edits: list[tuple[str, int, bytes]]) -> bytes:
    """Bytes overwritten, flipped, inserted, cut out."""
    for how, place, new in edits:
        at = place % (len(content) + 1)
        if how == "o":
            content = content[:at] + new + content[at + len(new) :]
        elif how == "x" and content:
            at %= len(content)
            content = content[:at] + bytes([content[at] ^ (new[0] or 1)]) + content[at + 1 :]
        elif how == "+":
            content = content[:at] + new + content[at:]
        else:
            content = content[:at] + content[at + len(new) :]
    return content


def fuzzed(run: tuple[Path, str], name: str, edits: list[Any]) -> None:
    folder, bits = run
    copy = folder.with_name("copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    (copy / name).write_bytes(edited((folder / name).read_bytes(), edits))
    try:
        state = resume(copy, STRATEGIES[1])
    except CheckpointError as error:
        said = str(error)
        assert str(copy) in said
        return
    try:
        for _, store in row_stores(state):
            store.verify()
        assert snapshot(state) == bits
    except CheckpointError:
        pass
    finally:
        state.close()


FILES = st.sampled_from([STATE, "population-0.safetensors", "compensator-0.rows"])


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=FILES, edits=EDITS)
def test_a_checkpoint_of_any_bytes_is_refused_or_the_same(
    run: tuple[Path, str], name: str, edits: list[Any]
) -> None:
    fuzzed(run, name, edits)


@pytest.mark.full
@pytest.mark.timeout(3000)
@settings(max_examples=3000, suppress_health_check=list(HealthCheck))
@given(name=FILES, edits=EDITS)
def test_thousands_of_checkpoints_of_any_bytes(
    run: tuple[Path, str], name: str, edits: list[Any]
) -> None:
    fuzzed(run, name, edits)
