"""Rows of ``--with``: do their parts keep the contracts of their roles, before hours are spent?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from understudy.studies.definition.build.user_rows import UserRow


def check_rows(rows: Iterable[UserRow]) -> None:
    """Play some rounds with other people's parts; an error names the promise that was not kept."""
    for row in rows:
        for role, part in _parts_of(row):
            _check(row, role, part)


def _parts_of(row: UserRow) -> Iterator[tuple[str, Any]]:
    """Its role and itself; of a whole method all parts that do without its others.

    Ours are tested already.
    """
    from understudy.core.module_origin import is_known
    from understudy.studies.definition.build.user_rows import METHOD, ROLES

    parts = [(row.role, row.made)]
    if row.role == METHOD:
        every = [(role, getattr(row.made, role)) for role in ROLES if role != "rule"]
        parts = [(role, part) for role, part in every if _stands_alone(role, part)]
    for role, part in parts:
        if not is_known(type(part).__module__):
            yield role, part


def _stands_alone(role: str, part: Any) -> bool:
    from understudy.server.strategy import Strategy

    try:
        Strategy(**{role: part})
    except ValueError:
        return False
    return True


def _check(row: UserRow, role: str, part: Any) -> None:
    from understudy import testing
    from understudy.studies.definition.build.user_rows import WITH
    from understudy.studies.definition.errors import StudyError

    checks: dict[str, Callable[[Any], None]] = {
        "sampler": testing.check_sampler,
        "compensator": testing.check_compensator,
        "aggregator": testing.check_aggregator,
    }
    if role not in checks:
        return
    try:
        checks[role](part)
    except Exception as error:  # somebody's own part may fail in any way
        broken = isinstance(error, testing.ContractBroken)
        words = str(error) if broken else f"{type(error).__name__}: {error}"
        name = type(part).__name__
        told = StudyError(f"{name} does not pass understudy.testing.check_{role}: {words}")
        told.source = f"{WITH} {row.text}"
        raise told from error
