"""Synthetic(α, β): the recipe written out again, and its statistics."""

import numpy as np
import pytest
import torch

from understudy.core.rng import generator
from understudy.simulation import federate, fedgs_synthetic, synthetic


@pytest.fixture(scope="module")
def federation():
    return synthetic(seed=0)


def held_by(federation, client):
    parts = federation.clients[client], federation.validation[client]
    return np.concatenate(parts)


def test_shapes_and_shares(federation):
    """75 % for training, 15 % for validation, 10 % for testing, of at least 50 each."""
    assert federation.n_clients == 30
    assert federation.n_classes == 10
    assert federation.x.shape[1:] == (60,)
    assert federation.x.dtype == torch.float32
    assert federation.features.shape == (30, 610)
    validation = np.array([len(held) for held in federation.validation])
    n = len(federation.x)
    tested = len(federation.test)
    assert federation.sizes.sum() + validation.sum() + tested == n
    assert np.abs(federation.sizes / 0.75 - validation / 0.15).max() < 10
    assert federation.sizes.min() >= 37  # of 50: 5 for testing, 8 (7.5, to even) for validation
    assert tested == pytest.approx(n / 10, abs=15)
    assert federation.name == "synthetic(0.5, 0.5)"


def test_labels_are_those_of_the_clients_own_model(federation):
    """y = argmax(x W_k + b_k) with W_k, b_k from the features, in the float32 that was stored."""
    of_others = []
    for client in range(30):
        weight = federation.features[client, :600].reshape(60, 10)
        bias = federation.features[client, 600:]
        held = held_by(federation, client)
        scores = federation.x[held].double().numpy() @ weight + bias
        agree = scores.argmax(axis=1) == federation.y[held].numpy()
        assert agree.mean() > 0.995
        other = federation.features[(client + 1) % 30]
        wrong = federation.x[held].double().numpy() @ other[:600].reshape(60, 10) + other[600:]
        of_others.append((wrong.argmax(axis=1) == federation.y[held].numpy()).mean())
    assert np.mean(of_others) < 0.3


def test_the_recipe_by_hand():
    """The first client, drawn step by step at its address; inputs in the order of the clients."""
    rng = generator(3, "synthetic", 0, 0)
    n = 50 + int(np.exp(4 + 2 * rng.standard_normal()))
    u, b_mean = 0.7 * rng.standard_normal(), 0.2 * rng.standard_normal()
    weight = u + rng.standard_normal((60, 10))
    bias = u + rng.standard_normal(10)
    center = b_mean + rng.standard_normal(60)
    noise = rng.standard_normal((n, 60))
    x = center + noise / np.arange(1, 61) ** 0.6  # variance j^-1.2
    federation = synthetic(0.7, 0.2, n_clients=4, seed=3)
    np.testing.assert_allclose(federation.features[0], np.append(weight.ravel(), bias), rtol=1e-9)
    np.testing.assert_allclose(federation.x[:n], x, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(federation.y[:n], (x @ weight + bias).argmax(axis=1))
    assert federation.sizes[0] == n - round(0.15 * n) - round(0.1 * n)


def test_statistics_over_many_clients():
    """u_k has standard deviation α, B_k has β; log(n_k − 50) is N(4, 2), all to sampling error.

    The mean of a client's 610 true values is u_k plus N(0, 1/610); that of its inputs is B_k plus
    N(0, 1/60) plus little. With 400 clients a standard deviation is known to 3.5 %.
    """
    federation = synthetic(0.5, 2.0, n_clients=400, seed=1)
    assert federation.features.mean(axis=1).std() == pytest.approx(0.5, rel=0.1)
    assert federation.features.std(axis=1).mean() == pytest.approx(1, rel=0.02)
    centers = np.array([float(federation.x[held].mean()) for held in federation.clients])
    assert centers.std() == pytest.approx(2.0, rel=0.1)
    validation = np.array([len(held) for held in federation.validation])
    n = (federation.sizes + validation) / 0.9
    logs = np.log(np.maximum(n - 50, 1))
    assert np.median(logs) == pytest.approx(4, abs=0.35)
    assert np.quantile(logs, 0.84) - np.median(logs) == pytest.approx(2, abs=0.5)


def test_golden_numbers(federation):
    """What seed 0 gives: so that nobody changes the data of old results unnoticed."""
    assert federation.sizes[:6].tolist() == [563, 48, 1207, 37, 41, 1024]
    labels = [46, 1596, 3334, 775, 703, 400, 3291, 822, 1508, 584]
    assert np.bincount(federation.y).tolist() == labels
    expected = [1.2097922, -0.00952983, -1.9749457]
    np.testing.assert_allclose(federation.features[0, :3], expected, atol=1e-7)


def test_alpha_zero_means_clients_alike_in_the_mean():
    federation = synthetic(0, 0, n_clients=100)
    assert np.abs(federation.features.mean(axis=1)).max() < 5 / np.sqrt(610)


def test_it_comes_divided():
    one, other = (
        synthetic(0.3, 0.1, 5, seed=2),
        federate("synthetic", None, seed=2, alpha=0.3, beta=0.1, n_clients=5),
    )
    assert torch.equal(one.x, other.x)
    assert np.array_equal(one.test, other.test)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"alpha": -1}, "alpha: expected a number"),
        ({"beta": float("nan")}, "beta: expected a number"),
        ({"n_clients": 0}, "n_clients: expected a whole number >= 1, got 0"),
    ],
)
def test_impossible_settings_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        synthetic(**arguments)


def test_the_authors_data_set_has_their_sizes_and_labels():
    """RandomState(97): sizes and labels as the authors' own order of draws gives them."""
    federation = fedgs_synthetic()
    assert (federation.sizes.min(), federation.sizes.max()) == (37, 1607)
    assert federation.sizes.sum() == 6541
    assert len(federation.test) == 888
    n = [774, 51, 159, 55, 80, 57, 117, 338, 53, 167]  # of the first ten clients, all parts
    held = [len(held_by(federation, client)) for client in range(10)]
    assert held == [int(0.9 * size) for size in n]
    assert federation.sizes[:10].tolist() == [int(0.75 * size) for size in n]
    labels = [322, 1350, 1769, 296, 444, 572, 731, 199, 438, 2614]
    assert np.bincount(federation.y).tolist() == labels


def test_the_authors_draws_are_those_of_a_multivariate_normal_law():
    """The first client, with the law that the authors call, in their order."""
    rng = np.random.RandomState(97)
    rng.normal(size=610)  # never used
    u = rng.normal(0, 0.5, 30)
    weights = [rng.normal(u[k], 1, (60, 10)) for k in range(30)]
    biases = [rng.normal(u[k], 1, 10) for k in range(30)]
    means = rng.normal(0, 0.5, 30)
    centers = [rng.normal(mean, 1, 60) for mean in means]
    n = rng.lognormal(4, 2, 30).astype(int) + 50
    x = rng.multivariate_normal(centers[0], np.diag(np.arange(1, 61) ** -1.2), n[0])
    federation = fedgs_synthetic()
    noise = np.abs(x - centers[0]), np.abs(federation.x[: n[0]].double().numpy() - centers[0])
    np.testing.assert_allclose(*noise, rtol=1e-3, atol=1e-5)  # a sign is LAPACK's own
    truth = np.append(weights[0].ravel(), biases[0])
    np.testing.assert_allclose(federation.features[0], truth, rtol=1e-12)


def test_the_authors_data_set_by_name():
    one, other = fedgs_synthetic(), federate("fedgs_synthetic", None, seed=97)
    assert torch.equal(one.x, other.x)
    assert one.name == "fedgs_synthetic(0.5, 0.5)"
    with pytest.raises(ValueError, match="seed: expected a whole number"):
        fedgs_synthetic(seed=2**32)
