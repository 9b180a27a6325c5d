"""Aggregators: how contributions become one update."""

from understudy.parts.aggregators.linear import Linear
from understudy.parts.aggregators.robust import Median, TrimmedMean

__all__ = ["Linear", "Median", "TrimmedMean"]
