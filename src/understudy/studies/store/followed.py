"""`StoredRounds`: a cell of a study as a place that `follow` reads rounds from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from understudy.core.types import RoundLog
from understudy.studies.store.store import FILE, Store


@dataclass(frozen=True)
class StoredRounds:
    """The rounds of a cell in a runs folder."""

    folder: Path
    key: str

    def new(self, since: int) -> Iterator[RoundLog]:
        """Rounds from `since` on that are stored now; none where nothing is stored yet."""
        if (self.folder / FILE).is_file():
            with Store.open(self.folder) as store:
                yield from store.logs(self.key, since)
