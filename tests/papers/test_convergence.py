"""FL-FDMS's theorem 1 and lemma 1, worked out by hand.

The numbers: E = 2 and L = 1 allow η_L up to 1/16 and ηη_L up to 1/8. With η_L = 1/20 = 0.05:
(η_L·E·L)² = 0.01, so c may come near ½ − 0.3 = 0.2. ρ_L² = 4, ρ_G² = 3: ρ_L² + 6Eρ_G² = 40.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from understudy.papers import convergence
from understudy.papers.convergence import SmoothProblem

PROBLEM = SmoothProblem(
    n_clients=10, smoothness=1.0, local_variance=4.0, global_variance=3.0, lr=0.05, server_lr=2.0,
    local_steps=2,
)  # fmt: skip


def test_limits_of_the_steps():
    assert convergence.step_limits(PROBLEM) == (1 / 16, 1 / 8)
    assert convergence.steps_are_small_enough(PROBLEM)  # 0.05 and 0.1
    assert not convergence.steps_are_small_enough(replace(PROBLEM, lr=0.07, server_lr=0.1))
    assert not convergence.steps_are_small_enough(replace(PROBLEM, server_lr=3.0))


def test_the_constant():
    """½ − 30 · 0.01 = 0.2; at the largest step ½ − 30/64 = 1/32."""
    assert convergence.largest_c(PROBLEM) == pytest.approx(0.2)
    assert convergence.largest_c(replace(PROBLEM, lr=1 / 16)) == pytest.approx(1 / 32)


def test_the_vanishing_term():
    """(f_0 − f_*) = 3 over 0.2 · (2 · 0.05) · 2 · 25 = 1; half of it after twice the rounds."""
    assert convergence.vanishing(PROBLEM, 3.0, 25, 0.2) == pytest.approx(3)
    assert convergence.vanishing(PROBLEM, 3.0, 50, 0.2) == pytest.approx(1.5)


def test_phi():
    """5 · 0.0025 · 2 · 1 · 40 = 1, and 2 · 0.05 · 1 · 4/10 = 0.04; together 1.04/0.2 = 5.2."""
    assert convergence.phi(PROBLEM, 0.2) == pytest.approx(5.2)
    assert convergence.phi(PROBLEM, 0.1) == pytest.approx(10.4)


def test_theorem_1():
    """T = 25 rounds with ‖e_t‖² = 2: the factor is (1 + 3 · 0.1 · 1 · 2)/(0.2 · 4) = 2, so Ψ = 4;
    3 + 5.2 + 4. Without errors it is the bound of full participation, 8.2."""
    assert convergence.smallest_gradient(PROBLEM, 3.0, [2.0] * 25, 0.2) == pytest.approx(12.2)
    assert convergence.smallest_gradient(PROBLEM, 3.0, [2.0] * 25) == pytest.approx(12.2)
    assert convergence.smallest_gradient(PROBLEM, 3.0, [0.0] * 25) == pytest.approx(8.2)


def test_theorem_1_bounds_a_quadratic():
    """f(w) = ½ Σ_k (w − a_k)²/K, a = ±√3: L = 1, no noise, ρ_G² = 3, one step of 1/8 a round; the
    errors e_t are ±1/10. f_0 − f_* = w_0²/2."""
    problem = SmoothProblem(2, 1.0, 0.0, 3.0, lr=1 / 8)
    w, errors, gradients = 4.0, [], []
    for t in range(40):
        gradients.append(w**2)
        error = 0.1 * (-1) ** t
        w += problem.lr * (-w + error)
        errors.append(error**2)
    assert min(gradients) <= convergence.smallest_gradient(problem, 8.0, errors)


def test_lemma_1():
    """5 · 2 · 0.0025 · 40 = 1, and 30 · 4 · 0.0025 · 7 = 2.1."""
    assert convergence.drift_bound(PROBLEM, 7.0) == pytest.approx(3.1)


def test_drift_is_a_mean_of_squares():
    """(3² + 4²) and 1²: 26/2."""
    assert convergence.drift([[4.0, 4.0], [1.0, 1.0]], [1.0, 0.0]) == pytest.approx(13)


def test_measured_variances():
    """Gradients 1, 3, 8, mean 4: 3², 1², 4². Batches of client 0: 0 and 2 around 1, of client 1:
    1 and 5 around 3. From their means (0 − 1)² + (2 − 1)² = 2 over 1, and 8; from the true ones
    2/2 and 8/2."""
    assert convergence.global_variance([[1.0], [3.0], [8.0]]) == 16
    batches = [[[0.0], [2.0]], [[1.0], [5.0]]]
    assert convergence.local_variance(batches) == 8
    assert convergence.local_variance(batches, [[1.0], [3.0]]) == 4


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: convergence.smallest_gradient(replace(PROBLEM, lr=0.07), 1, [1]), "lr <= 0.0625"),
        (lambda: convergence.smallest_gradient(PROBLEM, 1, []), "errors"),
        (lambda: convergence.smallest_gradient(PROBLEM, -1, [1]), "first_gap"),
        (lambda: convergence.phi(PROBLEM, 0.3), "c: expected"),
        (lambda: convergence.phi(PROBLEM, 0.0), "c: expected"),
        (lambda: convergence.drift_bound(replace(PROBLEM, lr=0.07), 1), "lemma 1"),
        (lambda: convergence.drift([1.0], [1.0]), "local_models"),
        (lambda: convergence.global_variance(np.zeros(3)), "gradients"),
        (lambda: convergence.local_variance([]), "batch_gradients"),
        (lambda: convergence.local_variance([[[1.0]]]), "client 0"),
        (lambda: replace(PROBLEM, smoothness=0), "smoothness"),
        (lambda: replace(PROBLEM, local_variance=-1), "local_variance"),
    ],
)
def test_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()
