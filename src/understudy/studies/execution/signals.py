"""Ctrl-C and SIGTERM: the first ends the rounds, the second everything."""

from __future__ import annotations

import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from types import FrameType, TracebackType
from typing import Any, Self

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopSignals:
    """Counts the signals that come meanwhile, instead of being stopped by them.

    Only the main thread can listen; elsewhere nothing changes.
    """

    def __init__(self) -> None:
        self.count = 0
        self._polled = False
        self._before: dict[int, Any] = {}

    @property
    def asked(self) -> bool:
        """Rounds are to end, and nothing new is to begin."""
        return self.count > 0

    @property
    def at_once(self) -> bool:
        """Asked a second time."""
        return self.count > 1

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for signum in SIGNALS:
                self._before[signum] = signal.signal(signum, self._on_signal)
        return self

    def _on_signal(self, signum: int, frame: FrameType | None) -> None:
        self.count += 1
        if self.at_once and not self._polled:
            raise KeyboardInterrupt

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Meanwhile the caller polls `at_once`; else a second signal interrupts."""
        self._polled = True
        try:
            yield
        finally:
            self._polled = False

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for signum, handler in self._before.items():
            # None: it was not set from Python, and cannot be set back from here
            signal.signal(signum, signal.SIG_DFL if handler is None else handler)


def command_that_goes_on(arguments: Sequence[str] | None = None) -> str:
    """The command line of this process, or these arguments, to be typed again.

    Without ``--again``: what was to be run anew has been forgotten.
    """
    program, *rest = sys.argv if arguments is None else arguments
    name = Path(program).name
    words = ["python", program] if name.endswith(".py") else [name if which(name) else program]
    return shlex.join([*words, *(word for word in rest if word != "--again")])
