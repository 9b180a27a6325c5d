"""`make live`: a real federation on this machine, for a person to watch.

A SuperLink and five SuperNodes with TLS and registered keys learn digits by FL-FDMS. On the way one
client is killed with -9, one ends politely, both come back; then the ServerApp itself is killed,
and the next run goes on. Everything listens on 127.0.0.1 only, and is ended and removed at the end.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from understudy.core.types import Outcome
from understudy.flower import read_outcomes
from understudy.studies import results, write_report

APP = Path(__file__).parents[1] / "examples" / "flower_app"
CLIENTS, ROUNDS = 5, 8
COLOURS = {
    Outcome.CAME: "green",
    Outcome.LATE: "cyan",
    Outcome.ERROR: "red",
    Outcome.UNAVAILABLE: "bright_black",
    Outcome.MISSING: "yellow",
    Outcome.RESTARTED: "magenta",
    Outcome.REFUSED: "red",
}
# after so many finished rounds, this happens
SCRIPT = {2: "kill", 3: "end", 4: "back", 6: "crash"}


class Show:
    """The federation, and what is said about it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.console = folder, Console(highlight=False)
        self.federation: Any = _federation().Federation(folder / "federation", CLIENTS)
        self.run_folder, self.runs = folder / "run", folder / "runs"
        self.begun, self.told = time.monotonic(), 0

    def say(self, words: str) -> None:
        self.console.print(f"[bright_black]{time.monotonic() - self.begun:5.0f} s[/]  {words}")

    def play(self) -> None:
        """Everything, in order."""
        federation = self.federation
        self.say("A SuperLink with TLS begins to listen on 127.0.0.1, and trusts registered keys.")
        federation.start_superlink()
        for number in range(CLIENTS):
            federation.register(f"client-{number}")
        self.say(f"{CLIENTS} keys are registered. Their SuperNodes start.")
        for number in range(CLIENTS):
            federation.start_node(number)
        self.wait(lambda: federation.online() == CLIENTS)
        run_id = self.start()
        script = dict(SCRIPT)
        while self.told < ROUNDS:
            self.tell_new_rounds()
            for after in [t for t in script if t <= self.told]:
                run_id = self.do(script.pop(after)) or run_id
            if self.told < ROUNDS and federation.status(run_id) == "finished:failed":
                raise RuntimeError(f"the run failed:\n{federation.flwr('log', run_id, '--show')}")
            time.sleep(1)
        self.summary()

    def start(self) -> str:
        config = (
            f"num-rounds={ROUNDS} folder='{self.run_folder}' runs='{self.runs}' deadline=60.0 "
            "grace=10.0 quorum=0.6 local-epochs=4"
        )
        run_id: str = self.federation.run(APP, config)
        self.say(f"flwr run: {ROUNDS} rounds of FL-FDMS. Somebody's friends stand in for them.")
        return run_id

    def do(self, what: str) -> str | None:
        """Something goes wrong, or is mended; the id of a new run, where one begins."""
        federation = self.federation
        if what == "kill":
            federation.kill("node-3", signal.SIGKILL)
            self.say("[red]Client 3 is killed with -9.[/] It looks connected for a minute.")
        elif what == "end":
            federation.kill("node-4", signal.SIGTERM)
            self.say("[red]Client 4 ends politely.[/]")
        elif what == "back":
            federation.start_node(4)
            self.say("Client 4 is started again, and client 3 until it is let in.")
            self.wait(self.is_back)
            self.say("[green]Both are back[/], under the same keys: they keep their history.")
        else:
            for process in federation.helpers():
                if any(word.endswith("flwr-serverapp") for word in process.cmdline()[:3]):
                    os.kill(process.pid, signal.SIGKILL)
            self.say("[red]The ServerApp is killed with -9.[/] Flower's run is over.")
            return self.start()
        return None

    def is_back(self) -> bool:
        federation = self.federation
        process = federation.processes.get("node-3")
        if process is None or process.poll() is not None:
            federation.start_node(3)
            time.sleep(2)
        self.tell_new_rounds()
        return bool(federation.online() == CLIENTS)

    def tell_new_rounds(self) -> None:
        if not (self.run_folder / "outcomes.jsonl").exists():
            return
        by_round: dict[int, list[Any]] = {}
        for one in read_outcomes(self.run_folder):
            by_round.setdefault(one.t, []).append(one)
        for t in sorted(by_round):
            if t >= self.told:
                words = "  ".join(
                    f"{one.id} [{COLOURS[one.outcome]}]{one.outcome.name.lower()}[/]"
                    for one in by_round[t]
                )
                self.say(f"round {t + 1}: {words}")
                self.told = t + 1

    def wait(self, happened: Callable[[], bool], patience: float = 300.0) -> None:
        end = time.monotonic() + patience
        while not happened():
            if time.monotonic() > end:
                raise TimeoutError(f"it took longer than {patience:.0f} s")
            time.sleep(1)

    def summary(self) -> None:
        rounds = results(self.runs, level="round", study="live")
        table = Table("round", "came", "of", "accuracy", "absent", title="What the store holds")
        clients = results(self.runs, level="client", study="live")
        for _, row in rounds.iterrows():
            absent = f"{row['wanted'] - row['came']:.0f}"
            accuracy = f"{row['test_accuracy']:.2f}"
            table.add_row(
                f"{row['t'] + 1:.0f}",
                f"{row['came']:.0f}",
                f"{row['wanted']:.0f}",
                accuracy,
                absent,
            )
        self.console.print(table)
        spoke = int(clients["stood_in_for_it"].sum())
        self.say(f"Friends stood in {spoke} times. Report: {write_report(self.runs, 'live')}")


def _federation() -> Any:
    sys.path.insert(0, str(APP))  # it imports its neighbour
    spec = importlib.util.spec_from_file_location("federation", APP / "federation.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    """Play it in a folder that is removed afterwards, unless one is named."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--keep", type=Path, help="a folder that stays: logs, state, report")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    folder = Path(tempfile.mkdtemp(prefix="understudy-live-")) if given.keep is None else given.keep
    show = Show(folder.absolute())
    try:
        show.play()
    except KeyboardInterrupt:
        show.say("Stopped.")
    finally:
        show.federation.stop()
        if given.keep is None:
            shutil.rmtree(folder, ignore_errors=True)
        show.say(
            "All processes are ended" + (", all files removed." if given.keep is None else ".")
        )


if __name__ == "__main__":
    main()
