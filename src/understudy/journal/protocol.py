"""`Journal`: what keeps the rounds of a run, be it a file, a store of studies, or a process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from understudy.core.types import RoundLog


class Journal(Protocol):
    """Where the rounds of a run are kept, such as `understudy.studies.LiveLog`.

    A class of one's own may inherit from it: what it does not need then does nothing.
    """

    def begin(self, run: str, resolved: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
        """A run begins, resumes, or has other clients than before.

        Parameters
        ----------
        run : str
            Its permanent name: the same when it is resumed.
        resolved : mapping
            Its settings, as those of a study's cell.
        facts : mapping
            What is known of its clients.
        """
        return

    def append(self, log: RoundLog) -> None:
        """One more round."""

    def flush(self) -> None:
        """Return when all rounds are safe: then the state that follows them is committed."""
        return

    def finish(self) -> None:
        """All rounds are finished."""
        return

    def fail(self, error: str) -> None:
        """The run ended with an error; it can be resumed."""
        return

    def stored(self, at_most: int) -> Iterator[RoundLog]:
        """The logs of the rounds that were run before."""
        return iter(())
