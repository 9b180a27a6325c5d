"""From stored rounds to tables: summaries, comparisons paired by seed, exports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from understudy.studies.statistics.comparison import Comparison, compare

__all__ = ["Comparison", "compare"]


def __getattr__(name: str) -> Any:
    if name in __all__:  # loaded when asked for: a table of text needs neither SciPy nor pandas
        from understudy.studies.statistics import comparison

        return getattr(comparison, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
