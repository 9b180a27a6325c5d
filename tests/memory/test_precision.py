"""Remembered updates in less room: how far rows are from what came, and that runs go on alike."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy import MIFA, Arrivals, FedAR, FedStale, FedVARP, Population, Stale, Strategy
from understudy.core.describe import describe
from understudy.memory.precision import PRECISIONS, DecodedRows, RowFormat
from understudy.server.checkpoint import load_state, resume, save_state
from understudy.testing import check_compensator

# Largest error, as a share of the largest entry of the row (int8: of the block).
ERRORS = {"full": 0.0, "float16": 2.0**-11, "bfloat16": 2.0**-8, "int8": 0.5 / 127 * 1.001}
BYTES = {"full": 4, "float16": 2, "bfloat16": 2, "int8": 1}
COMPENSATORS = [MIFA, FedAR, FedVARP, FedStale, Stale]


@given(
    precision=st.sampled_from(PRECISIONS),
    width=st.integers(1, 700),
    size=st.sampled_from([1e-30, 1e-8, 1.0, 1e6, 1e30]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    seed=st.integers(0, 100),
)
@settings(max_examples=80, deadline=None)
def test_a_row_is_read_as_it_was_kept(
    precision: str, width: int, size: float, dtype: torch.dtype, seed: int
) -> None:
    form = RowFormat(precision, width, dtype)
    generator = torch.Generator().manual_seed(seed)
    row = torch.randn(width, dtype=dtype, generator=generator) * size
    stored = form.encoded(row)
    assert stored.shape == (form.stored_width,)
    assert stored.dtype == form.stored_dtype
    again = form.decoded(stored)
    assert again.dtype == dtype
    assert again.shape == row.shape
    assert float((again - row).abs().max()) <= ERRORS[precision] * float(row.abs().max())
    # what was read is kept as it is
    assert torch.equal(form.decoded(form.encoded(again)), again) or precision == "float16"


@pytest.mark.parametrize("precision", PRECISIONS)
def test_zeros_are_zeros_and_so_is_a_row_that_is_not_there(precision: str) -> None:
    form = RowFormat(precision, 300, torch.float32)
    assert not form.decoded(form.encoded(torch.zeros(300))).any()
    assert not form.decoded(torch.zeros(form.stored_width, dtype=form.stored_dtype)).any()
    rows = DecodedRows([form.encoded(torch.ones(300))] * 3, form)
    assert len(rows) == 3
    assert [row.shape for row in rows[1:]] == [(300,), (300,)]


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("kind", COMPENSATORS)
def test_a_compensator_keeps_its_contract(kind: type, precision: str) -> None:
    check_compensator(kind(precision=precision))


@pytest.mark.parametrize("kind", [MIFA, FedAR, FedVARP, Stale])  # older than the field
def test_the_default_is_in_no_description(kind: type) -> None:
    assert "precision" not in describe(kind())
    assert describe(kind(precision="int8"))["precision"] == "int8"
    with pytest.raises(ValueError, match="precision"):
        kind(precision="int4")


def played(compensator: object, *, folder=None, rounds: int = 12, resumed_at: int | None = None):
    n, d = 12, 1000
    rng, draw = np.random.default_rng(0), torch.Generator().manual_seed(0)
    strategy = Strategy(compensator=compensator)
    state = strategy.init(Population(n), torch.zeros(d), seed=0, folder=folder)
    for t in range(rounds):
        if t == resumed_at:
            strategy.commit(state)
            state.close()
            state = resume(folder, strategy)
        cohort = strategy.select(state, rng.random(n) < 0.5)
        deltas = torch.randn(len(cohort.asked), d, generator=draw)
        strategy.apply(state, cohort, Arrivals(cohort.asked, deltas, [10] * len(deltas)))
    return strategy, state


@pytest.mark.parametrize("kind", COMPENSATORS)
def test_the_model_is_near_that_of_a_full_memory(kind: type) -> None:
    full = played(kind())[1].params
    for precision, error in ERRORS.items():
        params = played(kind(precision=precision))[1].params
        apart = float((params - full).norm() / full.norm())
        assert apart <= 4 * error, precision
        assert (apart > 0) == (precision != "full")


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_run_in_a_folder_takes_the_room_it_should_and_goes_on_alike(
    tmp_path, precision: str
) -> None:
    compensator = FedAR(precision=precision)
    whole = played(compensator)[1]
    strategy, state = played(compensator, folder=tmp_path / "run", resumed_at=6)
    assert torch.equal(whole.params, state.params)
    per_row = state.compensator.rows.bytes() / state.compensator.rows._capacity
    assert per_row <= 1000 * BYTES[precision] * 1.05 + 64
    save_state(state, tmp_path / "export.safetensors")
    again = load_state(tmp_path / "export.safetensors", strategy)
    everyone = np.arange(12)
    rows = [one.compensator.gather(everyone) for one in (whole, state, again)]
    assert torch.equal(rows[0], rows[1])
    assert torch.equal(rows[0], rows[2])
    state.close()


def test_sums_in_blocks_are_plain_sums(monkeypatch) -> None:
    from understudy.parts.aggregators import linear

    sums = []
    for slice_size, block in ((65_536, 2**25), (100, 2**25), (100, 4000), (100, 1)):
        monkeypatch.setattr(linear, "SLICE", slice_size)
        monkeypatch.setattr(linear, "BLOCK", block)
        sums.append(played(FedAR())[1].params)
    assert all(torch.equal(sums[0], other) for other in sums[1:])
