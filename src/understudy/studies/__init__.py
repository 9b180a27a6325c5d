"""Studies: a grid of simulations, run, resumed, compared and reported."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_LATER = {  # loaded when asked for: a command that only lists things need not load the simulator
    "LiveLog": "understudy.studies.store.live",
    "Study": "understudy.studies.definition.study",
    "StudyError": "understudy.studies.definition.errors",
    "built_in": "understudy.studies.definition.builtins",
    "cell_module": "understudy.studies.store.model_files",
    "compare": "understudy.studies.statistics.comparison",
    "results": "understudy.studies.statistics.frames",
    "run_study": "understudy.studies.execution.runner",
    "write_report": "understudy.studies.report.report",
}
__all__ = sorted(_LATER)


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module 'understudy.studies' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
