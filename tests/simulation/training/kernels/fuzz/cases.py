"""One seed, one case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import nn

from tests.simulation.training.kernels.fuzz import calls, forwards
from tests.simulation.training.kernels.fuzz.data import Data, data
from tests.simulation.training.kernels.fuzz.draw import Draw
from tests.simulation.training.kernels.fuzz.patches import patched
from tests.simulation.training.kernels.fuzz.surgery import operated
from tests.simulation.training.kernels.fuzz.trees import tree
from understudy.core.flat import Layout
from understudy.parts.local import Local

# how often each of these is odd, of all oddities
ODDITIES = {"surgery": 9, "data": 5, "call": 5, "changed": 2, "tree": 3, "patch": 1}
HOW_MANY = [0, 0, 0, 1, 1, 1, 1, 1, 2, 2]  # of them in a case


@dataclass
class Case:
    """What the two engines are given. Made anew for each, so that they share no memory."""

    seed: int
    module: nn.Module
    data: Data
    local: Local
    call: calls.Call
    patch: Callable[[], object] | None
    late: bool  # something is odd only in a call, or was changed after engines were made
    in_public: bool  # to be run through `simulate`, too
    words: list[str] = field(default_factory=list)  # what is odd about it

    @property
    def text(self) -> str:
        return ", ".join(self.words) or "nothing odd"


def case(seed: int) -> Case:
    """The case of a seed."""
    draw = Draw(seed)
    forwards.OUTSIDE[0] = 0
    torch.manual_seed(seed)  # first weights
    kinds = [kind for kind, weight in ODDITIES.items() for _ in range(weight)]
    odd = [draw.of(kinds) for _ in range(draw.of(HOW_MANY))]
    dtype = torch.float64 if draw.chance(0.6) else torch.float32
    made = tree(draw, "tree" in odd)
    module = made.module.to(dtype)
    words = list(dict.fromkeys(made.words))
    words += [operated(draw, module) for _ in range(odd.count("surgery"))]
    examples = data(draw, made.shape, made.n_classes, dtype, "data" in odd)
    vector = _vector(module)
    call = calls.call(draw, vector, examples, "call" in odd, "changed" in odd)
    patch = None
    if "patch" in odd:
        name, patch = patched(draw)
        words.append(name)
    return Case(
        seed,
        module,
        examples,
        calls.local(draw, dtype),
        call,
        patch,
        late="call" in odd or "changed" in odd,
        in_public=draw.chance(0.06),
        words=[word for word in [*words, *examples.words, *call.words] if word],
    )


def _vector(module: nn.Module) -> torch.Tensor:
    """The module's parameters; of one that has none to show, some numbers."""
    try:
        vector = Layout.of(module).vector(module)
    except (ValueError, RuntimeError):
        return torch.ones(7)
    return torch.full(vector.shape, 0.1, dtype=vector.dtype) if vector.is_meta else vector


def plain_seed() -> int:
    """The first seed of a case that has nothing odd."""
    drawn = (case(seed) for seed in range(1000))
    return next(
        one.seed for one in drawn if not one.words and not one.in_public and one.call.job.lr is None
    )
