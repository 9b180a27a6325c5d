"""Who holds which examples."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import torch

from understudy.core import checks
from understudy.core.csv_files import faults_of
from understudy.core.rng import generator
from understudy.core.types import Floats, Ints, Population
from understudy.simulation.data.partitions import Partition, apportion
from understudy.simulation.data.shared_memory import Shared

if TYPE_CHECKING:
    import numpy.typing as npt


_one_at_a_time = threading.Lock()  # while data move to shared memory: runs may be in threads


@dataclass(frozen=True, eq=False)
class Federation:
    """The data once, and index arrays that say who holds what.

    Parameters
    ----------
    x : (n, …) tensor
        All inputs.
    y : (n, …) tensor
        All labels, int64 in 0 .. C-1; or the targets of a regression, of a floating type. They are
        passed to the loss as they are, but for built-in models, which give (batch, 1) for one
        target: there, targets of shape (n,) become (n, 1).
    clients : tuple of (n_i,) int arrays
        The examples each client trains on; no client is empty.
    test : int array
        The examples the global model is evaluated on; no client trains on one of them.
    groups : (N,) int array, optional
        Cluster of each client, where there are clusters.
    n_classes : int, optional
        C; by default the largest label + 1. Always 0 for a regression.
    validation : tuple of int arrays, optional
        Examples of each client that it does not train on, and that are not in `test`; some of these
        arrays may be empty, not all.
    features : (N, f) array, optional
        What describes each client's data, for the graph of FedGS.
    names : tuple of str, optional
        What the clients are called elsewhere.
    classes : tuple of str, optional
        What the C classes are called.
    name : str
        What the whole is called.

    Notes
    -----
    Two clients may train on the same example. For everything else that is split, the same index in
    two parts is an error.
    """

    x: torch.Tensor
    y: torch.Tensor
    clients: tuple[Ints, ...]
    test: Ints
    groups: Ints | None = None
    n_classes: int = 0
    validation: tuple[Ints, ...] | None = None
    features: Floats | None = None
    names: tuple[str, ...] | None = None
    classes: tuple[str, ...] | None = None
    name: str = ""

    def __post_init__(self) -> None:
        n, n_clients = len(self.x), len(self.clients)
        if not n_clients:
            raise ValueError("clients: expected at least one client, got none")
        self._check_labels(n)
        object.__setattr__(self, "test", _indices("test", self.test, n))
        for part in ("clients", "validation"):
            if getattr(self, part) is not None:
                self._check_held(part, n, n_clients)
        self._check_disjoint(n)
        if self.groups is not None:
            object.__setattr__(
                self, "groups", checks.array("groups", self.groups, (n_clients,), int)
            )
        if self.features is not None:
            features = checks.array("features", self.features, (n_clients, None), float)
            object.__setattr__(self, "features", features)
        lengths = (("names", self.names, n_clients), ("classes", self.classes, self.n_classes))
        for what, given, length in lengths:
            if given is None:
                continue
            if len(given) != length:
                raise ValueError(f"{what}: expected {length} of them, got {len(given)}")
            object.__setattr__(self, what, tuple(given))

    def _check_labels(self, n: int) -> None:
        y = self.y
        if not y.ndim or len(y) != n or not (y.dtype == torch.int64 or y.is_floating_point()):
            raise ValueError(
                f"y: expected {n} labels of int64, or targets of a floating type, got {y.dtype} of "
                f"shape {tuple(y.shape)}"
            )
        if y.is_floating_point():
            if self.n_classes:
                raise ValueError(
                    f"n_classes: expected none, since y is {y.dtype}: the targets of a regression; "
                    f"got {self.n_classes}"
                )
            return
        low, high = (int(end) for end in torch.aminmax(y)) if n else (0, -1)
        checks.integer("n_classes", self.n_classes, low=0)
        if low < 0 or (self.n_classes and high >= self.n_classes):
            upper = f"0 .. {self.n_classes - 1}" if self.n_classes else "0 or more"
            raise ValueError(f"y: expected labels of {upper}, got {low} .. {high}")
        object.__setattr__(self, "n_classes", int(self.n_classes) or high + 1)

    def _check_held(self, part: str, n: int, n_clients: int) -> None:
        held = getattr(self, part)
        if len(held) != n_clients:
            raise ValueError(f"{part}: expected {n_clients} index arrays, got {len(held)}")
        empty = part == "validation"
        arrays = tuple(_indices(f"{part}[{i}]", mine, n, empty) for i, mine in enumerate(held))
        if not any(len(mine) for mine in arrays):
            raise ValueError(f"{part}: expected at least one example, got none at all")
        object.__setattr__(self, part, arrays)

    def _check_disjoint(self, n: int) -> None:
        trained = np.zeros(n, dtype=bool)
        trained[np.concatenate(self.clients)] = True
        _refuse_shared("test", self.test, trained, "no client trains on", "one does")
        if self.validation is None:
            return
        validation = np.concatenate(self.validation)
        _refuse_shared("validation", validation, trained, "no client trains on", "one does")
        tested = np.zeros(n, dtype=bool)
        tested[self.test] = True
        _refuse_shared("validation", validation, tested, "are not in test", "are")

    def __repr__(self) -> str:
        """How many clients there are, and how much of what they hold."""
        fewest, most = int(self.sizes.min()), int(self.sizes.max())
        each = f"{fewest:,} each" if fewest == most else f"{fewest:,} to {most:,} each"
        groups = "" if self.groups is None else f" in {len(np.unique(self.groups))} groups"
        parts = [
            f"{self.n_clients:,} client{'s' * (self.n_clients > 1)}{groups}",
            f"{int(self.sizes.sum()):,} training examples ({each})",
            f"{len(self.test):,} for testing",
            f"inputs of shape {tuple(self.x.shape[1:])}",
            f"{self.n_classes} classes" if self.n_classes else "regression",
        ]
        if self.validation is not None:
            parts.insert(2, f"{len(self.indices('validation')):,} for validation")
        return f"<Federation{f' {self.name!r}' if self.name else ''}: {', '.join(parts)}>"

    def __getstate__(self) -> dict[str, Any]:
        # shared memory belongs to the process that made it
        held = dict(self.__dict__)  # at once: another thread may be adding to it
        for name in ("_shared", "_in_columns"):
            held.pop(name, None)
        return held

    @classmethod
    def from_arrays(
        cls,
        x: npt.ArrayLike | torch.Tensor,
        y: npt.ArrayLike | torch.Tensor,
        *,
        clients: npt.ArrayLike | Sequence[npt.ArrayLike] | Partition,
        test: float | tuple[Any, Any] = 0.2,
        validation: float = 0.0,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
        name: str = "",
    ) -> Self:
        """A federation from arrays in memory, which are copied.

        Parameters
        ----------
        x : (n, …) array or tensor
            Inputs, converted to `dtype`; bytes (uint8) are taken for pixels and divided by 255.
        y : (n,) or (n, …) array or tensor
            Whole numbers: labels from 0 on. Text: names of classes, in alphabetical order. Numbers
            with a fraction (a floating type, whatever the values): targets of a regression.
        clients : (n,) array of ids, list of index arrays, or Partition
            Who holds what. Ids may be text or any whole numbers; clients are numbered in their
            order, and `names` keeps them.
        test : float, or (x, y)
            A share in (0, 1) of each client's own examples, rounded, that is held out: the common
            test set is the union of these, so that it is made up as the federation is. Or a test
            set of its own.
        validation : float
            A share in [0, 1) of each client's own examples, counted before any are held out for
            testing, that it keeps for validation.
        seed : int
            Which examples are held out.
        dtype : torch.dtype
            Type of the inputs; ``torch.int64`` for such as the words of a text.
        name : str
            What the whole is called.

        Examples
        --------
        >>> import numpy as np
        >>> from understudy.simulation import Federation
        >>> x, y = np.random.default_rng(0).normal(size=(100, 5)), np.arange(100) % 3
        >>> hospital = np.repeat(["north", "south"], 50)
        >>> federation = Federation.from_arrays(x, y, clients=hospital, test=0.2, validation=0.1)
        >>> federation.names, federation.sizes.tolist(), len(federation.test)
        (('north', 'south'), [35, 35], 20)
        """
        from understudy.simulation.data import user_data as own_data

        return cls(**own_data.from_arrays(x, y, clients, test, validation, seed, dtype), name=name)

    @classmethod
    def from_datasets(
        cls,
        datasets: Sequence[Any],
        *,
        test: float | Any = 0.2,
        validation: float = 0.0,
        seed: int = 0,
        x_key: str | None = None,
        y_key: str | None = None,
        dtype: torch.dtype = torch.float32,
        name: str = "",
    ) -> Self:
        """A federation from one data set per client, each read through once.

        Parameters
        ----------
        datasets : list
            For each client, anything with a length and items by number: torch data sets, and what
            ``flwr-datasets`` and ``datasets`` return. Items are pairs (x, y) or dictionaries.
            Pictures (of PIL) become channels first, in [0, 1]. What an item's transform draws is
            drawn once.
        test : float, or a data set
            As in `from_arrays`.
        validation, seed, dtype, name
            As in `from_arrays`.
        x_key, y_key : str, optional
            Keys of input and label where items are dictionaries; by default the usual names, such
            as ``"image"`` and ``"label"``, are looked for.
        """
        from understudy.simulation.data import user_data as own_data

        arrays = own_data.from_datasets(
            datasets, test, validation, seed, dtype, x_key=x_key, y_key=y_key
        )
        return cls(**arrays, name=name)

    @classmethod
    def from_table(
        cls,
        table: str | Path | Any,
        *,
        client: str,
        label: str,
        features: Sequence[str] | None = None,
        test: float | str | Path | Any = 0.2,
        validation: float = 0.0,
        seed: int = 0,
        name: str = "",
    ) -> Self:
        """A federation from a table with a column that says whose each row is.

        Parameters
        ----------
        table : pandas.DataFrame, or path of a CSV file
            One row for each example.
        client : str
            The column with the client's name.
        label : str
            The column with the label, or the target of a regression (a floating type).
        features : list of str, optional
            The columns with the inputs, all numbers; by default all others.
        test : float, table or path
            As in `from_arrays`; a table needs no column of clients.
        validation, seed, name
            As in `from_arrays`.
        """
        from understudy.simulation.data import user_data as own_data

        arrays = own_data.from_table(table, client, label, features, test, validation, seed)
        with faults_of(Path(table) if isinstance(table, str | Path) else None):
            return cls(**arrays, name=name)

    @property
    def n_clients(self) -> int:
        """N."""
        return len(self.clients)

    @property
    def n_outputs(self) -> int:
        """What a model has to give: C, or the number of targets of a regression."""
        return self.n_classes or prod(self.y.shape[1:])

    @cached_property
    def sizes(self) -> Ints:
        """(N,) training examples of each client."""
        return _fixed(np.array([len(held) for held in self.clients], dtype=np.int64))

    @cached_property
    def label_counts(self) -> Floats | None:
        """(N, C) label histogram of each client's training examples; None without classes."""
        if not self.n_classes or self.y.ndim != 1:
            return None
        labels = self.y.cpu().numpy()[np.concatenate(self.clients)]
        owner = np.repeat(np.arange(self.n_clients), self.sizes)
        cells = np.bincount(
            owner * self.n_classes + labels, minlength=self.n_clients * self.n_classes
        )
        return _fixed(cells.reshape(self.n_clients, self.n_classes).astype(np.float64))

    def in_columns(self) -> Federation:
        """The same, with targets (n,) of a regression as (n, 1); itself where there are none."""
        if self.y.ndim != 1 or not self.y.is_floating_point():
            return self
        if "_in_columns" not in self.__dict__:  # made once: runs share its shared memory
            self.__dict__["_in_columns"] = replace(self, y=self.y.unsqueeze(1))
        result: Federation = self.__dict__["_in_columns"]
        return result

    def indices(self, split: Literal["train", "validation", "test"]) -> Ints:
        """All examples of a split, client by client."""
        checks.choice("split", split, ("train", "validation", "test"))
        if split == "test":
            return self.test
        held = self.clients if split == "train" else self.validation
        if held is None:
            raise ValueError("split: this federation has no validation examples")
        return np.concatenate(held)

    def population(self) -> Population:
        """What a server may know of the clients before they train."""
        return Population(
            n_clients=self.n_clients,
            n_examples=self.sizes.astype(np.float64),
            label_counts=self.label_counts,
            features=self.features,
            groups=self.groups,
        )

    def client_tests(self, seed: int = 0) -> tuple[Ints, ...]:
        """A test set of each client's own: the common one, in the proportions of its labels.

        Of each class as many examples of the common test set are drawn as make the client's
        training proportions, and altogether as many as the test set allows: the class of which the
        client has most, compared with the test set, is used up. They are drawn without
        replacement, since a repeated example tells nothing new and would make accuracies look surer
        than they are. A class that the test set lacks is left out. Ascending.

        Parameters
        ----------
        seed : int
            Which examples are drawn.
        """
        if self.label_counts is None:
            raise ValueError("client_tests: a client's own test set needs classes; y has none")
        labels = self.y.cpu().numpy()[self.test]
        by_class = [self.test[labels == label] for label in range(self.n_classes)]
        supply = np.array([len(examples) for examples in by_class])
        return tuple(
            self._client_test(client, by_class, supply, generator(seed, "client test", 0, client))
            for client in range(self.n_clients)
        )

    def _client_test(
        self, client: int, by_class: list[Ints], supply: Ints, rng: np.random.Generator
    ) -> Ints:
        assert self.label_counts is not None
        mine = np.where(supply > 0, self.label_counts[client], 0).astype(np.int64)
        total = int(mine.sum())
        if not total:
            raise ValueError(f"test: it has no example of the classes of client {client}")
        n_drawn = min(int(supply[c]) * total // int(mine[c]) for c in np.flatnonzero(mine))
        counts = apportion(n_drawn, mine)
        drawn = [
            rng.permutation(examples)[:count]
            for examples, count in zip(by_class, counts, strict=True)
            if count
        ]
        return np.sort(np.concatenate(drawn))

    def shared(self) -> tuple[Shared, Shared]:
        """x and y in shared memory, copied once, for worker processes."""
        with _one_at_a_time:
            if "_shared" not in self.__dict__:
                x, y = self.__dict__["_shared"] = Shared.of(self.x), Shared.of(self.y)
                # the same values: this process's own copy of the data is let go
                self.__dict__["x"], self.__dict__["y"] = x.tensor, y.tensor
            result: tuple[Shared, Shared] = self.__dict__["_shared"]
        return result


def _indices(name: str, held: Ints, n: int, empty: bool = False) -> Ints:
    indices = np.asarray(held)
    if empty and indices.shape == (0,):
        return np.zeros(0, dtype=np.int64)
    if indices.ndim != 1 or not len(indices) or indices.dtype.kind not in "iu":
        raise ValueError(f"{name}: expected a list of at least one whole number, got {held!r}")
    if indices.min() < 0 or indices.max() >= n:
        raise ValueError(
            f"{name}: expected indices in 0 .. {n - 1}, got {indices.min()} .. {indices.max()}"
        )
    return indices.astype(np.int64)


def _refuse_shared(name: str, indices: Ints, taken: npt.NDArray[np.bool_], *words: str) -> None:
    shared = indices[taken[indices]]
    if len(shared):
        raise ValueError(
            f"{name}: expected examples that {words[0]}, got {len(shared)} that {words[1]}, "
            f"such as {shared[0]}"
        )


def _fixed(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array.flags.writeable = False  # computed once and handed out again and again
    return array
