"""Each case in a process of its own, forked from one that has everything loaded.

A fault ends that process only. What it used of a processor is limited, not how long it took: a busy
machine decides nothing.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.simulation.training.kernels.fuzz.cases import Case, case
from tests.simulation.training.kernels.fuzz.oracle import FINE, verdict

CPU_SECONDS = 10  # a case takes a few hundredths; under the sanitizers less than one
WALL_SECONDS = 600  # waits for something that never comes
MOST_MEMORY = 24 * 2**30  # of addresses; the sanitizers need more


@dataclass(frozen=True)
class Result:
    """What came of one case."""

    seed: int
    text: str  # what was odd
    kind: str
    detail: str

    @property
    def is_finding(self) -> bool:
        return self.kind not in FINE


def tried(
    seed: int,
    make: Callable[[int], Case] = case,
    sanitized: bool = False,
    cpu_seconds: float = CPU_SECONDS,
    wall_seconds: float = WALL_SECONDS,
) -> Result:
    """Run one case in a child."""
    reader, writer = os.pipe()
    with tempfile.TemporaryFile() as errors:
        child = os.fork()
        if not child:
            os.close(reader)
            os.dup2(errors.fileno(), 2)
            _child(seed, make, writer, sanitized, cpu_seconds)
        os.close(writer)
        said, in_time = _read(reader, wall_seconds)
        if not in_time:
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        errors.seek(0)
        told = errors.read().decode(errors="replace")
    text, _, rest = said.decode().partition("\n")
    text = json.loads(text) if text else ""
    if rest.endswith("\n"):
        return Result(seed, text, *json.loads(rest))
    return Result(seed, text, *_ended(status, in_time, told))


def _child(
    seed: int, make: Callable[[int], Case], writer: int, sanitized: bool, cpu_seconds: float
) -> None:
    """Never returns."""
    said = "\n"
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, cpu_seconds)  # SIGVTALRM ends the process
        if not sanitized:
            resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        try:
            text = make(seed).text
        except Exception as error:  # one oddity excludes another
            os.write(writer, (said + json.dumps(["no case", repr(error)[:500]]) + "\n").encode())
            os._exit(0)
        os.write(writer, (json.dumps(text) + "\n").encode())
        said = ""
        found = verdict(seed, make)
        os.write(writer, (json.dumps([found.kind, found.detail]) + "\n").encode())
        os._exit(0)
    except BaseException as error:
        os.write(
            writer, (said + json.dumps(["fault of the fuzzer", repr(error)[:500]]) + "\n").encode()
        )
        os._exit(1)


def _read(reader: int, seconds: float) -> tuple[bytes, bool]:
    """All that comes until the other end closes, and whether it did in time."""
    said, until = b"", time.monotonic() + seconds
    with os.fdopen(reader, "rb", buffering=0) as pipe:
        while (left := until - time.monotonic()) > 0:
            if select.select([pipe], [], [], left)[0]:
                part = pipe.read(65536)
                if not part:
                    return said, True
                said += part
    return said, False


def _ended(status: int, in_time: bool, told: str) -> tuple[str, str]:
    """Kind and detail of a child that ended without a word."""
    lines = [line for line in told.splitlines() if line.strip()]
    report = [line for line in lines if "SUMMARY:" in line or "runtime error:" in line]
    detail = (report or lines or [""])[-1][:300]
    if not in_time:
        return "hang", f"no end after {WALL_SECONDS} s"
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number == signal.SIGVTALRM:
            return "hang", "it used its time of a processor up"
        name = signal.Signals(number).name
        return ("sanitizer" if report else "crash"), f"{name} {detail}".strip()
    return ("sanitizer" if report else "crash"), f"exit code {os.WEXITSTATUS(status)} {detail}"
