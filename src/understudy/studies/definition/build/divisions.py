"""Partitions of users' own, tried before any cell runs: what is wrong is told once, by name."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from understudy.simulation.data.partition_check import BadPartition
from understudy.simulation.data.sources import MissingData
from understudy.studies.definition.cell import DataRecipe
from understudy.studies.definition.errors import StudyError

if TYPE_CHECKING:
    from understudy.studies.definition.cell import Cell


def check_divisions(cells: Iterable[Cell]) -> None:
    """Divide the data of each kind of cell once, where somebody's own partition does it.

    Cells that differ in their seeds only are of one kind. Data that are not here are not what this
    is about: they may be where the cells are run.
    """
    tried: set[str] = set()
    for cell in cells:
        recipe = cell.task.data
        if not isinstance(recipe, DataRecipe) or ":" not in (recipe.partition or ""):
            continue
        kind = json.dumps([recipe.name, recipe.partition, *map(str, recipe.settings.items())])
        if kind in tried:
            continue
        tried.add(kind)
        try:
            recipe.federation()
        except MissingData:
            continue
        except Exception as error:  # somebody's function may fail in any way
            words = str(error).removeprefix("partition ")
            if not isinstance(error, BadPartition):
                words = f"{recipe.partition!r}: {type(error).__name__}: {error}"
            raise StudyError(f"{words}. No cell was run", "data", "partition") from error
