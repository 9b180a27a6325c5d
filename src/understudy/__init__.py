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
    from understudy.core.types import (
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
    from understudy.journal.follow import Follower, follow
    from understudy.memory.tensor_stream import CheckpointError
    from understudy.parts.compensators.memory import Memory
    from understudy.parts.local import Local
    from understudy.server.checkpoint import FolderInUse, load_state, resume, save_state
    from understudy.server.state import ServerState
    from understudy.server.strategy import Strategy
    from understudy.simulation.data.federation import Federation
    from understudy.simulation.run import Run, simulate
    from understudy.studies.definition.study import Study
    from understudy.studies.statistics.comparison import compare
    from understudy.studies.statistics.frames import results
    from understudy.tryout.run import try_out

__all__ = [
    "Applied",
    "Arrivals",
    "Block",
    "CheckpointError",
    "Cohort",
    "Contributions",
    "Federation",
    "FolderInUse",
    "Follower",
    "Local",
    "Memory",
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
    "follow",
    "load_state",
    "results",
    "resume",
    "save_state",
    "simulate",
    "try_out",
]
__all__ += sorted(registry.PUBLIC)

_PLACES = {
    "CheckpointError": "memory.tensor_stream",
    "Federation": "simulation.data.federation",
    "FolderInUse": "server.checkpoint",
    "Follower": "journal.follow",
    "Local": "parts.local",
    "Memory": "parts.compensators.memory",
    "Run": "simulation.run",
    "ServerState": "server.state",
    "Strategy": "server.strategy",
    "Study": "studies.definition.study",
    "compare": "studies.statistics.comparison",
    "follow": "journal.follow",
    "load_state": "server.checkpoint",
    "results": "studies.statistics.frames",
    "resume": "server.checkpoint",
    "save_state": "server.checkpoint",
    "simulate": "simulation.run",
    "try_out": "tryout.run",
}


def __getattr__(name: str) -> Any:
    if name in __all__:
        if name in registry.PUBLIC:
            return registry.public(name)
        return getattr(import_module(f"understudy.{_PLACES.get(name, 'core.types')}"), name)
    raise AttributeError(f"module 'understudy' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
