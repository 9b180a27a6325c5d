"""What keeps a table from being tried: one line for each thing, all of them at once."""

from __future__ import annotations

from collections.abc import Sequence

from understudy.core.shown import shown
from understudy.core.suggestions import closest

MOST_SHOWN = 12  # columns in a line


class CannotTry(ValueError):
    """A table, or what was asked of it, does not do."""

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


def no_column(what: str, name: str, columns: Sequence[str]) -> str:
    """A column that the table does not have."""
    meant = closest(name, columns)
    words = "" if meant is None else f"did you mean {shown(meant)}? "
    listed = ", ".join(columns[:MOST_SHOWN])
    more = f" and {len(columns) - MOST_SHOWN:,} more" if len(columns) > MOST_SHOWN else ""
    return f"{what}: no column {shown(name)}; {words}the table has {listed}{more}"


def listed(names: Sequence[str], most: int = 4) -> str:
    """Names in a sentence, some of them where they are many."""
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most:,} more"
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else list(names))
