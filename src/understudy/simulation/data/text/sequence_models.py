"""Models of sequences: a next-character LSTM and a small transformer.

Inputs are whole numbers (batch, length), 0 for padding. Outputs are scores of the next token at
every place, (batch, C, length) as `cross_entropy` takes them; or with `last` of one answer for the
whole, (batch, C), read off at the last token that is no padding.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from understudy.core import checks


def char_lstm(
    shape: tuple[int, ...],
    n_classes: int,
    vocabulary: int | None = None,
    embedding: int = 8,
    hidden: int = 256,
    layers: int = 2,
    last: bool = False,
) -> nn.Module:
    """An LSTM for the next character, as LEAF has it for Shakespeare: 8 inputs, 2 × 256 units.

    Parameters
    ----------
    shape : tuple of int
        (length,).
    n_classes : int
        C.
    vocabulary : int, optional
        How many tokens the inputs have; by default C, as where the next of them is asked for.
    embedding : int
        Numbers a token is turned into.
    hidden : int
        Units of a layer.
    layers : int
        How many layers.
    last : bool
        One answer for the whole sequence, at its last token; False: one at each place.

    References
    ----------
    McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data, 2017.
    Caldas et al., LEAF: A Benchmark for Federated Settings, 2018.
    """
    _check("char_lstm", shape, last, embedding=embedding, hidden=hidden, layers=layers)
    return _Lstm(_size(vocabulary, n_classes), n_classes, embedding, hidden, layers, last)


def char_transformer(
    shape: tuple[int, ...],
    n_classes: int,
    vocabulary: int | None = None,
    width: int = 64,
    heads: int = 4,
    layers: int = 2,
    last: bool = False,
) -> nn.Module:
    """A small causal transformer for the next token: 2 layers of 64, normalised first, no dropout.

    Parameters
    ----------
    shape : tuple of int
        (length,): as many places get a position of their own.
    n_classes, vocabulary, last
        As of `char_lstm`.
    width : int
        Numbers at each place; a multiple of `heads`.
    heads : int
        Of attention, in each layer.
    layers : int
        How many layers.

    References
    ----------
    Vaswani et al., Attention Is All You Need, 2017.
    """
    _check("char_transformer", shape, last, width=width, heads=heads, layers=layers)
    if width % heads:
        raise ValueError(f"width: expected a multiple of heads={heads}, got {width}")
    vocabulary = _size(vocabulary, n_classes)
    return _Transformer(vocabulary, n_classes, shape[0], width, heads, layers, last)


class _Lstm(nn.Module):
    def __init__(
        self, vocabulary: int, n_classes: int, embedding: int, hidden: int, layers: int, last: bool
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, embedding, padding_idx=0)
        self.lstm = nn.LSTM(embedding, hidden, layers, batch_first=True)
        self.scores = nn.Linear(hidden, n_classes)
        self.last = last

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = _checked(x, self.tokens.num_embeddings)
        states, _ = self.lstm(self.tokens(tokens))
        return _scored(states, tokens, self.scores, self.last)


class _Transformer(nn.Module):
    def __init__(
        self,
        vocabulary: int,
        n_classes: int,
        length: int,
        width: int,
        heads: int,
        layers: int,
        last: bool,
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width, padding_idx=0)
        self.positions = nn.Parameter(0.02 * torch.randn(length, width))
        self.layers = nn.ModuleList(_Layer(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.scores = nn.Linear(width, n_classes)
        self.last = last

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = _checked(x, self.tokens.num_embeddings)
        states = self.tokens(tokens) + self.positions[: tokens.shape[1]]
        for layer in self.layers:
            states = layer(states)
        return _scored(self.norm(states), tokens, self.scores, self.last)


class _Layer(nn.Module):
    """Attention to what came before, then two linear layers; each added to what went in.

    Sequences are padded at their ends: what comes before a token is never padding.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend = nn.Linear(width, 3 * width)
        self.mix = nn.Linear(width, width)
        self.wide = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        n, length, width = states.shape
        parts = self.attend(self.before(states)).view(n, length, 3, self.heads, -1)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        said = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        states = states + self.mix(said.transpose(1, 2).reshape(n, length, width))
        wide: torch.Tensor = self.wide(self.between(states))
        return states + wide


def _scored(
    states: torch.Tensor, tokens: torch.Tensor, scores: nn.Module, last: bool
) -> torch.Tensor:
    """(batch, C, length), or (batch, C) at the last token that is no padding."""
    if not last:
        return scores(states).transpose(1, 2)  # type: ignore[no-any-return]
    places = torch.arange(tokens.shape[1], device=tokens.device)
    at = torch.where(tokens != 0, places, 0).amax(dim=1)  # 0 where all is padding
    return scores(states[torch.arange(len(states), device=states.device), at])  # type: ignore[no-any-return]


def _checked(x: torch.Tensor, vocabulary: int) -> torch.Tensor:
    tokens = x.long()  # an estimate of costs hands over zeros of a floating type
    if tokens.numel() and not 0 <= int(tokens.min()) <= int(tokens.max()) < vocabulary:
        raise ValueError(
            f"x: expected tokens in 0 .. {vocabulary - 1}, got {int(tokens.min())} .. "
            f"{int(tokens.max())}; the model's setting vocabulary says how many there are"
        )
    return tokens


def _size(vocabulary: int | None, n_classes: int) -> int:
    if vocabulary is None:
        return n_classes
    checks.integer("vocabulary", vocabulary, low=1)
    return vocabulary


def _check(name: str, shape: tuple[int, ...], last: bool, **sizes: int) -> None:
    if len(shape) != 1:
        raise ValueError(
            f"model: {name!r} takes sequences (length,) of whole numbers, got inputs of shape "
            f"{shape}"
        )
    for what, size in sizes.items():
        checks.integer(what, size, low=1)
    checks.choice("last", last, (True, False))
