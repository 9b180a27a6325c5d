"""A worker process: runs cells, one after another.

It ignores the signals that stop its parent, stops when the parent sends ``stop``, and ends when the
parent does. Little is imported before it reads its first message.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from understudy.core.types import RoundLog

PROGRESS_EVERY = 0.1  # seconds


class WorkerLink:
    """The worker's end of the connection, and the reporter of its cells.

    A thread reads it at any time, also while a cell runs.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._requests: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._answered = threading.Condition()
        self._committed = -1  # the last round of the current cell that is safe
        self._refused = False
        self._stopping = False
        self._last_progress = 0.0
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            while True:
                what, *details = self._connection.recv()  # plain data: nothing is imported here
                if what == "cell":
                    self._requests.put(details[0])
                elif what == "end":
                    self._requests.put(None)
                elif what == "stop":
                    self._stopping = True
                else:  # "committed" or "refused"
                    with self._answered:
                        if what == "committed":
                            self._committed = details[0]
                        else:
                            self._refused = True
                        self._answered.notify()
        except (EOFError, OSError):
            os._exit(1)  # the parent is gone
        except BaseException:
            traceback.print_exc()
            os._exit(1)  # no message would be read any more

    def next_request(self) -> Any:
        """Wait for the next cell; None: there is none, and the process is to end."""
        pickled = self._requests.get()
        self._committed, self._refused = -1, False
        return None if pickled is None else pickle.loads(pickled)

    def send(self, what: str, *details: Any) -> None:
        self._connection.send((what, *details))

    # -- the reporter of a cell ----------------------------------------------------------------

    @property
    def stopping(self) -> bool:
        return self._stopping

    def begun(self, facts: Mapping[str, Any]) -> None:
        self.send("begun", facts)

    def commit(self, logs: list[RoundLog]) -> None:
        from understudy.studies.execution.run_cell import NotStored

        last = logs[-1].t
        if not self._refused:
            self.send("rounds", logs)
        with self._answered:
            self._answered.wait_for(lambda: self._refused or self._committed >= last)
            if self._refused:
                raise NotStored

    def progress(self, t: int, measured: str) -> None:
        if time.monotonic() - self._last_progress >= PROGRESS_EVERY:
            self._last_progress = time.monotonic()
            self.send("progress", t, measured)


def main(line: Connection, output: int) -> None:
    """Run cells until the message ``end``; what is printed goes to the open file `output`."""
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)
    _print_to(output)
    faulthandler.enable()
    sys.dont_write_bytecode = True  # an edit within the same second would go unnoticed later
    link = WorkerLink(line)

    import torch

    from understudy.simulation.training.pool import end_workers
    from understudy.studies.execution.run_cell import DataCache, final_message

    torch.set_num_threads(1)  # sums depend on how many there are
    data_cache = DataCache()
    while (request := link.next_request()) is not None:
        link.send(*final_message(request, link, data_cache))
    end_workers()
    os._exit(0)  # no library's thread is waited for: all that counts is with the parent


def _print_to(output: int) -> None:
    """Print to the parent's file from now on; it has no name, and ends with the two processes."""
    sys.stdout.flush()
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    os.close(output)
