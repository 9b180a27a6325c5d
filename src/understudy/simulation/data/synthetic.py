"""Synthetic(α, β): every client with a model and inputs of its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from understudy.core import checks
from understudy.core.rng import generator
from understudy.core.types import Floats, Ints
from understudy.simulation.data.federation import Federation

N_FEATURES, N_CLASSES = 60, 10


def synthetic(
    alpha: float = 0.5, beta: float = 0.5, n_clients: int = 30, seed: int = 0
) -> Federation:
    """FedProx's synthetic data as FedGS uses them: 60 inputs, 10 classes, unequal sizes.

    Parameters
    ----------
    alpha : float
        α >= 0: how far the clients' models are apart; a standard deviation.
    beta : float
        β >= 0: how far the clients' inputs are apart; a standard deviation.
    n_clients : int
        N.
    seed : int
        Decides everything that is drawn.

    Returns
    -------
    Federation
        75 % of each client's examples for training, 15 % for validation; the test set is the union
        of the remaining 10 %. `features` holds the true W_k and b_k of each client, (N, 610): the
        oracle of FedGS's graph.

    Notes
    -----
    For each client k: u_k ~ N(0, α) and W_k, b_k ~ N(u_k, 1), all entries on their own;
    B_k ~ N(0, β), v_k ~ N(B_k, 1), x ~ N(v_k, Σ) with Σ diagonal, Σ_jj = j^−1.2 for j = 1 .. 60;
    y = argmax(x W_k + b_k). It has n_k = 50 + ⌊LogNormal(4, 2)⌋ examples, mostly below 500 and
    rarely many thousands.

    References
    ----------
    Li et al., Federated Optimization in Heterogeneous Networks, 2020.
    Wang et al., FedGS: Federated Graph-Based Sampling with Arbitrary Client Availability, AAAI
    2023.

    Examples
    --------
    >>> from understudy.simulation import synthetic
    >>> federation = synthetic(0.5, 0.5, n_clients=30)
    >>> tuple(federation.x.shape[1:]), federation.n_classes, federation.features.shape
    ((60,), 10, (30, 610))
    """
    checks.number("alpha", alpha, low=0)
    checks.number("beta", beta, low=0)
    checks.integer("n_clients", n_clients, low=1)
    drawn = [_client(alpha, beta, generator(seed, "synthetic", 0, k)) for k in range(n_clients)]
    owner = np.repeat(np.arange(n_clients), [len(labels) for _, labels, _ in drawn])
    federation = Federation.from_arrays(
        np.concatenate([inputs for inputs, _, _ in drawn]),
        np.concatenate([labels for _, labels, _ in drawn]),
        clients=owner,
        test=0.10,
        validation=0.15,
        seed=seed,
        name=f"synthetic({alpha:g}, {beta:g})",
    )
    features = np.array([truth for _, _, truth in drawn])
    # whose the test examples are is left out: published numbers of clients are of matched draws
    return replace(federation, features=features, n_classes=N_CLASSES, test_clients=None)


def _client(alpha: float, beta: float, rng: np.random.Generator) -> tuple[Floats, Ints, Floats]:
    """Inputs (n_k, 60), labels (n_k,), and the truth (610,)."""
    n_examples = int(rng.lognormal(4, 2)) + 50
    u, b_mean = rng.normal(0, alpha), rng.normal(0, beta)
    weight = rng.normal(u, 1, (N_FEATURES, N_CLASSES))
    bias = rng.normal(u, 1, N_CLASSES)
    center = rng.normal(b_mean, 1, N_FEATURES)
    deviation = np.arange(1, N_FEATURES + 1) ** (-1.2 / 2)
    x = center + deviation * rng.standard_normal((n_examples, N_FEATURES))
    # summed without BLAS, whose order of summation differs between machines
    scores = np.einsum("nf,fc->nc", x, weight) + bias
    return x, scores.argmax(axis=1), np.append(weight.ravel(), bias)
