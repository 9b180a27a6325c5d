"""FL-FDMS's convergence bounds, as functions of what was measured.

All carry the factor (1 + 3ηη_L·L·E)/(cE²), whose smoothness L and constant c nobody knows; it is 1
by default, and bounds are then compared with each other up to it. Squares are in the paper's units:
its Δ is the sum of gradients, ours divided by η_L.

References
----------
Wang & Xu, Combating Client Dropout in Federated Learning via Friend Model Substitution: equation
numbers are this version's.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from understudy.core import checks


def factor(server_lr: float, lr: float, smoothness: float, local_steps: int, c: float) -> float:
    """(1 + 3ηη_L·L·E)/(cE²), the factor of eq. 8, for those who know L and c.

    Parameters
    ----------
    server_lr, lr : float
        η and η_L.
    smoothness : float
        L, of assumption 1.
    local_steps : int
        E.
    c : float
        The constant of theorem 1, 0 < c < ½ − 30η_L²E²L².
    """
    checks.integer("local_steps", local_steps, low=1)
    checks.number("c", c, low=0, low_open=True)
    return (1 + 3 * server_lr * lr * smoothness * local_steps) / (c * local_steps**2)


def psi(errors: npt.ArrayLike, scale: float = 1.0) -> float:
    """Ψ(e_0, …, e_{T−1}) = factor · (1/T) Σ_t ‖e_t‖² (eq. 8); `errors` are the squared norms."""
    squares = np.asarray(errors, dtype=np.float64)
    if squares.ndim != 1 or not len(squares):
        raise ValueError(f"errors: expected one number per round, got shape {squares.shape}")
    return scale * float(squares.mean())


def psi_bar(alpha: float, sigma_p: float, scale: float = 1.0) -> float:
    """Ψ̄ = factor · α²σ_P²: what ignoring the absent costs at most (eq. 10).

    Parameters
    ----------
    alpha : float
        α, the largest share of clients that are missing in a round.
    sigma_p : float
        σ_P², the largest squared distance of two clients' updates.
    """
    return scale * _share(alpha) ** 2 * _square("sigma_p", sigma_p)


def psi_star(alpha: float, sigma_f: float, scale: float = 1.0) -> float:
    """Ψ* = factor · α²σ_F²: the same with friends that are known (eq. 12).

    σ_F² is the largest squared distance of two friends' updates.
    """
    return scale * _share(alpha) ** 2 * _square("sigma_f", sigma_f)


def misidentification(n_clients: int, beta: float, delta_min: float, t: float) -> float:
    """2K exp(−βδ_min²t/2): the probability that a stand-in is no friend is below it (lemma 2).

    Parameters
    ----------
    n_clients : int
        K.
    beta : float
        β in [0, 1]: any two clients have come together in at least βt of t rounds.
    delta_min : float
        δ_min: by how much any friend's expected score exceeds any other's. Not above 0 where
        scores do not tell friends; the bound is then 2K, which says nothing.
    t : float
        The round. A probability is at most 1 whatever the bound says.
    """
    return 2 * n_clients * math.exp(-_decay(beta, delta_min) * t)


def substitution_error(
    alpha: float,
    sigma_f: float,
    sigma_p: float,
    n_clients: int,
    beta: float,
    delta_min: float,
    t: float,
) -> float:
    """α²(σ_F² + 2K exp(−βδ_min²t/2)(σ_P² − σ_F²)): the bound of E‖e_t‖² (eq. 16)."""
    wrong = misidentification(n_clients, beta, delta_min, t)
    near, far = _square("sigma_f", sigma_f), _square("sigma_p", sigma_p)
    return _share(alpha) ** 2 * (near + wrong * (far - near))


def learning(n_clients: int, beta: float, delta_min: float, rounds: int) -> float:
    """2K (1 − exp(−βδ_min²T/2)) / (T (1 − exp(−βδ_min²/2))): what eq. 17 multiplies Ψ̄ by.

    The mean of lemma 2's bound over rounds 0 .. T−1. It falls like 1/T; where δ_min is not above 0
    it is 2K.
    """
    checks.integer("rounds", rounds, low=1)
    decay = _decay(beta, delta_min)
    if decay == 0:
        return 2.0 * n_clients
    return 2 * n_clients * math.expm1(-decay * rounds) / (rounds * math.expm1(-decay))


def psi_fdms(star: float, bar: float, learnt: float) -> float:
    """Ψ* + Ψ̄ · `learning`: the bound of FL-FDMS, whose friends are learnt (eq. 17)."""
    return star + bar * learnt


def psi_relaxed(star: float, bar: float, learnt: float, friend_absence: float) -> float:
    """Ψ* + rΨ̄ + (1 − r)Ψ̄ · `learning`: friends are missing at a rate of r (eq. 74).

    Notes
    -----
    The last line of the appendix's proof (eq. 84) lacks the factor 1 − r, which makes it a little
    larger; eq. 74, the statement, is followed.
    """
    checks.number("friend_absence", friend_absence, low=0, high=1)
    return star + friend_absence * bar + (1 - friend_absence) * bar * learnt


def _decay(beta: float, delta_min: float) -> float:
    """βδ_min²/2, and 0 where scores do not tell friends."""
    checks.number("beta", beta, low=0, high=1)
    checks.number("delta_min", delta_min)
    return beta * max(delta_min, 0.0) ** 2 / 2


def _share(alpha: float) -> float:
    checks.number("alpha", alpha, low=0, high=1)
    return alpha


def _square(name: str, value: float) -> float:
    checks.number(name, value, low=0)
    return value
