"""What the parts remember of a client that has left: nothing, and the others do not notice."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from understudy import (
    FDMS,
    MIFA,
    Capped,
    Everyone,
    FedGS,
    Gather,
    HoeffdingRace,
    KeepAsking,
    NormGuard,
    OldestFirst,
    Population,
    PowerOfChoice,
    Strategy,
    resume,
)
from understudy.core.types import RoundEnd, RoundStart, Setup
from understudy.graph.sparse_graph import MAX_SPARSE_CLIENTS
from understudy.memory.rows import RowStore
from understudy.server import strategy as module
from understudy.server.state import ServerState, leaves, row_stores
from understudy.testing import example_population, play, snapshot

N, D, GONE = 6, 6, 1  # N = D: a width says nothing about what a row is over
RACE = HoeffdingRace(scale=0.05, delta_f=0.001)
STRATEGIES = {
    "fdms": Strategy(compensator=FDMS()),
    "race": Strategy(compensator=Capped(FDMS(race=RACE)), weighting="examples"),
    "mifa": Strategy(compensator=MIFA(wait=False)),
    "gather": Strategy(sampler=KeepAsking(), compensator=Gather()),
    "losses": Strategy(sampler=PowerOfChoice(m=3, losses="last")),
    "oldest": Strategy(sampler=OldestFirst(m=3)),
    "first updates": Strategy(sampler=FedGS(m=3, graph="updates")),
}


def files_with(folder: Path, content: bytes) -> list[str]:
    return [path.name for path in folder.iterdir() if content in path.read_bytes()]


def played(strategy: Strategy, rounds: int = 8, folder: Path | None = None) -> ServerState:
    params = torch.zeros(D, dtype=torch.float64)
    state = strategy.init(example_population(N), params, seed=3, folder=folder)
    for _ in range(rounds):
        play(strategy, state, 5)
    return state


def test_no_row_of_fdms_says_anything_of_a_retired_client() -> None:
    strategy = STRATEGIES["race"]
    state = played(strategy)
    tables = [store for _, store in row_stores(state)]
    assert len(tables) == 3
    everyone = np.arange(N)
    before = [store.gather(everyone) for store in tables]
    assert all((table[:, GONE] != 0).any() and (table[GONE] != 0).any() for table in before)
    strategy.retire(state, GONE)
    others = np.delete(everyone, GONE)
    for store, table in zip(tables, before, strict=True):
        after = store.gather(everyone)
        assert not after[:, GONE].any()
        assert not after[GONE].any()
        assert torch.equal(after[others][:, others], table[others][:, others])


@pytest.mark.parametrize("name", ["fdms", "race", "mifa", "losses"])
def test_no_byte_of_it_is_left_in_the_folder(name: str, tmp_path: Path) -> None:
    """The rows that the commit before pointed to are overwritten too."""
    strategy, folder = STRATEGIES[name], tmp_path / "run"
    state = played(strategy, folder=folder)
    strategy.commit(state)
    everyone, needles = np.arange(N), []
    for _, store in row_stores(state):
        rows = store.gather(everyone)
        if store.dtype == torch.float64:  # counts and flags are the same in many places
            needles += [rows[GONE].numpy().tobytes()]
            needles += [] if name == "mifa" else [one.numpy().tobytes() for one in rows[:, GONE]]
    if name == "losses":
        state.sampler.loss[GONE] = 0.123456789
        strategy.commit(state)
        needles.append(np.float64(0.123456789).tobytes())
    needles = [needle for needle in needles if any(needle)]
    assert needles
    assert all(files_with(folder, needle) for needle in needles)
    strategy.retire(state, GONE)
    assert [files_with(folder, needle) for needle in needles] == [[]] * len(needles)
    state.close()


@pytest.mark.parametrize("name", ["fdms", "race", "mifa", "oldest", "losses", "gather"])
def test_the_others_do_not_notice_what_was_erased(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same bits as where only the client's own rows are dropped."""
    strategy, found = STRATEGIES[name], []

    def drop_rows(state: Any, blank: Any, resized: Any, client: int) -> None:
        for _, store in row_stores(state):
            store.drop(client)

    for erases in (True, False):
        state = played(strategy)
        with monkeypatch.context() as patched:
            if not erases:
                patched.setattr(module, "erase_client", drop_rows)
            strategy.retire(state, GONE)
        said = [play(strategy, state, 50 + t)[1] for t in range(12)]
        found.append([state.params, *(torch.from_numpy(one.contributions.coef) for one in said)])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))
    assert not torch.equal(found[0][0], played(strategy).params)


@pytest.mark.parametrize("name", [*STRATEGIES, "guard"])
def test_every_array_over_clients_holds_what_it_holds_of_a_newcomer(name: str) -> None:
    """But for the counts of picks of `FedGS` and rounds of joining, which a newcomer has too."""
    strategy = STRATEGIES.get(name, Strategy(guard=NormGuard()))
    state = played(strategy)
    strategy.retire(state, GONE)
    fresh = strategy.init(example_population(N), torch.zeros(D, dtype=torch.float64), seed=3)
    roles = ("sampler.", "compensator.", "guard.")
    told = {path: value for path, value in leaves(fresh) if path.startswith(roles)}
    seen = 0
    for path, value in leaves(state):
        if isinstance(value, RowStore):
            assert not value.known[GONE]
        elif path in told and isinstance(value, np.ndarray) and N in value.shape:
            place = (..., GONE) if value.shape[0] != N else (GONE,)
            if path not in ("compensator.joined", "sampler.counts"):
                np.testing.assert_array_equal(value[place], told[path][place], err_msg=path)
            seen += 1
    assert seen or name in ("fdms", "race")


def test_what_is_not_over_clients_is_not_touched() -> None:
    """Six numbers of the model are not six clients."""
    from understudy import Local, Momentum, Scaffold

    strategy = Strategy(local=Local(rule=Scaffold()), server=Momentum())
    state = played(strategy)
    common, moment = state.local.common.clone(), state.server.m.clone()
    own = state.local.own.gather(np.arange(N))
    assert common.all()
    assert moment.all()
    strategy.retire(state, GONE)
    assert torch.equal(state.local.common, common)
    assert torch.equal(state.server.m, moment)
    own[GONE] = 0
    assert torch.equal(state.local.own.gather(np.arange(N)), own)


def test_retiring_twice_and_resuming_change_nothing(tmp_path: Path) -> None:
    strategy = STRATEGIES["race"]
    state = played(strategy, folder=tmp_path / "run")
    strategy.retire(state, GONE)
    bits = snapshot(state)
    strategy.retire(state, GONE)
    assert snapshot(state) == bits
    state.close()
    again = resume(tmp_path / "run", strategy)
    assert snapshot(again) == bits
    again.close()


@pytest.mark.parametrize("n_clients", [1, MAX_SPARSE_CLIENTS])
def test_the_only_client_and_one_of_as_many_as_can_be_may_leave(n_clients: int) -> None:
    """A part may refuse one client more; there is no population of none."""
    strategy = Strategy(sampler=FedGS(m=1, graph="updates"))
    state = strategy.init(Population(n_clients), torch.zeros(1), seed=0)
    state.sampler.counts[0] = 7.0
    strategy.retire(state, 0)
    assert state.sampler.counts[0] == 0.0
    assert not state.active[0]


@dataclass(frozen=True)
class Fixed:
    """A sampler for exactly `n` clients, as one with a table of its own."""

    n: int

    def init(self, setup: Setup) -> None:
        if setup.population.n_clients != self.n:
            raise ValueError(f"expected {self.n} clients, got {setup.population.n_clients}")

    def pick(self, state: None, start: RoundStart) -> tuple[Any, Any]:
        return Everyone().pick(None, start)

    def learn(self, state: None, end: RoundEnd) -> None:
        pass


def test_a_part_that_refuses_leaves_everything_as_it_was(tmp_path: Path) -> None:
    strategy = Strategy(sampler=Fixed(N), compensator=MIFA())
    state = played(strategy, folder=tmp_path / "run")
    before, pending = snapshot(state), state.pending.copy()
    with pytest.raises(ValueError, match=f"expected {N} clients, got {N - 1}"):
        strategy.retire(state, GONE)
    assert state.active.all()
    assert snapshot(state) == before
    np.testing.assert_array_equal(state.pending, pending)
    _, applied = play(strategy, state, 99)
    assert applied.stepped
    state.close()
