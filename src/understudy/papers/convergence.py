"""FL-FDMS's theorem 1 whole, and lemma 1: bounds of the gradient and of the clients' drift.

The paper's three terms of eq. 7 are functions of their own: `vanishing`, `phi` and
`understudy.papers.bounds.psi`. The smoothness L is never known for a neural network and is always
given; ρ_L² and ρ_G² are given, or measured at one model with `local_variance` and
`global_variance`.

References
----------
Wang & Xu, Combating Client Dropout in Federated Learning via Friend Model Substitution: equation
numbers are this version's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from understudy.core import checks
from understudy.papers import bounds


@dataclass(frozen=True)
class SmoothProblem:
    """What theorem 1 is stated for.

    Parameters
    ----------
    n_clients : int
        K.
    smoothness : float
        L, of assumption 1.
    local_variance, global_variance : float
        ρ_L² and ρ_G², of assumption 3.
    lr, server_lr : float
        η_L and η, both constant.
    local_steps : int
        E, steps of a client in a round.
    """

    n_clients: int
    smoothness: float
    local_variance: float
    global_variance: float
    lr: float
    server_lr: float = 1.0
    local_steps: int = 1

    def __post_init__(self) -> None:
        checks.integer("n_clients", self.n_clients, low=1)
        checks.integer("local_steps", self.local_steps, low=1)
        for name in ("smoothness", "lr", "server_lr"):
            checks.number(name, getattr(self, name), low=0, low_open=True)
        for name in ("local_variance", "global_variance"):
            checks.number(name, getattr(self, name), low=0)


def step_limits(problem: SmoothProblem) -> tuple[float, float]:
    """1/(8EL) and 1/(4EL): the largest η_L, and the largest ηη_L, of theorem 1."""
    reach = problem.local_steps * problem.smoothness
    return 1 / (8 * reach), 1 / (4 * reach)


def steps_are_small_enough(problem: SmoothProblem) -> bool:
    """Whether η_L <= 1/(8EL) and ηη_L <= 1/(4EL): without it theorem 1 says nothing."""
    local, both = step_limits(problem)
    return problem.lr <= local and problem.server_lr * problem.lr <= both


def largest_c(problem: SmoothProblem) -> float:
    """½ − 30η_L²E²L²: the constant c of theorem 1 is any number above 0 and below this one.

    Notes
    -----
    At the largest step, η_L = 1/(8EL), it is 1/32; it is not above 0 from η_L = 1/(√60·EL) on.
    (The appendix prints E and L under the root, which does not follow from its own condition.)
    """
    return 0.5 - 30 * (problem.lr * problem.local_steps * problem.smoothness) ** 2


def vanishing(problem: SmoothProblem, first_gap: float, rounds: int, c: float) -> float:
    """(f_0 − f_*)/(cηη_L·E·T): the first term of eq. 7, which falls like 1/T.

    Parameters
    ----------
    problem : SmoothProblem
    first_gap : float
        f_0 − f_*: how far the first model's loss is above the best.
    rounds : int
        T.
    c : float
        The theorem's constant; see `largest_c`.
    """
    checks.number("first_gap", first_gap, low=0)
    checks.integer("rounds", rounds, low=1)
    step = problem.server_lr * problem.lr
    return first_gap / (_checked(problem, c) * step * problem.local_steps * rounds)


def phi(problem: SmoothProblem, c: float) -> float:
    """Φ = (1/c)(5η_L²EL²(ρ_L² + 6Eρ_G²) + ηη_L·L·ρ_L²/K): what stays however long one trains."""
    steps, smooth = problem.local_steps, problem.smoothness
    drift = 5 * problem.lr**2 * steps * smooth**2 * _spread(problem)
    noise = problem.server_lr * problem.lr * smooth * problem.local_variance / problem.n_clients
    return (drift + noise) / _checked(problem, c)


def smallest_gradient(
    problem: SmoothProblem, first_gap: float, errors: npt.ArrayLike, c: float | None = None
) -> float:
    """The bound of min_t E‖∇f(w_t)‖² (theorem 1, eq. 7).

    Parameters
    ----------
    problem : SmoothProblem
    first_gap : float
        f_0 − f_*.
    errors : (T,) floats
        E‖e_t‖² of each round, in the paper's units (ours divided by η_L²).
    c : float, optional
        The theorem's constant. All three terms fall with it; the default is `largest_c`, which the
        bound comes as near to as one likes.

    Raises
    ------
    ValueError
        Where the steps are too large for the theorem, or c is.
    """
    if not steps_are_small_enough(problem):
        local, both = step_limits(problem)
        raise ValueError(
            f"lr: theorem 1 needs lr <= {local:g} and server_lr * lr <= {both:g}, got "
            f"{problem.lr:g} and {problem.server_lr * problem.lr:g}"
        )
    c = largest_c(problem) if c is None else c
    squares = np.asarray(errors, dtype=np.float64)
    scale = bounds.factor(
        problem.server_lr, problem.lr, problem.smoothness, problem.local_steps, _checked(problem, c)
    )
    substituted = bounds.psi(squares, scale)
    return vanishing(problem, first_gap, len(squares), c) + phi(problem, c) + substituted


def drift_bound(problem: SmoothProblem, squared_gradient: float) -> float:
    """5Eη_L²(ρ_L² + 6Eρ_G²) + 30E²η_L²‖∇f(w_t)‖²: the bound of `drift` (lemma 1, eq. 6).

    Parameters
    ----------
    problem : SmoothProblem
        With η_L <= 1/(8EL).
    squared_gradient : float
        ‖∇f(w_t)‖².
    """
    checks.number("squared_gradient", squared_gradient, low=0)
    largest = step_limits(problem)[0]
    if problem.lr > largest:
        raise ValueError(f"lr: lemma 1 needs lr <= {largest:g}, got {problem.lr:g}")
    steps, step = problem.local_steps, problem.lr**2
    return 5 * steps * step * _spread(problem) + 30 * steps**2 * step * squared_gradient


def drift(local_models: npt.ArrayLike, start: npt.ArrayLike) -> float:
    """(1/K) Σ_k ‖w_{t,τ}^k − w_t‖²: what lemma 1 bounds.

    Parameters
    ----------
    local_models : (K, d) floats
        Each client's model after τ < E local steps.
    start : (d,) floats
        w_t, the model they started from.
    """
    moved = np.asarray(local_models, dtype=np.float64) - np.asarray(start, dtype=np.float64)
    if moved.ndim != 2 or not len(moved):
        raise ValueError(f"local_models: expected shape (K, d), got differences of {moved.shape}")
    return float((moved**2).sum(axis=1).mean())


def global_variance(gradients: npt.ArrayLike) -> float:
    """max_k ‖∇F^k(w) − ∇f(w)‖² at one model: ρ_G² is at least this (assumption 3).

    `gradients` (K, d) are the clients' over all of their data; f is their plain mean.
    """
    rows = np.asarray(gradients, dtype=np.float64)
    if rows.ndim != 2 or not len(rows):
        raise ValueError(f"gradients: expected shape (K, d), got {rows.shape}")
    return float(((rows - rows.mean(axis=0)) ** 2).sum(axis=1).max())


def local_variance(
    batch_gradients: Sequence[npt.ArrayLike], gradients: npt.ArrayLike | None = None
) -> float:
    """max_k E‖∇F^k(w; ξ) − ∇F^k(w)‖² at one model: ρ_L² is at least this (assumption 3).

    Parameters
    ----------
    batch_gradients : sequence of (m_k, d) floats
        For each client, gradients of some of its batches, all of one size.
    gradients : (K, d) floats, optional
        The clients' over all of their data; by default the mean of a client's batches takes their
        place, and the sum is divided by m_k − 1.
    """
    if not len(batch_gradients):
        raise ValueError("batch_gradients: expected those of at least one client, got none")
    found = []
    for k, given in enumerate(batch_gradients):
        rows = np.asarray(given, dtype=np.float64)
        least = 2 if gradients is None else 1
        if rows.ndim != 2 or len(rows) < least:
            raise ValueError(
                f"batch_gradients: client {k}: expected (m, d) with m >= {least}, got {rows.shape}"
            )
        true = rows.mean(axis=0) if gradients is None else np.asarray(gradients)[k]
        squares = float(((rows - true) ** 2).sum())
        found.append(squares / (len(rows) - 1 if gradients is None else len(rows)))
    return max(found)


def _spread(problem: SmoothProblem) -> float:
    """ρ_L² + 6Eρ_G²."""
    return problem.local_variance + 6 * problem.local_steps * problem.global_variance


def _checked(problem: SmoothProblem, c: float) -> float:
    largest = largest_c(problem)
    if not 0 < c <= largest * (1 + 1e-9):  # the rounding of 0.5 − 0.3 is no reason to refuse 0.2
        raise ValueError(f"c: expected a number above 0 and up to {largest:g}, got {c!r}")
    return c
