"""What an examination finds, line by line."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One line of the examination."""

    about: str
    name: str
    found: bool
    words: str
