"""TFF's HDF5 files: FEMNIST, CIFAR-100, Shakespeare, StackOverflow. They need h5py."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from understudy.core.inflate import MOST_COMPRESSED
from understudy.core.shown import shown
from understudy.simulation.data.federation import Federation
from understudy.simulation.data.natural.features import KINDS, Features
from understudy.simulation.data.natural.stored import StoredClients, stored_federation
from understudy.simulation.data.sources import DATASETS


def tff_femnist(
    root: str | Path | None = None,
    *,
    min_examples: int = 1,
    n_clients: int | None = None,
    validation: float = 0.0,
    seed: int = 0,
) -> Federation:
    """TFF's Federated EMNIST: digits and letters of 62 classes, 1×28×28; clients are writers.

    Parameters
    ----------
    root : path, optional
        The folder with ``fed_emnist_train.h5`` and ``fed_emnist_test.h5``; by default ``tff``
        below the folder in ``UNDERSTUDY_DATA``, then below ``./data``.
    min_examples : int
        Clients with fewer training examples are left out.
    n_clients : int, optional
        Only so many clients, drawn by lot.
    validation : float
        Share of each client's examples, as in `Federation.from_arrays`.
    seed : int
        Decides who is drawn and what is kept for validation.

    References
    ----------
    Cohen et al., EMNIST: Extending MNIST to Handwritten Letters, 2017. Caldas et al., LEAF: A
    Benchmark for Federated Settings, 2018.
    """
    return _tff("femnist", root, min_examples, n_clients, validation, seed)


def tff_cifar100(
    root: str | Path | None = None,
    *,
    min_examples: int = 1,
    n_clients: int | None = None,
    validation: float = 0.0,
    seed: int = 0,
) -> Federation:
    """TFF's CIFAR-100: 500 clients by a tree of topics, 100 examples each, 3×32×32 in [0, 1].

    Parameters
    ----------
    root, min_examples, n_clients, validation, seed
        As of `tff_femnist`; ``fed_cifar100_train.h5`` and ``fed_cifar100_test.h5``.

    Notes
    -----
    The clients of the test file are others, though their numbers are the same.

    References
    ----------
    Reddi et al., Adaptive Federated Optimization, 2021.
    """
    return _tff("cifar100", root, min_examples, n_clients, validation, seed)


def tff_shakespeare(
    root: str | Path | None = None,
    *,
    length: int = 80,
    min_examples: int = 1,
    n_clients: int | None = None,
    validation: float = 0.0,
    seed: int = 0,
) -> Federation:
    """TFF's Shakespeare: what a role says, as sequences whose next character is told at each place.

    Parameters
    ----------
    root, min_examples, n_clients, validation, seed
        As of `tff_femnist`; ``shakespeare_train.h5`` and ``shakespeare_test.h5``. Examples are
        sequences.
    length : int
        Characters of a sequence; longer snippets make several, the rest is padded.

    Notes
    -----
    Characters are numbered as in `understudy.simulation.data.text.tokens`: 98 classes, of which
    0 is padding; TFF's tutorials number 86 and mark where snippets begin and end.

    References
    ----------
    McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data, 2017.
    """
    return _tff("shakespeare", root, min_examples, n_clients, validation, seed, length)


def tff_stackoverflow(
    root: str | Path | None = None,
    *,
    length: int = 20,
    vocabulary: int = 10_000,
    min_examples: int = 1,
    n_clients: int | None = 100,
    validation: float = 0.0,
    seed: int = 0,
) -> Federation:
    """TFF's StackOverflow: questions and answers, whose next word is told at each place.

    Parameters
    ----------
    root, min_examples, validation, seed
        As of `tff_femnist`; ``stackoverflow_train.h5`` and ``stackoverflow_test.h5``.
    length : int
        Words of a sequence; longer texts make several, the rest is padded.
    vocabulary : int
        The most frequent words of the clients that are taken; all others count as one.
    n_clients : int or None
        How many of the 342,477 clients, drawn by lot; None: all, which no usual memory holds. As
        many are drawn of the test file.

    References
    ----------
    Reddi et al., Adaptive Federated Optimization, 2021.
    """
    return _tff(
        "stackoverflow", root, min_examples, n_clients, validation, seed, length, vocabulary
    )


def _tff(
    kind: str,
    root: str | Path | None,
    min_examples: int,
    n_clients: int | None,
    validation: float,
    seed: int,
    length: int = 1,
    vocabulary: int = 0,
) -> Federation:
    name = f"tff_{kind}"
    train, test = DATASETS[name].located(root)
    with _opened(train) as first, _opened(test) as second:
        return stored_federation(
            kind,
            first,
            second,
            min_examples=min_examples,
            n_clients=n_clients,
            test_share=0.2,
            validation=validation,
            seed=seed,
            length=length,
            vocabulary=vocabulary,
            name=name,
        )


@contextmanager
def _opened(path: Path) -> Iterator[StoredClients]:
    try:
        import h5py
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{path}: HDF5 files need h5py; install understudy-fl[hdf5]", name="h5py"
        ) from error
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise ValueError(f"{path}: expected an HDF5 file; {error}") from error
    with file:
        with _damage(path):
            group = file.get("examples")
            if not isinstance(group, h5py.Group) or not len(group):
                raise ValueError(f"{path}: expected a group 'examples' with clients in it")
        yield _Hdf5(path, group)


@contextmanager
def _damage(path: Path) -> Iterator[None]:
    """What HDF5 finds wrong inside a file, with its name."""
    try:
        yield
    except (RuntimeError, OSError) as error:
        raise ValueError(f"{path}: cannot be read; {error}") from error


class _Hdf5:
    """The clients of an open file; examples are read when they are asked for."""

    def __init__(self, path: Path, group: Any) -> None:
        self.path, self.group = path, group

    def sizes(self, kind: str) -> Mapping[str, int]:
        first = KINDS[kind].keys[0]
        with _damage(self.path):
            return {user: int(self._stored(user, first).shape[0]) for user in self.group}

    def features(self, user: str, kind: str) -> Features:
        keys = [key for key in KINDS[kind].keys if key is not None]
        with _damage(self.path):
            return {key: np.asarray(self._stored(user, key)[()]) for key in keys}

    def _stored(self, user: str, key: str) -> Any:
        import h5py

        client = self.group.get(user)
        stored = client.get(key) if isinstance(client, h5py.Group) else None
        if not isinstance(stored, h5py.Dataset) or not stored.shape:
            raise ValueError(f"{self.path}, client {shown(user, 60)}: expected an array {key!r}")
        size = prod(stored.shape) * max(stored.dtype.itemsize, 1)
        if size > MOST_COMPRESSED * self.path.stat().st_size:
            raise ValueError(
                f"{self.path}, client {shown(user, 60)}: {key} of shape {stored.shape} does not "
                "fit into the file"
            )
        return stored
