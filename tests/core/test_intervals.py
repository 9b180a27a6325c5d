"""Student's t-interval of a mean."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from understudy.core.intervals import half_width


@pytest.mark.parametrize(("level", "half"), [(0.95, 2.484138), (0.9, 1.685855)])
def test_half_width_by_hand(level: float, half: float) -> None:
    """1, 2, 3: s = 1; t(0.975; 2) = 4.302653 and t(0.95; 2) = 2.919986 (tables), over √3."""
    assert float(half_width(np.array([1.0, 2.0, 3.0]), level)) == pytest.approx(half, abs=1e-6)


def test_each_column_has_its_own() -> None:
    values = np.random.default_rng(5).normal(size=(7, 3))
    found = half_width(values)
    assert found.shape == (3,)
    for column, half in zip(values.T, found, strict=True):
        low, high = stats.t.interval(0.95, 6, loc=column.mean(), scale=stats.sem(column))
        assert half == pytest.approx((high - low) / 2)


def test_fewer_than_three_values_have_none() -> None:
    assert np.isnan(half_width(np.array([1.0, 3.0])))
    assert np.isnan(half_width(np.zeros((2, 4)))).all()
    assert half_width(np.zeros((2, 4))).shape == (4,)
