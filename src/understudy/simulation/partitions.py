"""Dividing examples among clients: from labels to one index array per client."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from understudy import checks
from understudy.types import Ints


class Partition(NamedTuple):
    """Who holds what."""

    clients: tuple[Ints, ...]  # N index arrays, no index twice
    groups: Ints | None  # (N,) cluster of each client, where there are clusters


def hold_out(n_examples: int, share: float, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Indices to train on and, disjoint from them, indices to test on; both ascending."""
    checks.integer("n_examples", n_examples, low=2)
    checks.number("share", share, low=0, high=1, low_open=True, high_open=True)
    n_test = min(max(round(share * n_examples), 1), n_examples - 1)
    order = rng.permutation(n_examples)
    return np.sort(order[n_test:]), np.sort(order[:n_test])


def iid(labels: npt.ArrayLike, n_clients: int, rng: np.random.Generator) -> Partition:
    """Everyone gets an equal share of a shuffled whole; sizes differ by one at most."""
    n_examples = len(np.asarray(labels))
    checks.integer("n_clients", n_clients, low=1, high=n_examples)
    return Partition(tuple(np.array_split(rng.permutation(n_examples), n_clients)), None)


def clustered(
    labels: npt.ArrayLike,
    n_clients: int = 20,
    n_clusters: int = 5,
    classes_per_cluster: int = 2,
    per_client: int = 200,
    rng: np.random.Generator | None = None,
) -> Partition:
    """Clients of a cluster hold the same few classes, in equal parts: FL-FDMS's clustered setting.

    Parameters
    ----------
    labels : (n,) ints
        Label of each example.
    n_clients : int
        N (the paper's K). Clients that follow each other are of one cluster.
    n_clusters : int
        Number of clusters, of equal size where N allows.
    classes_per_cluster : int
        Classes that a cluster's clients hold. They are dealt in a random order, so that no two
        clusters share one as long as there are enough.
    per_client : int
        Examples of each client.
    rng : numpy.random.Generator
        Which classes and which examples; by default a generator with seed 0.

    References
    ----------
    Wang & Xu, Friends to Help: Saving Federated Learning from Client Dropout, 2022.
    """
    labels = np.asarray(labels)
    rng = np.random.default_rng(0) if rng is None else rng
    classes = rng.permutation(np.unique(labels))
    checks.integer("n_clients", n_clients, low=1)
    checks.integer("n_clusters", n_clusters, low=1, high=n_clients)
    checks.integer("classes_per_cluster", classes_per_cluster, low=1, high=len(classes))
    checks.integer("per_client", per_client, low=1)
    groups = np.arange(n_clients) * n_clusters // n_clients
    supply = {label: list(rng.permutation(np.flatnonzero(labels == label))) for label in classes}
    shares = [len(part) for part in np.array_split(np.arange(per_client), classes_per_cluster)]
    clients = []
    for position, group in enumerate(groups):
        # what does not divide evenly is of another class for each client, or one would run out
        rolled = np.roll(shares, position)
        dealt = group * classes_per_cluster + np.arange(classes_per_cluster)
        held: list[int] = []
        for label, share in zip(classes[dealt % len(classes)], rolled, strict=True):
            if len(supply[label]) < share:
                raise ValueError(
                    f"per_client: {n_clients} clients with {per_client} examples each need more "
                    f"of class {label} than the {np.sum(labels == label)} there are"
                )
            held += [supply[label].pop() for _ in range(share)]
        clients.append(np.sort(np.array(held, dtype=np.int64)))
    return Partition(tuple(clients), groups)
