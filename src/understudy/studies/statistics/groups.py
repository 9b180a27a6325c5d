"""Which cells belong together: groups of equal labels, with the references in each.

A cell without a value for a label (None) is a reference: it is in every group it agrees with.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import pandas as pd

from understudy.core.suggestions import closest
from understudy.core.types import Floats
from understudy.studies.definition.cell import Label

Spot = tuple[Label, ...]  # a value for each label but the strategy; None: in every group


class Labelled(Protocol):
    """A cell of a study, wherever it is kept."""

    @property
    def labels(self) -> Mapping[str, Label]: ...

    @property
    def seed(self) -> int: ...

    @property
    def key(self) -> str: ...


@dataclass(frozen=True)
class Address:
    """Where a cell is in its study."""

    strategy: str
    spot: Spot
    seed: int


def together(
    addresses: Sequence[Address], same: Callable[[int, int], bool]
) -> dict[Spot, list[int]]:
    """Spot of each group → positions of its cells, those that say most of their spot first.

    Parameters
    ----------
    addresses : sequence of Address
        Of all cells.
    same : function
        Whether the cells at two positions are the same but for their labels. Of two with one
        address the first counts then; two that differ are an error.
    """
    spots: dict[Spot, None] = {}
    for spot in sorted(dict.fromkeys(one.spot for one in addresses), key=_n_open):
        if not any(_agree(spot, other) for other in spots):
            spots[spot] = None
    groups: dict[Spot, dict[tuple[str, int], int]] = {
        one.spot: {} for one in addresses if one.spot in spots
    }
    # what is said of one spot alone goes before what is said of many
    for position in sorted(range(len(addresses)), key=lambda at: _n_open(addresses[at].spot)):
        one = addresses[position]
        for spot, members in groups.items():
            if not _agree(one.spot, spot):
                continue
            first = members.setdefault((one.strategy, one.seed), position)
            other = addresses[first]
            if _n_open(other.spot) == _n_open(one.spot) and not same(first, position):
                _refuse_two(other)
    return {spot: list(members.values()) for spot, members in groups.items()}


def _n_open(spot: Spot) -> int:
    return sum(label is None for label in spot)


def _agree(reference: Spot, spot: Spot) -> bool:
    return all(a is None or a == b for a, b in zip(reference, spot, strict=True))


def _refuse_two(address: Address) -> None:
    where = ", ".join(str(label) for label in address.spot)
    raise ValueError(
        f"frame: expected one cell for strategy {address.strategy!r} at ({where}) with seed "
        f"{address.seed}, got two with different values: labels must tell cells apart"
    )


# -- cells -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Group:
    """Cells of a study that differ in strategy and seed only.

    Parameters
    ----------
    labels : mapping
        All labels but the strategy.
    varying : tuple of str
        Those in which the groups of the study differ.
    cells : tuple of int
        Positions of its cells among those of the study, references included: by strategy in the
        study's order, then by seed.
    """

    labels: Mapping[str, Label]
    varying: tuple[str, ...]
    cells: tuple[int, ...] = ()


def groups_of(cells: Sequence[Labelled]) -> list[Group]:
    """Groups in the study's order, as `compare` makes them."""
    names = list(
        dict.fromkeys(name for cell in cells for name in cell.labels if name != "strategy")
    )
    addresses = [
        Address(
            str(cell.labels["strategy"]),
            tuple(cell.labels.get(name) for name in names),
            cell.seed,
        )
        for cell in cells
    ]
    found = together(addresses, lambda one, other: cells[one].key == cells[other].key)
    varying = tuple(
        name for place, name in enumerate(names) if len({spot[place] for spot in found}) > 1
    )
    order: dict[str, int] = {}
    for position, address in enumerate(addresses):
        order.setdefault(address.strategy, position)

    def by_strategy(position: int) -> tuple[int, int]:
        return order[addresses[position].strategy], addresses[position].seed

    return [
        Group(dict(zip(names, spot, strict=True)), varying, tuple(sorted(members, key=by_strategy)))
        for spot, members in found.items()
    ]


# -- rows of a frame ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Value:
    """A cell's part in a comparison."""

    strategy: str
    spot: Spot
    seed: int
    value: float
    participants: float
    run: Any = None  # what the cell is known by
    measured: str = ""  # all that was measured of it


def labels_of(frame: pd.DataFrame) -> tuple[str, ...]:
    names = [str(name) for name in frame.columns]
    if "strategy" not in names or "seed" not in names:
        raise ValueError(
            "frame: expected the columns strategy and seed, as results(path, level='run') has "
            f"them, got {', '.join(names) or 'no columns'}"
        )
    given = frame.attrs.get("labels")
    if given is not None:
        return tuple(str(name) for name in given if name in names)
    return tuple(names[: names.index("seed")])


def grouping_of(labels: tuple[str, ...], by: str | Sequence[str] | None) -> tuple[str, ...]:
    others = [name for name in labels if name != "strategy"]
    if by is None:
        return tuple(others)
    wanted = (by,) if isinstance(by, str) else tuple(by)
    for name in wanted:
        expect("by", name, others)
    return wanted


def expect(parameter: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        close = closest(name, known)
        meant = "" if close is None else f"; did you mean {close!r}?"
        allowed = ", ".join(known) or "(there is none)"
        raise ValueError(f"{parameter}: expected one of {allowed}, got {name!r}{meant}")


def column_of(frame: pd.DataFrame, name: str) -> Floats:
    try:
        return np.asarray(frame[name].to_numpy(dtype=np.float64, na_value=np.nan))
    except (TypeError, ValueError):
        raise ValueError(f"metric: expected a column of numbers, got {name!r}") from None


def values_of(done: pd.DataFrame, labels: Sequence[str], metric: str) -> list[Value]:
    numbers = column_of(done, metric)
    came = column_of(done, "participants") if "participants" in done else np.full(len(done), np.nan)
    columns = [[_label(value) for value in done[name]] for name in labels]
    spots = list(zip(*columns, strict=True)) if columns else [()] * len(done)
    return [
        Value(str(strategy), spot, int(seed), float(value), float(participants))
        for strategy, spot, seed, value, participants in zip(
            done["strategy"], spots, done["seed"], numbers, came, strict=True
        )
    ]


def _label(value: Any) -> Label:
    """A label as Python has it; None for all that a DataFrame makes of None."""
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return None
    plain: Label = value.item() if isinstance(value, np.generic) else value
    # a column of whole numbers in which one is missing comes back as floats
    return int(plain) if isinstance(plain, float) and plain.is_integer() else plain


def joined(values: list[Value]) -> list[Value]:
    """Every value at a spot of its own; references at all spots they agree with."""

    def equal(one: int, other: int) -> bool:
        a, b = values[one].value, values[other].value
        return a == b or (math.isnan(a) and math.isnan(b))

    groups = together([Address(one.strategy, one.spot, one.seed) for one in values], equal)
    return [
        replace(values[position], spot=spot)
        for spot, members in groups.items()
        for position in sorted(members, key=lambda at: values[at].seed)
    ]


def grouped(values: Iterable[Value], width: int) -> dict[Spot, list[Value]]:
    """Values by the first `width` labels of their spots."""
    groups: dict[Spot, list[Value]] = {}
    for value in values:
        groups.setdefault(value.spot[:width], []).append(value)
    return groups
