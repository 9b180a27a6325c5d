"""Who holds which examples."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import torch

from understudy.core import checks
from understudy.core.csv_files import faults_of
from understudy.core.types import Floats, Ints, Population
from understudy.memory.pixels import inputs_of, stored_of
from understudy.simulation.data.client_tests import matched_tests, own_tests
from understudy.simulation.data.partitions import Partition
from understudy.simulation.data.shared_memory import Shared

if TYPE_CHECKING:
    import numpy.typing as npt


PADDING = -100  # a label that is none: what torch's cross_entropy ignores
_one_at_a_time = threading.Lock()  # while data move to shared memory: runs may be in threads


@dataclass(frozen=True, eq=False)
class Federation:
    """The data once, and index arrays that say who holds what.

    Parameters
    ----------
    x : (n, …) tensor
        All inputs. Images of a `Dataset` are `Pixels`, kept as bytes: a tensor of float32 to all
        that is done with it, but it cannot be written to.
    y : (n, …) tensor
        All labels, int64 in 0 .. C-1; or the targets of a regression, of a floating type. Sequences
        of labels (n, length) may be padded with -100, which cross_entropy and accuracy ignore. They
        are passed to the loss as they are, but for built-in models, which give (batch, 1) for one
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
    test_clients : (len(test),) int array, optional
        Whose each test example is; -1: nobody's. A client's own accuracy is then measured on its
        own test examples, and a client that has none gets no number.

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
    test_clients: Ints | None = None

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
        if self.test_clients is not None:
            object.__setattr__(self, "test_clients", self._checked_owners(self.test_clients))
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

    def _checked_owners(self, given: Ints) -> Ints:
        owners = checks.array("test_clients", given, (len(self.test),), int)
        low, high = int(owners.min()), int(owners.max())
        if low < -1 or not 0 <= high < self.n_clients:
            raise ValueError(
                f"test_clients: expected clients in 0 .. {self.n_clients - 1}, or -1 for nobody's, "
                f"and somebody's at least once, got {low} .. {high}"
            )
        return owners

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
        if y.ndim > 1 and n:
            padded = y == PADDING
            alone = padded.flatten(1).all(dim=1)
            if alone.any():
                raise ValueError(
                    f"y[{int(alone.nonzero()[0])}]: expected at least one label, got padding only"
                )
            y = y[~padded] if padded.any() else y
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
            f"{len(self.test):,} for testing{self._whose()}",
            f"inputs of shape {tuple(self.x.shape[1:])}",
            f"{self.n_classes} classes" if self.n_classes else "regression",
        ]
        if self.validation is not None:
            parts.insert(2, f"{len(self.indices('validation')):,} for validation")
        return f"<Federation{f' {self.name!r}' if self.name else ''}: {', '.join(parts)}>"

    def _whose(self) -> str:
        if self.test_clients is None:
            return ""
        n_owners = len(np.unique(self.test_clients[self.test_clients >= 0]))
        whose = "each client's" if n_owners == self.n_clients else f"{n_owners} clients'"
        return f" ({whose} own)"

    def __getstate__(self) -> dict[str, Any]:
        # shared memory belongs to the process that made it
        held = dict(self.__dict__)  # at once: another thread may be adding to it
        return {name: value for name, value in held.items() if not name.startswith("_")}

    @classmethod
    def from_arrays(
        cls,
        x: npt.ArrayLike | torch.Tensor,
        y: npt.ArrayLike | torch.Tensor,
        *,
        clients: npt.ArrayLike | Sequence[npt.ArrayLike] | Partition,
        test: float | tuple[Any, ...] = 0.2,
        validation: float = 0.0,
        seed: int = 0,
        dtype: torch.dtype | None = None,
        name: str = "",
    ) -> Self:
        """A federation from arrays in memory, which are copied.

        Parameters
        ----------
        x : (n, …) array or tensor
            Inputs. Whole numbers stay whole (int64), such as the words of a text; bytes (uint8) are
            taken for pixels and divided by 255.
        y : (n,) or (n, …) array or tensor
            Whole numbers: labels from 0 on. Text: names of classes, in alphabetical order. Numbers
            with a fraction (a floating type, whatever the values): targets of a regression.
        clients : (n,) array of ids, list of index arrays, or Partition
            Who holds what. Ids may be text or any whole numbers; clients are numbered in their
            order, and `names` keeps them.
        test : float, (x, y) or (x, y, clients)
            A share in (0, 1) of each client's own examples, rounded, that is held out: the common
            test set is the union of these, so that it is made up as the federation is, and
            `test_clients` says whose each is. Or a test set of its own; a third array, of clients'
            ids, says whose its examples are (ids that no client has: nobody's).
        validation : float
            A share in [0, 1) of each client's own examples, counted before any are held out for
            testing, that it keeps for validation.
        seed : int
            Which examples are held out.
        dtype : torch.dtype, optional
            Type of the inputs; by default int64 for whole numbers, else float32. A run converts
            whole numbers for a model that takes none, as all built-in ones.
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
        from understudy.simulation.data import user_data

        return cls(**user_data.from_arrays(x, y, clients, test, validation, seed, dtype), name=name)

    @classmethod
    def from_datasets(
        cls,
        datasets: Sequence[Any] | Mapping[str, Any],
        *,
        test: float | Any = 0.2,
        validation: float = 0.0,
        seed: int = 0,
        x_key: str | None = None,
        y_key: str | None = None,
        dtype: torch.dtype | None = None,
        name: str = "",
    ) -> Self:
        """A federation from one data set per client, each read through once.

        Parameters
        ----------
        datasets : list, or dict
            For each client (of a dict: by its name), anything with a length and items by number:
            torch data sets, and what ``flwr-datasets`` and ``datasets`` return. Items are pairs
            (x, y) or dictionaries.
            Pictures (of PIL) become channels first, in [0, 1]. What an item's transform draws is
            drawn once.
        test : float, a data set, or a dict of them
            As in `from_arrays`; of a dict, each client's own.
        validation, seed, dtype, name
            As in `from_arrays`.
        x_key, y_key : str, optional
            Keys of input and label where items are dictionaries; by default the usual names, such
            as ``"image"`` and ``"label"``, are looked for.
        """
        from understudy.simulation.data import user_data

        arrays = user_data.from_datasets(
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
        drop: Sequence[str] | str = (),
        encode: Sequence[str] | str = (),
        impute: str | float | Mapping[str, str | float] | None = None,
        standardise: bool | None = None,
        test: float | str | Path | Any = 0.2,
        validation: float = 0.0,
        seed: int = 0,
        name: str = "",
    ) -> Self:
        """A federation from a table with a column that says whose each row is.

        All that is wrong with the table is one error: each column, how many rows, an example, and
        the option that settles it.

        Parameters
        ----------
        table : pandas.DataFrame, or path of a CSV file
            One row for each example.
        client : str
            The column with the client's name.
        label : str
            The column with the label, or the target of a regression (a floating type).
        features : list of str, optional
            The columns with the inputs; by default all others.
        drop : list of str
            Columns to leave out, such as ids and dates.
        encode : list of str, or "auto"
            Columns of categories, each of which becomes an input of 0 or 1, in the order of the
            alphabet; ``"auto"``: all columns of words. A category that no training row has is 0
            everywhere.
        impute : {"median", "mean", "most_frequent"}, number, or dict, optional
            What gaps are filled with; a dict: for each column its own. Gaps of encoded columns are
            filled with the most frequent category.
        standardise : bool, optional
            True: each column of numbers is brought to mean 0 and standard deviation 1. By default
            it is not, with a warning where inputs are large or of unequal size; False: no warning.
        test : float, table or path
            As in `from_arrays`; a table needs no column of clients. Where it has one,
            `test_clients` says whose its rows are.
        validation, seed, name
            As in `from_arrays`.

        Notes
        -----
        Medians, means and deviations are those of the rows that clients train on, all clients
        together, so nothing of the test rows leaks. A real federation would have to share them.
        """
        from understudy.simulation.data.table_inputs import TableOptions, from_table

        options = TableOptions(drop, encode, impute, standardise)
        arrays, spoilers = from_table(
            table, client, label, features, test, validation, seed, options
        )
        with faults_of(Path(table) if isinstance(table, str | Path) else None):
            made = cls(**arrays, name=name)
        for line in spoilers:
            warnings.warn(f"from_table: {line}", stacklevel=2)
        return made

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
        return self._with("_in_columns", y=self.y.unsqueeze(1))

    def in_floats(self, dtype: torch.dtype) -> Federation:
        """The same, with inputs of a floating type."""
        return self._with(f"_in_{dtype}", x=self.x.to(dtype))

    def _with(self, name: str, **changes: Any) -> Federation:
        """Made once, and kept under a name: runs share its shared memory."""
        if name not in self.__dict__:
            self.__dict__[name] = replace(self, **changes)
        result: Federation = self.__dict__[name]
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
            names=self.names,
        )

    @property
    def per_client_test(self) -> Literal["own", "matched"]:
        """What each client's accuracy is measured on: its own test examples, or a matched draw."""
        return "matched" if self.test_clients is None else "own"

    def client_tests(self, seed: int = 0) -> tuple[Ints, ...]:
        """A test set for each client, ascending.

        Where it is known whose the test examples are (`test_clients`), a client's own: none for a
        client that has none. Elsewhere the common test set in the proportions of its labels: of
        each class as many examples are drawn as make the client's training proportions, and
        altogether as many as the test set allows: the class of which the client has most, compared
        with the test set, is used up. They are drawn without replacement, since a repeated example
        tells nothing new and would make accuracies look surer than they are. A class that the test
        set lacks is left out. The two are never mixed within a federation.

        Parameters
        ----------
        seed : int
            Which examples are drawn, where they are drawn.
        """
        if self.test_clients is not None:
            return own_tests(self.test, self.test_clients, self.n_clients)
        return matched_tests(self, seed)

    def shared(self) -> tuple[Shared, Shared]:
        """x (or its bytes, one after the other) and y in shared memory, for worker processes.

        They are copied once.
        """
        with _one_at_a_time:
            if "_shared" not in self.__dict__:
                stored, scaling = stored_of(self.x)
                shape = self.x.shape
                # rows of a matrix would be laid at multiples of 64 bytes, and bytes lie densely
                x = Shared.of(stored if scaling is None else stored.reshape(-1))
                y = Shared.of(self.y)
                self.__dict__["_shared"] = x, y
                # the same values: this process's own copy of the data is let go
                kept = x.tensor if scaling is None else x.tensor.view(shape)
                self.__dict__["x"], self.__dict__["y"] = inputs_of(kept, scaling), y.tensor
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
