"""What is wrong with a study, and where."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

from understudy.core.suggestions import suggestion

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_NAMED = re.compile(r"([A-Za-z_]\w*(?:\.\w+)*)(?:\[\d+\])?: (.+)", re.DOTALL)


class StudyError(ValueError):
    """A study that cannot be run as it is written.

    Parameters
    ----------
    message : str
        What was expected, and what came.
    *place : str
        Keys that lead to it: ``"strategies", "fdms", "similarity"``.
    """

    def __init__(self, message: str, *place: str) -> None:
        super().__init__(message)
        self.message = message
        self.place = place
        self.source = ""  # the file, or the name of the study

    def __str__(self) -> str:
        words = (self.source, dotted(self.place), self.message)
        return ": ".join(word for word in words if word)


def dotted(place: Iterable[str]) -> str:
    """Keys as TOML writes them."""
    return ".".join(key if _BARE.fullmatch(key) else f'"{key}"' for key in place)


@contextmanager
def within(*place: str) -> Iterator[None]:
    """Errors raised inside are at this place."""
    try:
        yield
    except StudyError as error:
        error.place = (*place, *error.place)
        raise


@contextmanager
def told_of(*place: str, known: Collection[str] | None = None) -> Iterator[None]:
    """Errors of a part raised inside become errors of the study, at this place.

    A message that begins with the name of a parameter, as ours do, is of that key.
    """
    with within(*place):
        try:
            yield
        except StudyError:
            raise
        except (ValueError, TypeError, LookupError, ImportError) as error:
            raise of_part(error, known) from error


def of_part(error: BaseException, known: Collection[str] | None = None) -> StudyError:
    """The error of a part as one of the study; `known` are the keys it may name."""
    message = str(error)
    found = _NAMED.fullmatch(message)
    if found:
        keys = found[1].split(".")
        if known is None or keys[0] in known:
            return StudyError(found[2], *keys)
    return StudyError(message)


def unknown_key(name: str, known: Iterable[str]) -> StudyError:
    """A key that means nothing here."""
    return StudyError(f"no such key; {suggestion(name, known)}", name)
