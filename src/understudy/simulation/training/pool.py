"""A handful of processes that work off a list of orders."""

from __future__ import annotations

import atexit
import os
import pickle
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any

import cloudpickle

from understudy.simulation.training.processes import IDLE, Child

IDLE_SECONDS = 60.0  # after which a process that nobody needs ends
ENDING_SECONDS = 10.0  # to be patient with a child whose line is closed, before it counts as dead
NUMBER = 4  # bytes of an order's number in the pipe, which holds thousands of them

ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class ChildDied(Exception):
    """A process died over its order."""


class RemoteTraceback(Exception):
    """Where, in the other process, an error happened."""

    def __str__(self) -> str:
        return str(self.args[0])


class Pool:
    """Processes of one thread each; they end by themselves when nobody needs them.

    All of them see all orders, and whoever is free takes the next one: a core that is slower, or
    that something else runs on, takes fewer. The numbers of the orders lie in a pipe, since two
    processes never read the same bytes from it.
    """

    def __init__(self, size: int) -> None:
        self._bag, self._into_bag = os.pipe()
        os.set_blocking(self._bag, False)
        self._children = [self._child() for _ in range(size)]

    def _child(self) -> Child:
        where = "understudy.simulation.training.pool"
        return Child(
            where, "serve", IDLE_SECONDS, self._bag,
            environment=ENVIRONMENT, descriptors=[self._bag],
        )  # fmt: skip

    def map(self, task: Callable[..., Any], orders: Sequence[tuple[Any, ...]]) -> list[Any]:
        """``task(*order)`` of each order. After an error, others may be at work: `close` it."""
        message = pickle.dumps((task, list(orders)), pickle.HIGHEST_PROTOCOL)
        os.write(self._into_bag, b"".join(n.to_bytes(NUMBER) for n in range(len(orders))))
        lines = {}
        for position in range(min(len(self._children), len(orders))):
            lines[self._send(position, message)] = position
        results: list[Any] = [None] * len(orders)
        while lines:
            for line in wait(list(lines)):
                assert isinstance(line, Connection)
                position = lines.pop(line)
                try:
                    succeeded, body = line.recv()
                except (EOFError, OSError):
                    self._replace(position)
                    lines[self._send(position, message)] = position
                    continue
                if not succeeded:
                    raise _error(body)
                for number, result in pickle.loads(body):
                    results[number] = result
        return results

    def _send(self, position: int, message: bytes) -> Connection:
        if not self._children[position].alive:
            self._replace(position)
        try:
            self._children[position].line.send_bytes(message)
        except OSError:  # it ended in this moment
            self._replace(position)
            self._children[position].line.send_bytes(message)
        return self._children[position].line

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
        os.close(self._bag)
        os.close(self._into_bag)


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


def serve(line: Connection, idle_seconds: float, bag: int) -> None:
    """Do orders, until none came for some time."""
    import torch

    torch.set_num_threads(1)
    _give_way_to_the_parent()
    while line.poll(idle_seconds):
        try:
            message = line.recv_bytes()
        except EOFError:  # the parent is gone
            os._exit(1)
        line.send(_answer(message, bag))
    os._exit(IDLE)


def _give_way_to_the_parent() -> None:
    """Not to take its core the moment it wakes us: it has yet to wake the others."""
    if hasattr(os, "SCHED_BATCH"):
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def _answer(message: bytes, bag: int) -> tuple[bool, bytes]:
    try:
        task, orders = pickle.loads(message)
        done = [(number, task(*orders[number])) for number in _taken_from(bag)]
        return True, pickle.dumps(done, pickle.HIGHEST_PROTOCOL)
    except BaseException as error:
        told = traceback.format_exc()
        try:
            body = cloudpickle.dumps((error, told))
            pickle.loads(body)  # some errors can be written but not read
        except Exception:
            body = cloudpickle.dumps((RuntimeError(f"{type(error).__name__}: {error}"), told))
        return False, body


def _taken_from(bag: int) -> Iterator[int]:
    """Numbers of orders, until all are taken."""
    while True:
        try:
            number = os.read(bag, NUMBER)
        except BlockingIOError:
            return
        if not number:  # the parent is gone
            os._exit(1)
        yield int.from_bytes(number)
