"""Phrases that a reader has to guess at, where the words of the trade are plain."""

import re

QUAINT = (
    "anew",
    "became of",
    "become of",
    "becomes of",
    "beyond chance",
    "forget",
    "go on",
    "goes on",
    "held against",
    "how loud",
    "loudly",
    "louder",
    "nought",
    "on the way",
    "play on",
    "played again",
    "played twice",
    "plays on",
    "read otherwise",
    "slow twin",
    "speak for",
    "speaks for",
    "spoke for",
    "tell all",
    "tells all",
    "twin",
    "twins",
)
_PATTERN = re.compile(rf"\b({'|'.join(QUAINT)})\b", re.IGNORECASE)


def quaint(text: str) -> list[str]:
    """Those phrases in a text, also where a line breaks within one."""
    return _PATTERN.findall(" ".join(text.split()))
