"""Texts that go to terminals, logs, pictures and pages: nothing in them controls these.

Whatever may come from outside (a client's error, a label in somebody's database, a name in a file)
passes here before it is printed.
"""

from __future__ import annotations

import re
from typing import Any

REPLACEMENT = "\ufffd"
# control characters (C0 and C1) but tab and newline; line and paragraph separators; marks that turn
# the direction of writing; annotations, the byte order mark and tags, which nobody sees; and what
# neither UTF-8 nor XML can hold
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f\ud800-\udfff\ufffe\uffff]"
)


def is_printable(text: str) -> bool:
    """Whether a text can be shown as it is."""
    return _UNPRINTABLE.search(text) is None


def is_seen(text: str) -> bool:
    """Whether anything of a name is seen: it is not all spaces, or of no width."""
    return any(letter.isprintable() and not letter.isspace() for letter in printable(text))


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


def one_line(value: object, longest: int | None = None) -> str:
    """Anything as printable text without line breaks, so that it cannot pose as a line of ours.

    >>> one_line("a\\nb")
    'a b'
    >>> one_line("abcdef", longest=4)
    'abc…'
    """
    text = str(value)
    if longest is not None and len(text) > longest:
        text = f"{text[: longest - 1]}…"
    return str(printable(text)).replace("\n", " ")
