"""1,797 handwritten digits that come with the package, so that a first run needs no download."""

from __future__ import annotations

from importlib.resources import files

import numpy as np
import torch

from understudy.simulation.data.dataset import Dataset, divide
from understudy.simulation.data.federation import Federation
from understudy.simulation.data.partitions import clustered


def digits() -> Dataset:
    """Images (1797, 1, 8, 8), float32 in [0, 1], and labels (1797,), int64 in 0 .. 9.

    References
    ----------
    Alpaydin & Kaynak, Optical Recognition of Handwritten Digits, UCI Machine Learning Repository,
    1998, https://doi.org/10.24432/C50P49, CC BY 4.0 (see ``DATA-LICENSES.md`` beside this file).

    Examples
    --------
    >>> from understudy.simulation import digits
    >>> x, y = digits()
    >>> tuple(x.shape), tuple(y.shape)
    ((1797, 1, 8, 8), (1797,))
    """
    with (
        files("understudy.simulation.data").joinpath("digits.npz").open("rb") as file,
        np.load(file, allow_pickle=False) as arrays,
    ):
        images, labels = arrays["images"], arrays["labels"]  # uint8: 0 .. 16, and 0 .. 9
    return Dataset(
        name="digits",
        stored=torch.from_numpy(images).unsqueeze(1),
        y=torch.from_numpy(labels.astype(np.int64)),
        scale=16.0,
    )


def clustered_digits(
    n_clients: int = 20,
    n_clusters: int = 5,
    classes_per_cluster: int = 2,
    per_client: int = 64,
    test_share: float = 0.2,
    seed: int = 0,
) -> Federation:
    """The digits as FL-FDMS divides its data: clients of one cluster hold the same few classes.

    Parameters
    ----------
    n_clients, n_clusters, classes_per_cluster, per_client
        As in `understudy.simulation.data.partitions.clustered`.
    test_share : float
        Share of the images that is held out for testing.
    seed : int
        Decides what is held out, and which client gets which images.
    """
    return divide(
        digits(),
        clustered,
        test=test_share,
        seed=seed,
        n_clients=n_clients,
        n_clusters=n_clusters,
        classes_per_cluster=classes_per_cluster,
        per_client=per_client,
    )
