"""Text as numbers: characters, words, and sequences whose next token is to be told.

0 is padding, 1 stands for everything that has no number of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from understudy.core.types import Ints
from understudy.simulation.data.federation import PADDING

PAD, OTHER = 0, 1
CHARACTERS = "\n" + "".join(map(chr, range(32, 127)))  # numbers 2 .. 97
N_CHARACTERS = len(CHARACTERS) + 2
_NUMBERS = np.full(128, OTHER, dtype=np.int64)
_NUMBERS[[ord(one) for one in CHARACTERS]] = np.arange(2, N_CHARACTERS)


def characters(text: str) -> Ints:
    """(len(text),) the number of each character."""
    codes = np.array([ord(one) for one in text], dtype=np.int64)
    return np.where(codes < 128, _NUMBERS[np.minimum(codes, 127)], OTHER)


def word_numbers(texts: Iterable[str], size: int) -> dict[str, int]:
    """Word → number, of the most frequent `size` words; equally frequent ones by the alphabet."""
    counts = Counter(word for text in texts for word in text.split())
    chosen = sorted(counts, key=lambda word: (-counts[word], word))[:size]
    return {word: number for number, word in enumerate(chosen, start=2)}


def words(text: str, numbers: Mapping[str, int]) -> Ints:
    """The number of each word."""
    return np.array([numbers.get(word, OTHER) for word in text.split()], dtype=np.int64)


def padded(tokens: Sequence[Ints], length: int, filler: int = PAD) -> Ints:
    """(n, length) cut, or filled up at the end."""
    table = np.full((len(tokens), length), filler, dtype=np.int64)
    for row, sequence in zip(table, tokens, strict=True):
        row[: len(sequence)] = sequence[:length]
    return table


def next_tokens(texts: Iterable[Ints], length: int) -> tuple[Ints, Ints]:
    """(n, length) inputs and the token that comes after each; long texts make several rows.

    What is no token is 0 in the inputs, and -100 in the labels, which losses and accuracies ignore.
    """
    pieces = [
        text[first : first + length + 1]
        for text in texts
        for first in range(0, len(text) - 1, length)
    ]
    inputs = padded([piece[:-1] for piece in pieces], length)
    return inputs, padded([piece[1:] for piece in pieces], length, PADDING)
