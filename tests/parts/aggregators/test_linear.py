"""`Linear`: the weighted sum of rows, wherever they lie."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from understudy.core.types import Block, Contributions
from understudy.memory.rows import RowStore
from understudy.parts.aggregators import linear
from understudy.parts.aggregators.linear import linear_sum


def test_rows_of_a_file_are_asked_for_before_they_are_summed_up(
    tmp_path: Path, monkeypatch
) -> None:
    """Two rows at once, of 6 in a file and 1 in memory: each once, and in the order of mention."""
    monkeypatch.setattr(linear, "BLOCK", 2 * 3 * 4)
    store = RowStore(6, 3, torch.float32, path=tmp_path / "memory.rows")
    store.scatter(np.arange(6), torch.arange(18.0).view(6, 3))
    seen: list[list[int]] = []
    block = store.block()
    in_file = Block(block.owner, block.data, lambda slots: seen.append(slots.tolist()))
    fresh = Block(np.array([7]), torch.ones(1, 3))
    order = np.array([5, 0, 3, 1, 2])
    one = Contributions.of((7, fresh, 0, 10.0), (order, in_file, order, [1.0, 2.0, 3.0, 4.0, 5.0]))
    coefs = dict(zip(order.tolist(), (1.0, 2.0, 3.0, 4.0, 5.0), strict=True))
    expected = 10 + sum(c * torch.arange(3 * i, 3 * i + 3.0) for i, c in coefs.items())
    torch.testing.assert_close(linear_sum(one), expected)
    assert seen == [[5], [0, 3], [1, 2]]
    store.close()


def test_rows_in_memory_need_no_advice() -> None:
    block = Block(np.arange(2), torch.ones(2, 3))
    contributions = Contributions.of(([0, 1], block, [0, 1], [1.0, 2.0]))
    contributions.read_ahead(np.array([7]))  # not even looked at
    torch.testing.assert_close(linear_sum(contributions), torch.full((3,), 3.0))
