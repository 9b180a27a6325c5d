"""FedVARP's stand-ins of many: what all absent clients share is one row; no more changes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from understudy import Concord, FedVARP, Population, Strategy
from understudy.parts.compensators import fedvarp
from understudy.testing import play


@pytest.mark.parametrize("t", [0, 1, 4])
def test_a_shared_row_stands_for_all_pairs(monkeypatch, t: int) -> None:
    """Concord weighs stand-ins by their scalar products: the same weights, so the same model."""

    def played(most_pairs: int):
        monkeypatch.setattr(fedvarp, "MOST_PAIRS", most_pairs)
        strategy = Strategy(compensator=FedVARP(), aggregator=Concord())
        state = strategy.init(Population(12), torch.zeros(7, dtype=torch.float64), seed=0)
        rng = np.random.default_rng(0)
        for round_ in range(t + 1):
            _, applied = play(strategy, state, round_, available=rng.random(12) < 0.5)
        assert applied.notes["extrapolation"] > 1
        return applied.contributions, state.params

    pairs, model = played(10**6)
    row, same_model = played(0)
    assert len(row) < len(pairs)
    assert -1 in row.source
    assert -1 not in pairs.source
    np.testing.assert_allclose(same_model, model, rtol=1e-9)
