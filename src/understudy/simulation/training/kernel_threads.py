"""Threads that train clients of the same round by the compiled kernels.

A call of the kernels holds no lock of the interpreter and uses nothing of torch's. So threads of
this process do for the kernels what worker processes do for the loop, without a second interpreter,
a second torch and a shared copy of the data.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

import torch

from understudy.core.types import Ints
from understudy.simulation.training.jobs import Job, Trained, in_order
from understudy.simulation.training.kernel_engine import KernelEngine

ENDING_SECONDS = 10.0  # threads that are idle end at once; one at work finishes its client
LOOK_SECONDS = 1.0  # how often those who wait look whether anybody is at work

Part = TypeVar("Part")
Result = TypeVar("Result")


class ThreadsAreGone(RuntimeError):
    """Nobody is left to do the parts of a round."""


class KernelThreads:
    """Does the parts of a round, or of an evaluation, in several threads.

    `engine` works where there is one thread or one part; each thread gets another with the same
    plan. Threads are started by the first call that has more than one part, in a child of a fork
    anew.
    """

    def __init__(self, engine: KernelEngine, n_threads: int) -> None:
        self.n_threads, self._engine = n_threads, engine
        self.forget()
        _all_threads.add(self)

    def forget(self) -> None:
        """Begin without threads; those that there were are not ended."""
        self._end: weakref.finalize[Any, Any] | None = None
        self._inbox: SimpleQueue[Work | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._starting = threading.Lock()
        self._engine.alone = threading.Lock()  # in a child of a fork nobody would let go of it

    @property
    def are_started(self) -> bool:
        """Whether there are threads, waiting or at work."""
        return self._end is not None

    def train(self, job: Job, parts: Sequence[Sequence[int]]) -> Trained:
        """Train all clients of a job; a part is positions among them."""
        return in_order(parts, self._all(partial(_train, job), parts))

    def outputs(self, params: torch.Tensor, parts: Sequence[Ints]) -> torch.Tensor:
        """What the model with these parameters says to the examples of all parts, in order."""
        found = self._all(lambda engine, part, _: engine.outputs(params, part), parts)
        return found[0] if len(found) == 1 else torch.cat(found)

    def close(self) -> None:
        """End the threads. The next call that needs some starts new ones."""
        if self._end is not None:
            self._end()
            self._end = None

    def _all(
        self, task: Callable[[KernelEngine, Part, Work], Result], parts: Sequence[Part]
    ) -> list[Result]:
        work = Work(task, parts)
        if self.n_threads == 1 or len(parts) == 1:
            return [task(self._engine, part, work) for part in parts]
        try:
            with self._starting:
                if self._end is None:
                    self._start()
            for _ in range(self.n_threads):
                self._inbox.put(work)
            return work.results(self._threads)
        except ThreadsAreGone:
            self.close()  # the next call starts others
            raise
        finally:  # after an interrupt nobody may write to rows that are trained anew
            work.stop()

    def _start(self) -> None:
        inbox: SimpleQueue[Work | None] = SimpleQueue()
        threads: list[threading.Thread] = []
        self._inbox, self._threads = inbox, threads
        # threads know nothing of this object: when it is gone, or the process ends, they end
        self._end = weakref.finalize(self, _end_threads, inbox, threads)
        try:
            self._start_all(inbox, threads)
        except RuntimeError as error:
            number = len(threads)
            self._give_up()
            raise RuntimeError(
                f"thread {number} of {self.n_threads} that train clients cannot be started "
                f"({error}); allow this process more threads, or train in one: workers=1"
            ) from error
        except BaseException:  # an interrupt, no memory: the next call begins anew
            self._give_up()
            raise

    def _give_up(self) -> None:
        self._threads[:] = [thread for thread in self._threads if thread.ident is not None]
        self.close()

    def _start_all(self, inbox: SimpleQueue[Work | None], threads: list[threading.Thread]) -> None:
        for number in range(self.n_threads):
            thread = threading.Thread(
                target=_serve,
                args=(inbox, self._engine.another()),
                name=f"understudy-kernels-{number}",
                daemon=True,  # an interrupt while threads start must not keep the process alive
            )
            threads.append(thread)
            thread.start()


_all_threads: weakref.WeakSet[KernelThreads] = weakref.WeakSet()


def _after_fork() -> None:
    """The parent's threads do not exist in the child: it starts its own."""
    for threads in list(_all_threads):
        if threads._end is not None:
            threads._end.detach()
        threads.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Work:
    """Parts that threads take one after the other, in their order.

    `task` makes the result of an engine, a part and this object.
    """

    def __init__(self, task: Callable[[KernelEngine, Any, Work], Any], parts: Sequence[Any]):
        self.is_stopped = False
        self._task, self._parts = task, parts
        self._results: list[Any] = [None] * len(parts)
        self._next = self._n_done = self._n_active = 0
        self._error: BaseException | None = None
        self._changed = threading.Condition()

    def help_with(self, engine: KernelEngine) -> None:
        """Do parts until none is left."""
        while (number := self._taken()) is not None:
            try:
                result = self._task(engine, self._parts[number], self)
            except BaseException as error:
                self._put_back(error)
                return
            with self._changed:
                self._results[number] = result
                self._n_done += 1
                self._n_active -= 1
                self._changed.notify_all()

    def results(self, threads: Sequence[threading.Thread]) -> list[Any]:
        """Of all parts, when all are done; the first error, if there is one.

        Parameters
        ----------
        threads : sequence of threads
            Those that do them. When all are gone, there is nothing to wait for.
        """
        with self._changed:
            while not self._changed.wait_for(self._is_over, LOOK_SECONDS):
                if not any(thread.is_alive() for thread in threads) and not self._is_over():
                    raise ThreadsAreGone(
                        f"the threads that train clients are gone, with {self._n_done} of "
                        f"{len(self._parts)} parts done; train again, or with workers=1"
                    )
        if self._error is not None:
            raise self._error
        return self._results

    def _is_over(self) -> bool:
        return self._n_done == len(self._parts) or self._error is not None

    def stop(self) -> None:
        """No part is begun any more, and those that were begun are waited for."""
        with self._changed:
            self.is_stopped = True
            self._changed.wait_for(lambda: self._n_active == 0)

    def _taken(self) -> int | None:
        with self._changed:
            if self.is_stopped or self._next == len(self._parts):
                return None
            self._next += 1
            self._n_active += 1
            return self._next - 1

    def _put_back(self, error: BaseException) -> None:
        with self._changed:
            self._error = self._error or error
            self._n_active -= 1
            self._changed.notify_all()


def _train(job: Job, engine: KernelEngine, part: Sequence[int], work: Work) -> Trained:
    return engine.train(job.part(part), lambda: work.is_stopped)


def _serve(inbox: SimpleQueue[Work | None], engine: KernelEngine) -> None:
    while (work := inbox.get()) is not None:
        work.help_with(engine)


def _end_threads(inbox: SimpleQueue[Work | None], threads: list[threading.Thread]) -> None:
    """Let all end, and wait: one that wakes while the interpreter shuts down would abort it."""
    for _ in threads:
        inbox.put(None)
    deadline = time.monotonic() + ENDING_SECONDS
    for thread in threads:
        # the collector of garbage may have called this from one of them
        if thread.is_alive() and thread is not threading.current_thread():
            thread.join(max(0.0, deadline - time.monotonic()))
