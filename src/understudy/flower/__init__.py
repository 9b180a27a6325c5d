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
    "ClientOutcome": "understudy.flower.outcomes",
    "Limits": "understudy.flower.reply_checks",
    "Members": "understudy.flower.clients.members",
    "Timing": "understudy.flower.requests",
    "Journal": "understudy.journal.protocol",
    "UnderstudyStrategy": "understudy.flower.strategy",
    "client_app": "understudy.flower.client",
    "introduction": "understudy.flower.mod",
    "load_arrays": "understudy.flower.model_arrays",
    "read_outcomes": "understudy.flower.outcomes",
    "request_retirement": "understudy.flower.retirement",
    "request_same_as": "understudy.flower.retirement",
    "save_arrays": "understudy.flower.model_arrays",
}
__all__ = sorted(_LATER)


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module 'understudy.flower' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
