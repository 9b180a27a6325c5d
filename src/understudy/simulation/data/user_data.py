"""A user's own data: arrays and data sets, turned into the fields of a `Federation`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from understudy.core import checks
from understudy.core.rng import generator
from understudy.core.shown import shown
from understudy.core.types import Ints
from understudy.memory.pixels import ByteScale, Pixels
from understudy.simulation.data.partitions import Partition

X_KEYS = ("image", "img", "x", "features", "input", "inputs", "pixel_values", "data")
Y_KEYS = ("label", "labels", "y", "target", "targets", "fine_label")

Fields = dict[str, Any]


def from_arrays(
    x: Any, y: Any, clients: Any, test: Any, validation: float, seed: int, dtype: torch.dtype | None
) -> Fields:
    """See `Federation.from_arrays`."""
    inputs = as_inputs("x", x, dtype)
    labels, classes = as_labels("y", y)
    n = len(inputs)
    if len(labels) != n:
        raise ValueError(f"y: expected {n} labels, as many as there are inputs, got {len(labels)}")
    held, groups, names = dealt(clients, n)
    owners: Ints | None
    if isinstance(test, Real):
        checks.number("test", test, low=0, high=1, low_open=True, high_open=True)
        train, kept, held_out = split(held, float(test), validation, seed)
        tested = np.concatenate(held_out)
        if not len(tested):
            raise ValueError(f"test: a share of {test:g} of so few examples holds out none")
        order = np.argsort(tested, kind="stable")
        owners = np.repeat(np.arange(len(held)), [len(mine) for mine in held_out])[order]
        tested = tested[order]
    else:
        train, kept, _ = split(held, 0.0, validation, seed)
        inputs, labels = _with_test(inputs, labels, classes, test, dtype)
        tested = np.arange(n, len(inputs))
        owners = _owners(test[2], names, len(held), len(tested)) if len(test) == 3 else None
    if validation and not any(len(mine) for mine in kept):
        raise ValueError(f"validation: a share of {validation:g} of so few examples keeps none")
    if isinstance(inputs, Pixels):
        inputs = inputs.laid_out(np.concatenate([*train, *kept, tested]))
    return {
        "x": inputs,
        "y": labels,
        "clients": train,
        "validation": kept if validation else None,
        "test": tested,
        "test_clients": owners,
        "groups": groups,
        "names": names,
        "classes": classes,
        "n_classes": len(classes) if classes else 0,
    }


def from_datasets(
    datasets: Sequence[Any] | Mapping[str, Any],
    test: Any,
    validation: float,
    seed: int,
    dtype: torch.dtype | None,
    *,
    x_key: str | None,
    y_key: str | None,
) -> Fields:
    """See `Federation.from_datasets`."""
    if not len(datasets):
        raise ValueError("datasets: expected at least one data set, got none")
    x, y, clients = _joined("datasets", datasets, x_key, y_key)
    if isinstance(test, Mapping):
        test = _joined("test", test, x_key, y_key)
    elif not isinstance(test, Real):
        inputs, labels = _read("test", test, x_key, y_key)
        test = _stacked([("test", inputs)]), np.array(labels)
    if not isinstance(datasets, Mapping):
        clients = Partition(tuple(np.flatnonzero(clients == i) for i in range(len(datasets))), None)
    return from_arrays(x, y, clients, test, validation, seed, dtype)


def _joined(
    name: str, datasets: Sequence[Any] | Mapping[str, Any], x_key: str | None, y_key: str | None
) -> tuple[npt.NDArray[Any], npt.NDArray[Any], Any]:
    """Inputs and labels of all data sets, and the name or number of the one each is from."""
    named = dict(datasets) if isinstance(datasets, Mapping) else dict(enumerate(datasets))
    read = {key: _read(f"{name}[{key!r}]", data, x_key, y_key) for key, data in named.items()}
    x = _stacked([(f"{name}[{key!r}]", inputs) for key, (inputs, _) in read.items()])
    y = np.array([label for _, labels in read.values() for label in labels])
    return x, y, np.repeat(list(read), [len(labels) for _, labels in read.values()])


def as_inputs(name: str, values: Any, dtype: torch.dtype | None) -> torch.Tensor:
    """(n, …) a copy as a tensor; bytes are numbers in [0, 1].

    Without a type, whole numbers are int64 and all else is float32.
    """
    array = _array(name, values)
    if array.dtype.kind not in "biuf" or not array.ndim or not len(array):
        raise ValueError(
            f"{name}: expected numbers, one entry for each example, got {array.dtype} of shape "
            f"{array.shape}"
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        row = int(np.argwhere(~np.isfinite(array))[0][0])
        raise ValueError(f"{name}[{row}]: expected finite numbers, got {array[row]!r}")
    if dtype is None:
        whole = array.dtype.kind in "iu" and array.dtype != np.uint8
        dtype = torch.int64 if whole else torch.float32
    if array.dtype == np.uint8 and dtype == torch.float32:
        return Pixels(torch.tensor(array).contiguous(), ByteScale())
    tensor = torch.tensor(array).to(dtype)
    if array.dtype == np.uint8 and dtype.is_floating_point:
        tensor /= 255
    return tensor


def as_labels(
    name: str, values: Any, classes: tuple[str, ...] | None = None
) -> tuple[torch.Tensor, tuple[str, ...] | None]:
    """Labels as int64 (text by its place among the sorted classes), or targets as float32."""
    array = _array(name, values)
    if array.dtype.kind in "OUST":
        words = array.astype(str)
        if array.dtype.kind == "O" and not all(isinstance(value, str) for value in array.flat):
            raise ValueError(f"{name}: expected numbers, or text, got a mixture or missing values")
        known = np.unique(words) if classes is None else np.array(classes)
        codes = np.searchsorted(known, words).clip(max=len(known) - 1)
        strange = known[codes] != words
        if strange.any():
            raise ValueError(f"{name}: no client has the class {str(words[strange][0])!r}")
        return torch.tensor(codes, dtype=torch.int64), tuple(str(word) for word in known)
    if classes is not None or array.dtype.kind not in "biuf":
        expected = "names of classes" if classes is not None else "numbers or text"
        raise ValueError(f"{name}: expected {expected}, got {array.dtype}")
    if array.dtype.kind == "f":
        if not np.isfinite(array).all():
            raise ValueError(f"{name}: expected finite numbers, got NaN or infinity")
        return torch.tensor(array, dtype=torch.float32), None
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]  # a column of labels is meant as labels
    return torch.tensor(array, dtype=torch.int64), None


def dealt(clients: Any, n: int) -> tuple[tuple[Ints, ...], Ints | None, tuple[str, ...] | None]:
    """Index arrays, groups, names from ids, index arrays or a `Partition`."""
    if isinstance(clients, Partition):
        return clients.clients, clients.groups, None
    if not isinstance(clients, (np.ndarray, torch.Tensor)):
        clients = list(clients)
        if clients and not isinstance(clients[0], str) and np.ndim(clients[0]):
            return tuple(np.asarray(held, dtype=np.int64) for held in clients), None, None
    ids = np.asarray(clients)
    if ids.shape != (n,) or ids.dtype.kind not in "biuOUST":
        raise ValueError(
            f"clients: expected a client's id for each of the {n} examples, or a list of index "
            f"arrays, got {ids.dtype} of shape {ids.shape}"
        )
    if ids.dtype.kind not in "biu":
        ids = ids.astype(str)
        if all(word.isdecimal() and str(int(word)) == word for word in np.unique(ids)):
            ids = ids.astype(np.int64)  # 2 comes before 10
    known, owner = np.unique(ids, return_inverse=True)
    order = np.argsort(owner, kind="stable")
    held = tuple(np.split(order, np.cumsum(np.bincount(owner))[:-1]))
    if known.dtype.kind in "iu" and np.array_equal(known, np.arange(len(known))):
        return held, None, None
    return held, None, tuple(str(name) for name in known)


def split(
    held: Sequence[Ints], test: float, validation: float, seed: int
) -> tuple[tuple[Ints, ...], tuple[Ints, ...], tuple[Ints, ...]]:
    """Each client's examples for training, validation and test; all ascending.

    Shares are of all that a client holds, rounded; one example at least stays for training.
    """
    checks.number("validation", validation, low=0, high=1, high_open=True)
    if test + validation >= 1:
        raise ValueError(
            f"validation: expected a sum with test below 1, got {validation:g} + {test:g}"
        )
    parts: tuple[list[Ints], list[Ints], list[Ints]] = ([], [], [])
    for client, mine in enumerate(held):
        if not len(mine):
            raise ValueError(f"clients[{client}]: expected at least one example, got none")
        order = generator(seed, "hold out", 0, client).permutation(np.asarray(mine))
        n_test = min(round(test * len(mine)), len(mine) - 1)
        n_validation = min(round(validation * len(mine)), len(mine) - 1 - n_test)
        pieces = np.split(order, [n_test, n_test + n_validation])
        for part, piece in zip(parts, (pieces[2], pieces[1], pieces[0]), strict=True):
            part.append(np.sort(piece))
    return tuple(parts[0]), tuple(parts[1]), tuple(parts[2])


def _with_test(
    x: torch.Tensor,
    y: torch.Tensor,
    classes: tuple[str, ...] | None,
    test: Any,
    dtype: torch.dtype | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and labels with those of the test set behind them."""
    if not isinstance(test, (tuple, list)) or len(test) not in (2, 3):
        raise ValueError(
            "test: expected a share in (0, 1), or a pair (x, y), or (x, y, clients), got "
            f"{shown(test)}"
        )
    x_test, (y_test, _) = (
        as_inputs("test[0]", test[0], dtype),
        as_labels("test[1]", test[1], classes),
    )
    if len(x_test) != len(y_test):
        raise ValueError(
            f"test: expected as many labels as inputs, {len(x_test)}, not {len(y_test)}"
        )
    if x_test.shape[1:] != x.shape[1:]:
        raise ValueError(
            f"test: expected inputs of shape {tuple(x.shape[1:])}, got {tuple(x_test.shape[1:])}"
        )
    if y_test.dtype != y.dtype or y_test.shape[1:] != y.shape[1:]:
        raise ValueError(
            f"test: expected labels of {y.dtype} and shape {tuple(y.shape[1:])}, got "
            f"{y_test.dtype} and {tuple(y_test.shape[1:])}"
        )
    return torch.cat([x, x_test]), torch.cat([y, y_test])


def _owners(ids: Any, names: tuple[str, ...] | None, n_clients: int, n: int) -> Ints | None:
    """Whose each test example is, by the names of clients; None where it is never a client's."""
    given = np.asarray(ids)
    if given.shape != (n,):
        raise ValueError(
            f"test: expected a client's id for each of the {n} examples, got {given.dtype} of "
            f"shape {given.shape}"
        )
    numbers = {name: i for i, name in enumerate(names or map(str, range(n_clients)))}
    owners = np.array([numbers.get(name, -1) for name in given.astype(str).tolist()])
    return owners if (owners >= 0).any() else None


def _array(name: str, values: Any) -> npt.NDArray[Any]:
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu()
        values = values.numpy() if values.dtype != torch.bfloat16 else values.float().numpy()
    try:
        return np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name}: expected entries of one shape; {error}") from error


def _read(
    name: str, data: Any, x_key: str | None, y_key: str | None
) -> tuple[list[npt.NDArray[Any]], list[Any]]:
    """All inputs and labels of a data set."""
    if not hasattr(data, "__len__") or not hasattr(data, "__getitem__"):
        raise TypeError(
            f"{name}: expected a data set with a length and items by number, got {type(data)}"
        )
    if not len(data):
        raise ValueError(f"{name}: expected at least one example, got none")
    inputs, labels = [], []
    for number in range(len(data)):
        x, y = _item(f"{name}[{number}]", data[number], x_key, y_key)
        inputs.append(_picture(x))
        labels.append(_array(name, y)[()])  # a scalar where it is one
    return inputs, labels


def _item(name: str, item: Any, x_key: str | None, y_key: str | None) -> tuple[Any, Any]:
    if isinstance(item, Mapping):
        return (
            item[_key(name, "x_key", item, x_key, X_KEYS)],
            item[_key(name, "y_key", item, y_key, Y_KEYS)],
        )
    if isinstance(item, (tuple, list)) and len(item) == 2:
        return item[0], item[1]
    raise TypeError(f"{name}: expected a pair (x, y) or a dictionary, got {type(item)}")


def _key(
    name: str, argument: str, item: Mapping[str, Any], wanted: str | None, usual: tuple[str, ...]
) -> str:
    candidates = usual if wanted is None else (wanted,)
    for key in candidates:
        if key in item:
            return key
    found = ", ".join(repr(key) for key in item)
    looked = ", ".join(repr(key) for key in candidates)
    raise KeyError(f"{name} has the keys {found}, none of {looked}; say {argument}=…")


def _picture(value: Any) -> npt.NDArray[Any]:
    """An input as an array; a picture of PIL with its channels first."""
    if not (hasattr(value, "convert") and hasattr(value, "mode")):
        return _array("x", value)
    if value.mode in ("1", "P"):
        value = value.convert("L" if value.mode == "1" else "RGB")
    pixels = np.asarray(value)
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


def _stacked(read: list[tuple[str, list[npt.NDArray[Any]]]]) -> npt.NDArray[Any]:
    first = read[0][1][0]
    for name, inputs in read:
        for number, array in enumerate(inputs):
            if array.shape != first.shape or array.dtype != first.dtype:
                raise ValueError(
                    f"{name}[{number}]: expected an input like the first, {first.dtype} of shape "
                    f"{first.shape}, got {array.dtype} of shape {array.shape}"
                )
    return np.stack([array for _, inputs in read for array in inputs])
