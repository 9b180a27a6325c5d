"""Which cells are compared with which: groups of equal labels, with the references in each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from understudy.core.suggestions import closest
from understudy.core.types import Floats
from understudy.studies.definition.cell import Label

Spot = tuple[Label, ...]  # a value for each label but the strategy; None: in every group


@dataclass(frozen=True)
class Value:
    """A cell's part in a comparison."""

    strategy: str
    spot: Spot
    seed: int
    value: float
    participants: float
    origin: Spot | None = None  # of a joined one: the spot it came with, which names its cell


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
    spots: dict[Spot, None] = {}
    for spot in sorted(dict.fromkeys(value.spot for value in values), key=_n_open):
        if not any(_agree(spot, other) for other in spots):
            spots[spot] = None
    order = list(dict.fromkeys(value.spot for value in values if value.spot in spots))
    placed: dict[tuple[str, Spot, int], Value] = {}
    # what is said of one spot alone goes before what is said of many
    for value in sorted(values, key=lambda value: _n_open(value.spot)):
        for spot in order:
            key = (value.strategy, spot, value.seed)
            if not _agree(value.spot, spot):
                continue
            there = placed.get(key)
            if there is None:
                placed[key] = value
            elif _n_open(there.spot) == _n_open(value.spot):
                _refuse_two(there, value)
    position = {spot: place for place, spot in enumerate(order)}
    ordered = sorted(placed.items(), key=lambda item: (position[item[0][1]], item[0][2]))
    return [
        Value(strategy, spot, seed, value.value, value.participants, value.spot)
        for (strategy, spot, seed), value in ordered
    ]


def _n_open(spot: Spot) -> int:
    return sum(label is None for label in spot)


def _agree(reference: Spot, spot: Spot) -> bool:
    return all(a is None or a == b for a, b in zip(reference, spot, strict=True))


def _refuse_two(first: Value, second: Value) -> None:
    one, other = first.value, second.value
    if one == other or (math.isnan(one) and math.isnan(other)):
        return
    where = ", ".join(str(label) for label in first.spot)
    raise ValueError(
        f"frame: expected one cell for strategy {first.strategy!r} at ({where}) with seed "
        f"{first.seed}, got two with different values: labels must tell cells apart"
    )


def grouped(values: Iterable[Value], width: int) -> dict[Spot, list[Value]]:
    groups: dict[Spot, list[Value]] = {}
    for value in values:
        groups.setdefault(value.spot[:width], []).append(value)
    return groups
