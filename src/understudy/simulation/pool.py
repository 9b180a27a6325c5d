"""A handful of processes that work off a list of orders."""

from __future__ import annotations

import atexit
import os
import pickle
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

import cloudpickle

from understudy.processes import IDLE, Child

IDLE_SECONDS = 60.0  # after which a process that nobody needs ends
ENDING_SECONDS = 10.0  # to be patient with a child whose line is closed, before it counts as dead

ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class ChildDied(Exception):
    """A process died over its order."""


class RemoteTraceback(Exception):
    """Where, in the other process, an error happened."""

    def __str__(self) -> str:
        return str(self.args[0])


class Pool:
    """Processes of one thread each; they end by themselves when nobody needs them."""

    def __init__(self, size: int) -> None:
        self._children = [self._child() for _ in range(size)]

    @staticmethod
    def _child() -> Child:
        where = "understudy.simulation.pool"
        return Child(where, "serve", IDLE_SECONDS, environment=ENVIRONMENT)

    def map(self, task: Callable[..., Any], orders: Sequence[tuple[Any, ...]]) -> list[Any]:
        """``task(*order)`` of each order. An error there is raised here, others may be at work."""
        waiting = deque(enumerate(orders))
        at_work: dict[Connection, tuple[int, int]] = {}  # line: (position of child, of order)
        results: list[Any] = [None] * len(orders)
        for position in range(min(len(self._children), len(orders))):
            self._give(position, task, waiting, at_work)
        while at_work:
            for line in wait(list(at_work)):
                assert isinstance(line, Connection)
                position, number = at_work.pop(line)
                try:
                    succeeded, body = line.recv()
                except (EOFError, OSError):
                    self._replace(position)
                    waiting.appendleft((number, orders[number]))
                else:
                    if not succeeded:
                        raise _error(body)
                    results[number] = pickle.loads(body)
                if waiting:
                    self._give(position, task, waiting, at_work)
        return results

    def _give(
        self,
        position: int,
        task: Callable[..., Any],
        waiting: deque[tuple[int, tuple[Any, ...]]],
        at_work: dict[Connection, tuple[int, int]],
    ) -> None:
        number, order = waiting.popleft()
        message = cloudpickle.dumps((task, order))
        if not self._children[position].alive:
            self._replace(position)
        try:
            self._children[position].line.send_bytes(message)
        except OSError:  # it ended in this moment
            self._replace(position)
            self._children[position].line.send_bytes(message)
        at_work[self._children[position].line] = position, number

    def _replace(self, position: int) -> None:
        """A new process for one that ended; ChildDied unless it ended for want of work."""
        child = self._children[position]
        code = child.exit_code(ENDING_SECONDS)
        child.end()
        if code != IDLE:
            raise ChildDied(f"process {child.pid} ended with {code}")
        self._children[position] = self._child()

    def close(self) -> None:
        """End all processes, whatever they are doing."""
        for child in self._children:
            child.end()


_pools: dict[tuple[int, int], Pool] = {}  # (pid, size): one at most


def pool_of(size: int) -> Pool:
    """This process's pool. It outlives a run: the next one finds it started."""
    key = os.getpid(), size
    if key not in _pools:
        end_workers()
        _pools[key] = Pool(size)
    return _pools[key]


@atexit.register
def end_workers() -> None:
    """End the worker processes of this process; the next round that needs some starts new ones."""
    for pid, size in list(_pools):
        pool = _pools.pop((pid, size))
        if pid == os.getpid():  # else they are the parent's
            pool.close()


def _error(body: bytes) -> BaseException:
    error, told = pickle.loads(body)
    error.__cause__ = RemoteTraceback(f"\n{told}")
    assert isinstance(error, BaseException)
    return error


# -- in a child ------------------------------------------------------------------------------------


def serve(line: Connection, idle_seconds: float) -> None:
    """Do one order after the other, until none came for some time."""
    import torch

    torch.set_num_threads(1)
    while line.poll(idle_seconds):
        try:
            message = line.recv_bytes()
        except EOFError:  # the parent is gone
            os._exit(1)
        line.send(_answer(message))
    os._exit(IDLE)


def _answer(message: bytes) -> tuple[bool, bytes]:
    try:
        task, order = pickle.loads(message)
        return True, pickle.dumps(task(*order), pickle.HIGHEST_PROTOCOL)
    except BaseException as error:
        told = traceback.format_exc()
        try:
            body = cloudpickle.dumps((error, told))
            pickle.loads(body)  # some errors can be written but not read
        except Exception:
            body = cloudpickle.dumps((RuntimeError(f"{type(error).__name__}: {error}"), told))
        return False, body
