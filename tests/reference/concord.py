"""Concord: weights of the stand-ins by coordinate descent, one coefficient at a time."""

from __future__ import annotations

import numpy as np

from tests.reference.twin import Part


def stand_ins(parts: list[Part], d: int, share: dict[int, float]) -> dict[int, np.ndarray]:
    found = {k: np.zeros(d) for k, *_ in parts}
    for k, _, coef, vector in parts:
        found[k] = found[k] + coef / share[k] * vector
    return found


def shares_of(parts: list[Part]) -> dict[int, float]:
    """Where a compensator does not tell: the sums of the coefficients."""
    share: dict[int, float] = {}
    for k, _, coef, _ in parts:
        share[k] = share.get(k, 0.0) + coef
    return share


def direction(
    rows: list[np.ndarray], s: list[float], ridge: float, *, centred: bool, bound: float | None
) -> list[float]:
    """min over 0 <= c <= bound s of |sum c x|^2 + ridge |c|^2 - 2 b'c, all in units of mean |x|^2.

    b_k = sum_j s_j max(<x_k, x_j>, 0), and ridge s_k more where it is centred.
    """
    n = len(rows)
    gram = np.array([[float(x @ y) for y in rows] for x in rows])
    unit = sum(gram[k, k] for k in range(n)) / n
    gram = gram / unit
    side = [sum(s[j] * max(gram[k, j], 0.0) for j in range(n)) for k in range(n)]
    if centred:
        side = [b + ridge * share for b, share in zip(side, s, strict=True)]
    c = np.array(s)
    for _ in range(100_000):
        moved = 0.0
        for k in range(n):
            others = float(gram[k] @ c) - gram[k, k] * c[k]
            best = max((side[k] - others) / (gram[k, k] + ridge), 0.0)
            if bound is not None:
                best = min(best, bound * s[k])
            moved, c[k] = max(moved, abs(best - c[k])), best
        if moved < 1e-15:
            return c.tolist()
    raise AssertionError("coordinate descent did not end")


def update(
    parts: list[Part],
    d: int,
    n_parameters: int,
    ridge: float = 0.1,
    *,
    share: dict[int, float] | None = None,
    centred: bool = True,
    bound: float | None = None,
    buffers_from: tuple[str, ...] = ("came", "memory", "model", "mixture"),
) -> np.ndarray:
    """The step; buffers are summed with the compensator's own coefficients."""
    share = shares_of(parts) if share is None else share
    found = stand_ins(parts, d, share)
    clients = sorted(found)
    c = direction(
        [found[k][:n_parameters] for k in clients],
        [share[k] for k in clients],
        ridge,
        centred=centred,
        bound=bound,
    )
    total = np.zeros(d)
    for k, weight in zip(clients, c, strict=True):
        total += weight * found[k]
    total[n_parameters:] = buffers(parts, d, n_parameters, buffers_from)
    return total


def buffers(parts: list[Part], d: int, n_parameters: int, kinds: tuple[str, ...]) -> np.ndarray:
    total = np.zeros(d - n_parameters)
    for _, (kind, _), coef, vector in parts:
        if kind in kinds:
            total += coef * vector[n_parameters:]
    return total


def plain_update(parts: list[Part], d: int, n_parameters: int) -> np.ndarray:
    """Kriging under a plain sum: its buffers are those of the friends alone."""
    total = np.zeros(d)
    for _, _, coef, vector in parts:
        total += coef * vector
    total[n_parameters:] = buffers(parts, d, n_parameters, ("came",))
    return total
