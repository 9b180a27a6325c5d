"""A real federation on 127.0.0.1 for tests: the example app, with faults on request.

Clients do what their node's ``faults`` say, such as ``1:raise;2:nan``, and write a file when they
begin to train. The server waits after each round until the test allows the next one. So no test
depends on how long anything takes, as long as a client that should answer does so before the
deadline; deadlines are a multiple of a measured round (`Live.deadline`).
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil
import pytest

from understudy import Outcome
from understudy.flower import read_outcomes

ROOT = Path(__file__).parents[2]
APP = ROOT / "examples" / "flower_app"
PATIENCE = 600.0  # seconds for anything that must happen: far beyond what it takes

FAULTS = '''
"""What goes wrong, and files by which a test knows when."""

import os
import time
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord


def faults(message, context, call):
    config = context.node_config
    t = int(message.content["config"]["server-round"]) - 1
    if "understudy-introduce" in message.content["config"]:
        return call(message, context)
    signals = Path(str(config["signals"]))
    (signals / f"training-{config['partition-id']}-{t}").touch()
    plan = dict(one.split(":") for one in str(config.get("faults", "")).split(";") if one)
    what = plan.get(str(t))
    if what == "raise":
        raise RuntimeError("this client is broken")
    if what == "hang":
        time.sleep(100_000)
    if what == "die":
        os.kill(os.getpid(), 9)
    if what == "slow":
        while not (signals / f"answer-{config['partition-id']}").exists():
            time.sleep(0.2)
    reply = call(message, context)
    arrays = reply.content["arrays"]
    name, first = next(iter(arrays.items()))
    if what == "nan":
        arrays[name] = Array(np.full(first.shape, np.nan, dtype=np.float32))
    elif what == "shape":
        arrays[name] = Array(np.zeros((2, 3), dtype=np.float32))
    elif what == "cut":
        arrays[name] = Array("float32", first.shape, "numpy.ndarray", first.data[:-7])
    elif what == "rubbish":
        data = np.random.default_rng(0).bytes(100_000_000)
        reply.content["arrays"] = ArrayRecord(
            {name: Array("float32", first.shape, "numpy.ndarray", data)}
        )
    return reply
'''
CLIENT = """
from understudy.flower import client_app

from digits_app.faults import faults
from digits_app.task import load_data, make_model

app = client_app(make_model, load_data, mods=[faults])
"""
GATE = '''

def gated(server_round, arrays):
    """Evaluate, then wait until the test lets the next round begin."""
    import time
    from pathlib import Path

    found = central_evaluate(server_round, arrays)
    signals = Path({signals!r})
    (signals / f"evaluated-{{server_round}}").touch()
    while not (signals / f"go-{{server_round}}").exists():
        time.sleep(0.2)
    return found
'''


def example(name: str) -> ModuleType:
    """A script of the example app, as a module."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", APP / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with importing_from(APP):  # it imports its neighbours
        spec.loader.exec_module(module)
    return module


@contextmanager
def importing_from(folder: Path) -> Iterator[None]:
    """Modules of a folder can be imported; afterwards neither it nor they are there any more."""
    before = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        try:
            yield
        finally:
            for name in set(sys.modules) - before:
                if str(getattr(sys.modules[name], "__file__", "")).startswith(f"{folder}{os.sep}"):
                    del sys.modules[name]


class Live:
    """A federation, an app with faults, and the files by which they and the test talk."""

    def __init__(self, folder: Path, n_nodes: int, *, insecure: bool = False) -> None:
        self.folder, self.signals = folder, folder / "signals"
        self.signals.mkdir(parents=True)
        self.app = folder / "app"
        shutil.copytree(APP, self.app, ignore=shutil.ignore_patterns("__pycache__", "federation"))
        (self.app / "digits_app" / "faults.py").write_text(FAULTS)
        (self.app / "digits_app" / "client_app.py").write_text(CLIENT)
        task = self.app / "digits_app" / "task.py"
        task.write_text(task.read_text() + GATE.format(signals=str(self.signals)))
        server = self.app / "digits_app" / "server_app.py"
        server.write_text(server.read_text().replace("central_evaluate", "gated"))
        self.federation: Any = example("federation").Federation(
            folder / "federation", n_nodes, insecure=insecure
        )
        self._runs: list[str] = []

    def config(self, number: int, faults: str = "") -> str:
        """A node's own settings."""
        plan = f" faults='{faults}'" if faults else ""
        return (
            f"partition-id={number} num-partitions={self.federation.n_nodes} "
            f"signals='{self.signals}'{plan}"
        )

    def start(self, faults: dict[int, str]) -> None:
        """SuperLink and SuperNodes, all connected."""
        federation = self.federation
        federation.start_superlink()
        if not federation.insecure:
            for number in range(federation.n_nodes):
                federation.register(f"client-{number}")
        plans = {number: faults.get(number, "") for number in range(federation.n_nodes)}
        self.connect(plans)
        self.wait_for(lambda: federation.online() == federation.n_nodes, "all nodes to connect")

    def connect(self, plans: dict[int, str]) -> None:
        """Start these nodes, and wait until the SuperLink has admitted each.

        The SuperLink takes a killed node for connected for a minute, and refuses its key that long:
        a node that was refused ends, and is started again.
        """
        nodes, admissions = self.federation.processes, self.federation.admissions
        before = {number: admissions(f"node-{number}") for number in plans}

        def are_admitted() -> bool:
            for number, faults in plans.items():
                process = nodes.get(f"node-{number}")
                if process is None or process.poll() is not None:
                    self.federation.start_node(number, config=self.config(number, faults))
            return all(admissions(f"node-{number}") > n for number, n in before.items())

        self.wait_for(are_admitted, f"nodes {sorted(plans)} to be admitted", pause=1.0)

    def sent(self, name: str) -> int:
        """How many answers of a node have reached the SuperLink, by its own log."""
        count: int = self.federation.log(name).count("Sent successfully")
        return count

    def deadline(self, folder: Path, at_least: float = 60.0) -> float:
        """Seconds that are enough here: four times what the slowest client took so far."""
        came = [one for one in read_outcomes(folder) if one.outcome == Outcome.CAME]
        took = [one.seconds for one in came if one.seconds is not None]
        return max(at_least, round(4 * max(took), 1))

    def run(self, **config: Any) -> str:
        """`flwr run`; the id of the run."""
        words = (f"{key.replace('_', '-')}={value!r}" for key, value in config.items())
        run_id: str = self.federation.run(self.app, " ".join(words))
        self._runs.append(run_id)
        return run_id

    def log(self, run_id: str) -> str:
        """What a ServerApp has logged."""
        text: str = self.federation.flwr("log", run_id, "federation", "--show", check=False)
        return text

    def go(self, number: int) -> None:
        """Let the server begin the round after Flower's round `number`."""
        (self.signals / f"go-{number}").touch()

    def answer(self, number: int) -> None:
        """Let a slow client answer."""
        (self.signals / f"answer-{number}").touch()

    def wait_for_file(self, name: str) -> None:
        self.wait_for((self.signals / name).exists, name, pause=0.2)

    def wait_for(self, happened: Callable[[], bool], what: str, pause: float = 3.0) -> None:
        """Return once something has happened; an error with all logs where it does not.

        A command of Flower that fails, or says nothing that can be read, is asked again.
        """
        end, failure = time.monotonic() + PATIENCE, ""
        while True:
            try:
                if happened():
                    return
                failure = ""
            except (RuntimeError, ValueError, LookupError, subprocess.TimeoutExpired) as error:
                failure = f"; the last try: {error!r}"
            if time.monotonic() > end:
                words = f"waited {PATIENCE:.0f} s for {what}{failure}"
                raise TimeoutError(f"{words}\n{self.all_logs()}")
            time.sleep(pause)  # commands of Flower take a second of a core

    def wait_for_run(self, run_id: str) -> str:
        """How it ended."""
        status = ""

        def has_ended() -> bool:
            nonlocal status
            status = self.federation.status(run_id)
            return status.startswith("finished")

        self.wait_for(has_ended, f"run {run_id} to end")
        return status

    def pids(self, program: str) -> list[int]:
        """Flower's own processes of one kind."""
        found = []
        for process in self.federation.helpers():
            with suppress(psutil.Error):  # it may have ended meanwhile
                if any(word.endswith(program) for word in process.cmdline()[:3]):
                    found.append(process.pid)
        return found

    def all_logs(self, last: int = 4000) -> str:
        """The end of every log, for a person who looks for the reason."""
        texts = {}
        for run_id in self._runs:
            try:
                texts[run_id] = self.log(run_id)
            except Exception as error:  # the SuperLink may be what is broken
                texts[run_id] = repr(error)
        paths = sorted(self.federation.folder.glob("*.log"))
        texts |= {path.name: path.read_text(errors="replace") for path in paths}
        return "\n".join(f"--- {name}\n{text[-last:]}" for name, text in texts.items())

    def stop(self) -> None:
        """End everything; an error where anything of it is left."""
        self.federation.stop()
        left = self.federation.helpers()
        assert not left, f"left behind: {left}"

    def listeners(self) -> set[str]:
        """Addresses at which anything of the federation listens."""
        return {
            connection.laddr.ip
            for process in self.federation.helpers()
            for connection in _connections(process)
            if connection.status == psutil.CONN_LISTEN
        }


def _connections(process: psutil.Process) -> list[Any]:
    with suppress(psutil.NoSuchProcess):
        return list(process.net_connections())
    return []


def is_gone(pid: int) -> bool:
    """Whether a process has ended, reaped or not."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def outcomes_of(folder: Path) -> dict[int, dict[str, str]]:
    """Round → client id → outcome."""
    became: dict[int, dict[str, str]] = {}
    for one in read_outcomes(folder):
        assert isinstance(one.outcome, Outcome)
        became.setdefault(one.t, {})[one.id] = one.outcome.name.lower()
    return became
