"""FDMS with very many clients: a race that looks at few rows, and pairs that are forgotten."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy import FDMS, Arrivals, Capped, HoeffdingRace, Population, Strategy
from understudy.server.checkpoint import load_state, save_state


def played(
    compensator: FDMS,
    n: int,
    *,
    rounds: int,
    share: float,
    seed: int,
    kinds: int = 8,
    noise: float = 0.3,
    forget_screen: bool = False,
    leaves: int | None = None,
):
    """A run of clients of some kinds; and what each round said of stand-ins."""
    rng, draw = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    strategy = Strategy(compensator=compensator)
    state = strategy.init(Population(n, n_examples=np.full(n, 10.0)), torch.zeros(20), seed=seed)
    base = torch.randn(kinds, 20, generator=draw)
    said = []
    for t in range(rounds):
        if leaves is not None and t == rounds // 2:
            strategy.retire(state, leaves)
        if forget_screen:
            state.compensator._screen = None
        cohort = strategy.select(state, rng.random(n) < share)
        deltas = base[torch.from_numpy(cohort.asked % kinds)]
        deltas = deltas + noise * torch.randn(len(cohort.asked), 20, generator=draw)
        applied = strategy.apply(state, cohort, Arrivals(cohort.asked, deltas))
        said.append((applied.contributions.ids, applied.contributions.source, dict(applied.notes)))
    return strategy, state, said


@given(
    n=st.integers(4, 40),
    scale=st.sampled_from([0.02, 0.05, 0.2]),
    share=st.sampled_from([0.2, 0.6]),
    seed=st.integers(0, 100),
)
@settings(max_examples=15, deadline=None)
def test_a_race_that_looks_at_few_rows_drops_whom_one_that_looks_at_all_does(
    n: int, scale: float, share: float, seed: int
) -> None:
    runs = [
        played(
            FDMS(race=HoeffdingRace(threshold="code", scale=scale)),
            n,
            rounds=12,
            share=share,
            seed=seed,
            leaves=1,
            forget_screen=forget,
        )
        for forget in (False, True)
    ]
    (_, few, said), (_, full, same) = runs
    everyone = np.arange(n)
    assert torch.equal(few.params, full.params)
    removed = [state.compensator.removed.gather(everyone) for state in (few, full)]
    assert torch.equal(*removed)
    assert [notes for _, _, notes in said] == [notes for _, _, notes in same]


@pytest.mark.parametrize("similarity", ["cosine", "distance"])
def test_with_as_many_candidates_as_clients_nothing_is_forgotten(similarity: str) -> None:
    """On both sides of the threshold the same stand-ins."""
    n = 30
    exact = played(FDMS(similarity), n, rounds=10, share=0.4, seed=1)[2]
    kept = FDMS(similarity, exact_up_to=n - 1, candidates=n)
    _, state, sparse = played(kept, n, rounds=10, share=0.4, seed=1)
    for (ids, source, notes), (other_ids, other_source, other_notes) in zip(
        exact, sparse, strict=True
    ):
        np.testing.assert_array_equal(ids, other_ids)
        np.testing.assert_array_equal(source, other_source)
        assert notes.get("no_candidate") == other_notes.get("no_candidate")
        assert "candidates_kept" not in notes
        assert other_notes.get("candidates_kept", n) == n
    assert (state.compensator.candidates.gather(np.arange(n)) <= n).all()


@pytest.mark.parametrize("seed", [0, 1])
def test_the_stated_error_of_the_best_candidates(seed: int) -> None:
    """500 clients of 25 kinds, of whom 100 come: of each, 64 candidates are kept."""
    n, kinds = 500, 25
    setting = {"rounds": 30, "share": 0.2, "seed": seed, "kinds": kinds}
    exact = played(FDMS(), n, **setting)[2]
    sparse = played(FDMS(exact_up_to=100), n, **setting)[2]
    strangers, other_strangers, lonely, absent = 0, 0, 0, 0
    for (ids, source, _), (other_ids, other_source, _) in zip(exact[15:], sparse[15:], strict=True):
        friend = dict(zip(ids.tolist(), source.tolist(), strict=True))
        other = dict(zip(other_ids.tolist(), other_source.tolist(), strict=True))
        for client in friend:
            if friend[client] != client and friend[client] >= 0:
                absent += 1
                lonely += other[client] < 0
                strangers += friend[client] % kinds != client % kinds
                other_strangers += other[client] >= 0 and other[client] % kinds != client % kinds
    assert absent > 5000
    assert lonely + other_strangers - strangers < 0.01 * absent


def test_few_candidates_are_the_best_ones(tmp_path) -> None:
    strategy, state, _ = played(
        FDMS(exact_up_to=0, candidates=3), 40, rounds=20, share=0.5, seed=3, leaves=7
    )
    who = state.compensator.candidates.gather(np.arange(40)).numpy() - 1
    there = who >= 0
    assert (who != np.arange(40)[:, None]).all()
    same_kind = who % 8 == np.arange(40)[:, None] % 8
    assert same_kind[there].mean() > 0.95
    assert not (who == 7).any()  # whoever left is forgotten
    assert not state.compensator.candidates.known[7]
    save_state(state, tmp_path / "state.safetensors")
    again = load_state(tmp_path / "state.safetensors", strategy)
    assert (again.compensator.candidates.gather(np.arange(40)).numpy() - 1 == who).all()


def test_a_capped_one_takes_many_clients_too() -> None:
    compensator = Capped(FDMS(exact_up_to=5), 0.2)
    said = played(compensator, 20, rounds=5, share=0.5, seed=0)[2]
    assert said[-1][2]["candidates_kept"] == 64


def test_growing_over_the_threshold_is_refused_and_changes_nothing() -> None:
    strategy, state, _ = played(FDMS(exact_up_to=10), 10, rounds=3, share=0.5, seed=0)
    before = state.compensator.score.gather(np.arange(10))
    with pytest.raises(ValueError, match=r"FDMSState.*SparseFriends"):
        strategy.grow(state, Population(11, n_examples=np.full(11, 10.0)))
    assert state.n_clients == 10
    assert torch.equal(before, state.compensator.score.gather(np.arange(10)))


def test_a_race_is_refused_where_only_candidates_are_kept() -> None:
    with pytest.raises(ValueError, match="race: expected None above exact_up_to=3"):
        played(FDMS(race=HoeffdingRace(), exact_up_to=3), 4, rounds=1, share=1, seed=0)


def test_single_precision_from_a_number_of_updates_on() -> None:
    """On both sides of the threshold: similar scores, and a note where it acts."""
    runs = [
        played(FDMS(single_from=single_from), 20, rounds=4, share=1.0, seed=0)
        for single_from in (20, 21)
    ]
    scores = [state.compensator.score.gather(np.arange(20)) for _, state, _ in runs]
    torch.testing.assert_close(scores[0], scores[1], rtol=0, atol=2e-6)
    assert [said[-1][2].get("single_precision") for _, _, said in runs] == [1.0, None]
