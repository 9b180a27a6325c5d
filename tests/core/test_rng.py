"""Randomness with an address: which words an address is, and that they never change."""

from __future__ import annotations

from zlib import crc32

import numpy as np
import pytest

from understudy.core.rng import generator, torch_seed

ADDRESSES = [(0, "batches", 0, -1), (7, "batches", 3, 5), (2**32 - 1, "x", 2**32 - 1, 2**32 - 2)]
LONG = [(2**32, "x", 0, 0), (3**50, "x", 1, 2), (0, "x", 2**40, 2**32)]


@pytest.mark.parametrize("address", ADDRESSES + LONG)
def test_the_words_of_an_address(address):
    """Seed, the role's CRC-32, round and client + 1, whether or not each fits in 32 bits."""
    seed, role, t, client = address
    words = np.random.SeedSequence([seed, crc32(role.encode()), t, client + 1])
    expected = np.random.Generator(np.random.PCG64(words)).integers(2**63, size=5)
    assert generator(*address).integers(2**63, size=5).tolist() == expected.tolist()
    assert torch_seed(*address) == int(words.generate_state(1, np.uint64)[0]) >> 1


def test_golden_numbers():
    """Another version of the same address would make all stored runs unrepeatable."""
    drawn = generator(0, "batches", 1, 2).integers(1000, size=5)
    assert drawn.tolist() == [644, 356, 944, 354, 927]


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ((-1, "x", 0, 0), "seed: expected a whole number >= 0, got -1"),
        ((0, "x", 0.5, 0), "t: expected a whole number >= 0, got 0.5"),
        ((0, "x", 0, -2), "client: expected a whole number >= -1, got -2"),
        ((True, "x", 0, 0), "seed: expected a whole number >= 0, got True"),
    ],
)
def test_what_is_no_address(address, message):
    with pytest.raises(ValueError, match=message):
        generator(*address)
