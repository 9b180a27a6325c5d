"""Seconds per round of W1–W7: ours beside the peers, interleaved, as ratios.

Run, from the top of the project (or by ``make bench``)::

    python -m benchmarks.bench_simulation                              # everything
    python -m benchmarks.bench_simulation --only W3 --rounds 5 --peers none
    python -m benchmarks.bench_simulation --only W1,W2 --peers pfl,flower
    python -m benchmarks.bench_simulation --only W1 --peers none --engine loop

Machines are shared and noisy, so the engines take turns: in each of a few blocks every engine is
started, warmed up and measured for some rounds. The figure of an engine is the median over the
blocks of its median round; read ratios, and a difference below 15 % as nothing. With ``--engine
loop`` ours is measured twice, as it is and by the loop in place of the compiled kernels.

With ``--peers all`` the workloads that ran are renewed in ``benchmarks/results.json`` and in the
table of ``docs/performance.md``; a smaller run is written to ``benchmarks/scratch/results.json``.
``--yardsticks`` renews only the two yardsticks of what is stored.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import psutil

from benchmarks import install_peers
from benchmarks.workloads import PEERS_OF, ROOT, WORKLOADS, Workload, prepare

OURS, OURS_BY_LOOP, YARDSTICK = "understudy", "understudy, loop", "plain loop"
MODULES = {OURS: "benchmarks.ours", OURS_BY_LOOP: "benchmarks.ours"}
MODULES |= {YARDSTICK: "benchmarks.peers.plain"}
MODULES |= {peer: f"benchmarks.peers.{peer}" for peer in install_peers.PEERS}
ROUNDS = {"W1": 3, "W2": 2, "W3": 10, "W4": 10, "W5": 3, "W6": 3, "W7": 5}  # in a block
WARMUP = {"W1": 1, "W2": 1, "W3": 3, "W4": 3, "W5": 1, "W6": 1, "W7": 2}
BLOCKS = 3
PRODUCTS = ("products_cpu_seconds", "at_full_speed_cpu_seconds")
TIMEOUT = 420  # seconds for one engine in one block
RESULTS = ROOT / "benchmarks" / "results.json"
SCRATCH = ROOT / "benchmarks" / "scratch" / "results.json"
PAGE = ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- benchmark table: begin -->", "<!-- benchmark table: end -->"


@dataclass
class Engine:
    """What is known of one engine on one workload."""

    name: str
    lines: list[dict[str, Any]] = field(default_factory=list)  # one of each block
    error: str | None = None

    def seconds(self) -> float | None:
        """The median over blocks of the median round."""
        if not self.lines:
            return None
        return statistics.median(
            statistics.median(line["seconds_per_round"]) for line in self.lines
        )

    def middle(self, key: str) -> float | None:
        return statistics.median(line[key] for line in self.lines) if self.lines else None

    def report(self) -> dict[str, Any]:
        found: dict[str, Any] = {"error": self.error}
        if self.lines:
            measured = {"peer", "workload", "seconds_per_round", "startup_seconds", "pss_mb"}
            measured |= {"cpu_seconds_per_round", "seconds_by_its_own_log"}
            about = {key: part for key, part in self.lines[-1].items() if key not in measured}
            found |= {
                "seconds_per_round": self.seconds(),
                "cpu_seconds_per_round": self.middle("cpu_seconds_per_round"),
                "startup_seconds": self.middle("startup_seconds"),
                "pss_mb": self.middle("pss_mb"),
                "samples": [line["seconds_per_round"] for line in self.lines],
                **about,
            }
        return found


def end_all(marker: str) -> None:
    """End every process that carries the marker in its environment, wherever it moved to."""
    for process in psutil.process_iter():
        try:
            if process.environ().get("BENCH_RUN") == marker:
                process.kill()
        except (psutil.Error, OSError):
            continue


def read_all(file: IO[bytes]) -> list[str]:
    file.seek(0)
    content = file.read().decode(errors="replace")
    return [line.strip() for line in content.splitlines() if line.strip()]


def run_module(
    python: Path | str, module: str, options: list[str], engine: str = ""
) -> dict[str, Any]:
    """Run a module that prints one line of JSON; RuntimeError says why there is none."""
    marker = uuid.uuid4().hex
    environment = dict(os.environ, BENCH_RUN=marker, BENCH_STARTED=repr(time.time()))
    environment.pop("PYTHONPATH", None)
    environment["UNDERSTUDY_ENGINE"] = engine
    # Files, not pipes: a child that outlives its parent would hold a pipe open.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as complaints:
        process = subprocess.Popen(
            [python, "-m", module, *options],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=complaints,
            start_new_session=True,
        )
        try:
            process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"did not finish in {TIMEOUT} s") from None
        finally:
            end_all(marker)
            process.wait()
        written, said = (read_all(file) for file in (out, complaints))
    lines = [line for line in written if line.startswith("{")]
    if not lines:
        # The last line may be a launcher's; the first that names an error says more.
        named = [line for line in said if "Error:" in line or "Exception:" in line]
        why = named[0] if named else (said or ["nothing was said"])[-1]
        raise RuntimeError(f"ended with {process.returncode}: {why}"[:500])
    result: dict[str, Any] = json.loads(lines[-1])
    return result


def python_for(engine: str) -> Path | str:
    own = engine in install_peers.PEERS
    return install_peers.python_of(engine) if own else sys.executable


def measure(
    workload: Workload, names: list[str], refused: dict[str, str], given: argparse.Namespace
) -> dict[str, Engine]:
    """All engines on one workload, block after block."""
    rounds = given.rounds or ROUNDS[workload.name]
    options = ["--workload", workload.name, "--rounds", str(rounds)]
    options += ["--warmup", str(WARMUP[workload.name])]
    known = PEERS_OF.get(workload.name, tuple(install_peers.PEERS))
    names = [name for name in names if name not in install_peers.PEERS or name in known]
    engines = {name: Engine(name, error=refused.get(name)) for name in names}
    for block in range(given.blocks):
        # The order turns round, so that no engine always follows the same one.
        for name in names if block % 2 == 0 else names[::-1]:
            engine = engines[name]
            if engine.error is not None:
                continue
            try:
                by = "loop" if name == OURS_BY_LOOP else ""
                line = run_module(python_for(name), MODULES[name], options, by)
                if line["steps_per_round"] != workload.steps_per_round:
                    raise RuntimeError(f"made {line['steps_per_round']} steps a round")
                engine.lines.append(line)
                shown = statistics.median(line["seconds_per_round"])
                print(f"{workload.name} {block + 1}/{given.blocks} {name:<12}{shown:9.4f} s")
            except RuntimeError as error:
                engine.error = str(error)
                print(f"{workload.name} {block + 1}/{given.blocks} {name:<12}{error}")
            sys.stdout.flush()
    return engines


def products(workload: Workload) -> dict[str, float]:
    """CPU seconds of a round's matrix products: by torch.mm, and at the speed of a large one."""
    try:
        line = run_module(sys.executable, "benchmarks.gemm_limit", ["--workload", workload.name])
    except RuntimeError as error:
        print(f"{workload.name} matrix products: {error}")
        return {}
    return {name: float(line[name]) for name in PRODUCTS}


def summary(
    workload: Workload, engines: dict[str, Engine], limits: dict[str, float]
) -> dict[str, Any]:
    """What results.json says of a workload."""
    ours = engines[OURS].seconds()
    peers = {
        name: seconds
        for name in install_peers.PEERS
        if name in engines and (seconds := engines[name].seconds()) is not None
    }
    fastest = min(peers, key=peers.__getitem__) if peers else None
    ratio = None if fastest is None or ours is None else round(peers[fastest] / ours, 3)
    return {
        "title": workload.title,
        "steps_per_round": workload.steps_per_round,
        "measured": time.strftime("%Y-%m-%d"),
        "machine": machine(),
        "fastest_peer": fastest,
        # A peer that failed might have been the fastest: the ratio is then against the rest only.
        "failed_peers": [
            name for name in install_peers.PEERS if name in engines and engines[name].error
        ],
        "ratio_to_fastest_peer": ratio,
        **{name: limits.get(name) for name in PRODUCTS},
        "share_of_full_speed": share(
            engines[OURS].middle("cpu_seconds_per_round"), limits.get(PRODUCTS[1])
        ),
        "engines": {name: engine.report() for name, engine in engines.items()},
    }


def share(spent: float | None, limit: float | None) -> float | None:
    """CPU time of the multiply-adds at full speed, as a share of what an engine spent."""
    return None if limit is None or not spent else round(limit / spent, 3)


def machine() -> dict[str, Any]:
    model = platform.processor() or platform.machine()
    cpu_info = Path("/proc/cpuinfo")
    if cpu_info.exists():
        named = [line for line in cpu_info.read_text().splitlines() if "model name" in line]
        model = named[0].partition(":")[2].strip() if named else model
    return {"cpu": model, "cores": os.cpu_count(), "python": platform.python_version()}


def number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}" if value < 100 else f"{value:.0f}"


def table(workloads: dict[str, Any]) -> str:
    """The Markdown table: a row per engine, seconds per round."""
    names = sorted(workloads)
    present = {engine for name in names for engine in workloads[name]["engines"]}
    order = [
        name for name in (OURS, OURS_BY_LOOP, *install_peers.PEERS, YARDSTICK) if name in present
    ]
    rows = [f"| seconds per round | {' | '.join(names)} |", "| --- |" + " ---: |" * len(names)]
    versions = {
        engine: next(
            (
                found["version"]
                for name in names
                if "version" in (found := workloads[name]["engines"].get(engine, {}))
            ),
            "",
        )
        for engine in order
    }
    for engine in order:
        cells = []
        for name in names:
            found = workloads[name]["engines"].get(engine, {})
            seconds = number(found.get("seconds_per_round"))
            fastest = engine == workloads[name]["fastest_peer"]
            cells.append(
                "failed" if found.get("error") else f"**{seconds}**" if fastest else seconds
            )
        title = f"{engine} {versions[engine]}" if engine in install_peers.PEERS else engine
        rows.append(f"| {title.strip()} | {' | '.join(cells)} |")
    for title, key in zip(
        ("its matrix products by torch.mm (CPU s)", "its multiply-adds at full speed (CPU s)"),
        PRODUCTS,
        strict=True,
    ):
        rows.append(f"| {title} | {' | '.join(number(workloads[n].get(key)) for n in names)} |")
    shares = [workloads[name].get("share_of_full_speed") for name in names]
    words = ["–" if part is None else f"{100 * part:.0f} %" for part in shares]
    rows.append(f"| full speed, as a share of understudy's CPU time | {' | '.join(words)} |")
    ratios = [workloads[name]["ratio_to_fastest_peer"] for name in names]
    shown = ["–" if ratio is None else f"**{ratio:.2f} ×**" for ratio in ratios]
    for position, name in enumerate(names):
        if failed := workloads[name]["failed_peers"]:
            shown[position] += f" (without {', '.join(failed)})"
    rows.append(f"| **understudy against the fastest peer** | {' | '.join(shown)} |")
    for title, key in (
        ("start-up to the first round (s)", "startup_seconds"),
        ("memory (MB)", "pss_mb"),
    ):
        for engine in order:
            cells = [number(workloads[n]["engines"].get(engine, {}).get(key)) for n in names]
            if set(cells) != {"–"}:
                rows.append(f"| {title}: {engine} | {' | '.join(cells)} |")
    errors = [
        f"* {engine} on {name}: {found['error']}".replace("\n", " ")
        for name in names
        for engine, found in workloads[name]["engines"].items()
        if found.get("error")
    ]
    return "\n".join([*rows, *(["", "Failed:", "", *errors] if errors else [])])


def write(path: Path, workloads: dict[str, Any]) -> None:
    ratios = {name: workloads[name]["ratio_to_fastest_peer"] for name in sorted(workloads)}
    content = {"ratio_to_fastest_peer": ratios, "workloads": dict(sorted(workloads.items()))}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def write_page(text: str) -> None:
    """Put the table between the two marks of the page."""
    page = PAGE.read_text()
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE.name}: the lines {BEGIN!r} and {END!r} are missing")
    PAGE.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")


def chosen(given: str, known: list[str], what: str) -> list[str]:
    if given == "all":
        return known
    names = [name.strip() for name in given.split(",") if name.strip() not in ("", "none")]
    for name in names:
        if name not in known:
            sys.exit(f"No {what} is called {name!r}; there are: {', '.join(known)}.")
    return names


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Time W1–W7, ours beside the peers.")
    parser.add_argument("--only", default="all", help="workloads, such as W1,W3")
    parser.add_argument("--rounds", type=int, default=0, help="measured rounds in a block")
    parser.add_argument("--blocks", type=int, default=BLOCKS, help="turns of every engine")
    parser.add_argument("--peers", default="all", help="all, none, or names such as pfl,fedjax")
    parser.add_argument("--engine", default="", choices=("", "loop"), help="ours by it as well")
    parser.add_argument("--yardsticks", action="store_true", help="of the stored results only")
    parser.add_argument("--without-ours", action="store_true", help="peers only, to try them out")
    return parser.parse_args()


def renew_yardsticks() -> None:
    """Measure the matrix products again, and write them beside the stored results."""
    stored = json.loads(RESULTS.read_text())["workloads"]
    for name, part in stored.items():
        prepare(WORKLOADS[name])
        limits = products(WORKLOADS[name])
        spent = part["engines"][OURS]["cpu_seconds_per_round"]
        part |= {key: limits.get(key) for key in PRODUCTS}
        part["share_of_full_speed"] = share(spent, limits.get(PRODUCTS[1]))
    write(RESULTS, stored)
    write_page(table(stored))


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that engines are ended too
    given = parse()
    if given.yardsticks:
        renew_yardsticks()
        return 0
    workloads = chosen(given.only, list(WORKLOADS), "workload") or list(WORKLOADS)
    peers = chosen(given.peers, list(install_peers.PEERS), "peer")
    names = [] if given.without_ours else [OURS]
    names += [OURS_BY_LOOP] if given.engine == "loop" else []
    names += [*peers, YARDSTICK] if peers else []
    refused: dict[str, str] = {}
    for peer in peers:
        try:
            if install_peers.install(peer):
                print(f"{peer}: installed", flush=True)
        except (install_peers.InstallError, OSError, subprocess.SubprocessError) as error:
            refused[peer] = f"could not be installed: {error}"
            print(f"{peer}: {refused[peer]}", flush=True)
    found: dict[str, Any] = {}
    for name in workloads:
        prepare(WORKLOADS[name])
        engines = {OURS: Engine(OURS)} | measure(WORKLOADS[name], names, refused, given)
        found[name] = summary(WORKLOADS[name], engines, products(WORKLOADS[name]))
    print(f"\n{table(found)}")
    if given.peers == "all" and not given.without_ours:
        stored = json.loads(RESULTS.read_text())["workloads"] if RESULTS.exists() else {}
        stored = {name: part for name, part in stored.items() if name in WORKLOADS} | found
        write(RESULTS, stored)
        write_page(table(stored))
    else:
        write(SCRATCH, found)
    return int(any(part["engines"][OURS]["error"] is not None for part in found.values()))


if __name__ == "__main__":
    sys.exit(main())
