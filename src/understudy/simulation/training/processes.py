"""Python processes of our own, and the line to each: started fresh, ended for sure.

A child is a fresh interpreter that is told its path, never a copy of this process and never a
second run of its main script: so it works in notebooks and in scripts without a main guard. Ending
one is a kill and a wait; there are no queues between that could be left in a state, and the one
thread for each child does nothing but wait for its end.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection

IDLE = 77  # a child's exit code when it ended because nobody asked it anything

# what a child runs: its path first, so that everything importable here is importable there
BOOT = """
import sys
from multiprocessing.connection import Connection
line = Connection(int(sys.argv[1]))
sys.path[:] = line.recv()
parent, module, name, arguments = line.recv()
from understudy.simulation.training.processes import end_with
end_with(parent)
getattr(__import__(module, fromlist=[name]), name)(line, *arguments)
"""


class Child:
    """A process that runs ``module.name(line, *arguments)``, and ends when that does.

    Arguments are picklable; `environment` is added to this process's; `descriptors` are open files
    that it has too, under the same numbers.
    """

    def __init__(
        self,
        module: str,
        name: str,
        *arguments: object,
        environment: Mapping[str, str],
        descriptors: Sequence[int] = (),
    ) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
            self._process = subprocess.Popen(
                [sys.executable, *flags, "-c", BOOT, str(theirs.fileno())],
                pass_fds=[theirs.fileno(), *descriptors],
                stdin=subprocess.DEVNULL,
                env={**os.environ, **environment},
                process_group=0,  # a Ctrl-C in the terminal is for the parent to answer
            )
            self.line = Connection(ours.detach())
        # whoever ends for want of work is waited for, and is no zombie until the next round
        threading.Thread(target=self._process.wait, daemon=True).start()
        self.line.send(sys.path)
        self.line.send((os.getpid(), module, name, arguments))

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def exit_code(self, seconds: float) -> int | None:
        """How it ended; None when it has not, after so many seconds."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def end(self) -> None:
        """Kill it. It does nothing any more when this returns."""
        self._process.kill()
        self._process.wait()
        self.line.close()


def end_with(parent: int) -> None:
    """From now on this process ends when its parent has ended, however it did."""
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
