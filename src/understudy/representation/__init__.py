"""Who is represented in a run's updates, and what to warn of: computed from its rounds alone."""

from __future__ import annotations

from understudy.representation.facts import ClientFacts
from understudy.representation.representation import Heard, Representation
from understudy.representation.voices import Voice, voices
from understudy.representation.warnings import RunWarning, Thresholds, Warnings, warnings_of

__all__ = [
    "ClientFacts",
    "Heard",
    "Representation",
    "RunWarning",
    "Thresholds",
    "Voice",
    "Warnings",
    "voices",
    "warnings_of",
]
