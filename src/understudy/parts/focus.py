"""`Focus` (FOCUS, Ying et al., 2025): clients track their gradients, and send how these changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from understudy.core.types import Arrivals, Ints, RoundEnd, Setup
from understudy.memory.rows import RowStore
from understudy.parts.local import refuse_unless_plain_steps

if TYPE_CHECKING:
    from understudy.server.strategy import Strategy


@dataclass
class FocusState:
    gradients: RowStore  # g_i, the last gradient of each client; zero where there is no row


@dataclass(frozen=True)
class Focus:
    """FOCUS's client: each step follows its gradient minus the last one of its last visit.

    y ← 0; K times: y ← y + (new gradient − previous one), x ← x − η y. What travels is y_i, the
    last gradient minus the remembered one, and not the displacement: a new kind of reply. The
    server adds it to what it remembers of i, so that all other parts see −η times i's last gradient
    as its update. With `MIFA` without waiting, and a server step of N, the round is FOCUS's
    w ← w − η y with y ← y + Σ_S y_i (its algorithm 1), since y telescopes to the sum of everyone's
    last gradient.

    Notes
    -----
    In the paper a client remembers its gradient, and the server the sum alone. Here the server has
    the gradients, sends −g_i as the correction of each gradient, and a reply that is lost changes
    nothing, where in the paper client and sum would differ from then on. A late reply is dropped.
    Momentum and optimizers other than SGD are refused. Of the K local steps the last gradient is
    computed after K − 1: where a client makes one step, this is MIFA. Only the loop trains it, and
    simulations only.

    References
    ----------
    Ying et al., Exact and Linear Convergence for Federated Learning under Arbitrary Client
    Participation is Attainable, 2025 (arXiv:2503.20117, algorithm 1).
    """

    mu = 0.0
    needs_steps = False
    reply = "last_gradient"

    def check(self, strategy: Strategy) -> None:
        refuse_unless_plain_steps(self, strategy)

    def init(self, setup: Setup) -> FocusState:
        return FocusState(setup.rows())

    def correction(self, state: FocusState, ids: Ints) -> Callable[[int], torch.Tensor]:
        return lambda client: -state.gradients.get(client)

    def decoded(self, state: FocusState, arrivals: Arrivals, lr: float) -> Arrivals:
        """Replies −η y_i as −η (y_i + g_i): updates by a client's last gradient."""
        deltas = [
            delta - state.gradients.get(client).to(delta.device) * lr for client, delta in arrivals
        ]
        return replace(arrivals, deltas=deltas)

    def learn(self, state: FocusState, end: RoundEnd) -> None:
        for client, delta in end.arrivals:
            gradient = delta / -end.lr(end.t)
            gradient[end.n_parameters :] = 0
            state.gradients.put(client, gradient)
