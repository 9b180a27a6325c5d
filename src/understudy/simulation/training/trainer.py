"""Local training of a round: in this process, its threads, or worker processes. The same bits."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from understudy.core import checks
from understudy.core.flat import Layout
from understudy.core.threads import one_thread, usable_cores
from understudy.core.types import Arrivals, Cohort, Floats, Ints
from understudy.parts.local import Local
from understudy.simulation.data import shared_memory as shared
from understudy.simulation.data.federation import Federation
from understudy.simulation.data.shared_memory import Handle, Shared, aligned_matrix, row_stride
from understudy.simulation.training.batches import n_steps_of
from understudy.simulation.training.convolution_backend import Cost, kernels
from understudy.simulation.training.engines import engine_for
from understudy.simulation.training.evaluation import (
    client_losses,
    model_outputs,
    outputs_of,
    pieces,
)
from understudy.simulation.training.jobs import EngineChoice, Job, Loss, Recipe, Trained
from understudy.simulation.training.kernel_engine import KernelEngine
from understudy.simulation.training.kernel_threads import KernelThreads
from understudy.simulation.training.preparation import prepared
from understudy.simulation.training.workers import TrainRequest, Workers, start_workers

# Work of a round, in seconds of a typical core, from which worker processes (for the loop) and
# threads (for the kernels) pay. Counted, not measured: see `Pace`.
WORTH_WORKERS = 0.02
WORTH_THREADS = 0.005
WORTH_STARTING = 0.2  # of a round with everybody, from which processes are started beforehand
AT_ONCE = 0.75  # of the work that is left, given out in one large part per worker


@dataclass(frozen=True)
class Pace:
    """What an engine does on a typical core, roughly."""

    client: float  # seconds for each client
    step: float  # seconds for each of its steps
    multiply_adds: float  # a second


LOOP_PACE = Pace(client=0.0, step=150e-6, multiply_adds=7e9)
KERNELS_PACE = Pace(client=100e-6, step=2e-6, multiply_adds=40e9)


def pace_of(engine: EngineChoice) -> Pace:
    """How fast an engine is."""
    return LOOP_PACE if engine.plan is None else KERNELS_PACE


class LocalTrainer:
    """Trains the asked clients of a federation.

    Parameters
    ----------
    federation : Federation
        The data.
    module : torch.nn.Module
        The model's shape; it is copied.
    local : Local
        How clients train.
    seed : int
        The run's seed: batches and dropout layers depend on it, the round and the client alone.
    loss : function
        Of outputs and labels; the mean over the batch.
    workers : int, optional
        How many clients are trained at a time: by the compiled kernels in threads of this process,
        by the loop in processes of one thread each. By default one for each core this process may
        use. A round whose counted work is too small to be worth it is trained by this thread.
    device : str
        ``"cpu"``; others train in this process.
    engine : {"auto", "loop", "kernels"}
        Which engine trains: see `understudy.simulation.training.engines`.
    """

    def __init__(
        self,
        federation: Federation,
        module: nn.Module,
        local: Local,
        seed: int,
        loss: Loss = cross_entropy,
        workers: int | None = None,
        device: str = "cpu",
        engine: str = "auto",
    ) -> None:
        self.federation, self.local = federation, local
        self.n_workers = (workers or usable_cores()) if device == "cpu" else 1
        self.layout = Layout.of(module)
        # the copy is sent to workers, and never trained here
        recipe = Recipe(copy.deepcopy(module), loss, local, seed, federation.clients, device=device)
        self.recipe, self.cost = prepared(recipe, federation.x, federation.y, engine)
        clean = self.recipe.module.to(device)
        self.engine, self.onednn = self.recipe.engine, self.recipe.onednn
        self._pace = pace_of(self.engine)
        by_loop = self.engine.plan is None
        everyone = range(federation.n_clients)
        if by_loop and self.n_workers > 1 and self._work(everyone, 0) >= WORTH_STARTING:
            start_workers(self.n_workers)
        self._module = copy.deepcopy(clean)
        self._evaluated = copy.deepcopy(clean)  # the other is pointed at rows while it trains
        own = replace(self.recipe, module=self._module)
        self._here = engine_for(own, federation.x.to(device), federation.y.to(device))
        self._threads: KernelThreads | None = None
        if isinstance(self._here, KernelEngine):
            self._threads = KernelThreads(self._here, self.n_workers)
        self._workers: Workers | None = None
        self._deaths = 0  # of workers that were let go
        self._params: Shared | None = None
        self._matrix: dict[str, Shared] = {}
        self._own_matrix: dict[str, torch.Tensor] = {}

    @property
    def deaths(self) -> int:
        """How often worker processes died and a round was trained again."""
        return self._deaths + (0 if self._workers is None else self._workers.deaths)

    def train(self, params: torch.Tensor, cohort: Cohort, t: int, into: str = "matrix") -> Arrivals:
        """Train everyone asked; `losses` are means over all examples seen in the round's steps.

        The updates are borrowed until the next call with the same `into`.
        """
        params = self._checked(params)
        clients = cohort.asked.tolist()
        if not clients:
            return Arrivals.none()
        if self._threads is None and self._is_worth(clients, t, WORTH_WORKERS):
            matrix, trained = self._spread(params, cohort, clients, t, into)
        else:
            matrix, trained = self._here_in_rows(params, cohort, clients, t, into)
        return Arrivals(
            ids=cohort.asked,
            deltas=matrix,
            n_examples=self.federation.sizes[cohort.asked],
            n_steps=np.array([n_steps for n_steps, _ in trained], dtype=np.int64),
            losses=np.array([loss for _, loss in trained]),
        )

    def losses(self, params: torch.Tensor, ids: Ints) -> Floats:
        """(len(ids),) mean loss of a model on each client's validation (else training) examples."""
        params = self._checked(params)
        data, loss, device = self.federation, self.recipe.loss, self.recipe.device
        if self.engine.plan is not None:
            with one_thread():
                ask = partial(self.outputs, params)
                return client_losses(ask, data, ids, loss, together=True)
        with kernels(self.onednn):
            point_to(self._module, self.layout, params)
            ask = partial(outputs_of, self._module, data.x, device=device)
            return client_losses(lambda held: ask(held).cpu(), data, ids, loss)

    def outputs(self, params: torch.Tensor, indices: Ints) -> torch.Tensor:
        """What the model with these parameters says to some of the examples.

        By the kernels where they train: a round of theirs is short, and torch takes several times
        as long for the examples of a small net.
        """
        params, indices = self._checked(params), self._checked_indices(indices)
        work = len(indices) * self.cost.per_example / self._pace.multiply_adds
        if self._threads is not None:
            n_parts = self.n_workers if work >= WORTH_THREADS else 1
            return self._threads.outputs(params, pieces(indices, n_parts) or [indices])
        # processes are not started for this alone
        if self._workers is not None and self._params is not None and work >= WORTH_WORKERS:
            self._params.tensor.copy_(params)
            return self._workers.outputs(self._params.handle, pieces(indices, self.n_workers))
        x, device = self.federation.x, self.recipe.device
        return model_outputs(self._evaluated, params, x, indices, device)

    def close(self) -> None:
        """Let go of rows and threads. Worker processes stay for the next run, and end when idle."""
        self._deaths = self.deaths
        self._workers, self._params, self._matrix, self._own_matrix = None, None, {}, {}
        if self._threads is not None:
            self._threads.close()

    def _checked(self, params: torch.Tensor) -> torch.Tensor:
        """Parameters that any engine can take, without a graph behind them."""
        params = checks.flat_params(params)
        expected = (self.layout.size,), self.layout.dtype
        if (tuple(params.shape), params.dtype) != expected:
            raise ValueError(
                f"params: expected shape ({self.layout.size},) of {self.layout.dtype}, got "
                f"{tuple(params.shape)} of {params.dtype}"
            )
        return params.detach()

    def _checked_indices(self, indices: Ints) -> Ints:
        """Indices of examples as any engine takes them."""
        given = np.asarray(indices)
        if given.ndim != 1 or given.dtype.kind not in "iu":
            raise TypeError(
                f"indices: expected (n,) whole numbers, got {given.dtype} of shape {given.shape}"
            )
        n = len(self.federation.x)
        if len(given) and (given.min() < 0 or given.max() >= n):
            raise IndexError(f"indices: expected 0 .. {n - 1}, got {given.min()} .. {given.max()}")
        return given.astype(np.int64, copy=False)

    def _work(self, clients: Sequence[int], t: int) -> float:
        sizes, steps = self.federation.sizes[list(clients)], self._steps(clients, t)
        examples = (steps * np.minimum(sizes, self.local.batch_size_at(t))).sum()
        pace, multiply_adds = self._pace, 3 * examples * self.cost.per_example
        seconds = len(sizes) * pace.client + steps.sum() * pace.step
        return float(seconds + multiply_adds / pace.multiply_adds)

    def _steps(self, clients: Sequence[int], t: int) -> Ints:
        return n_steps_of(self.federation.sizes[list(clients)], self.local, t)

    def _is_worth(self, clients: list[int], t: int, seconds: float) -> bool:
        """Whether several clients are trained at a time."""
        return self.n_workers > 1 and len(clients) > 1 and self._work(clients, t) >= seconds

    def _here_in_rows(
        self, params: torch.Tensor, cohort: Cohort, clients: list[int], t: int, into: str
    ) -> tuple[torch.Tensor, Trained]:
        matrix = self._own_rows(into, len(clients), params)
        job = Job(
            t,
            clients,
            list(range(len(clients))),
            params,
            matrix,
            _each(cohort.start, clients, matrix),
            _each(cohort.correction, clients, matrix),
            cohort.lr,
        )
        if self._threads is not None:  # the kernels use nothing of torch's
            several = self._is_worth(clients, t, WORTH_THREADS)
            return matrix, self._threads.train(
                job, self._parts(clients, t) if several else [job.rows]
            )
        with kernels(self.onednn), one_thread():
            return matrix, self._here.train(job)

    def _spread(
        self, params: torch.Tensor, cohort: Cohort, clients: list[int], t: int, into: str
    ) -> tuple[torch.Tensor, Trained]:
        if self._workers is None:
            x, y = self.federation.shared()
            self._workers = Workers(self.recipe, x.handle, y.handle, self.n_workers)
            self._params = Shared((self.layout.size,), params.dtype)
        assert self._params is not None
        self._params.tensor.copy_(params)
        matrix = self._shared_rows(into, len(clients), params.dtype)
        extra: dict[str, Handle] = {}
        for role, function in (("starts", cohort.start), ("corrections", cohort.correction)):
            if function is not None:
                rows = self._shared_rows(role, len(clients), params.dtype)
                for row, client in enumerate(clients):
                    rows.tensor[row] = function(client)
                extra[role] = rows.handle
        parts = self._parts(clients, t)
        handles = {"params": self._params.handle, "matrix": matrix.handle, **extra}
        orders = [
            TrainRequest(t, [clients[i] for i in part], part, **handles, lr=cohort.lr)
            for part in parts
        ]
        trained: Trained = [(0, 0.0)] * len(clients)
        for part, results in zip(parts, self._workers.train(orders), strict=True):
            for position, result in zip(part, results, strict=True):
                trained[position] = result
        return matrix.tensor[: len(clients)], trained

    def _own_rows(self, role: str, n_rows: int, like: torch.Tensor) -> torch.Tensor:
        """(n_rows, d) of this process; beyond a budget they lie in a file."""
        n_bytes = n_rows * row_stride(self.layout.size, like.dtype) * like.dtype.itemsize
        if like.device.type == "cpu" and n_bytes > shared.IN_MEMORY:
            return self._shared_rows(role, n_rows, like.dtype).tensor[:n_rows]
        rows = self._own_matrix.get(role)
        if rows is None or len(rows) < n_rows:
            rows = aligned_matrix(n_rows, self.layout.size, like.dtype).to(like.device)
            self._own_matrix[role] = rows
        return rows[:n_rows]

    def _shared_rows(self, role: str, n_rows: int, dtype: torch.dtype) -> Shared:
        """Rows in shared memory; made anew only when more are needed than ever before."""
        rows = self._matrix.get(role)
        if rows is None or rows.tensor.shape[0] < n_rows:
            rows = self._matrix[role] = Shared((n_rows, self.layout.size), dtype)
        return rows

    def _parts(self, clients: list[int], t: int) -> list[list[int]]:
        """Positions in parts that workers take one after the other, long clients first.

        A large part for each worker, then smaller and smaller ones for whoever is free: so all end
        at about the same time, even if something else runs on one of the cores.
        """
        steps = self._steps(clients, t)
        order = np.argsort(-steps, kind="stable")
        done = np.concatenate([[0], np.cumsum(steps[order])])
        first = 0
        parts: list[list[int]] = []
        while first < len(order):
            if len(parts) % self.n_workers == 0:
                each = AT_ONCE * (done[-1] - done[first]) / self.n_workers
            n_clients = int(np.searchsorted(done, done[first] + each, side="right")) - 1 - first
            n_clients = max(1, n_clients)
            parts.append(order[first : first + n_clients].tolist())
            first += n_clients
        return parts


def point_to(module: nn.Module, layout: Layout, vector: torch.Tensor) -> None:
    """Make a module's parameters and floating buffers views of a vector: nothing is copied."""
    named = layout.named(vector)
    for name, entry in layout.entries(module).items():
        entry.data = named[name]


def _each(
    function: Callable[[int], torch.Tensor] | None, clients: list[int], like: torch.Tensor
) -> torch.Tensor | None:
    if function is None:
        return None
    rows = aligned_matrix(len(clients), like.shape[1], like.dtype).to(like.device)
    for row, client in enumerate(clients):
        rows[row] = function(client)
    return rows


__all__ = ["Cost", "LocalTrainer", "point_to"]
