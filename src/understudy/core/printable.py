"""Texts that go to terminals, pictures and pages: without characters that would control these."""

from __future__ import annotations

import re
from typing import Any

REPLACEMENT = "\ufffd"
# control characters but tab and newline, marks that turn the direction of writing, and what neither
# UTF-8 nor XML can hold
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def is_printable(text: str) -> bool:
    """Whether a text can be shown as it is."""
    return _UNPRINTABLE.search(text) is None


def printable(value: Any) -> Any:
    """The same plain data, with a mark for each character that cannot be shown.

    For what is read from files of others: an escape sequence in a label is not sent to a terminal.
    """
    if isinstance(value, str):
        return _UNPRINTABLE.sub(REPLACEMENT, value)
    if isinstance(value, dict):
        return {printable(name): printable(item) for name, item in value.items()}
    if isinstance(value, list):
        return [printable(item) for item in value]
    return value
