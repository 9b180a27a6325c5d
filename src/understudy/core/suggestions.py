"""What may have been meant by a name that is not known."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

CUTOFF = 0.6  # similarity in [0, 1] from which a name is suggested


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like this one; None where none is."""
    found = difflib.get_close_matches(name.lower(), list(known), n=1, cutoff=CUTOFF)
    return found[0] if found else None


def suggestion(name: str, known: Iterable[str]) -> str:
    """What may have been meant, and all there is."""
    names = list(dict.fromkeys(known))
    meant = closest(name, names)
    words = "" if meant is None else f"did you mean {meant!r}? "
    return f"{words}known: {', '.join(names)}"
