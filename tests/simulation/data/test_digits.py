"""The data that comes with the package."""

import hashlib
from importlib.resources import files

import numpy as np
import torch

from understudy.simulation.data.digits import clustered_digits, digits


def test_digits_are_the_published_ones():
    """1,797 images; the class counts, the sum of all pixels and a digest of the original bytes."""
    x, y = digits()
    assert x.shape == (1797, 1, 8, 8)
    assert x.dtype == torch.float32
    assert y.dtype == torch.int64
    assert np.bincount(y).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    pixels = (x * 16).to(torch.uint8)
    assert pixels.sum(dtype=torch.int64) == 561718
    assert float(x.min()) == 0
    assert float(x.max()) == 1
    digest = hashlib.sha256(pixels.numpy().tobytes() + y.to(torch.uint8).numpy().tobytes())
    assert digest.hexdigest().startswith("87ff0c9e40dc7e2c0e34e7257799c2e3")


def test_the_file_is_small_and_its_licence_is_beside_it():
    folder = files("understudy.simulation.data")
    assert len(folder.joinpath("digits.npz").read_bytes()) < 100_000
    assert "CC BY 4.0" in folder.joinpath("DATA-LICENSES.md").read_text(encoding="utf-8")


def test_clustered_digits_hold_what_they_say():
    federation = clustered_digits(per_client=64, seed=3)
    assert federation.n_clients == 20
    assert federation.sizes.tolist() == [64] * 20
    assert federation.groups.tolist() == [g for g in range(5) for _ in range(4)]
    counts = federation.label_counts
    assert ((counts == 0) | (counts == 32)).all()
    assert ((counts > 0).sum(axis=1) == 2).all()
    everything = np.concatenate([*federation.clients, federation.test])
    assert len(np.unique(everything)) == len(everything)
    assert len(federation.test) == round(0.2 * 1797)


def test_the_seed_decides_the_division():
    one, same, other = (clustered_digits(seed=seed) for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(one.clients, same.clients, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(one.clients, other.clients, strict=True))
    assert not np.array_equal(one.test, other.test)


def test_population_says_what_the_server_may_know():
    federation = clustered_digits()
    population = federation.population()
    assert population.n_clients == 20
    assert population.n_examples.tolist() == [64.0] * 20
    np.testing.assert_array_equal(population.label_counts, federation.label_counts)
    np.testing.assert_array_equal(population.groups, federation.groups)
    assert population.p is None
