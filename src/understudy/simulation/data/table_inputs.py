"""A federation from a table: columns dropped, encoded, imputed and standardised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import torch

from understudy.core import checks
from understudy.core.csv_files import faults_of
from understudy.core.shown import shown
from understudy.core.types import Floats, Ints
from understudy.simulation.data.table_columns import Column
from understudy.simulation.data.table_problems import (
    Problem,
    client_problems,
    gap_problems,
    input_problems,
    label_problems,
    refuse,
    test_problems,
)
from understudy.simulation.data.tables import DataTable, refuse_unknown_column, table_of
from understudy.simulation.data.user_data import Fields, from_arrays

RULES = ("median", "mean", "most_frequent")
LARGE = 10.0  # size of an input from which gradient steps at usual rates go wrong
FEW_TARGETS = 10  # different targets up to which whole ones may be classes
UNEQUAL = 100.0  # ratio of the sizes of two inputs from which one is hardly learnt

Impute = str | float | Mapping[str, str | float] | None


@dataclass(frozen=True)
class TableOptions:
    """How columns become inputs; see `Federation.from_table`."""

    drop: Sequence[str] = ()
    encode: Sequence[str] | str = ()
    impute: Impute = None
    standardise: bool | None = None

    def __post_init__(self) -> None:
        for name in ("drop", "encode"):
            given = getattr(self, name)
            if isinstance(given, str) and (name, given) != ("encode", "auto"):
                object.__setattr__(self, name, [given])
        rules = self.impute.values() if isinstance(self.impute, Mapping) else [self.impute]
        for rule in rules:
            if isinstance(rule, str):
                checks.choice("impute", rule, RULES)
            elif rule is not None:
                checks.number("impute", rule)
        if self.standardise not in (None, True, False):
            raise ValueError(f"standardise: expected True or False, got {shown(self.standardise)}")

    def named(self) -> list[tuple[str, str]]:
        """The columns that options name: (option, column)."""
        encode = [] if self.encode == "auto" else self.encode
        impute = self.impute if isinstance(self.impute, Mapping) else ()
        lists = {"drop": self.drop, "encode": encode, "impute": impute}
        return [(option, name) for option, names in lists.items() for name in names]

    def encodes(self, column: Column) -> bool:
        """Whether a column is encoded; by themselves, only categories are."""
        if self.encode == "auto":
            words = column.kind == "categories" and not column.decimal_commas.any()
            return words and not column.id_like
        return column.name in self.encode

    def rule(self, column: Column) -> str | float | None:
        """What the column's gaps are filled with."""
        if isinstance(self.impute, Mapping):
            return self.impute.get(column.name)
        return self.impute


def from_table(
    table: Any,
    client: str,
    label: str,
    features: Sequence[str] | None,
    test: Any,
    validation: float,
    seed: int,
    options: TableOptions,
) -> tuple[Fields, list[str]]:
    """See `Federation.from_table`; with lines to warn of."""
    if isinstance(features, str):
        features = [features]
    needed = [("client", client), ("label", label)]
    needed += [*(("features", name) for name in features or ()), *options.named()]
    own = table_of("table", table, client, needed)
    with faults_of(own.path):
        for what, name in needed:
            refuse_unknown_column(what, name, list(own.frame.columns))
        clients, labels = (Column(name, own.column(what, name)) for what, name in needed[:2])
        columns = _inputs(own, client, label, features, options)
        problems = [*client_problems(clients), *label_problems(labels)]
        for column in columns:
            filled = options.rule(column) is not None
            problems += input_problems(
                column, options.encodes(column), filled, features is not None
            )
        encoded = [column.name for column in columns if options.encodes(column)]
        refuse(own, problems, options.drop, encoded)
    tested: list[Column] = []
    if not isinstance(test, Real):
        tested, test = _tested(test, client, label, columns, options, len(labels.values))
    with faults_of(own.path):
        # rows stand for their inputs until it is known who trains on which
        rows = np.arange(len(labels.values))
        fields = from_arrays(rows, labels.values, clients.values, test, validation, seed, None)
        trained = np.unique(np.concatenate(fields["clients"]))
        fields["x"] = _as_inputs(columns, tested, trained, options)
    return fields, _spoilers(fields, labels, columns, options)


def _inputs(
    table: DataTable, client: str, label: str, features: Sequence[str] | None, options: TableOptions
) -> list[Column]:
    for option, name in options.named():
        if name in (client, label):
            role = "clients" if name == client else "label"
            raise ValueError(f"{option}: expected a column of inputs, got that of the {role}")
    if features is None:
        features = [name for name in table.frame.columns if name not in (client, label)]
    names = [name for name in features if name not in options.drop]
    if not names:
        raise ValueError("features: expected at least one column of inputs, got none")
    return [Column(name, table.column("features", name)) for name in names]


def _tested(
    test: Any,
    client: str,
    label: str,
    columns: Sequence[Column],
    options: TableOptions,
    n_rows: int,
) -> tuple[list[Column], tuple[Any, ...]]:
    """The same columns of a table to test with; its rows, labels and, if it has them, clients."""
    names = [("test", name) for name in (label, *(column.name for column in columns))]
    other = table_of("test", test, client, names)
    with faults_of(other.path):
        labels, *tested = (Column(name, other.column(what, name)) for what, name in names)
        problems: list[Problem] = gap_problems("test", labels)
        for column, own in zip(tested, columns, strict=True):
            filled = options.rule(own) is not None
            problems += test_problems(column, options.encodes(own), filled)
        refuse(other, problems, options.drop, ())
        rows = np.arange(n_rows, n_rows + len(labels.values))
        if client not in other.frame.columns:
            return tested, (rows, labels.values)
        ids = other.column("test", client)
        if ids.dtype.kind == "f":  # as pandas has whole numbers beside a gap
            ids = Column(client, ids).words
        return tested, (rows, labels.values, ids)


def _as_inputs(
    columns: Sequence[Column], tested: Sequence[Column], trained: Ints, options: TableOptions
) -> torch.Tensor:
    """(n, f) inputs; what is reckoned from the data is reckoned from the training rows alone."""
    changed = options.standardise or any(options.encodes(column) for column in columns)
    if not changed and all(column.whole for column in (*columns, *tested)):
        tables = [np.array([one.values for one in part]).T for part in (columns, tested) if part]
        return torch.tensor(np.concatenate(tables).astype(np.int64))
    inputs: list[Floats] = []
    for place, column in enumerate(columns):
        both = [column, *tested[place : place + 1]]
        if options.encodes(column):
            codes = np.concatenate([one.codes(column.categories) for one in both])
            codes = _imputed(column, codes, trained, "most_frequent")
            # 0 everywhere for a category without a training row: nothing is learnt of it, and its
            # input stays, so that models fit whichever rows are held out
            seen = np.isin(np.arange(len(column.categories)), codes[trained])
            known = codes[:, None] == np.where(seen, np.arange(len(column.categories)), np.nan)
            inputs.append(known.astype(np.float64))
            continue
        values = np.concatenate([one.numbers for one in both])
        values = _imputed(column, values, trained, options.rule(column))
        if options.standardise:
            own = values[trained]
            # of equal numbers rounding leaves a deviation, but not a range
            values = (values - own.mean()) / (own.std() if np.ptp(own) > 0 else 1.0)
        inputs.append(values[:, None])
    return torch.tensor(np.concatenate(inputs, axis=1).astype(np.float32))


def _imputed(column: Column, values: Floats, trained: Ints, rule: str | float | None) -> Floats:
    gaps = np.isnan(values)
    if not gaps.any() or rule is None:
        return values
    known = values[trained][~gaps[trained]]
    if isinstance(rule, str) and not len(known):
        raise ValueError(
            f"impute: column {shown(column.name)} has no value in the rows that clients train on; "
            f"drop=[{shown(column.name)}], or a number for it"
        )
    if rule == "most_frequent":
        found, counts = np.unique(known, return_counts=True)
        fill = float(found[counts.argmax()])
    elif isinstance(rule, str):
        fill = float(np.median(known) if rule == "median" else known.mean())
    else:
        fill = float(rule)
    return np.where(gaps, fill, values)


def _spoilers(
    fields: Fields, labels: Column, columns: Sequence[Column], options: TableOptions
) -> list[str]:
    """What is no mistake, and still spoils results: one line each."""
    told = []
    owners, n_clients = fields["test_clients"], len(fields["clients"])
    bare = [] if owners is None else np.setdiff1d(np.arange(n_clients), owners).tolist()
    if bare:
        name = str(bare[0]) if fields["names"] is None else fields["names"][bare[0]]
        told.append(
            f"{len(bare)} of {n_clients} clients have no rows to be tested on, such as "
            f"{shown(name)}: they get no accuracy of their own"
        )
    told += _unlikely_classes(labels, fields["classes"])
    if fields["y"].dtype == torch.int64:
        words, counts = np.unique(labels.words, return_counts=True)
        if (counts == 1).any():
            told.append(
                f"label: {int((counts == 1).sum())} of {len(words)} classes have one row only, "
                f"such as {shown(str(words[counts.argmin()]))}: too few to learn and to test"
            )
    if options.standardise is None:
        trained = np.unique(np.concatenate(fields["clients"]))
        told += _sizes(trained, [one for one in columns if not options.encodes(one)])
    return told


def _unlikely_classes(labels: Column, names: Sequence[str] | None) -> list[str]:
    """Labels that are read as classes, or as targets, against their likely meaning."""
    if names is not None or labels.values.dtype.kind not in "iuf":
        return []
    found = np.unique(labels.numbers)
    told = f"label: column {shown(labels.name)}"
    if labels.values.dtype.kind == "f":
        if len(found) > FEW_TARGETS or (found != found.round()).any():
            return []
        values = ", ".join(f"{value:g}" for value in found)
        told += f" holds only {values}, of a floating type: targets of a regression. Classes are "
        return [told + "whole numbers (astype(int)) or text"]
    n_classes = int(found[-1]) + 1
    if n_classes == len(found):
        return []
    told += f" holds {len(found):,} different whole numbers, which are classes counted from 0: "
    told += f"{n_classes - len(found):,} of {n_classes:,} classes have no row. Number them from 0, "
    told += "or write them as text (astype(str)); a number to be predicted is of a floating type"
    return [told]


def _sizes(trained: Ints, columns: Sequence[Column]) -> list[str]:
    """Inputs so large, or so unequal, that gradient steps learn little from them."""
    sizes = {}
    for column in columns:
        values = column.numbers[trained]
        values = values[~np.isnan(values)]
        if not np.isin(values, (0.0, 1.0)).all():
            sizes[column.name] = float(np.sqrt(np.mean(values**2)))
    large, small = (find(sizes, key=sizes.__getitem__, default="") for find in (max, min))
    if not sizes or (sizes[large] <= LARGE and sizes[large] <= UNEQUAL * sizes[small]):
        return []
    told = {
        name: f"{size:,.0f}" if size >= LARGE else f"{size:.2g}" for name, size in sizes.items()
    }
    other = f", {shown(small)} about {told[small]}" if small != large else ""
    words = f"inputs are large or of unequal size ({shown(large)} is about {told[large]}"
    words += f"{other}): gradient steps learn little from such. standardise=True brings each to "
    return [words + "mean 0 and deviation 1; standardise=False says that they are meant so"]
