"""Who holds which examples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from understudy.types import Floats, Ints, Population


@dataclass(frozen=True, eq=False)
class Federation:
    """The data once, and an index array per client.

    Parameters
    ----------
    x : (n, …) tensor
        All inputs.
    y : (n,) tensor of int64
        All labels, 0 .. C-1.
    clients : tuple of (n_i,) int arrays
        The examples each client trains on; no client is empty.
    test : int array
        The examples the global model is evaluated on; no client holds one of them.
    groups : (N,) int array, optional
        Cluster of each client, where there are clusters.
    n_classes : int, optional
        C; by default the largest label + 1.
    """

    x: torch.Tensor
    y: torch.Tensor
    clients: tuple[Ints, ...]
    test: Ints
    groups: Ints | None = None
    n_classes: int = 0

    def __post_init__(self) -> None:
        n = len(self.x)
        if self.y.shape != (n,) or self.y.dtype != torch.int64:
            raise ValueError(
                f"y: expected int64 of shape ({n},), got {self.y.dtype} of {tuple(self.y.shape)}"
            )
        if not len(self.clients):
            raise ValueError("clients: expected at least one client, got none")
        if not self.n_classes:
            object.__setattr__(self, "n_classes", int(self.y.max()) + 1)
        object.__setattr__(self, "test", _indices("test", self.test, n))
        object.__setattr__(
            self,
            "clients",
            tuple(_indices(f"clients[{i}]", held, n) for i, held in enumerate(self.clients)),
        )
        if self.groups is not None and np.shape(self.groups) != (len(self.clients),):
            raise ValueError(
                f"groups: expected shape ({len(self.clients)},), got {np.shape(self.groups)}"
            )
        shared = np.intersect1d(np.concatenate(self.clients), self.test)
        if len(shared):
            raise ValueError(
                f"test: expected examples that no client trains on, got {len(shared)} that one "
                f"does, such as {shared[0]}"
            )

    @property
    def n_clients(self) -> int:
        """N."""
        return len(self.clients)

    @property
    def sizes(self) -> Ints:
        """(N,) examples of each client."""
        return np.array([len(held) for held in self.clients], dtype=np.int64)

    @property
    def label_counts(self) -> Floats:
        """(N, C) label histogram of each client."""
        labels = self.y.numpy()
        counts = [np.bincount(labels[held], minlength=self.n_classes) for held in self.clients]
        return np.array(counts, dtype=np.float64)

    def population(self) -> Population:
        """What a server may know of the clients before they train."""
        return Population(
            n_clients=self.n_clients,
            n_examples=self.sizes.astype(np.float64),
            label_counts=self.label_counts,
            groups=self.groups,
        )


def _indices(name: str, held: Ints, n: int) -> Ints:
    indices = np.asarray(held)
    if indices.ndim != 1 or not len(indices) or indices.dtype.kind not in "iu":
        raise ValueError(f"{name}: expected a list of at least one whole number, got {held!r}")
    if indices.min() < 0 or indices.max() >= n:
        raise ValueError(
            f"{name}: expected indices in 0 .. {n - 1}, got {indices.min()} .. {indices.max()}"
        )
    return indices.astype(np.int64)
