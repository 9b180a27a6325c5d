"""What the arrays of a client in TFF's and FedJAX's files mean: images, snippets of text, words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from understudy.core.shown import shown
from understudy.simulation.data.natural.clients import Examples
from understudy.simulation.data.text.tokens import (
    N_CHARACTERS,
    characters,
    next_tokens,
    word_numbers,
    words,
)

Features = Mapping[str, npt.NDArray[Any]]
Convert = Callable[[Features], Examples]


class Kind(NamedTuple):
    """A data set in these files."""

    keys: tuple[str, str | None]  # of what goes in, of the labels
    n_classes: int  # 0: as many as there are words
    own_tests: bool  # whether a client's test examples have its name


KINDS = {
    "femnist": Kind(("pixels", "label"), 62, True),
    "cifar100": Kind(("image", "label"), 100, False),  # other clients, numbered anew
    "shakespeare": Kind(("snippets", None), N_CHARACTERS, True),
    "stackoverflow": Kind(("tokens", None), 0, True),
}


def checked(kind: str, features: Features) -> Features:
    """The arrays that the kind needs, as long as each other, or an error."""
    keys = [key for key in KINDS[kind].keys if key is not None]
    missing = [key for key in keys if key not in features]
    if missing:
        known = ", ".join(map(str, features)) or "nothing"
        raise ValueError(f"expected {' and '.join(keys)}, got {shown(known, 100)}")
    lengths = {key: features[key].shape[:1] for key in keys}
    if len(set(lengths.values())) != 1 or () in lengths.values():
        raise ValueError(f"expected as many of {' as of '.join(keys)}, got shapes {lengths}")
    return {key: features[key] for key in keys}


def converter(kind: str, texts: Mapping[str, Features], length: int, vocabulary: int) -> Convert:
    """What makes examples of a client's arrays; `texts` are those that words are counted in."""
    if kind == "femnist":
        return _pixels
    if kind == "cifar100":
        return _photographs
    if kind == "shakespeare":
        return lambda features: _sequences(
            [characters(text) for text in _texts(features["snippets"])], length
        )
    numbers = word_numbers(
        (text for features in texts.values() for text in _texts(features["tokens"])), vocabulary
    )
    return lambda features: _sequences(
        [words(text, numbers) for text in _texts(features["tokens"])], length
    )


def _pixels(features: Features) -> Examples:
    pixels = features["pixels"]
    if pixels.shape[1:] != (28, 28) or pixels.dtype.kind != "f":
        raise ValueError(
            f"expected pixels (n, 28, 28) of a floating type, got {pixels.dtype} of shape "
            f"{pixels.shape}"
        )
    return Examples(pixels[:, None].astype(np.float32), _labels(features["label"]))


def _photographs(features: Features) -> Examples:
    image = features["image"]
    if image.shape[1:] != (32, 32, 3) or image.dtype != np.uint8:
        raise ValueError(
            f"expected image (n, 32, 32, 3) of bytes, got {image.dtype} of shape {image.shape}"
        )
    return Examples(image.transpose(0, 3, 1, 2), _labels(features["label"]))


def _labels(values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise ValueError(
            f"expected labels (n,) of whole numbers, got {values.dtype} of shape {values.shape}"
        )
    return values.astype(np.int64)


def _texts(values: npt.NDArray[Any]) -> list[str]:
    """Texts as they are stored: bytes in UTF-8, or text."""
    result = []
    for value in values.ravel().tolist():
        if isinstance(value, bytes):
            value = value.decode("utf-8", errors="replace")
        if not isinstance(value, str):
            raise ValueError(f"expected text, got {shown(value, 60)}")
        result.append(value)
    return result


def _sequences(texts: list[npt.NDArray[np.int64]], length: int) -> Examples:
    return Examples(*next_tokens(texts, length))
