"""Local training, the plain way: one module, one client after another, on one thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import compress

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from understudy.flat import Layout, other_buffers
from understudy.local import Local
from understudy.rng import generator, torch_seed
from understudy.simulation.data import Federation
from understudy.types import Arrivals, Cohort, Floats, Ints

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # outputs, labels -> mean loss


def batch_plan(n_examples: int, local: Local, t: int, rng: np.random.Generator) -> list[Ints]:
    """Which of a client's examples (0 .. n-1) form each step of its round.

    Each pass over the data is a new shuffle; its last batch is as short as it comes out. With
    `local.steps`, passes follow each other until there are enough batches.
    """
    size = local.batch_size_at(t)
    batches: list[Ints] = []
    n_passes = local.epochs
    if local.steps is not None:
        n_passes = -(-local.steps // -(-n_examples // size))  # rounded up, both times
    for _ in range(n_passes):
        order = rng.permutation(n_examples)
        batches += [order[first : first + size] for first in range(0, n_examples, size)]
    return batches[: local.steps]


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch on one thread: on small models a second one gains nothing, and may cost a lot."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class LoopTrainer:
    """Trains the asked clients of a federation one after another, in one reused module.

    Parameters
    ----------
    federation : Federation
        The data.
    module : torch.nn.Module
        The model's shape; its values are overwritten.
    local : Local
        How clients train.
    seed : int
        The run's seed: batches and dropout layers depend on it, the round and the client alone.
    loss : function
        Of outputs and labels; the mean over the batch.
    """

    def __init__(
        self,
        federation: Federation,
        module: nn.Module,
        local: Local,
        seed: int,
        loss: Loss = cross_entropy,
    ) -> None:
        self.federation = federation
        self.module = module
        self.local = local
        self.seed = seed
        self.loss = loss
        self.layout = Layout.of(module)
        # a client's counts of batches and the like must not reach the next client
        self._other = [(buffer, buffer.clone()) for buffer in other_buffers(module)]

    def train(self, params: torch.Tensor, cohort: Cohort, t: int) -> Arrivals:
        """Train everyone asked; `losses` are means over all examples seen in the round's steps."""
        asked = cohort.asked
        deltas = torch.empty((len(asked), self.layout.size), dtype=params.dtype)
        n_steps, losses = np.zeros(len(asked), dtype=np.int64), np.zeros(len(asked))
        # dropout layers draw from torch's own generator: it is put back afterwards
        with one_thread(), torch.random.fork_rng(devices=[]):
            for position, client in enumerate(asked.tolist()):
                start = params if cohort.start is None else cohort.start(client)
                correction = None if cohort.correction is None else cohort.correction(client)
                n_steps[position], losses[position] = self._steps(start, correction, client, t)
                torch.sub(self.layout.vector(self.module), start, out=deltas[position])
        return Arrivals(
            ids=asked,
            deltas=deltas,
            n_examples=self.federation.sizes[asked],
            n_steps=n_steps,
            losses=losses,
        )

    def losses(self, params: torch.Tensor, ids: Ints) -> Floats:
        """(len(ids),) mean loss of a model on each client's training examples."""
        self._load(params)
        clients = [self.federation.clients[client] for client in ids]
        return np.array([evaluate(self.module, self.federation, c, self.loss)[0] for c in clients])

    def _load(self, vector: torch.Tensor) -> None:
        self.layout.load(self.module, vector)
        for buffer, value in self._other:
            buffer.copy_(value)

    def _steps(
        self, start: torch.Tensor, correction: torch.Tensor | None, client: int, t: int
    ) -> tuple[int, float]:
        """Stochastic gradient descent from `start`, left in the module; steps and mean loss."""
        local, held = self.local, torch.from_numpy(self.federation.clients[client])
        x, y = self.federation.x[held], self.federation.y[held]
        plan = batch_plan(len(held), local, t, generator(self.seed, "batches", t, client))
        torch.default_generator.manual_seed(torch_seed(self.seed, "dropout", t, client))
        self._load(start)
        self.module.train()
        # frozen parameters stay as they are
        trained = [parameter.requires_grad for parameter in self.module.parameters()]
        weights: list[torch.Tensor] = list(compress(self.module.parameters(), trained))
        anchor = [weight.detach().clone() for weight in weights]
        shift = None
        if correction is not None:
            shift = list(compress(self.layout.parameters(correction), trained))
        velocity: list[torch.Tensor] = []
        lr, losses = local.lr_at(t), []
        for batch in map(torch.from_numpy, plan):
            loss = self.loss(self.module(x[batch]), y[batch])
            losses.append(loss.detach())
            gradients = self._gradients(loss, weights, anchor, shift)
            with torch.no_grad():
                if velocity:
                    torch._foreach_mul_(velocity, local.momentum)
                    torch._foreach_add_(velocity, gradients)
                    gradients = velocity
                elif local.momentum:
                    velocity = [gradient.clone() for gradient in gradients]
                torch._foreach_add_(weights, gradients, alpha=-lr)
        sizes = np.array([len(batch) for batch in plan])
        return len(plan), float(np.average(torch.stack(losses).double().numpy(), weights=sizes))

    def _gradients(
        self,
        loss: torch.Tensor,
        weights: list[torch.Tensor],
        anchor: list[torch.Tensor],
        shift: list[torch.Tensor] | None,
    ) -> list[torch.Tensor]:
        """The loss's gradients, with weight decay, proximal term and correction added."""
        # a parameter that the loss does not reach has gradient zero
        gradients = torch.autograd.grad(loss, weights, materialize_grads=True)
        with torch.no_grad():
            if self.local.weight_decay:
                gradients = torch._foreach_add(gradients, weights, alpha=self.local.weight_decay)
            if self.local.rule.mu:
                pull = torch._foreach_sub(weights, anchor)
                gradients = torch._foreach_add(gradients, pull, alpha=self.local.rule.mu)
            if shift is not None:
                gradients = torch._foreach_add(gradients, shift)
        return list(gradients)


@torch.no_grad()
def evaluate(
    module: nn.Module, federation: Federation, indices: Ints, loss: Loss = cross_entropy
) -> tuple[float, float]:
    """Mean loss and accuracy on some of the examples, with the module in evaluation mode."""
    module.eval()
    total, correct, chunk = 0.0, 0, 4096
    with one_thread():
        for first in range(0, len(indices), chunk):
            held = torch.from_numpy(indices[first : first + chunk])
            outputs, labels = module(federation.x[held]), federation.y[held]
            total += float(loss(outputs, labels)) * len(held)
            correct += int((outputs.argmax(dim=1) == labels).sum())
    return total / len(indices), correct / len(indices)
