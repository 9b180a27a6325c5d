"""Federated learning when clients do not show up.

The core names and every registered part and method can be imported from here. All of them are
loaded when they are asked for: the command line answers ``--help`` without loading torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from understudy import registry
from understudy._version import __version__

if TYPE_CHECKING:
    from understudy.checkpoint import FolderInUse, load_state, resume, save_state
    from understudy.local import Local
    from understudy.simulation.data import Federation
    from understudy.simulation.engine import Run, simulate
    from understudy.state import ServerState
    from understudy.strategy import Strategy
    from understudy.studies.frames import results
    from understudy.studies.statistics import compare
    from understudy.studies.study import Study
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
    "Federation",
    "FolderInUse",
    "Local",
    "Outcome",
    "Population",
    "Reason",
    "Refusal",
    "RoundEnd",
    "RoundLog",
    "RoundStart",
    "Run",
    "ServerState",
    "Setup",
    "Strategy",
    "Study",
    "__version__",
    "compare",
    "load_state",
    "results",
    "resume",
    "save_state",
    "simulate",
]
__all__ += sorted(registry.PUBLIC)

_PLACES = {
    "CheckpointError": "tensorfile",
    "Federation": "simulation.data",
    "FolderInUse": "checkpoint",
    "Local": "local",
    "Run": "simulation.engine",
    "ServerState": "state",
    "Strategy": "strategy",
    "Study": "studies.study",
    "compare": "studies.statistics",
    "load_state": "checkpoint",
    "results": "studies.frames",
    "resume": "checkpoint",
    "save_state": "checkpoint",
    "simulate": "simulation.engine",
}


def __getattr__(name: str) -> Any:
    if name in __all__:
        if name in registry.PUBLIC:
            return registry.public(name)
        return getattr(import_module(f"understudy.{_PLACES.get(name, 'types')}"), name)
    raise AttributeError(f"module 'understudy' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
