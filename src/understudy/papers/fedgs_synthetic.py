"""The Synthetic(0.5, 0.5) that FedGS's authors ran: one data set, drawn in their order."""

from __future__ import annotations

import numpy as np
import torch

from understudy.core import checks
from understudy.simulation.data.federation import Federation
from understudy.simulation.data.synthetic import N_CLASSES, N_FEATURES

TRAINED, NOT_TESTED = 0.75, 0.9  # where each client's list of examples is cut


def fedgs_synthetic(
    alpha: float = 0.5, beta: float = 0.5, n_clients: int = 30, seed: int = 97
) -> Federation:
    """Synthetic(α, β) as the generator of FedGS's authors draws it, with NumPy's legacy generator.

    Parameters
    ----------
    alpha : float
        α >= 0: how far the clients' models are apart; a standard deviation.
    beta : float
        β >= 0: how far the clients' inputs are apart; a standard deviation.
    n_clients : int
        N.
    seed : int
        Of ``numpy.random.RandomState``. The authors have 97, one data set for all their runs.

    Returns
    -------
    Federation
        The first 75 % of each client's examples for training, the next 15 % for validation; the
        test set is the union of the last 10 %. With the defaults 6,541 training examples, 37 to
        1,607 of a client, and 888 for testing. `features` holds the true W_k and b_k, (N, 610).

    Notes
    -----
    The law is that of `synthetic`; what differs is the order of the draws. A W and a b are drawn
    first and not used; then all u_k, all W_k, all b_k, all B_k, all v_k, all sizes, and the inputs
    client by client. The authors' multivariate normal law goes through a singular value
    decomposition of a diagonal matrix; here the numbers are scaled directly, which gives the same
    to the last bits and does not depend on LAPACK.

    References
    ----------
    Wang et al., FedGS: Federated Graph-Based Sampling with Arbitrary Client Availability, AAAI
    2023.

    Examples
    --------
    >>> from understudy.simulation import fedgs_synthetic
    >>> federation = fedgs_synthetic()
    >>> int(federation.sizes.sum()), int(federation.sizes.max()), len(federation.test)
    (6541, 1607, 888)
    """
    checks.number("alpha", alpha, low=0)
    checks.number("beta", beta, low=0)
    checks.integer("n_clients", n_clients, low=1)
    checks.integer("seed", seed, low=0, high=2**32 - 1)
    rng = np.random.RandomState(seed)
    rng.normal(0, 1, (N_FEATURES, N_CLASSES)), rng.normal(0, 1, N_CLASSES)  # never used
    u = rng.normal(0, alpha, n_clients)
    weights = [rng.normal(mean, 1, (N_FEATURES, N_CLASSES)) for mean in u]
    biases = [rng.normal(mean, 1, N_CLASSES) for mean in u]
    means = rng.normal(0, beta, n_clients)
    centers = [rng.normal(mean, 1, N_FEATURES) for mean in means]
    sizes = rng.lognormal(4, 2, n_clients).astype(np.int64) + 50
    deviation = np.arange(1, N_FEATURES + 1) ** (-1.2 / 2)
    inputs, labels = [], []
    for center, weight, bias, size in zip(centers, weights, biases, sizes, strict=True):
        x = center + deviation * rng.standard_normal((size, N_FEATURES))
        inputs.append(x)
        # summed without BLAS, whose order of summation differs between machines
        labels.append((np.einsum("nf,fc->nc", x, weight) + bias).argmax(axis=1))
    parts = [
        np.split(np.arange(end - size, end), [int(TRAINED * size), int(NOT_TESTED * size)])
        for size, end in zip(sizes.tolist(), sizes.cumsum().tolist(), strict=True)
    ]
    return Federation(
        torch.from_numpy(np.concatenate(inputs)).float(),
        torch.from_numpy(np.concatenate(labels)),
        clients=tuple(trained for trained, _, _ in parts),
        validation=tuple(held for _, held, _ in parts),
        test=np.concatenate([tested for _, _, tested in parts]),
        n_classes=N_CLASSES,
        features=np.array([np.append(w.ravel(), b) for w, b in zip(weights, biases, strict=True)]),
        name=f"fedgs_synthetic({alpha:g}, {beta:g})",
    )
