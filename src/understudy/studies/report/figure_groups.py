"""Cells of a study that differ in strategy and seed only: what one picture shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from understudy.studies.definition.cell import Label
from understudy.studies.statistics.groups import Value, grouped, joined
from understudy.studies.statistics.text_table import label_word
from understudy.studies.store.store import StoredCell


@dataclass(frozen=True)
class Group:
    """One group.

    Parameters
    ----------
    labels : mapping
        All labels but the strategy.
    told : tuple of str
        Those in which the groups of the study differ.
    cells : tuple of int
        Positions of its cells among those of the study, references included.
    """

    labels: Mapping[str, Label]
    told: tuple[str, ...]
    cells: tuple[int, ...] = ()

    @property
    def title(self) -> str:
        """What tells it from the others, in words; empty where it is the only one."""
        return ", ".join(f"{name} {label_word(self.labels[name])}" for name in self.told)


def groups_of(cells: Sequence[StoredCell]) -> list[Group]:
    """Groups in the study's order, as `compare` makes them.

    A cell without a value for a label (None) is a reference: it is in every group it agrees with.
    """
    names = list(
        dict.fromkeys(name for cell in cells for name in cell.labels if name != "strategy")
    )
    first: dict[str, int] = {}  # cells with the same configuration are the same run
    values = [
        Value(
            str(cell.labels["strategy"]),
            tuple(cell.labels.get(name) for name in names),
            cell.seed,
            value=first.setdefault(cell.key, position),
            participants=0.0,
        )
        for position, cell in enumerate(cells)
    ]
    found = grouped(joined(values), len(names))
    told = tuple(
        name for place, name in enumerate(names) if len({spot[place] for spot in found}) > 1
    )
    order = {str(cell.labels["strategy"]): place for place, cell in reversed([*enumerate(cells)])}
    return [
        Group(
            dict(zip(names, spot, strict=True)),
            told,
            tuple(
                _position(value, cells, names)
                for value in sorted(members, key=lambda one: (order[one.strategy], one.seed))
            ),
        )
        for spot, members in found.items()
    ]


def _position(value: Value, cells: Sequence[StoredCell], names: Sequence[str]) -> int:
    """Where the cell stands that a value was made of: not its twin under another label."""
    key = cells[int(value.value)].key
    for position, cell in enumerate(cells):
        spot = [cell.labels.get(name) for name in names]
        if (str(cell.labels["strategy"]), cell.seed, cell.key) == (value.strategy, value.seed, key):
            pairs = zip(spot, value.spot, strict=True)
            if all(label is None or label == wanted for label, wanted in pairs):
                return position
    raise AssertionError(f"no cell of key {key}")  # each value was made of one
