"""Mathematics on one thread: its bits must not depend on the number of cores.

And one thread at a time where torch keeps something for the whole process.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, RLock
from typing import Any

import torch
from threadpoolctl import ThreadpoolController


def usable_cores() -> int:
    """Cores that this process may use, which may be fewer than there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit torch and every BLAS of this process to one thread meanwhile.

    It may be entered again inside, and by several threads at once. A BLAS that is first loaded
    inside is limited from the next time on.
    """
    before = torch.get_num_threads()
    if before != 1:
        torch.set_num_threads(1)  # in this thread; torch's own BLAS too, which nobody else can see
    _blas.limit()
    try:
        yield
    finally:
        _blas.release()
        if torch.get_num_threads() != before:
            torch.set_num_threads(before)


_torch = RLock()


@contextmanager
def alone_in_torch() -> Iterator[None]:
    """Keep other threads out meanwhile: those that do the same wait.

    For what changes torch's own generator (first weights, dropout layers) or its flags (oneDNN):
    both are the process's, and another run in another thread would come to other bits, silently.
    The compiled kernels touch neither, and wait for nobody.
    """
    with _torch:
        yield


class _BlasLibraries:
    """The BLAS libraries of NumPy, SciPy and others: their number of threads is the process's.

    So it is put back when the last of those who compute on one thread leaves, not the first.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._libraries: list[Any] = []
        self._n_modules = 0
        self._inside = 0  # how many compute on one thread now
        self._before: dict[str, tuple[Any, int]] = {}  # file -> library, its threads before

    def limit(self) -> None:
        with self._lock:
            for library in self._loaded():
                n_threads = library.get_num_threads()
                self._before.setdefault(library.filepath, (library, n_threads))
                if n_threads != 1:  # inside of another it is
                    _set_threads(library, 1)
            self._inside += 1

    def release(self) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                for library, n_threads in self._before.values():
                    _set_threads(library, n_threads)
                self._before.clear()

    def forget_threads(self) -> None:
        """In a child of a fork: whoever held the lock is not here."""
        self._lock = Lock()

    def _loaded(self) -> list[Any]:
        """Looked for again only when modules were imported since: SciPy brings a BLAS of its own.

        Looking takes half a millisecond, longer than a small round; limiting takes microseconds.
        """
        n_modules = len(sys.modules)
        if n_modules != self._n_modules:
            self._libraries = ThreadpoolController().select(user_api="blas").lib_controllers
            self._n_modules = n_modules
        return self._libraries


def _set_threads(library: Any, n_threads: int) -> None:
    """Whichever thread asks: threadpoolctl from 3.8 on would listen to the first one only."""
    hand_over = getattr(library, "clear_controlling_thread", None)
    if hand_over is not None:
        hand_over(force=True)
    library.set_num_threads(n_threads)
    if hand_over is not None:
        hand_over()


_blas = _BlasLibraries()


def _after_fork() -> None:
    """Other threads of the parent do not exist in the child, and never let go of what they held."""
    global _torch
    _torch = RLock()
    _blas.forget_threads()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
