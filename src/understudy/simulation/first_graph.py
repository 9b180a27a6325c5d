"""What a simulation does for FedGS's constructed graphs before its first round."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn

from understudy.core.rng import generator
from understudy.core.types import Arrivals, Ints
from understudy.graph.noise_answers import NoiseAnswers
from understudy.parts.samplers.fedgs import FedGS, FedGSState
from understudy.server.state import ServerState
from understudy.server.strategy import Strategy
from understudy.simulation.data.federation import Federation

SERVER_EXAMPLES = 500  # of the server's small validation set, whose size the paper does not give
AT_ONCE = 16  # clients whose updates are in memory at the same time

Kind = TypeVar("Kind")


def with_answers(
    strategy: Strategy, module: nn.Module, federation: Federation, seed: int
) -> Strategy:
    """The strategy; a FedGS in it that asks models, and was not told what, asks about noise.

    The noise is like the inputs of up to 500 validation examples (eq. 12), of which there must be
    some. Both are drawn by the run's seed.
    """
    sampler = _fitted(strategy.sampler, module, federation, seed)
    return strategy if sampler is strategy.sampler else replace(strategy, sampler=sampler)


def _fitted(sampler: Any, module: nn.Module, federation: Federation, seed: int) -> Any:
    if isinstance(sampler, FedGS):
        if sampler.graph != "functional" or sampler.answers is not None:
            return sampler
        inputs = validation_inputs(federation, seed)
        return replace(sampler, answers=NoiseAnswers.like(module, inputs, seed=seed))
    inner = getattr(sampler, "inner", None)
    if inner is None or not is_dataclass(sampler) or isinstance(sampler, type):
        return sampler
    fitted = _fitted(inner, module, federation, seed)
    return sampler if fitted is inner else replace(sampler, inner=fitted)


def validation_inputs(federation: Federation, seed: int) -> torch.Tensor:
    """The inputs of a small validation set of the server's, never of the test examples."""
    held = federation.validation
    pool = np.unique(np.concatenate(held)) if held else np.zeros(0, dtype=np.int64)
    if len(pool) < 2:
        raise ValueError(
            "graph='functional': needs a validation set, federate(..., validation=0.2) or "
            "data.validation = 0.2 in a study, or answers=NoiseAnswers.like(module, inputs); "
            f"got {len(pool)} validation examples"
        )
    chosen = np.sort(generator(seed, "graph/server").permutation(pool)[:SERVER_EXAMPLES])
    return federation.x.index_select(0, torch.from_numpy(chosen))


def meet_everybody(
    strategy: Strategy, state: ServerState, train: Callable[[Ints], Arrivals]
) -> None:
    """Let everybody train once before round 0, where a FedGS in the strategy wants it.

    Only its first updates, or answers, are written. `train` gives what clients make of the first
    model in round 0.
    """
    sampler = _found(strategy.sampler, FedGS)
    own = _found(state.sampler, FedGSState)
    if sampler is None or own is None or not sampler.everybody_first or state.t > 0:
        return
    if own.first is None or own.first.known.any():
        return
    everybody = np.arange(state.n_clients)
    for ids in np.array_split(everybody, -(-len(everybody) // AT_ONCE)):
        sampler.meet(own, train(ids), state.params, state.n_parameters)


def _found(thing: Any, kind: type[Kind]) -> Kind | None:
    """The thing itself, or the first of its fields, that is of this kind."""
    if isinstance(thing, kind):
        return thing
    if is_dataclass(thing):
        for item in fields(thing):
            found = _found(getattr(thing, item.name), kind)
            if found is not None:
                return found
    return None
