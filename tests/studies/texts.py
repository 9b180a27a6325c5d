"""Studies as text, for tests of what is made of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from understudy.studies import Study

TOP = """\
name = "small"
rounds = 3
"""
DATA = """\
[data]
name = "digits"
partition = "clustered"
per_client = 30
"""
MODEL = """\
[model]
name = "softmax"
"""
STRATEGIES = """\
[strategies]
drop = "fedavg"
fdms = "fdms"
"""


def text(
    rest: str = "",
    *,
    top: str = "",
    data: str = DATA,
    model: str = MODEL,
    strategies: str = STRATEGIES,
) -> str:
    """A whole study: what is not said is small and ordinary."""
    return "\n".join([TOP, top, data, model, strategies, rest])


def study(
    rest: str = "",
    *,
    scale: str | None = None,
    overrides: Iterable[str] | Mapping[str, Any] = (),
    **parts: str,
) -> Study:
    return Study.read(text(rest, **parts), scale, overrides)


def strategy(table: str, rest: str = "", *, top: str = "") -> Any:
    """The strategy of a table, in a study with nothing else."""
    return study(rest, top=top, strategies=f"[strategies]\nx = {table}").cells()[0].task.strategy
