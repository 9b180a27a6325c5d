"""A whole federation on this machine: a SuperLink and some SuperNodes, on 127.0.0.1 alone.

    python federation.py --nodes 5              # TLS, and a registered key for each node
    python federation.py --nodes 5 --insecure   # neither

Ctrl-C ends it. This is how to try the app, not how to deploy it: there, each node is started on its
own machine, with the same two commands (they are printed).
"""

import argparse
import json
import os
import random
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
from make_keys import make_keys

NAME = "federation"  # what `flwr run . federation` calls it
PATIENCE = 120.0  # seconds that a process may take to be there
PORTS = range(20000, 32000)  # below those that the system gives to outgoing connections


class Federation:
    """One SuperLink and its SuperNodes, as processes."""

    def __init__(
        self, folder: Path, n_nodes: int, *, insecure: bool = False, port: int | None = None
    ) -> None:
        self.folder, self.n_nodes, self.insecure = folder.absolute(), n_nodes, insecure
        self.port = free_port() if port is None else port
        self.address = f"127.0.0.1:{self.port}"
        self.home, self.secrets = self.folder / "flwr", self.folder / "secrets"
        self.home.mkdir(parents=True, exist_ok=True)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        if not insecure and not self.secrets.exists():
            make_keys(self.secrets, n_nodes, ["localhost", "127.0.0.1"])
        trust = "insecure = true" if insecure else f'root-certificates = "{self.secrets}/ca.crt"'
        (self.home / "config.toml").write_text(
            f'[superlink]\ndefault = "{NAME}"\n\n'
            f'[superlink.{NAME}]\naddress = "{self.address}"\n{trust}\n'
        )

    @property
    def environment(self) -> dict[str, str]:
        """For every process: its own Flower folder, no telemetry, this Python's programs first."""
        programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        own = {"FLWR_HOME": str(self.home), "PATH": programs}
        own |= {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
        return {**os.environ, **own}

    def start(self) -> None:
        """Everything, in order."""
        self.start_superlink()
        if not self.insecure:
            for number in range(self.n_nodes):
                self.register(f"client-{number}")
        for number in range(self.n_nodes):
            self.start_node(number)

    def start_superlink(self) -> None:
        """The server; its memory of nodes and runs is in a file."""
        self._start("superlink", self.superlink_command())
        self._wait_for_port()

    def superlink_command(self) -> list[str]:
        keys = self.secrets
        trust = ["--insecure"] if self.insecure else [
            "--ssl-ca-certfile", f"{keys}/ca.crt",
            "--ssl-certfile", f"{keys}/server.pem",
            "--ssl-keyfile", f"{keys}/server.key",
            "--enable-supernode-auth",
        ]  # fmt: skip
        return [
            "flower-superlink", "--host", "127.0.0.1", "--port", str(self.port),
            "--database", str(self.folder / "superlink.db"),
            "--disable-runtime-dependency-installation", *trust,
        ]  # fmt: skip

    def register(self, key: str) -> None:
        """Register a key with the SuperLink, under the name of its node."""
        self.flwr("supernode", "register", f"{self.secrets}/{key}.pub", NAME, "--name", key)

    def start_node(self, number: int, *, name: str = "", key: str = "", config: str = "") -> None:
        """A client; by default with its own key and its own part of the data."""
        command = self.node_command(number, key or f"client-{number}", config)
        self._start(name or f"node-{number}", command)

    def node_command(self, number: int, key: str, config: str = "") -> list[str]:
        keys = self.secrets
        trust = ["--insecure"] if self.insecure else [
            "--root-certificates", f"{keys}/ca.crt",
            "--auth-supernode-private-key", f"{keys}/{key}",
        ]  # fmt: skip
        config = config or f"partition-id={number} num-partitions={self.n_nodes}"
        return [
            "flower-supernode", "--superlink", self.address, "--host", "127.0.0.1",
            "--port", str(free_port()), "--node-config", config, *trust,
        ]  # fmt: skip

    def flwr(self, *words: str, check: bool = True, timeout: float = PATIENCE) -> str:
        """Run a `flwr` command; its output, without warnings and other words on stderr."""
        done = subprocess.run(
            ["flwr", *words], env=self.environment, cwd=self.folder, timeout=timeout,
            capture_output=True, text=True,
        )  # fmt: skip
        if check and done.returncode:
            raise RuntimeError(f"flwr {shlex.join(words)} failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def run(self, app: Path, run_config: str = "") -> str:
        """Start the app; the id of the run."""
        words = ["run", str(app), NAME, "--format", "json"]
        said = self.flwr(*words, *(["--run-config", run_config] if run_config else []))
        return str(json.loads(said[said.index("{") :])["run-id"])

    def status(self, run_id: str) -> str:
        """Such as "running" or "finished:completed"."""
        said = self.flwr("list", NAME, "--run-id", run_id, "--format", "json")
        return str(json.loads(said[said.index("{") :])["runs"][0]["status"])

    def online(self) -> int:
        """How many nodes the SuperLink counts as connected."""
        said = self.flwr("supernode", "list", NAME, "--format", "json")
        nodes = json.loads(said[said.index("{") :])["nodes"]
        return sum(node["status"] == "online" for node in nodes)

    def log(self, name: str) -> str:
        """The log of a process; empty before it is started."""
        path = self.folder / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def admissions(self, name: str) -> int:
        """How often the SuperLink has admitted a node, by the node's own log.

        (`online` cannot tell: a killed node counts as connected for a minute.)
        """
        return self.log(name).count("SuperNode ID: ")

    def kill(self, name: str, how: signal.Signals = signal.SIGKILL) -> None:
        """End one process, and wait until it is gone."""
        process = self.processes.pop(name)
        process.send_signal(how)
        process.wait(PATIENCE)

    def stop(self) -> None:
        """End everything, nodes first; what does not end by itself is killed."""
        for name in sorted(self.processes, key=lambda name: name == "superlink"):
            self.processes[name].terminate()
        for process in self.processes.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(20)
        self.processes = {}
        # Flower's helpers end when they notice that their parents are gone
        _, alive = psutil.wait_procs(self.helpers(), timeout=20)
        for helper in alive:
            helper.kill()
        psutil.wait_procs(alive, timeout=20)

    def helpers(self) -> list[psutil.Process]:
        """Processes that Flower started for us: those that have our Flower folder."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("FLWR_HOME") == str(self.home):
                    found.append(process)
            except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
                continue
        return found

    def _start(self, name: str, command: list[str]) -> None:
        with open(self.folder / f"{name}.log", "ab") as log:
            # a session of its own: Ctrl-C is for us, and we end them in order
            self.processes[name] = subprocess.Popen(
                command, env=self.environment, cwd=self.folder, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def _wait_for_port(self) -> None:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if self.processes["superlink"].poll() is not None:
                raise RuntimeError(f"the SuperLink did not start:\n{self.log('superlink')}")
            with socket.socket() as attempt:
                attempt.settimeout(1)
                if attempt.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.2)
        raise RuntimeError(f"the SuperLink did not listen:\n{self.log('superlink')}")


def free_port() -> int:
    """A port that nobody listens at; nor will a connection take it before our process does."""
    for port in random.SystemRandom().sample(PORTS, 100):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue  # in use
            return port
    raise RuntimeError(f"no free port found from {PORTS.start} to {PORTS.stop - 1}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=Path("federation"), help="logs, keys")
    parser.add_argument("--insecure", action="store_true", help="no TLS, no authentication")
    given = parser.parse_args()
    federation = Federation(given.folder, given.nodes, insecure=given.insecure)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        federation.start()
        print(f"Running. In another terminal:\n  export FLWR_HOME={federation.home}")
        print(f"  flwr run . {NAME}, and flwr log RUN-ID {NAME}")
        print(f"Logs are in {federation.folder}. Ctrl-C ends it.")
        signal.pause()
    except KeyboardInterrupt:
        print()
    finally:
        federation.stop()
