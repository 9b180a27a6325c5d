"""The private scalar product: right, and private by exact enumeration at a tiny modulus."""

from __future__ import annotations

import math
from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from understudy.graph import cosine_similarity
from understudy.graph import scalar_product as sp

quick = settings(derandomize=True, deadline=None, max_examples=60)


def scripted(values):
    """A source that gives the listed numbers, in order."""
    left = iter(values)

    def source(modulus, length):
        drawn = [next(left) for _ in range(length)]
        assert all(0 <= number < modulus for number in drawn)
        return np.array(drawn, dtype=np.uint64)

    return source


def run(x, y, modulus, randomness=None):
    """One run; what the two parties, the server and a server that carries the messages see.

    Randomness: R_a, R_b, r_a of the helper, then v_2.
    """
    source = sp.system_source if randomness is None else scripted(randomness)
    x, y = np.array(x, dtype=np.uint64), np.array(y, dtype=np.uint64)
    first_deal, second_deal = sp.Helper(modulus, source).deal(len(x))
    first = sp.FirstParty(x, first_deal, modulus)
    second = sp.SecondParty(y, second_deal, modulus, source)
    opening = first.open()
    reply, second_share = second.answer(opening)
    first_share = first.finish(reply)

    def seen(*parts):
        return tuple(int(n) for part in parts for n in np.atleast_1d(part))

    shares = seen(first_share.value, second_share.value)
    messages = seen(opening.values, reply.values, reply.product)
    return {
        "result": sp.add_shares(first_share, second_share, modulus),
        "server": shares,
        "carrier": shares + messages,
        "first": seen(first_deal.mask, first_deal.share, reply.values, reply.product, shares[0]),
        "second": seen(second_deal.mask, second_deal.share, opening.values, shares[1]),
    }


def all_views(modulus, length):
    """For every x, y: how often each view occurs over all equally likely randomness."""
    numbers = range(modulus)
    vectors = list(product(numbers, repeat=length))
    views = {}
    for x, y in product(vectors, vectors):
        counts = {who: Counter() for who in ("server", "carrier", "first", "second")}
        expected = sum(a * b for a, b in zip(x, y, strict=True)) % modulus
        for randomness in product(numbers, repeat=2 * length + 2):
            seen = run(x, y, modulus, randomness)
            assert seen["result"] == expected
            for who, count in counts.items():
                count[seen[who]] += 1
        views[x, y] = counts
    return views


@pytest.mark.parametrize(("modulus", "length"), [(5, 1), (4, 1), (3, 2)])
def test_views_by_exact_enumeration(modulus, length):
    """All x, y, masks and shares of a tiny ring (4: a power of two, like 2^64).

    * The server's view (both shares), also with every message it may carry, has one distribution
      for all (x, y) with the same x.y modulo q; and other x.y give other views.
    * The first party's view has, for a given x, one distribution whatever y is.
    * The second party's view has, for a given y, one distribution whatever x is.
    """
    views = all_views(modulus, length)
    for who in ("server", "carrier"):
        by_product = {}
        for (x, y), counts in views.items():
            xy = sum(a * b for a, b in zip(x, y, strict=True)) % modulus
            assert by_product.setdefault(xy, counts[who]) == counts[who]
        assert len(by_product) == modulus
        supports = [set(counts) for counts in by_product.values()]
        assert sum(map(len, supports)) == len(set().union(*supports))  # the server does learn x.y
    for (x, y), counts in views.items():
        zero = (0,) * length
        assert counts["first"] == views[x, zero]["first"]
        assert counts["second"] == views[zero, y]["second"]


def test_every_single_message_is_uniform():
    """Modulo 5, x = 3, y = 2: x + R_a, y + R_b, the reply's product and each share, 125 of each."""
    counts = [Counter() for _ in range(5)]
    for randomness in product(range(5), repeat=4):
        for counter, number in zip(counts, run([3], [2], 5, randomness)["carrier"], strict=True):
            counter[number] += 1
    assert counts == [Counter(dict.fromkeys(range(5), 125))] * 5


def test_a_mask_used_twice_would_leak():
    """Why a party serves one run: under one mask two openings differ by exactly x' - x."""
    deal, _ = sp.Helper(7, scripted([4, 1, 6])).deal(1)
    openings = [
        int(sp.FirstParty(np.array([x], dtype=np.uint64), deal, 7).open().values[0]) for x in (2, 5)
    ]
    assert (openings[1] - openings[0]) % 7 == 3


def test_golden_run():
    """Modulo 7, x = 3, y = 5, R_a = 4, R_b = 2, r_a = 6, v_2 = 1.

    R_a R_b = 8 = 1, so r_b = 1 - 6 = 2. Opening 3 + 4 = 0. Reply 5 + 2 = 0 and 0 * 5 + 2 - 1 = 1.
    v_1 = 1 - 4 * 0 + 6 = 0. v_1 + v_2 = 1 = 15 modulo 7.
    """
    seen = run([3], [5], 7, [4, 2, 6, 1])
    assert seen["result"] == 1
    assert seen["carrier"] == (0, 1, 0, 0, 1)
    assert seen["first"] == (4, 6, 0, 1, 0)
    assert seen["second"] == (2, 2, 0, 1)


@quick
@given(
    st.sampled_from([2, 97, 2**31 - 1, 2**32, 2**64]).flatmap(
        lambda q: st.tuples(
            st.just(q), st.lists(st.tuples(*[st.integers(0, q - 1)] * 2), min_size=0, max_size=6)
        )
    )
)
def test_shares_add_up_at_every_modulus(case):
    """Against Python's integers; also for the largest words, whose products wrap around."""
    modulus, pairs = case
    x, y = [a for a, _ in pairs], [b for _, b in pairs]
    expected = sum(a * b for a, b in pairs) % modulus
    assert run(x, y, modulus)["result"] == expected


vectors = st.integers(1, 6).flatmap(
    lambda f: hnp.arrays(np.float64, (3, f), elements=st.floats(-20, 20, width=32))
)


@quick
@given(vectors)
def test_private_gram_is_the_gram_matrix(features):
    """Each entry of x and y is off by at most 2^-25, so x.y by 2^-25 (|x|_1 + |y|_1) and a bit."""
    gram = sp.private_gram(features)
    sums = np.abs(features).sum(axis=1)
    bound = 2.0**-25 * (sums[:, None] + sums[None, :]) + 1e-12
    assert (np.abs(gram - features @ features.T) <= bound).all()
    np.testing.assert_array_equal(gram, gram.T)


def test_private_cosines_feed_the_graph():
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 50, size=(6, 10)) + 1.0
    normalised = counts / np.linalg.norm(counts, axis=1, keepdims=True)
    private = sp.private_gram(normalised, sp.FixedPoint(fraction_bits=30))
    np.testing.assert_allclose(private, cosine_similarity(counts), atol=1e-8)


def test_private_gram_of_nobody_and_of_one():
    assert sp.private_gram(np.zeros((0, 3))).shape == (0, 0)
    np.testing.assert_array_equal(sp.private_gram([[3.0, 4.0]]), [[25.0]])


@quick
@given(st.integers(0, 31), st.lists(st.floats(-1, 1), min_size=1, max_size=4))
def test_encoding_rounds_and_wraps(fraction_bits, values):
    if math.hypot(*values) > 0.99:
        values = [value / 3 for value in values]  # room for rounding at 31 bits
    code = sp.FixedPoint(fraction_bits)
    encoded = code.encode(values)
    assert encoded.dtype == np.uint64
    back = [(int(n) - 2**64 if n >= 2**63 else int(n)) / 2**fraction_bits for n in encoded]
    assert np.abs(np.array(back) - values).max() <= 2.0 ** -(fraction_bits + 1)


def test_encode_golden():
    """Two fraction bits: 1.25 is 5, -.5 is -2 = 2^64 - 2; the product 1.25 * -.5 is -10 / 16."""
    code = sp.FixedPoint(fraction_bits=2)
    np.testing.assert_array_equal(code.encode([1.25, -0.5]), np.array([5, 2**64 - 2], np.uint64))
    assert code.decode_product(2**64 - 10) == -0.625
    assert sp.FixedPoint(0, 7).decode_product(3) == 3.0
    assert sp.FixedPoint(0, 7).decode_product(4) == -3.0


def test_a_product_that_could_wrap_around_is_refused_at_encode():
    """sqrt((2^64 - 1) // 2) / 2^24 is 181.02: (181, 0) passes, (181, 3) has norm 181.025."""
    code = sp.FixedPoint()
    assert code.largest_norm == pytest.approx(181.0193359, rel=1e-9)
    gram = sp.private_gram([[181.0, 0.0], [-181.0, 0.0]])
    np.testing.assert_array_equal(gram, [[32761.0, -32761.0], [-32761.0, 32761.0]])
    with pytest.raises(ValueError, match=r"norm of at most 181.019 .* got 181.025"):
        code.encode([181.0, 3.0])
    with pytest.raises(ValueError, match=r"norm of at most 181.019"):
        code.encode([1e308, 1e308])
    # at a tiny modulus, exactly: 7 has room for products within -3..3, so norm^2 <= 3
    tiny = sp.FixedPoint(0, 7)
    np.testing.assert_array_equal(tiny.encode([1.0, -1.0, 1.0]), [1, 6, 1])
    with pytest.raises(ValueError, match="norm of at most"):
        tiny.encode([2.0])


@pytest.mark.parametrize("values", [[math.nan], [math.inf], [[1.0]]])
def test_what_cannot_be_encoded(values):
    with pytest.raises(ValueError, match="values must be a finite vector"):
        sp.FixedPoint().encode(values)


def test_a_party_serves_one_run():
    x = np.zeros(2, dtype=np.uint64)
    first_deal, second_deal = sp.Helper().deal(2)
    first, second = sp.FirstParty(x, first_deal), sp.SecondParty(x, second_deal)
    with pytest.raises(ValueError, match="finish is allowed once, in its turn"):
        first.finish(sp.Reply(x, 0))
    opening = first.open()
    with pytest.raises(ValueError, match="open is allowed once"):
        first.open()
    reply, _ = second.answer(opening)
    with pytest.raises(ValueError, match="answer is allowed once"):
        second.answer(opening)
    first.finish(reply)
    with pytest.raises(ValueError, match="finish is allowed once"):
        first.finish(reply)


def test_messages_of_the_wrong_kind_are_refused():
    first_deal, second_deal = sp.Helper(7).deal(2)
    x, short = np.zeros(2, dtype=np.uint64), np.zeros(1, dtype=np.uint64)
    with pytest.raises(ValueError, match="vector must be encoded"):
        sp.FirstParty(np.zeros(2), first_deal, 7)
    with pytest.raises(ValueError, match=r"vector must have length 2, got shape \(1,\)"):
        sp.SecondParty(short, second_deal, 7)
    with pytest.raises(ValueError, match=r"vector must lie in 0..6, got 7"):
        sp.FirstParty(x + np.uint64(7), first_deal, 7)
    with pytest.raises(ValueError, match=r"message must have length 2, got shape \(1,\)"):
        sp.SecondParty(x, second_deal, 7).answer(sp.MaskedVector(short))
    first = sp.FirstParty(x, first_deal, 7)
    first.open()
    with pytest.raises(ValueError, match=r"reply must have length 2, got shape \(1,\)"):
        first.finish(sp.Reply(short, 0))
    with pytest.raises(ValueError, match=r"features must have shape \(N, f\)"):
        sp.private_gram([1.0, 2.0])


@pytest.mark.parametrize("modulus", [1, 2**32 + 1, 2**63, 2**65])
def test_unusable_moduli_are_refused(modulus):
    for make in (sp.Helper, lambda q: sp.FixedPoint(0, q)):
        with pytest.raises(ValueError, match=rf"modulus must be .* got {modulus}"):
            make(modulus)


@pytest.mark.parametrize("fraction_bits", [-1, 63])
def test_unusable_fractions_are_refused(fraction_bits):
    with pytest.raises(ValueError, match=r"fraction_bits must be in 0..62"):
        sp.FixedPoint(fraction_bits)


def test_the_system_source_covers_its_range():
    """4000 words: each of 64 bits is set in 2000 of them, give or take six deviations of 31.6."""
    words = sp.system_source(2**64, 4000)
    assert words.dtype == np.uint64
    bits = np.unpackbits(words.view(np.uint8).reshape(4000, 8), axis=1).sum(axis=0)
    assert np.abs(bits.astype(int) - 2000).max() < 190
    assert set(sp.system_source(3, 200).tolist()) == {0, 1, 2}
    assert not np.array_equal(words[:10], sp.system_source(2**64, 10))
