"""Inputs that are kept as bytes are, to all that is done with them, the floats they stand for."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from understudy.memory import pixels
from understudy.memory.pixels import ByteScale, Pixels

CIFAR = ByteScale(255.0, (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))
KINDS = [
    (ByteScale(), 1),
    (ByteScale(16.0), 1),
    (ByteScale(255.0, (0.1307,), (0.3081,)), 1),
    (CIFAR, 3),
]


def of(scaling: ByteScale, channels: int, n: int = 40) -> tuple[Pixels, torch.Tensor]:
    """Inputs kept as bytes, and the floats they stand for, by torch's own operations."""
    draw = torch.Generator().manual_seed(0)
    stored = torch.randint(0, 256, (n, channels, 5, 4), dtype=torch.uint8, generator=draw)
    expected = stored.float() / scaling.scale
    if scaling.mean is not None:
        expected = expected - torch.tensor(scaling.mean).view(1, -1, 1, 1)
    if scaling.std is not None:
        expected = expected / torch.tensor(scaling.std).view(1, -1, 1, 1)
    return Pixels(stored, scaling), expected


def elsewhere(kept: Pixels) -> Pixels:
    """The same, laid in another order."""
    order = np.random.default_rng(0).permutation(len(kept))[:25]
    return kept.laid_out(np.concatenate([order, order[:5]]))


DONE: list[Callable[[torch.Tensor], Any]] = [
    lambda x: x[3],
    lambda x: x[-1],
    lambda x: x[3:17:2],
    lambda x: x[[1, 4]],
    lambda x: x[np.array([5, 2])],
    lambda x: x[torch.tensor([5, 2])],
    lambda x: x[torch.tensor([-1, 2])],
    lambda x: x[torch.tensor(4)],
    lambda x: x[torch.arange(40) % 3 == 0],
    lambda x: x[:, 0],
    lambda x: x[2:4, :, 1],
    lambda x: x[None],
    lambda x: x[...],
    lambda x: x[torch.tensor([[1, 2], [3, 4]])],
    lambda x: x.index_select(0, torch.tensor([7, 7, 1])),
    lambda x: torch.index_select(x, 0, torch.tensor([7])),
    lambda x: x.index_select(2, torch.tensor([1])),
    lambda x: x + 1,
    lambda x: 2 * x,
    lambda x: x.mean(dim=0),
    lambda x: x.double(),
    lambda x: x.clone(),
    lambda x: x.flatten(1),
    lambda x: torch.cat([x, x]),
    lambda x: torch.stack(list(x)[:2]),
    lambda x: torch.from_numpy(x.numpy()),
    lambda x: torch.from_numpy(np.asarray(x)),
    lambda x: torch.nn.Conv2d(x.shape[1], 2, 3, bias=False).requires_grad_(False)(x).shape,
    lambda x: (x.shape, x.dtype, len(x), x.ndim, x.numel(), x.is_floating_point(), x.device),
]


@pytest.mark.parametrize(("scaling", "channels"), KINDS)
@pytest.mark.parametrize("laid", [False, True])
@pytest.mark.parametrize("place", range(len(DONE)))
def test_it_is_what_the_floats_are(
    place: int, laid: bool, scaling: ByteScale, channels: int
) -> None:
    kept, floats = of(scaling, channels)
    kept = elsewhere(kept) if laid else kept
    found, expected = DONE[place](kept), DONE[place](floats)
    if isinstance(expected, torch.Tensor):
        assert found.dtype == expected.dtype
        assert torch.equal(found, expected)
    else:
        assert found == expected


@pytest.mark.parametrize(("scaling", "channels"), KINDS)
def test_every_byte_becomes_what_torch_makes_of_it(scaling: ByteScale, channels: int) -> None:
    every = torch.arange(256, dtype=torch.uint8)
    stored = every[:, None, None].expand(256, channels, 2).contiguous()
    assert torch.equal(Pixels(stored, scaling).floats()[:, :, 0], scaling.of_bytes())
    assert scaling.terms().shape == (scaling.n_channels, 5)


def test_some_examples_are_plain_and_all_are_never_made_for_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept, floats = of(CIFAR, 3)
    monkeypatch.setattr(Pixels, "floats", lambda self: pytest.fail("all floats were made"))
    some = kept[3:5]
    assert type(some) is torch.Tensor
    assert torch.equal(some, floats[3:5])
    assert torch.equal(kept.index_select(0, torch.arange(4)), floats[:4])
    assert (kept.shape, len(kept), kept.dtype) == (floats.shape, 40, torch.float32)
    assert torch.equal(torch.cat(list(kept.chunks())), floats)
    assert isinstance(torch.cat([kept, kept]), Pixels)


def test_examples_are_converted_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, floats = of(CIFAR, 3)
    monkeypatch.setattr(pixels, "CHUNK", 7)
    assert torch.equal(kept.floats(), floats)
    assert [len(chunk) for chunk in kept.chunks()] == [7] * 5 + [5]


def test_bytes_lie_in_the_order_they_are_wanted_in() -> None:
    kept, floats = of(ByteScale(), 1, n=6)
    laid = kept.laid_out(np.array([4, 1, 4, 0]))
    assert laid.place is not None
    assert laid.place.tolist() == [2, 1, 3, 4, 0, 5]
    assert torch.equal(laid.stored[:3], kept.stored[[4, 1, 0]])
    assert torch.equal(laid.in_order(), kept.stored)
    again = laid.laid_out(np.array([5]))
    assert torch.equal(again.stored[0], kept.stored[5])
    assert torch.equal(again, floats)


@pytest.mark.parametrize("laid", [False, True])
def test_copies_and_pickles_hold_the_bytes(laid: bool) -> None:
    kept, floats = of(CIFAR, 3)
    kept = elsewhere(kept) if laid else kept
    text = pickle.dumps(kept)
    assert len(text) < 2 * kept.stored.numel()
    for again in (pickle.loads(text), copy.deepcopy(kept)):
        assert isinstance(again, Pixels)
        assert (again.stored.dtype, again.scaling) == (torch.uint8, CIFAR)
        assert torch.equal(again, floats)


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.zero_(),
        lambda x: x.mul_(2),
        lambda x: x.__setitem__(0, 1.0),
        lambda x: torch.add(x.floats(), 1, out=x),
        lambda x: x.data_ptr(),
        lambda x: x.untyped_storage(),
    ],
)
def test_it_cannot_be_written_to(write: Callable[[Any], Any]) -> None:
    kept, floats = of(CIFAR, 3)
    with pytest.raises(TypeError, match=r"kept as bytes and cannot be written to; x\.clone"):
        write(kept)
    assert torch.equal(kept, floats)


@pytest.mark.parametrize(
    "stored", [torch.zeros(2, 3), torch.zeros(4, 6, dtype=torch.uint8)[:, ::2]]
)
def test_only_dense_bytes_are_kept(stored: torch.Tensor) -> None:
    with pytest.raises(ValueError, match=r"expected bytes .* that lie densely, got torch"):
        Pixels(stored, ByteScale())
