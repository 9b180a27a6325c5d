"""`FedMGDA` (FedMGDA+, Hu et al., 2022): the shortest mixture of unit updates near the shares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from understudy.core import checks
from understudy.core.types import Bools, Contributions, Floats, RoundEnd
from understudy.parts.aggregators.linear import linear_sum
from understudy.parts.aggregators.stand_ins import refuse_without_stand_ins, stand_ins

if TYPE_CHECKING:
    from understudy.server.strategy import Strategy

# λ is unique with it where updates are linearly dependent, and moves by no more than that otherwise
RIDGE = 1e-12
CLOSE = 1e-12
MANY = 64  # entries: from the shares it would take too many sets
GRADIENT_STEPS = 300


@dataclass(frozen=True)
class FedMGDA:
    """A step that harms no client, as far as weights near their shares allow it.

    Every stand-in is scaled to length one, g_k. The weights are the point of
    min ‖Σ λ_k g_k‖² with Σ λ_k = 1, λ ≥ 0 and λ_k within ε of s_k, s the shares: without the last
    condition the step has a non-negative product with every g_k.

    Parameters
    ----------
    epsilon : float
        ε in [0, 1]: 0 averages the unit updates by their shares, 1 leaves λ free (FedMGDA).
    length : {"mean", "unit"}
        Of what is handed on: Σ λ_k g_k times the mean length of the stand-ins, by shares; or as it
        is, at most 1 in every round, as published.

    Notes
    -----
    Published updates are unit vectors throughout, so that the server's step alone says how far the
    model moves and has to be found anew for each model; with ``length="mean"`` a step of 1 means
    what it means for other methods. Buffers keep their mean.

    References
    ----------
    Hu, Shaloudegi, Zhang & Yu, Federated Learning Meets Multi-Objective Optimization, 2022
    (algorithm 1, eq. 10).
    """

    epsilon: float = 0.1
    length: str = "mean"

    def __post_init__(self) -> None:
        checks.number("epsilon", self.epsilon, low=0, high=1)
        checks.choice("length", self.length, ("mean", "unit"))

    def check(self, strategy: Strategy) -> None:
        refuse_without_stand_ins(self, strategy)

    def reweigh(self, contributions: Contributions, end: RoundEnd) -> Contributions:
        told = stand_ins(contributions, end.n_parameters)
        norm = np.sqrt(np.maximum(np.diag(told.gram), 0))
        moved = norm > 0
        if not moved.any():
            return contributions
        share = told.share[moved] / told.share[moved].sum()
        unit = told.gram[np.ix_(moved, moved)] / np.outer(norm[moved], norm[moved])
        weights = shortest(unit, share, self.epsilon)
        scale = float(told.share @ norm) if self.length == "mean" else 1.0
        weight = np.zeros(len(norm))
        weight[moved] = scale * weights / norm[moved]
        shrunk = np.sqrt(max(float(weights @ unit @ weights), 0.0))
        return told.weighted(contributions, weight, {"common_length": shrunk})

    def aggregate(self, contributions: Contributions) -> torch.Tensor:
        return linear_sum(contributions)


def shortest(gram: Floats, share: Floats, epsilon: float) -> Floats:
    """λ that minimises λ'Gλ + RIDGE ‖λ − s‖² with Σλ = 1, max(0, s − ε) ≤ λ ≤ min(1, s + ε).

    By active sets: the best point with some entries held at their bounds; on the way there the
    first bound that is reached is held too; where none is, the entry that gains most is let go. It
    ends where the conditions of Karush, Kuhn and Tucker hold.
    """
    low, high = np.maximum(0, share - epsilon), np.minimum(1, share + epsilon)
    hessian = gram + RIDGE * np.eye(len(gram))
    point = share.astype(np.float64)
    if len(point) > MANY:
        point = _approached(hessian, point, low, high)
    free = (point > low + CLOSE) & (point < high - CLOSE)
    for _ in range(20 * len(gram) + 20):  # far more than are needed; any point on the way is valid
        aim = _best(hessian, share, point, free)
        step, first = _room(point, aim, low, high, free)
        point = np.clip(point + step * (aim - point), low, high)
        if first is not None:
            point[first] = high[first] if aim[first] > point[first] else low[first]
            free[first] = False
            continue
        slope = hessian @ point - RIDGE * share
        rising, falling = point < high - CLOSE, point > low + CLOSE
        up = int(np.argmin(np.where(rising, slope, np.inf)))
        down = int(np.argmax(np.where(falling, slope, -np.inf)))
        if not (rising.any() and falling.any()) or slope[down] - slope[up] <= CLOSE:
            break
        free[[up, down]] = True
    return point


def _approached(hessian: Floats, share: Floats, low: Floats, high: Floats) -> Floats:
    """A point near the minimum, which tells most of who is held: accelerated projected gradient."""
    point = before = share
    rate = 1 / max(float(np.linalg.norm(hessian, 1)), CLOSE)  # at least the largest eigenvalue
    for k in range(GRADIENT_STEPS):
        ahead = point + k / (k + 3) * (point - before)
        before = point
        point = _projected(ahead - rate * (hessian @ ahead - RIDGE * share), low, high)
    return point


def _projected(point: Floats, low: Floats, high: Floats) -> Floats:
    """The nearest point within the bounds whose entries sum to one."""
    least, most = float((point - high).min()), float((point - low).max())
    for _ in range(64):
        shift = (least + most) / 2
        above = np.clip(point - shift, low, high).sum() > 1
        least, most = (shift, most) if above else (least, shift)
    inside = np.clip(point - (least + most) / 2, low, high)
    room = high - inside if inside.sum() < 1 else inside - low
    return np.asarray(inside + (1 - inside.sum()) * room / (room.sum() or 1.0))


def _best(hessian: Floats, share: Floats, point: Floats, free: Bools) -> Floats:
    """The minimum over the free entries, whose sum stays what it is."""
    k, aim = int(free.sum()), point.copy()
    if k < 2:
        return aim
    system = np.ones((k + 1, k + 1))
    system[:k, :k], system[k, k] = hessian[np.ix_(free, free)], 0
    held = hessian[np.ix_(free, ~free)] @ point[~free]
    right = np.append(RIDGE * share[free] - held, point[free].sum())
    aim[free] = np.linalg.solve(system, right)[:k]
    return aim


def _room(
    point: Floats, aim: Floats, low: Floats, high: Floats, free: Bools
) -> tuple[float, int | None]:
    """How much of the way to `aim` stays within the bounds, and who reaches one first, if any."""
    way = aim - point
    bound = np.where(way > 0, high, low)
    with np.errstate(divide="ignore", invalid="ignore"):
        room = np.where(free & (way != 0), (bound - point) / way, np.inf)
    first = int(np.argmin(room))
    return (float(max(room[first], 0.0)), first) if room[first] < 1 else (1.0, None)
