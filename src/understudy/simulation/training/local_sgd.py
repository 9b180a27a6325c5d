"""Local training of any module and loss, by SGD or any other optimizer of torch."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import compress

import numpy as np
import torch
from torch import nn

from understudy.core.flat import Layout, other_buffers
from understudy.core.rng import generator, torch_seed
from understudy.core.threads import one_thread
from understudy.core.types import Ints
from understudy.parts.local import LAST_GRADIENT, reply_of
from understudy.parts.optimizers import make_optimizer
from understudy.simulation.training.batches import batch_plan
from understudy.simulation.training.convolution_backend import kernels
from understudy.simulation.training.dropout import AddressedDropout
from understudy.simulation.training.generators import forked, seed
from understudy.simulation.training.jobs import Job, Recipe, Trained

# numbers fetched at once for several steps: half a megabyte, which stays in a cache
GATHERED = 2**17


class LoopEngine:
    """Any module and loss: one reused module, plain autograd, no loader, no optimizer for SGD."""

    def __init__(self, recipe: Recipe, x: torch.Tensor, y: torch.Tensor) -> None:
        self.recipe, self.x, self.y = recipe, x, y
        self.module = recipe.module
        self.layout = Layout.of(self.module)
        # a client's counts of batches and the like must not reach the next client
        self._other = [(buffer, buffer.clone()) for buffer in other_buffers(self.module)]
        self._dropout = AddressedDropout() if recipe.engine.addressed_dropout else None

    def train(self, job: Job) -> Trained:
        # dropout outside of plain chains draws from torch's own generator: put back afterwards
        with kernels(self.recipe.onednn), one_thread(), forked(self.recipe.device):
            return [self._client(job, *pair) for pair in zip(job.clients, job.rows, strict=True)]

    def _client(self, job: Job, client: int, row: int) -> tuple[int, float]:
        recipe, vector = self.recipe, job.matrix[row]
        start = job.params if job.starts is None else job.starts[row]
        vector.copy_(start)
        trained = self._enter(vector)
        correction = None
        if job.corrections is not None:
            correction = list(compress(self.layout.parameters(job.corrections[row]), trained))
        rng = generator(recipe.seed, "batches", job.t, client)
        held = recipe.clients[client]
        plan = batch_plan(len(held), recipe.local, job.t, rng)
        address = torch_seed(recipe.seed, "dropout", job.t, client)
        seed(address, recipe.device)
        if self._dropout is not None:
            self._dropout.begin(address)
        lr = job.lr_of(recipe.local)
        losses, last = self._steps(plan, held, lr, trained, correction)
        vector.sub_(start)
        if reply_of(recipe.local) == LAST_GRADIENT:
            moving = compress(self.layout.parameters(vector), trained)
            for entry, gradient in zip(moving, last, strict=True):
                entry.copy_(gradient).mul_(-lr)
        sizes = np.array([len(batch) for batch in plan])
        mean = np.average(torch.stack(losses).cpu().double().numpy(), weights=sizes)
        return len(plan), float(mean)

    def _enter(self, vector: torch.Tensor) -> list[bool]:
        """Make the module's parameters and buffers views of a row; say which are trained."""
        point_to(self.module, self.layout, vector)
        for buffer, value in self._other:
            buffer.copy_(value)
        self.module.train()
        return [parameter.requires_grad for parameter in self.module.parameters()]

    def _steps(
        self,
        plan: list[Ints],
        held: Ints,
        lr: float,
        trained: list[bool],
        correction: list[torch.Tensor] | None,
    ) -> tuple[list[torch.Tensor], tuple[torch.Tensor, ...]]:
        """Steps in the module's parameters; the loss of each, and the last altered gradient."""
        module, local, loss_of = self.module, self.recipe.local, self.recipe.loss
        parameters = list(compress(module.parameters(), trained))  # frozen ones stay as they are
        weights = [parameter.data for parameter in parameters]  # the same memory, without a graph
        anchor = [weight.clone() for weight in weights] if local.rule.mu else None
        velocity: list[torch.Tensor] = []
        losses, gradients = [], tuple(weights)
        optimizer = None if local.plain_sgd else make_optimizer(local, parameters, lr)
        dropout = self._dropout
        for inputs, labels in self._batches(plan, held):
            outputs = module(inputs) if dropout is None else dropout.outputs(module, inputs)
            loss = loss_of(outputs, labels)
            losses.append(loss.detach())
            # a parameter that the loss does not reach has gradient zero
            gradients = torch.autograd.grad(loss, parameters, materialize_grads=True)
            gradients = self._altered(gradients, weights, anchor, correction)
            if optimizer is not None:
                for parameter, gradient in zip(parameters, gradients, strict=True):
                    parameter.grad = gradient
                optimizer.step()
                optimizer.zero_grad()
                continue
            if velocity:
                torch._foreach_mul_(velocity, local.momentum)
                torch._foreach_add_(velocity, gradients)
                gradients = tuple(velocity)
            elif local.momentum:
                velocity = [gradient.clone() for gradient in gradients]
            torch._foreach_add_(weights, gradients, alpha=-lr)
        return losses, gradients

    def _batches(self, plan: list[Ints], held: Ints) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Inputs and labels of each step; those of several steps are gathered at once."""
        per_example = max(1, self.x[0].numel())
        first = 0
        while first < len(plan):
            last, n_gathered = first, 0
            while last < len(plan) and (
                last == first or n_gathered + len(plan[last]) * per_example <= GATHERED
            ):
                n_gathered += len(plan[last]) * per_example
                last += 1
            several, first = plan[first:last], last
            chosen = torch.from_numpy(held[np.concatenate(several)]).to(self.x.device)
            sizes = [len(batch) for batch in several]
            inputs, labels = (source.index_select(0, chosen) for source in (self.x, self.y))
            yield from zip(
                *(part.split_with_sizes(sizes) for part in (inputs, labels)), strict=True
            )

    def _altered(
        self,
        gradients: tuple[torch.Tensor, ...],
        weights: list[torch.Tensor],
        anchor: list[torch.Tensor] | None,
        correction: list[torch.Tensor] | None,
    ) -> tuple[torch.Tensor, ...]:
        """Gradients with proximal term, correction and SGD's weight decay added."""
        local = self.recipe.local
        if (
            local.weight_decay and local.plain_sgd
        ):  # as torch's SGD adds it; scaling w instead differs in last bits
            gradients = torch._foreach_add(gradients, weights, alpha=local.weight_decay)
        if anchor is not None:
            pull = torch._foreach_sub(weights, anchor)
            gradients = torch._foreach_add(gradients, pull, alpha=local.rule.mu)
        if correction is not None:
            gradients = torch._foreach_add(gradients, correction)
        return gradients


def point_to(module: nn.Module, layout: Layout, vector: torch.Tensor) -> None:
    """Make a module's parameters and floating buffers views of a vector: nothing is copied."""
    named = layout.named(vector)
    for name, entry in layout.entries(module).items():
        entry.data = named[name]
