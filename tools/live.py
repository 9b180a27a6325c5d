"""`make live`: a real federation on this machine, for a person to watch.

A SuperLink and five SuperNodes with TLS and registered keys learn digits by FL-FDMS. One client is
killed with -9, another is stopped, and both come back; then the ServerApp is killed, the next run
resumes, and a client is retired. A local page shows it meanwhile: its address is printed.
Everything listens on 127.0.0.1 only, and is stopped and removed at the end.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from understudy.core.types import Outcome
from understudy.flower import read_outcomes, request_retirement
from understudy.journal.follow import follow
from understudy.studies import results, write_report

APP = Path(__file__).parents[1] / "examples" / "flower_app"
CLIENTS, ROUNDS, RETIRED = 5, 9, "client-2"
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
SCRIPT = {2: "kill", 3: "stop", 4: "restart", 6: "crash", 7: "retire"}


class Show:
    """The federation, and what is printed about it."""

    def __init__(self, folder: Path, keep: bool) -> None:
        self.keep, self.console = keep, Console(highlight=False)
        self.federation: Any = _federation().Federation(folder / "federation", CLIENTS)
        self.page: subprocess.Popen[str] | None = None
        self.run_folder, self.runs = folder / "run", folder / "runs"
        self.begun, self.shown, self.is_leaving = time.monotonic(), 0, False

    def print(self, words: str) -> None:
        self.console.print(f"[bright_black]{time.monotonic() - self.begun:5.0f} s[/]  {words}")

    def play(self) -> None:
        """Everything, in order."""
        federation = self.federation
        self.open_page()
        self.print("A SuperLink starts on 127.0.0.1: TLS, registered keys only.")
        federation.start_superlink()
        for number in range(CLIENTS):
            federation.register(f"client-{number}")
        self.print(f"{CLIENTS} keys are registered. Their SuperNodes start.")
        for number in range(CLIENTS):
            federation.start_node(number)
        self.wait(lambda: federation.online() == CLIENTS)
        run_id = self.start()
        script = dict(SCRIPT)
        while self.shown < ROUNDS:
            self.print_new_rounds()
            for after in [t for t in script if t <= self.shown]:
                run_id = self.do(script.pop(after)) or run_id
            if self.shown < ROUNDS and federation.status(run_id) == "finished:failed":
                raise RuntimeError(f"the run failed:\n{federation.flwr('log', run_id, '--show')}")
            time.sleep(1)
        self.summary()

    def open_page(self) -> None:
        """The dashboard, beside the federation: it waits for the run's folder."""
        command = [sys.executable, "-m", "understudy", "dashboard", str(self.run_folder)]
        self.page = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
        )
        assert self.page.stdout is not None
        told = [self.page.stdout.readline().strip() for _ in range(2)]
        self.print(f"A page shows it all: {told[1]}")

    def close_page(self) -> None:
        """End the dashboard."""
        if self.page is not None and self.page.stdout is not None:
            self.page.terminate()
            self.page.wait()
            self.page.stdout.close()

    def start(self) -> str:
        config = (
            f"num-rounds={ROUNDS} folder='{self.run_folder}' runs='{self.runs}' deadline=60.0 "
            "grace=10.0 quorum=0.6 local-epochs=4"
        )
        run_id: str = self.federation.run(APP, config)
        self.print(f"flwr run: {ROUNDS} rounds of FL-FDMS. Friends stand in for absent clients.")
        return run_id

    def do(self, what: str) -> str | None:
        """A fault, or its repair; the id of a new run, where one begins."""
        federation = self.federation
        if what == "kill":
            federation.kill("node-3", signal.SIGKILL)
            self.print("[red]client-3 is killed with -9.[/] It looks connected for a minute.")
        elif what == "stop":
            federation.kill("node-4", signal.SIGTERM)
            self.print("[red]client-4 is stopped with SIGTERM.[/]")
        elif what == "restart":
            before = {number: federation.admissions(f"node-{number}") for number in (3, 4)}
            self.print("Both are started again; client-3 is refused for up to a minute.")
            self.wait(lambda: self.are_back(before))
            self.print("[green]Both are back[/], with the same keys: they keep their history,")
            self.print("and take part in the next round that begins.")
        elif what == "retire":
            request_retirement(self.run_folder, RETIRED)
            self.print(f"{RETIRED} is to be retired: before the next round that begins.")
            self.is_leaving = True
        else:
            for process in federation.helpers():
                if any(word.endswith("flwr-serverapp") for word in process.cmdline()[:3]):
                    os.kill(process.pid, signal.SIGKILL)
            self.print("[red]The ServerApp is killed with -9.[/] Flower's run is over.")
            return self.start()
        return None

    def are_back(self, before: dict[int, int]) -> bool:
        federation = self.federation
        for number in before:
            process = federation.processes.get(f"node-{number}")
            if process is None or process.poll() is not None:
                federation.start_node(number)
        self.print_new_rounds()
        return all(federation.admissions(f"node-{number}") > n for number, n in before.items())

    def print_new_rounds(self) -> None:
        if not (self.run_folder / "outcomes.jsonl").exists():
            return
        by_round: dict[int, list[Any]] = {}
        names: dict[int, str] = {}
        for one in read_outcomes(self.run_folder):
            by_round.setdefault(one.t, []).append(one)
            names[one.client] = one.id
        logs = {log.t: log for log in follow(self.run_folder)}
        for t in sorted(by_round):
            if t >= self.shown:
                if self.is_leaving and RETIRED not in [one.id for one in by_round[t]]:
                    self.print(f"{RETIRED} is retired: not asked any more, its updates erased.")
                    self.is_leaving = False
                words = "  ".join(
                    f"{one.id} [{COLOURS[one.outcome]}]{one.outcome.name.lower()}[/]"
                    for one in by_round[t]
                )
                self.print(f"round {t + 1}: {words}")
                for absent, source, _ in logs[t].stand_ins if t in logs else ():
                    who = names[source] if source >= 0 else "a mixture"
                    self.print(f"         {who} stood in for {names[absent]}")
                self.shown = t + 1

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
        self.print(f"Friends stood in {spoke} times.")
        report = write_report(self.runs, "live")
        self.print(f"Report: {report}" if self.keep else "With --keep DIR the report stays.")


def _federation() -> Any:
    sys.path.insert(0, str(APP))  # it imports its neighbour
    spec = importlib.util.spec_from_file_location("federation", APP / "federation.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    """Run it in a folder that is removed afterwards, unless one is named."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--keep", type=Path, help="a folder that stays: logs, state, report")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    folder = Path(tempfile.mkdtemp(prefix="understudy-live-")) if given.keep is None else given.keep
    show = Show(folder.absolute(), keep=given.keep is not None)
    try:
        show.play()
    except KeyboardInterrupt:
        show.print("Stopped.")
    finally:
        show.close_page()
        show.federation.stop()
        if given.keep is None:
            shutil.rmtree(folder, ignore_errors=True)
        show.print(
            "All processes are stopped" + (", all files removed." if given.keep is None else ".")
        )


if __name__ == "__main__":
    main()
