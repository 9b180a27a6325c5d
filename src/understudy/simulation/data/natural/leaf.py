"""LEAF's JSON: FEMNIST, Shakespeare, Sent140, Synthetic."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from understudy.core.shown import shown
from understudy.simulation.data.federation import Federation
from understudy.simulation.data.natural.clients import Examples, chosen_names, natural_federation
from understudy.simulation.data.sources import DATASETS
from understudy.simulation.data.text.tokens import N_CHARACTERS, characters, padded

LONGEST = 60  # characters of what is quoted in a message
Convert = Callable[[list[Any], list[Any]], Examples]  # x, y of a client as they are in the file


def leaf_femnist(
    root: str | Path | None = None,
    *,
    min_examples: int = 1,
    n_clients: int | None = None,
    test: float = 0.2,
    validation: float = 0.0,
    seed: int = 0,
) -> Federation:
    """LEAF's FEMNIST: handwritten digits and letters of 62 classes, 1×28×28; clients are writers.

    Parameters
    ----------
    root : path, optional
        The folder with ``train`` and ``test``, each with JSON files; by default
        ``leaf/femnist/data`` below the folder in ``UNDERSTUDY_DATA``, then below ``./data``.
    min_examples : int
        Clients with fewer training examples are left out.
    n_clients : int, optional
        Only so many clients, drawn by lot.
    test : float
        Share of each client's examples that is held out, where there is no ``test``.
    validation : float
        Share of each client's examples, as in `Federation.from_arrays`.
    seed : int
        Decides who is drawn and what is held out.

    Notes
    -----
    Values are in [0, 1], 1 is paper, as in the files.

    References
    ----------
    Caldas et al., LEAF: A Benchmark for Federated Settings, 2018.
    """
    return _leaf("leaf_femnist", root, _images, 62, min_examples, n_clients, test, validation, seed)


def leaf_synthetic(
    root: str | Path | None = None,
    *,
    min_examples: int = 1,
    n_clients: int | None = None,
    test: float = 0.2,
    validation: float = 0.0,
    seed: int = 0,
) -> Federation:
    """LEAF's Synthetic: numbers and classes, as many as the files have.

    Parameters
    ----------
    root, min_examples, n_clients, test, validation, seed
        As of `leaf_femnist`; by default ``leaf/synthetic/data``.

    References
    ----------
    Caldas et al., LEAF: A Benchmark for Federated Settings, 2018.
    """
    return _leaf(
        "leaf_synthetic", root, _numbers, 0, min_examples, n_clients, test, validation, seed
    )


def leaf_shakespeare(
    root: str | Path | None = None,
    *,
    min_examples: int = 1,
    n_clients: int | None = None,
    test: float = 0.2,
    validation: float = 0.0,
    seed: int = 0,
) -> Federation:
    """LEAF's Shakespeare: 80 characters, and the one that comes next; clients are roles in plays.

    Parameters
    ----------
    root, min_examples, n_clients, test, validation, seed
        As of `leaf_femnist`; by default ``leaf/shakespeare/data``.

    Notes
    -----
    Characters are numbered as in `understudy.simulation.data.text.tokens`: 98 classes, of which
    0 is padding. One label for each example: models of sequences need ``last=True``.

    References
    ----------
    Caldas et al., LEAF: A Benchmark for Federated Settings, 2018.
    """
    return _leaf(
        "leaf_shakespeare",
        root,
        _next_character,
        N_CHARACTERS,
        min_examples,
        n_clients,
        test,
        validation,
        seed,
    )


def leaf_sent140(
    root: str | Path | None = None,
    *,
    length: int = 140,
    min_examples: int = 1,
    n_clients: int | None = None,
    test: float = 0.2,
    validation: float = 0.0,
    seed: int = 0,
) -> Federation:
    """LEAF's Sent140: messages, and whether they are glad or sad; clients are their writers.

    Parameters
    ----------
    root, min_examples, n_clients, test, validation, seed
        As of `leaf_femnist`; by default ``leaf/sent140/data``.
    length : int
        Characters of a message; longer ones are cut, shorter ones padded at the end.

    Notes
    -----
    As characters, numbered as in `understudy.simulation.data.text.tokens`; LEAF's own models
    take words, in vectors that come in another file. Models of sequences need ``last=True`` and
    ``vocabulary=98``.

    References
    ----------
    Caldas et al., LEAF: A Benchmark for Federated Settings, 2018.
    """

    def convert(x: list[Any], y: list[Any]) -> Examples:
        return _message(x, y, length)

    return _leaf("leaf_sent140", root, convert, 2, min_examples, n_clients, test, validation, seed)


def _leaf(
    name: str,
    root: str | Path | None,
    convert: Convert,
    n_classes: int,
    min_examples: int,
    n_clients: int | None,
    test: float,
    validation: float,
    seed: int,
) -> Federation:
    (folder,) = DATASETS[name].located(root)
    train = _read(folder)
    sizes = {user: len(own["y"]) for user, (_, own) in train.items()}
    chosen = chosen_names(sizes, min_examples, n_clients, seed, str(folder))
    tested = folder.with_name("test")
    held_out = _read(tested) if tested.is_dir() else {}
    if n_clients is not None:  # the test examples of the others are not asked for
        held_out = {user: own for user, own in held_out.items() if user in set(chosen)}
    return natural_federation(
        {user: _converted(user, *train[user], convert) for user in chosen},
        {user: _converted(user, *own, convert) for user, own in held_out.items() if own[1]["y"]},
        own_tests=True,
        test_share=test,
        validation=validation,
        seed=seed,
        n_classes=n_classes,
        name=name,
        where=str(folder),
    )


User = tuple[Path, Mapping[str, list[Any]]]  # the file, and x and y as they are there


def _read(folder: Path) -> dict[str, User]:
    """User → its file and its x and y, over all files of a folder."""
    files = sorted(folder.glob("*.json"))
    if not files:
        raise ValueError(f"{folder}: expected JSON files of LEAF, found none")
    users: dict[str, User] = {}
    for file in files:
        for user, own in _users(file):
            if user in users:
                raise ValueError(f"{file}: user {_short(user)} is in {users[user][0].name} too")
            users[user] = file, own
    return users


def _users(file: Path) -> Iterator[tuple[str, Mapping[str, list[Any]]]]:
    try:
        content = json.loads(file.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file}: expected JSON; {error}") from error
    parts = content if isinstance(content, dict) else {}
    users, sizes, data = (parts.get(key) for key in ("users", "num_samples", "user_data"))
    if not isinstance(users, list) or not isinstance(sizes, list) or not isinstance(data, dict):
        raise ValueError(f"{file}: expected LEAF's users, num_samples and user_data")
    if len(users) != len(sizes):
        raise ValueError(f"{file}: expected {len(users)} num_samples, got {len(sizes)}")
    for user, size in zip(users, sizes, strict=True):
        own = data.get(user) if isinstance(user, str) else None
        x, y = (own.get(key) if isinstance(own, dict) else None for key in ("x", "y"))
        if not isinstance(x, list) or not isinstance(y, list) or not len(x) == len(y) == size:
            raise ValueError(
                f"{file}, user {_short(user)}: expected x and y of {_short(size)} examples each, "
                f"got {_length(x)} and {_length(y)}"
            )
        yield user, {"x": x, "y": y}


def _converted(user: str, file: Path, own: Mapping[str, list[Any]], convert: Convert) -> Examples:
    try:
        return convert(own["x"], own["y"])
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"{file}, user {_short(user)}: {error}") from error


# -- one client's examples -------------------------------------------------------------------------


def _numbers(x: list[Any], y: list[Any]) -> Examples:
    inputs = np.array(x, dtype=np.float32)
    if inputs.ndim != 2 or not np.isfinite(inputs).all():
        raise ValueError(f"expected x of finite numbers (n, features), got shape {inputs.shape}")
    return Examples(inputs, _labels(y))


def _images(x: list[Any], y: list[Any]) -> Examples:
    inputs, labels = _numbers(x, y)
    if inputs.shape[1] != 28 * 28:
        raise ValueError(f"expected x of 784 pixels each, got {inputs.shape[1]}")
    return Examples(inputs.reshape(-1, 1, 28, 28), labels)


def _labels(y: list[Any]) -> Any:
    if not all(type(label) is int and 0 <= label < 2**31 for label in y):
        strange = next(label for label in y if type(label) is not int or not 0 <= label < 2**31)
        raise ValueError(f"expected y of whole numbers >= 0, got {_short(strange)}")
    return np.array(y, dtype=np.int64)


def _next_character(x: list[Any], y: list[Any]) -> Examples:
    strange = next((text for text in [*x, *y] if not isinstance(text, str)), None)
    if strange is not None:
        raise ValueError(f"expected x and y of text, got {_short(strange)}")
    lengths = {len(text) for text in x}
    if len(lengths) != 1 or any(len(text) != 1 for text in y):
        raise ValueError(
            "expected texts of one length in x and single characters in y, got lengths "
            f"{_short(sorted(lengths))}"
        )
    inputs = np.array([characters(text) for text in x])
    return Examples(inputs, characters("".join(y)))


def _message(x: list[Any], y: list[Any], length: int) -> Examples:
    texts = [row[4] if isinstance(row, list) and len(row) > 4 else row for row in x]
    strange = next((text for text in texts if not isinstance(text, str)), None)
    if strange is not None:
        raise ValueError(f"expected messages in x, text or rows with it, got {_short(strange)}")
    labels = [{"0": 0, "1": 1, "4": 1}.get(str(label)) for label in y]
    if None in labels:
        raise ValueError(f"expected 0, 1 or 4 in y, got {_short(y[labels.index(None)])}")
    inputs = padded([characters(text) for text in texts], length)
    return Examples(inputs, np.array(labels, dtype=np.int64))


def _length(values: object) -> str:
    return str(len(values)) if isinstance(values, list) else "none"


def _short(value: object) -> str:
    return shown(value, LONGEST)
