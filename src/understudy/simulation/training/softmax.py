"""Softmax regression in closed form: what convex federated theory runs on.

With logits z = Wx + b, the gradient of cross-entropy is (softmax(z) − e_y) x' and softmax(z) − e_y.
Several clients are stepped together; each one's matrices are multiplied by a call of its own, so
that a client's bits do not depend on who is stepped with it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from understudy.core.flat import Layout
from understudy.core.rng import generator
from understudy.core.types import Ints
from understudy.simulation.training.batches import Drawn, drawn
from understudy.simulation.training.jobs import Job, Recipe, Trained

TOGETHER = 2**18  # numbers gathered per step: small enough for a core's cache

Array = npt.NDArray[np.floating]


def has_closed_form(recipe: Recipe, x: torch.Tensor, y: torch.Tensor) -> bool:
    """Whether it is softmax regression: one plain linear layer under torch's cross-entropy."""
    linear = _only_linear(recipe.module, x.ndim)
    if linear is None or recipe.loss is not cross_entropy or recipe.device != "cpu":
        return False
    trained = all(parameter.requires_grad for parameter in linear.parameters())
    typed = x.dtype == linear.weight.dtype and x.dtype in (torch.float32, torch.float64)
    labelled = y.dtype == torch.int64 and y.ndim == 1 and len(y) > 0
    # labels beyond the outputs are torch's to complain about
    return trained and typed and labelled and int(y.max()) < linear.out_features


def _only_linear(module: nn.Module, n_dimensions: int) -> nn.Linear | None:
    """The linear layer of a module that is nothing else, perhaps behind a `Flatten`."""
    layers = _chain(module)
    if layers is None or not layers or type(layers[-1]) is not nn.Linear:
        return None
    flattens = [layer for layer in layers[:-1] if _flattens(layer)]
    if len(flattens) < len(layers) - 1 or (not flattens and n_dimensions != 2):
        return None
    return layers[-1]


def _flattens(layer: nn.Module) -> bool:
    return isinstance(layer, nn.Flatten) and (layer.start_dim, layer.end_dim) == (1, -1)


def _chain(module: nn.Module) -> list[nn.Module] | None:
    """Plain layers one after another; None where something else (or a hook) has a say."""
    if module._forward_hooks or module._forward_pre_hooks or module._backward_hooks:
        return None
    if type(module) in (nn.Linear, nn.Flatten):
        return [module]
    if type(module) is not nn.Sequential:
        return None
    parts = [_chain(child) for child in module]
    if any(part is None for part in parts):
        return None
    return [layer for part in parts if part is not None for layer in part]


class SoftmaxEngine:
    """The closed-form gradient in NumPy, batched over clients."""

    def __init__(self, recipe: Recipe, x: torch.Tensor, y: torch.Tensor) -> None:
        self.recipe = recipe
        self.x = x.reshape(len(x), -1).numpy()  # (n, f)
        self.y = y.numpy()
        self.layout = Layout.of(recipe.module)
        linear = next(m for m in recipe.module.modules() if isinstance(m, nn.Linear))
        self.n_classes, self.n_features = linear.weight.shape
        self.has_bias = linear.bias is not None
        self.largest = max(len(held) for held in recipe.clients)

    def together(self, t: int) -> int:
        return max(1, TOGETHER // (self._batch_size(t) * self.n_features))

    def train(self, job: Job) -> Trained:
        together = self.together(job.t)
        plans = [self._plan(client, job.t) for client in job.clients]
        order = np.argsort([-len(plan) for plan in plans], kind="stable")  # longest first
        result: Trained = [(0, 0.0)] * len(plans)
        with np.errstate(all="ignore"):  # a client that diverges is refused by the server
            for first in range(0, len(order), together):
                chosen = order[first : first + together].tolist()
                rows, own = [job.rows[i] for i in chosen], [plans[i] for i in chosen]
                losses = self._chunk(job, rows, own)
                for position, plan, loss in zip(chosen, own, losses, strict=True):
                    result[position] = len(plan), loss
        return result

    def _batch_size(self, t: int) -> int:
        """What batches are padded to: of the federation, never of those stepped together."""
        return min(self.recipe.local.batch_size_at(t), self.largest)

    def _plan(self, client: int, t: int) -> Drawn:
        held, recipe = self.recipe.clients[client], self.recipe
        rng = generator(recipe.seed, "batches", t, client)
        plan = drawn(len(held), recipe.local, t, rng)
        return Drawn(held[plan.examples], plan.lengths)

    def _chunk(self, job: Job, rows: list[int], plans: list[Drawn]) -> list[float]:
        """Train some clients side by side; their plans are sorted by length, longest first."""
        k, f, classes = len(rows), self.n_features, self.n_classes
        # (1, d) where all start from the same, else (k, d)
        start = job.params.numpy()[None] if job.starts is None else job.starts.numpy()[rows]
        correction = None if job.corrections is None else job.corrections.numpy()[rows]
        flat = np.empty((k, start.shape[1]), dtype=start.dtype)  # (k, d)
        flat[:] = start
        gradient = np.empty_like(flat)
        weight, bias = self._views(flat)
        weight_gradient, bias_gradient = self._views(gradient)
        velocity = np.zeros_like(flat) if self.recipe.local.momentum else None
        size = self._batch_size(job.t)
        indices, share = _padded(plans, size, flat.dtype)  # (steps, k, B)
        # where e_y is 1 in the (k·C·B,) entries of a step
        label_at = self.y[indices]
        label_at *= size
        label_at += np.arange(size) + np.arange(k)[:, None] * (classes * size)
        label_at = label_at.reshape(len(indices), k * size)
        norm, chosen = np.ones_like(share), np.zeros_like(share)
        inputs = np.empty((k, size, f), dtype=self.x.dtype)
        for step, m in enumerate(_n_active(plans)):
            x, e_y, part = inputs[:m], label_at[step, : m * size], share[step, :m]
            # "clip" spares NumPy a second buffer; the indices are valid
            self.x.take(indices[step, :m], axis=0, out=x, mode="clip")
            # (m, C, B) logits, to become softmax − e_y
            residual = weight[:m] @ x.transpose(0, 2, 1)
            if self.has_bias:
                residual += bias[:m, :, None]
            residual -= np.maximum.reduce(residual, axis=1, keepdims=True)
            entries = residual.reshape(-1)
            entries.take(e_y, out=chosen[step, :m].reshape(-1), mode="clip")
            np.exp(residual, out=residual)
            np.add.reduce(residual, axis=1, out=norm[step, :m])
            residual *= (part / norm[step, :m])[:, None, :]
            entries[e_y] -= part.reshape(-1)
            np.matmul(residual, x, out=weight_gradient[:m])
            if self.has_bias:
                np.add.reduce(residual, axis=2, out=bias_gradient[:m])
            self._step(flat[:m], gradient[:m], start[:m], correction, velocity, job.t, step)
        matrix = job.matrix.numpy()
        for position, row in enumerate(rows):
            np.subtract(flat[position], start[position % len(start)], out=matrix[row])
        np.log(norm, out=norm)
        norm -= chosen
        return _mean_losses(np.where(share > 0, norm, 0), plans)

    def _views(self, flat: Array) -> tuple[Array, Array]:
        """(k, C, f) weights and (k, C) biases (or nothing) in (k, d) flat models."""
        n_weights = self.n_classes * self.n_features
        shape = (len(flat), self.n_classes, self.n_features)
        return flat[:, :n_weights].reshape(shape), flat[:, n_weights:]

    def _step(
        self,
        flat: Array,
        gradient: Array,
        start: Array,
        correction: Array | None,
        velocity: Array | None,
        t: int,
        step: int,
    ) -> None:
        """One step of the first m clients, in place; `gradient` is used up."""
        local, m, number = self.recipe.local, len(flat), flat.dtype.type
        if local.weight_decay:
            gradient += flat * number(local.weight_decay)
        if local.rule.mu:
            gradient += (flat - start) * number(local.rule.mu)
        if correction is not None:
            gradient += correction[:m]
        if velocity is not None:
            velocity[:m] *= number(local.momentum)
            velocity[:m] += gradient
            gradient[:] = velocity[:m]
        gradient *= number(local.lr_at(t))
        flat -= gradient


def _n_active(plans: list[Drawn]) -> list[int]:
    """How many clients still step, step by step; plans are sorted by length, longest first."""
    lengths = np.array([len(plan) for plan in plans])
    counts: list[int] = (lengths[None, :] > np.arange(lengths[0])[:, None]).sum(axis=1).tolist()
    return counts


def _mean_losses(losses: Array, plans: list[Drawn]) -> list[float]:
    """The mean of each client's own steps, in its own order: it depends on nobody else either."""
    own = np.ascontiguousarray(losses.swapaxes(0, 1), dtype=np.float64)  # (k, steps, B)
    return [float(own[i, : len(plan)].sum()) / len(plan.examples) for i, plan in enumerate(plans)]


def _padded(plans: list[Drawn], batch_size: int, dtype: np.dtype[np.generic]) -> tuple[Ints, Array]:
    """(steps, k, B) indices and each example's share of its batch: 0 where a place is not used.

    Batches are padded to one size always, so that the padding depends on nobody else.
    """
    n_steps, k = len(plans[0]), len(plans)
    indices = np.zeros((n_steps, k, batch_size), dtype=np.int64)
    share = np.zeros((n_steps, k, batch_size), dtype=dtype)
    place = np.arange(batch_size)
    for position, plan in enumerate(plans):
        n_own = len(plan)
        if len(plan.examples) == n_own * batch_size:  # as below, without the padding
            indices[:n_own, position] = plan.examples.reshape(n_own, batch_size)
            share[:n_own, position] = 1 / batch_size
            continue
        used = place < plan.lengths[:, None]  # (steps of this client, B)
        padded = np.zeros(used.shape, dtype=np.int64)
        padded[used] = plan.examples
        # what is not used must be the client's own too
        indices[:n_own, position] = np.where(used, padded, padded[:, :1])
        share[:n_own, position] = used / plan.lengths[:, None]
    return indices, share
