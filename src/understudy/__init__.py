"""Federated learning when clients do not show up.

The core names are here; every registered part and method can be imported from here too, and is
loaded when it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from understudy import registry
from understudy._version import __version__
from understudy.checkpoint import FolderInUse, load_state, resume, save_state
from understudy.local import Local
from understudy.state import ServerState
from understudy.strategy import Strategy
from understudy.tensorfile import CheckpointError
from understudy.types import (
    Applied,
    Arrivals,
    Block,
    Cohort,
    Contributions,
    Outcome,
    Population,
    Reason,
    Refusal,
    RoundEnd,
    RoundLog,
    RoundStart,
    Setup,
)

__all__ = [
    "Applied",
    "Arrivals",
    "Block",
    "CheckpointError",
    "Cohort",
    "Contributions",
    "FolderInUse",
    "Local",
    "Outcome",
    "Population",
    "Reason",
    "Refusal",
    "RoundEnd",
    "RoundLog",
    "RoundStart",
    "ServerState",
    "Setup",
    "Strategy",
    "__version__",
    "load_state",
    "resume",
    "save_state",
]
__all__ += sorted(registry.PUBLIC)


_LATER = {  # loaded when asked for, so that a live server need not load the simulator
    "Federation": "understudy.simulation.data",
    "Run": "understudy.simulation.engine",
    "simulate": "understudy.simulation.engine",
}
__all__ += sorted(_LATER)


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    try:
        return registry.public(name)
    except AttributeError:
        raise AttributeError(f"module 'understudy' has no attribute {name!r}") from None


def __dir__() -> list[str]:
    return __all__
