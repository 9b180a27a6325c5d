"""`RayTrainer`: the clients of a round in chunks on a Ray cluster (extra ``ray``).

A process of the cluster does with a chunk what `local_trainer` does with a round, on one thread.
The data go to each machine once, the model once a round; rows come back through the object store.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from understudy.core.types import Arrivals, Cohort, Floats, Ints
from understudy.simulation.training.evaluation import pieces
from understudy.simulation.training.trainers.choice import local_trainer
from understudy.simulation.training.trainers.ray_work import Kit, RowsOf, Sent, work
from understudy.simulation.training.trainers.rows import RowMemory
from understudy.simulation.training.trainers.task import TrainingTask
from understudy.simulation.training.workers import WorkerDied

WORTH_SENDING = 0.1  # seconds of counted work; less is done here
CHUNK_BYTES = 64 * 2**20  # of a chunk's rows, at the most, if it is more than one client
CHUNKS_AHEAD = 2  # for each CPU: no process waits, and few rows wait for us
TRIES = 4  # of a chunk, each after a death
LOOK_SECONDS = 5.0  # how often it is looked whether any CPU is left
PATIENCE_SECONDS = 60.0  # without one

log = logging.getLogger("understudy")


@dataclass(frozen=True)
class RayTrainer:
    """Trains on a Ray cluster: ``simulate(…, trainer=RayTrainer("10.0.0.1:6379"))``.

    The bits are those of local training. Training and evaluation that are over sooner than they are
    sent stay in this process.

    Parameters
    ----------
    address : str, optional
        ``host:port`` of the cluster, to which this machine must belong; ``"auto"``: the one that
        ``ray start`` started here; ``"local"``: one of this machine alone, for a trial. By default
        the cluster that this process is connected to (``ray.init``), or that RAY_ADDRESS names.
    """

    address: str | None = None

    def __post_init__(self) -> None:
        if self.address is not None and not isinstance(self.address, str):
            raise TypeError(f"address: expected a text or None, got {self.address!r}")

    def __call__(self, task: TrainingTask) -> ClusterTrainer:
        """The trainer of a run."""
        return ClusterTrainer(task, self.address)


class ClusterTrainer:
    """A `Trainer` on a cluster; see `RayTrainer`.

    Attributes
    ----------
    deaths : int
        How often a process or a machine was lost, and a chunk was done again.
    """

    def __init__(self, task: TrainingTask, address: str | None = None) -> None:
        if task.recipe.device != "cpu":
            raise ValueError(f"device: expected 'cpu' on a cluster, got {task.recipe.device!r}")
        alone = replace(task, workload=replace(task.workload, n_workers=1))
        kit = Kit.of(alone)
        from understudy.simulation.training.trainers.ray_cluster import ClusterMembership, ray

        self.task, self.deaths, self._ray = task, 0, ray
        self._here, self._rows = local_trainer(alone), RowMemory(task.layout)
        self._member = ClusterMembership(address)
        try:
            self._kit = ray.put(kit)
        except BaseException:
            self._member.end()
            raise
        # what is lost is repeated here, and told
        self._work = ray.remote(work).options(num_cpus=1, max_retries=0, name="understudy")

    def train(self, params: torch.Tensor, cohort: Cohort, *, into: str = "round") -> Arrivals:
        """Train everyone asked."""
        params, clients = self.task.checked(params), cohort.asked.tolist()
        if self.task.workload.training(clients, cohort.t) < WORTH_SENDING:
            return self._here.train(params, cohort, into=into)
        chunks = self._chunks(clients, cohort.t)
        matrix = self._rows.own(into, len(clients), params.device)
        n_steps, losses = np.zeros(len(clients), dtype=np.int64), np.zeros(len(clients))

        def order(chunk: Ints) -> Cohort:
            ids = cohort.asked[chunk]
            start, correction = (
                None if each is None else RowsOf.clients(each, ids, params)
                for each in (cohort.start, cohort.correction)
            )
            weight, pending = np.ones(len(ids)), cohort.pending[:0]
            return Cohort(
                cohort.t,
                ids,
                weight,
                ids,
                pending,
                start=start,
                correction=correction,
                lr=cohort.lr,
            )

        what = f"training round {cohort.t}"
        for chunk, (rows, *trained) in self._done("train", params, chunks, order, what):
            matrix[chunk] = rows.tensor()
            n_steps[chunk], losses[chunk] = trained
        results = list(zip(n_steps.tolist(), losses.tolist(), strict=True))
        return self.task.arrivals(cohort, matrix, results)

    def losses(self, params: torch.Tensor, ids: Ints) -> Floats:
        """(len(ids),) mean loss of a model on each client's validation (else training) examples."""
        params, ids = self.task.checked(params), np.asarray(ids)
        if self.task.workload.forward(int(self.task.federation.sizes[ids].sum())) < WORTH_SENDING:
            return self._here.losses(params, ids)
        losses, chunks = np.zeros(len(ids)), self._chunks(ids.tolist(), 0)
        for chunk, found in self._done("losses", params, chunks, lambda chunk: ids[chunk]):
            losses[chunk] = found
        return losses

    def outputs(self, params: torch.Tensor, indices: Ints) -> torch.Tensor:
        """What the model with these parameters says to some of the examples."""
        params, indices = self.task.checked(params), self.task.checked_indices(indices)
        if self.task.workload.forward(len(indices)) < WORTH_SENDING:
            return self._here.outputs(params, indices)
        parts = pieces(np.arange(len(indices)), CHUNKS_AHEAD * max(1, self._n_cpus()))
        found = {
            part[0]: said.tensor()
            for part, said in self._done("outputs", params, parts, lambda part: indices[part])
        }
        return torch.cat([found[part[0]] for part in parts])

    def close(self) -> None:
        """Let go of rows and of what the cluster keeps; leave it, if this run joined it."""
        self._rows.clear()
        self._here.close()
        self._kit = None
        self._member.end()

    def _n_cpus(self) -> int:
        """CPUs of all machines that are alive."""
        return int(self._ray.cluster_resources().get("CPU", 0))

    def _chunks(self, clients: list[int], t: int) -> list[Ints]:
        """Positions, long clients first, in chunks whose rows are not too many bytes."""
        at_most = max(1, CHUNK_BYTES // (self.task.layout.size * self.task.layout.dtype.itemsize))
        spread = replace(self.task.workload, n_workers=max(1, self._n_cpus()))
        parts = [np.array(part) for part in spread.parts(clients, t)]
        return [
            part[first : first + at_most]
            for part in parts
            for first in range(0, len(part), at_most)
        ]

    def _done(
        self,
        verb: str,
        params: torch.Tensor,
        chunks: Sequence[Ints],
        order: Callable[[Ints], Any],
        what: str = "evaluating",
    ) -> Iterator[tuple[Ints, Any]]:
        """Each chunk with its result, in whichever order they come."""
        ray, model = self._ray, self._ray.put(Sent.of(params))
        waiting, running, tries = deque(range(len(chunks))), dict[Any, int](), Counter[int]()
        ahead, idle = CHUNKS_AHEAD * max(1, self._n_cpus()), 0.0
        try:
            while waiting or running:
                while waiting and len(running) < ahead:
                    number = waiting.popleft()
                    asked = order(chunks[number])
                    running[self._work.remote(self._kit, model, verb, asked)] = number
                done, _ = ray.wait(list(running), timeout=LOOK_SECONDS)
                idle = 0.0 if done or self._n_cpus() else idle + LOOK_SECONDS
                if idle >= PATIENCE_SECONDS:
                    raise WorkerDied(f"the cluster has had no CPU for {idle:.0f} s while {what}")
                for ref in done:
                    number = running.pop(ref)
                    try:
                        result = ray.get(ref)
                    except ray.exceptions.RayTaskError as error:
                        cause = getattr(error, "cause", None)
                        raise (cause if isinstance(cause, Exception) else error) from error
                    except ray.exceptions.RayError as error:
                        tries[number] += 1
                        self._lost(chunks[number], tries[number], what, error)
                        waiting.appendleft(number)
                    else:
                        yield chunks[number], result
        finally:
            for ref in running:  # after an error or an interrupt
                ray.cancel(ref, force=True)

    def _lost(self, chunk: Ints, n_tries: int, what: str, error: Exception) -> None:
        self.deaths += 1
        why = str(error).strip().partition("\n")[0]
        if n_tries == TRIES:
            raise WorkerDied(
                f"the processes of the cluster died {TRIES} times over the same {len(chunk)} "
                f"clients while {what}; they may have run out of memory. The last time: {why}"
            ) from error
        log.warning(
            "a process or a machine of the cluster was lost while %s; what it had, %d of the "
            "clients, is done again (%s)", what, len(chunk), why,
        )  # fmt: skip
