"""Live federations: the same strategy on Flower, with deadlines and resumption."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

if find_spec("flwr") is None:
    raise ImportError(
        "understudy.flower needs Flower: pip install '.[flower]' in the folder of a clone"
    )

_LATER = {  # a ClientApp need not load what only a ServerApp uses
    "ClientData": "understudy.flower.client",
    "ClientOutcome": "understudy.flower.rounds.outcomes",
    "Journal": "understudy.journal.protocol",
    "Limits": "understudy.flower.messages.reply_checks",
    "Members": "understudy.flower.clients.members",
    "Timing": "understudy.flower.messages.requests",
    "UnderstudyStrategy": "understudy.flower.strategy",
    "client_app": "understudy.flower.client",
    "introduction": "understudy.flower.mod",
    "load_arrays": "understudy.flower.messages.model_arrays",
    "read_outcomes": "understudy.flower.rounds.outcomes",
    "request_retirement": "understudy.flower.clients.retirement",
    "request_same_as": "understudy.flower.clients.retirement",
    "save_arrays": "understudy.flower.messages.model_arrays",
}
__all__ = sorted(_LATER)


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module 'understudy.flower' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
