"""The private scalar product: the server learns x.y of two clients' vectors, and nobody x or y.

Two parties and a helper exchange messages about integers modulo q (2^64), in which real numbers are
written with a fixed number of fraction bits::

    helper  -> first    Deal(mask R_a, share r_a)        r_a + r_b = R_a . R_b
    helper  -> second   Deal(mask R_b, share r_b)
    first   -> second   MaskedVector(x + R_a)
    second  -> first    Reply(y + R_b, (x + R_a) . y + r_b - v_2)
    first   -> server   Share(v_1),  v_1 = (x + R_a) . y + r_b - v_2 - R_a . (y + R_b) + r_a
    second  -> server   Share(v_2),  v_2 drawn by the second party
    server              v_1 + v_2 = x . y

Every mask is uniform modulo q and used once, so each message by itself is uniform, whatever x and y
are; over the real numbers no mask would hide the size of a value. The server learns x.y and nothing
else, even where it carries the messages between the two parties. Neither party learns anything
about the other's vector, not even x.y.

Notes
-----
This holds if everybody follows the protocol (they may be curious) and if

* the helper colludes neither with the server nor with a party: with R_a, whoever sees x + R_a has
  x. The helper must therefore not be the server that carries the messages;
* the channels are authenticated, and those from the helper encrypted;
* masks are fresh for every run: two messages under one mask tell the difference of two vectors. The
  classes refuse to be used twice; a deployment must not hand out a deal twice either.

x.y *is* told. From all products of N clients the server knows the vectors up to a common rotation,
and whoever controls enough clients with known vectors can solve for the others.

References
----------
Du and Zhan, "Building decision tree classifier on private data", 2002, for the exchange; there over
the real numbers. That Wang et al. (FedGS, appendix D) adapt it in this very way is our reading.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "Deal",
    "FirstParty",
    "FixedPoint",
    "Helper",
    "MaskedVector",
    "Reply",
    "SecondParty",
    "Share",
    "add_shares",
    "private_gram",
    "system_source",
]

Integers = NDArray[np.uint64]
Source = Callable[[int, int], Integers]
"""(modulus, length) -> that many independent uniform integers in 0..modulus-1."""

WORD = 2**64


def system_source(modulus: int, length: int) -> Integers:
    """Uniform integers modulo q from the operating system, fit for masks."""
    if modulus == WORD:
        return np.frombuffer(secrets.token_bytes(8 * length), dtype="<u8").astype(np.uint64)
    return np.array([secrets.randbelow(modulus) for _ in range(length)], dtype=np.uint64)


@dataclass(frozen=True)
class Deal:
    """Helper to one party: its mask, and its share of the two masks' product."""

    mask: Integers  # (length,) in 0..q-1
    share: int  # in 0..q-1


@dataclass(frozen=True)
class MaskedVector:
    """First party to second: x + R_a."""

    values: Integers  # (length,) in 0..q-1


@dataclass(frozen=True)
class Reply:
    """Second party to first: y + R_b, and (x + R_a).y + r_b - v_2."""

    values: Integers  # (length,) in 0..q-1
    product: int  # in 0..q-1


@dataclass(frozen=True)
class Share:
    """A party to the server: its additive share of x.y."""

    value: int  # in 0..q-1


@dataclass(frozen=True)
class FixedPoint:
    """Real numbers as integers modulo q, negative ones in the upper half."""

    fraction_bits: int = 24  # after the binary point, 0..62; a product has twice as many
    modulus: int = WORD  # q: 2^64, or 2..2^32 (small ones are for tests)

    def __post_init__(self) -> None:
        if not 0 <= self.fraction_bits <= 62:
            raise ValueError(f"fraction_bits must be in 0..62, got {self.fraction_bits}")
        _check_modulus(self.modulus)

    @property
    def largest_norm(self) -> float:
        """The Euclidean norm up to which vectors can be encoded: 181 by default."""
        return float(((self.modulus - 1) // 2) ** 0.5 / 2**self.fraction_bits)

    def encode(self, values: ArrayLike) -> Integers:
        """A real vector as integers modulo q.

        A norm above `largest_norm` is refused: below it the product of any two vectors stays within
        half the modulus (Cauchy-Schwarz), so that it cannot wrap around unnoticed.
        """
        real = np.asarray(values, dtype=np.float64)
        if real.ndim != 1 or not np.isfinite(real).all():
            raise ValueError(f"values must be a finite vector, got {values!r}")
        norm = math.hypot(*real)
        whole: list[int] = []
        if norm <= 2 * self.largest_norm:
            # Python's integers: the exact check must not overflow itself
            whole = [round(float(value) * 2**self.fraction_bits) for value in real]
        square = sum(number * number for number in whole)
        if norm > 2 * self.largest_norm or square > (self.modulus - 1) // 2:
            raise ValueError(
                f"values must have a norm of at most {self.largest_norm:.6g} with fraction_bits = "
                f"{self.fraction_bits}, got {norm:.6g}: scale the vector (to norm 1, for a cosine) "
                "or take fewer fraction_bits"
            )
        return np.array([number % self.modulus for number in whole], dtype=np.uint64)

    def decode_product(self, value: int) -> float:
        """A product of two encoded vectors as a real number."""
        signed = value - self.modulus if value > (self.modulus - 1) // 2 else value
        return float(signed / 4**self.fraction_bits)


@dataclass(frozen=True)
class Helper:
    """Deals masks whose product it has split in two; it sees no vector and no message.

    A `source` that is predictable voids the privacy; it is here for tests.
    """

    modulus: int = WORD  # q: 2^64, or 2..2^32
    source: Source = system_source

    def __post_init__(self) -> None:
        _check_modulus(self.modulus)

    def deal(self, length: int) -> tuple[Deal, Deal]:
        """Fresh masks for the first and the second party, for one run with vectors of `length`."""
        first_mask = self.source(self.modulus, length)
        second_mask = self.source(self.modulus, length)
        first_share = int(self.source(self.modulus, 1)[0])
        product = _dot(first_mask, second_mask, self.modulus)
        second_share = (product - first_share) % self.modulus
        return Deal(first_mask, first_share), Deal(second_mask, second_share)


class FirstParty:
    """The client that speaks first; one object serves one run.

    `vector` is x, encoded; `deal` is what the helper sent it; the modulus is the same for all.
    """

    def __init__(self, vector: Integers, deal: Deal, modulus: int = WORD) -> None:
        self._vector = _checked_vector(vector, deal, modulus)
        self._deal = deal
        self._modulus = modulus
        self._step = 0

    def open(self) -> MaskedVector:
        """The first message, x + R_a."""
        self._step = _once(self._step, 0, "open")
        return MaskedVector(_add(self._vector, self._deal.mask, self._modulus))

    def finish(self, reply: Reply) -> Share:
        """v_1, from the second party's reply."""
        _check_length(reply.values, self._vector, "reply")
        self._step = _once(self._step, 1, "finish")
        cross = _dot(self._deal.mask, reply.values, self._modulus)
        return Share((reply.product - cross + self._deal.share) % self._modulus)


class SecondParty:
    """The client that answers; one object serves one run.

    As `FirstParty`, with y; v_2 comes from `source`, and anything predictable voids the privacy.
    """

    def __init__(
        self, vector: Integers, deal: Deal, modulus: int = WORD, source: Source = system_source
    ) -> None:
        self._vector = _checked_vector(vector, deal, modulus)
        self._deal = deal
        self._modulus = modulus
        self._source = source
        self._step = 0

    def answer(self, message: MaskedVector) -> tuple[Reply, Share]:
        """The reply to the first party, and v_2."""
        _check_length(message.values, self._vector, "message")
        self._step = _once(self._step, 0, "answer")
        share = int(self._source(self._modulus, 1)[0])
        product = _dot(message.values, self._vector, self._modulus) + self._deal.share - share
        masked = _add(self._vector, self._deal.mask, self._modulus)
        return Reply(masked, product % self._modulus), Share(share)


def add_shares(first: Share, second: Share, modulus: int = WORD) -> int:
    """What the server does: x.y modulo q."""
    return (first.value + second.value) % modulus


def private_gram(
    features: ArrayLike, fixed_point: FixedPoint | None = None, source: Source = system_source
) -> NDArray[np.float64]:
    """All scalar products of N clients' vectors: one run per pair, all in this process.

    Parameters
    ----------
    features
        (N, f), one row per client. For cosines every client first divides its own row by its norm.
    fixed_point
        How the numbers are written; all clients use the same. None: `FixedPoint()`.
    source
        Where the randomness comes from.

    Returns
    -------
    (N, N). The diagonal is each client's own squared norm, which it tells the server itself (1, and
    so nothing, for a cosine).
    """
    rows = np.asarray(features, dtype=np.float64)
    if rows.ndim != 2:
        raise ValueError(f"features must have shape (N, f), got {rows.shape}")
    code = FixedPoint() if fixed_point is None else fixed_point
    modulus = code.modulus
    encoded = [code.encode(row) for row in rows]
    helper = Helper(modulus, source)
    gram = np.diag([code.decode_product(_dot(x, x, modulus)) for x in encoded])
    gram = gram.reshape(len(rows), len(rows))
    for i, j in combinations(range(len(rows)), 2):
        first_deal, second_deal = helper.deal(rows.shape[1])
        first = FirstParty(encoded[i], first_deal, modulus)
        second = SecondParty(encoded[j], second_deal, modulus, source)
        reply, second_share = second.answer(first.open())
        first_share = first.finish(reply)
        gram[i, j] = gram[j, i] = code.decode_product(
            add_shares(first_share, second_share, modulus)
        )
    return gram


def _add(a: Integers, b: Integers, modulus: int) -> Integers:
    total = a + b  # uint64 arrays wrap: exact for 2^64; below 2^33 for the small moduli
    return total if modulus == WORD else total % np.uint64(modulus)


def _dot(a: Integers, b: Integers, modulus: int) -> int:
    if modulus == WORD:
        return int((a * b).sum(dtype=np.uint64))  # wraps, which is the remainder modulo 2^64
    return int((a * b % np.uint64(modulus)).sum(dtype=np.uint64)) % modulus


def _once(step: int, expected: int, what: str) -> int:
    if step != expected:
        raise ValueError(f"{what} is allowed once, in its turn: a mask must never be used twice")
    return step + 1


def _checked_vector(vector: Integers, deal: Deal, modulus: int) -> Integers:
    _check_modulus(modulus)
    if vector.dtype != np.uint64 or vector.ndim != 1:
        raise ValueError(
            "vector must be encoded: one dimension of uint64, "
            f"got {vector.ndim} dimensions of {vector.dtype}"
        )
    _check_length(vector, deal.mask, "vector")
    if modulus != WORD and len(vector) and int(vector.max()) >= modulus:
        raise ValueError(f"vector must lie in 0..{modulus - 1}, got {int(vector.max())}")
    return vector


def _check_length(given: Integers, expected: Integers, name: str) -> None:
    if given.shape != expected.shape:
        raise ValueError(f"{name} must have length {len(expected)}, got shape {given.shape}")


def _check_modulus(modulus: int) -> None:
    if modulus != WORD and not 2 <= modulus <= 2**32:
        raise ValueError(f"modulus must be 2**64 or in 2..2**32, got {modulus}")
