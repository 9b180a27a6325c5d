"""Modules that were moved: their first names stay importable, and keys of cells keep them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED = {
    "understudy.analysis.bounds": "understudy.papers.bounds",
    "understudy.analysis.graph_f1": "understudy.papers.graph_f1",
    "understudy.analysis.presence": "understudy.papers.presence",
    "understudy.analysis.sigma": "understudy.papers.sigma",
    "understudy.simulation.data.fedgs_synthetic": "understudy.papers.fedgs_synthetic",
    "understudy.studies.builtin.readings": "understudy.papers.readings",
    "understudy.studies.statistics.round_pairs": "understudy.papers.round_pairs",
}
_FIRST = {now: first for first, now in MOVED.items()}


def first_name(place: str) -> str:
    """``module:name`` as it was when the module was new: what a key of a cell is made of."""
    module, colon, name = place.partition(":")
    return f"{_FIRST.get(module, module)}{colon}{name}"


class _Moved(MetaPathFinder, Loader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in MOVED else None

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = import_module(MOVED[module.__name__])


def install() -> None:
    """Make the first names importable: the same module, not a copy of it."""
    sys.meta_path.append(_Moved())
