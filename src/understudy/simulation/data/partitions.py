"""Dividing examples among clients: from labels to one index array per client.

All of these take the labels and a generator, and give plain index arrays, ascending within a
client, in which no index appears twice. Without a generator they draw at a fixed address, so that
the same call always gives the same division.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from understudy.core import checks
from understudy.core.rng import generator
from understudy.core.types import Floats, Ints


class Partition(NamedTuple):
    """Who holds what."""

    clients: tuple[Ints, ...]  # N index arrays, no index twice
    groups: Ints | None  # (N,) cluster of each client, where there are clusters


# FL-FDMS's three levels of heterogeneity: always 500 examples, from one, two or five shards
SHARD_LEVELS = MappingProxyType(
    {
        "high": MappingProxyType({"n_shards": 100, "shards_per_client": 1, "shard_size": 500}),
        "medium": MappingProxyType({"n_shards": 200, "shards_per_client": 2, "shard_size": 250}),
        "low": MappingProxyType({"n_shards": 500, "shards_per_client": 5, "shard_size": 100}),
    }
)


def hold_out(n_examples: int, share: float, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Indices to train on and, disjoint from them, indices to test on; both ascending."""
    checks.integer("n_examples", n_examples, low=2)
    checks.number("share", share, low=0, high=1, low_open=True, high_open=True)
    n_test = min(max(round(share * n_examples), 1), n_examples - 1)
    order = rng.permutation(n_examples)
    return np.sort(order[n_test:]), np.sort(order[:n_test])


def iid(
    labels: npt.ArrayLike, n_clients: int = 20, rng: np.random.Generator | None = None
) -> Partition:
    """Everyone gets an equal share of a shuffled whole; sizes differ by one at most.

    Parameters
    ----------
    labels : (n,) array
        One entry for each example; only their number matters.
    n_clients : int
        N.
    rng : numpy.random.Generator, optional
        Who gets which examples.
    """
    n_examples = len(np.asarray(labels))
    checks.integer("n_clients", n_clients, low=1, high=n_examples)
    order = _or_fixed(rng).permutation(n_examples)
    return Partition(tuple(np.sort(held) for held in np.array_split(order, n_clients)), None)


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
        Examples of each client; what is not dealt stays unused.
    rng : numpy.random.Generator, optional
        Which classes and which examples.

    References
    ----------
    Wang & Xu, Friends to Help: Saving Federated Learning from Client Dropout, 2022.
    """
    labels, rng = _checked(labels), _or_fixed(rng)
    classes = rng.permutation(np.unique(labels))
    checks.integer("n_clients", n_clients, low=1)
    checks.integer("n_clusters", n_clusters, low=1, high=n_clients)
    checks.integer("classes_per_cluster", classes_per_cluster, low=1, high=len(classes))
    checks.integer("per_client", per_client, low=1)
    groups = np.arange(n_clients) * n_clusters // n_clients
    dealt = groups[:, None] * classes_per_cluster + np.arange(classes_per_cluster)
    held = classes[dealt % len(classes)]  # (N, classes per cluster)
    return Partition(_deal(labels, classes, held, per_client, rng), groups)


def classes_per_client(
    labels: npt.ArrayLike,
    n_clients: int = 100,
    k: int = 2,
    per_client: int | None = None,
    rng: np.random.Generator | None = None,
) -> Partition:
    """Each client holds k classes in equal parts, and all clients hold equally much.

    Parameters
    ----------
    labels : (n,) ints
        Label of each example.
    n_clients : int
        N.
    k : int
        Classes of each client, drawn at random; how many clients hold a class differs by one at
        most from class to class.
    per_client : int, optional
        Examples of each client; by default as many as the scarcest class allows, in k equal parts.
        Where all classes are equally frequent and N·k is a multiple of their number, nothing is
        left over; else some of the more frequent ones stays unused.
    rng : numpy.random.Generator, optional
        Which classes and which examples.

    Notes
    -----
    With the defaults and Fashion-MNIST this is FedGS's setting (100 clients, two labels, 600
    each); with the defaults and any set of ten classes it is FedAR's.
    """
    labels, rng = _checked(labels), _or_fixed(rng)
    classes, supply = np.unique(labels, return_counts=True)
    checks.integer("n_clients", n_clients, low=1)
    checks.integer("k", k, low=1, high=len(classes))
    n_holders = np.zeros(len(classes), dtype=np.int64)
    chosen = np.zeros((n_clients, k), dtype=np.int64)
    for client in range(n_clients):
        # the classes that the fewest hold so far, chance among equals
        chosen[client] = np.lexsort((rng.random(len(classes)), n_holders))[:k]
        n_holders[chosen[client]] += 1
    if per_client is None:
        held = n_holders > 0
        per_client = k * int((supply[held] // n_holders[held]).min())
        if not per_client:
            raise ValueError(
                f"n_clients: {n_clients} clients with {k} classes each are more than the "
                f"{len(labels)} examples allow"
            )
    checks.integer("per_client", per_client, low=k)
    return Partition(_deal(labels, classes, classes[chosen], per_client, rng), None)


def shards(
    labels: npt.ArrayLike,
    n_clients: int = 20,
    n_shards: int = 200,
    shards_per_client: int = 2,
    shard_size: int | None = None,
    rng: np.random.Generator | None = None,
) -> Partition:
    """Examples sorted by label, cut into equal shards, a few shards for each client.

    Parameters
    ----------
    labels : (n,) ints
        Label of each example.
    n_clients : int
        N (the paper's K).
    n_shards : int
        Number of shards; those that no client gets stay unused.
    shards_per_client : int
        Shards of each client.
    shard_size : int, optional
        Examples in a shard; by default as many as there are for so many shards. With fewer, the
        examples that are cut are chosen at random first.
    rng : numpy.random.Generator, optional
        Which examples are in a shard, and who gets which shards.

    Notes
    -----
    The defaults are FL-FDMS's general setting, 200 shards of 250 on CIFAR-10's 50,000 training
    images; `SHARD_LEVELS` has the settings of its three levels of heterogeneity, to be passed as
    ``shards(labels, **SHARD_LEVELS["high"])``. A shard may hold the end of one class and the
    beginning of the next, where the size of a class is no multiple of the shard's.

    References
    ----------
    Wang & Xu, Friends to Help: Saving Federated Learning from Client Dropout, 2022.
    McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data, 2017.
    """
    labels, rng = _checked(labels), _or_fixed(rng)
    checks.integer("n_clients", n_clients, low=1)
    checks.integer("shards_per_client", shards_per_client, low=1)
    n_needed = n_clients * shards_per_client
    checks.integer("n_shards", n_shards, low=n_needed, high=len(labels))
    size = len(labels) // n_shards if shard_size is None else shard_size
    checks.integer("shard_size", size, low=1, high=len(labels) // n_shards)
    cut = rng.permutation(len(labels))[: n_shards * size]
    by_label = cut[np.argsort(labels[cut], kind="stable")].reshape(n_shards, size)
    dealt = rng.permutation(n_shards)[:n_needed].reshape(n_clients, shards_per_client)
    return Partition(tuple(np.sort(by_label[mine].ravel()) for mine in dealt), None)


def dirichlet(
    labels: npt.ArrayLike,
    n_clients: int = 100,
    alpha: float = 1.0,
    sizes: Literal["lognormal", "equal"] | npt.ArrayLike = "lognormal",
    sigma: float = 1.0,
    rng: np.random.Generator | None = None,
) -> Partition:
    """Label proportions of each client from a Dirichlet distribution, and unequal sizes.

    Parameters
    ----------
    labels : (n,) ints
        Label of each example.
    n_clients : int
        N.
    alpha : float
        α > 0: proportions are drawn from Dir(α·p), p the share of each label among all examples.
        Small: one label each; large: everyone like the whole. FedGS's CIFAR-10 has 1.753.
    sizes : "lognormal", "equal" or (N,) ints
        ``"lognormal"``: sizes in the proportions of draws from LogNormal(ln(n/N) − σ²/2, σ), whose
        mean is n/N. ``"equal"``: they differ by one at most. Both give every example away. Or the
        sizes themselves, of which the sum may be less than n.
    sigma : float
        σ >= 0 of ``"lognormal"``.
    rng : numpy.random.Generator, optional
        Proportions, sizes, and who gets which examples.

    Notes
    -----
    Proportions that are drawn for each client on its own do not add up to the labels there are. The
    table (client, label) is therefore fitted to both of its margins by scaling rows and columns in
    turn, which leaves the ratios of odds as they were drawn, and is then rounded to whole
    examples. Sizes and the number of examples of each label are exact.

    References
    ----------
    Wang et al., FedGS: Federated Graph-Based Sampling with Arbitrary Client Availability, AAAI
    2023.
    """
    labels, rng = _checked(labels), _or_fixed(rng)
    n_examples = len(labels)
    checks.integer("n_clients", n_clients, low=1, high=n_examples)
    checks.number("alpha", alpha, low=0, low_open=True)
    checks.number("sigma", sigma, low=0)
    classes, supply = np.unique(labels, return_counts=True)
    held = _sizes(sizes, n_examples, n_clients, sigma, rng)
    drawn = rng.dirichlet(alpha * supply / n_examples, size=n_clients)
    wanted = apportion(int(held.sum()), supply)
    counts = _whole(_fitted(drawn, held, wanted), held, wanted)
    pieces: list[list[Ints]] = [[] for _ in range(n_clients)]
    for label, column in zip(classes, counts.T, strict=True):
        order = rng.permutation(np.flatnonzero(labels == label))
        for client, piece in enumerate(np.split(order, np.cumsum(column))[:-1]):
            pieces[client].append(piece)
    return Partition(tuple(np.sort(np.concatenate(mine)) for mine in pieces), None)


PARTITIONS: dict[str, Callable[..., Partition]] = {
    "iid": iid,
    "clustered": clustered,
    "shards": shards,
    "classes_per_client": classes_per_client,
    "dirichlet": dirichlet,
}


def apportion(total: int, weights: npt.ArrayLike) -> Ints:
    """`total` in whole parts, as near to the proportions of `weights` as can be.

    Everyone gets the whole part of its quota; what is left goes to the largest remainders, the
    earlier of equals first. Whole weights are computed with exactly.
    """
    array = np.asarray(weights)
    if array.dtype.kind in "iu":
        products = array.astype(object) * total  # Python's whole numbers: no overflow
        whole = int(array.sum())
        quota = np.array([product // whole for product in products], dtype=np.int64)
        remainder = np.array([float(product % whole) for product in products])
    else:
        exact = array * (total / array.sum())
        quota = np.floor(exact).astype(np.int64)
        remainder = exact - quota
    left = total - int(quota.sum())
    quota[np.argsort(-remainder, kind="stable")[:left]] += 1
    return quota


def _or_fixed(rng: np.random.Generator | None) -> np.random.Generator:
    return generator(0, "partition") if rng is None else rng


def _checked(labels: npt.ArrayLike) -> Ints:
    array = np.asarray(labels)
    if array.ndim != 1 or not len(array) or array.dtype.kind not in "iu":
        raise ValueError(
            "labels: expected one whole number for each example, got "
            f"{array.dtype} of shape {array.shape}"
        )
    return array.astype(np.int64)


def _deal(
    labels: Ints, classes: Ints, held: Ints, per_client: int, rng: np.random.Generator
) -> tuple[Ints, ...]:
    """`per_client` examples each, in equal parts of the classes in the client's row of `held`."""
    left = {label: rng.permutation(np.flatnonzero(labels == label)) for label in classes}
    shares = [len(part) for part in np.array_split(np.arange(per_client), held.shape[1])]
    clients = []
    for position, mine in enumerate(held):
        # what does not divide evenly is of another class for each client, or one would run out
        pieces = []
        for label, share in zip(mine, np.roll(shares, position), strict=True):
            if len(left[label]) < share:
                raise ValueError(
                    f"per_client: {len(held)} clients with {per_client} examples each need more "
                    f"of class {label} than the {np.sum(labels == label)} there are"
                )
            left[label], piece = np.split(left[label], [len(left[label]) - share])
            pieces.append(piece)
        clients.append(np.sort(np.concatenate(pieces)))
    return tuple(clients)


def _sizes(
    sizes: object, n_examples: int, n_clients: int, sigma: float, rng: np.random.Generator
) -> Ints:
    if isinstance(sizes, str):
        checks.choice("sizes", sizes, ("lognormal", "equal"))
        weights = np.ones(n_clients)
        if sizes == "lognormal":
            weights = rng.lognormal(np.log(n_examples / n_clients) - sigma**2 / 2, sigma, n_clients)
        # one for everyone first: nobody is empty
        return 1 + apportion(n_examples - n_clients, weights)
    given: Ints = checks.array("sizes", sizes, (n_clients,), int)
    if given.min() < 1 or given.sum() > n_examples:
        raise ValueError(
            f"sizes: expected whole numbers >= 1 with a sum <= {n_examples}, got a smallest of "
            f"{given.min()} and a sum of {given.sum()}"
        )
    return given


def _fitted(start: Floats, rows: Ints, columns: Ints) -> Floats:
    """`start` with its rows and columns scaled until they sum to `rows` and `columns`."""
    # a cell that was drawn as zero may be needed where a label would otherwise be left over
    table: Floats = np.maximum(start, 1e-12) * rows[:, None]
    for _ in range(1000):
        table *= columns / table.sum(axis=0)
        table *= (rows / table.sum(axis=1))[:, None]
        if np.abs(table.sum(axis=0) - columns).max() < 1e-3:  # far below one example
            break
    return table


def _whole(table: Floats, rows: Ints, columns: Ints) -> Ints:
    """Whole numbers near `table` that sum to `rows` and `columns` exactly."""
    counts = np.array([apportion(int(n), row) for n, row in zip(rows, table, strict=True)])
    excess = counts.sum(axis=0) - columns
    while excess.any():
        much, little = int(np.argmax(excess)), int(np.argmin(excess))
        error = counts - table
        gain = np.where(counts[:, much] > 0, error[:, much] - error[:, little], -np.inf)
        client = int(np.argmax(gain))
        counts[client, much] -= 1
        counts[client, little] += 1
        excess[much] -= 1
        excess[little] += 1
    return counts
