"""`understudy watch`: exact lines at 80 columns, and a real run that is killed and resumed."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import numpy as np
import pytest

from tests.cli import Command
from tests.representation.rounds import AWAY, CAME, LATE, MISSING, REFUSED, played
from understudy.core.types import Reason, Refusal
from understudy.dashboard.terminal import _sparkline, _time
from understudy.dashboard.watched import Watch
from understudy.journal.file import LogFile
from understudy.memory.run_folder import ROUNDS
from understudy.memory.writer_lock import WriterLock
from understudy.studies.store.store import Store

NAMES = ["hospital-0", "hospital-1", "clinic \x1b[31m<b>", "ünïcödé 医院 " + "x" * 200]
PATIENCE = 120.0  # seconds for anything that must happen: far beyond what it takes


@pytest.fixture
def command(capsys, monkeypatch):
    return Command(capsys, monkeypatch)


def about(live=True, rounds=40):
    resolved = {
        "data": {"class": "live" if live else "simulation"},
        "strategy": {"compensator": {"class": "Stale"}},
        "rounds": rounds,
        "seed": 0,
        "timing": {"deadline": 60.0, "quorum": 0.8, "grace": 5.0},
    }
    return resolved, {"n_clients": 4, "names": NAMES, "sizes": [10, 20, 30, 40], "left": []}


def federation(folder, n_rounds=8):
    """0 comes always; 1 until round 5, then its last update; 2 never; 3 is refused now and then."""
    (folder / "server").mkdir(parents=True)
    journal = LogFile(folder / ROUNDS, 0)
    resolved, facts = about()
    journal.begin("0" * 16, resolved, facts)
    why = Refusal(3, Reason.WRONG_LENGTH, "expected (10,), got (\x1b[2J12,)")
    for t in range(n_rounds):
        is_refused = t % 3 == 2
        row = [CAME, CAME if t < 5 else AWAY, MISSING, REFUSED if is_refused else CAME]
        spoken = [(0, 0, 0.3), (1, 1, 0.3), *([] if is_refused else [(3, 3, 0.4)])]
        journal.append(
            played(
                t,
                row,
                spoken,
                refusals=(why,) if is_refused else (),
                metrics={"server_accuracy": 0.1 * (t + 1), "server_loss": 1.0},
                timings={"round": 30.0},
                clock=30.0 * (t + 1),
            )
        )
    journal.flush()
    return journal


def test_a_live_federation_in_80_columns(tmp_path, command):
    federation(tmp_path / "federation" / "run")
    lock = WriterLock(tmp_path / "federation" / "run" / "server")
    try:
        said = command("watch", tmp_path / "federation" / "run")
    finally:
        lock.release()
    assert (said.code, said.err) == (0, "")
    assert said.out == (
        "  federation/run, live   running       8 of 40  ▁▂▃▄▅▆▇█ 80.0 %, 16 min left\n"
        "\n"
        "warnings\n"
        "  ! clinic �[31m<b>, 30 % of the examples, was in none of the updates so far (8\n"
        "    rounds): it did not answer\n"
        "\n"
        "  client              last seen  came  last 8 rounds           stands in\n"
        "  clinic �[31m<b>         never    0%  ........                nobody\n"
        "  hospital-1              3 ago   62%  #####rrr                itself, 3 old\n"
        "  hospital-0                now  100%  ########\n"
        "  ünïcödé 医院 xxxx…        now   75%  ##x##x##\n"
        "  # came  r remembered  x refused  . nobody\n"
        "\n"
        "refused last\n"
        "  round 6: ünïcödé 医院 xxxxxx…: wrong length: expected (10,), got (�[2J12,)\n"
        "  round 3: ünïcödé 医院 xxxxxx…: wrong length: expected (10,), got (�[2J12,)\n"
    )


def test_a_run_without_a_writer_was_killed(tmp_path, command):
    federation(tmp_path / "site" / "run")
    lines = command("watch", tmp_path, "--clients", 1).out.splitlines()
    assert lines[0].split()[:3] == ["site/run,", "live", "stopped"]
    assert lines[1] == "    The process that wrote this run is gone; the run can be resumed."
    assert "  and 3 more clients" in lines


def test_a_study_and_a_run_side_by_side(tmp_path, command):
    """Cells by what they differ in; the warning of both is told once; a failed one says why."""
    from understudy.studies.store.live import LiveCell

    federation(tmp_path / "live" / "run")
    cells = [LiveCell(f"{n:016x}", {"strategy": name, "data": "digits"}, 0)
             for n, name in enumerate(("fedavg", "mifa", "fedgs"))]  # fmt: skip
    resolved, facts = about(live=False, rounds=8)
    with Store.open(tmp_path / "runs", write=True) as store:
        store.save_study("night", {"title": "One night"}, cells, "0")
        for cell in cells[:2]:
            store.begin(cell.key, resolved, facts, "0")
            rows = [[CAME, CAME, MISSING, CAME]] * 8
            store.add_rounds(cell.key, [played(t, row) for t, row in enumerate(rows)])
        store.finish(cells[0].key)
        store.fail(cells[1].key, "ValueError: no \x1b[31m luck\n\nTraceback: …")
    lines = command("watch", tmp_path, "--clients", 0).out.splitlines()
    assert "night: 3 runs, 1 done, 1 failed, 1 waiting" in lines
    assert "  fedavg, seed 0         done           8 of 8" in [one.rstrip() for one in lines]
    at = lines.index(next(one for one in lines if one.startswith("  mifa, seed 0")))
    assert lines[at + 1] == "    ValueError: no �[31m luck"
    told = " ".join(" ".join(lines).split())
    assert told.count("was in none of the updates so far") == 1
    whose = told.partition("! ")[2].partition(": clinic �[31m<b>, 30 % of the examples, was in")[0]
    names = "live/run", "fedavg, digits, seed 0", "mifa, digits, seed 0"  # the latest first
    assert sorted(re.split(r"(?<=seed 0), | and (?!digits)|(?<=run), ", whose)) == sorted(names)
    assert max(map(len, lines)) <= 80


def test_of_many_runs_the_others_are_counted(tmp_path, command):
    from understudy.studies.store.live import LiveCell

    cells = [LiveCell(f"{n:016x}", {"strategy": "fedavg"}, n) for n in range(20)]
    with Store.open(tmp_path, write=True) as store:
        store.save_study("night", {"title": "One night"}, cells, "0")
    lines = command("watch", tmp_path).out.splitlines()
    assert lines[0] == "night: 20 runs, 20 waiting"
    assert lines[-1] == "  and 20 more"


def test_nothing_there_and_damaged_folders_are_told(tmp_path, command):
    (tmp_path / "runs").mkdir()
    said = command("watch", tmp_path / "none", tmp_path / "runs")
    assert said.code == 0
    assert said.out == (
        "none: is not there\nruns: holds no run yet; it is looked at again and again\n"
    )
    federation(tmp_path / "run").path.write_bytes(b"rubbish\n" * 3)
    assert "rounds.jsonl, line 1: expected the log of round 0" in command("watch", tmp_path).out
    (tmp_path / "run" / "run.json").write_text("{}")
    assert "run.json: damaged: it does not fit its checksum" in command("watch", tmp_path).out


def test_what_is_followed_goes_on_where_it_was(tmp_path):
    """Rounds that came are read, those before are not counted again; a new run begins anew."""
    journal = federation(tmp_path / "run", 3)
    watch = Watch([tmp_path / "run"])
    (one,) = watch.look()
    assert (one.columns.n, one.warnings.representation.n_rounds) == (3, 3)
    for t in range(3, 6):
        journal.append(played(t, [CAME, LATE, MISSING, CAME], timings={"round": 10.0}))
    journal.flush()
    assert watch.look() == [one]
    assert (one.columns.n, one.warnings.representation.n_rounds) == (6, 6)
    assert len(one.warnings.current) == 2
    again = LogFile(tmp_path / "run" / ROUNDS, 0)
    again.append(played(0, [CAME] * 4))
    again.flush()
    watch.look()
    assert (one.columns.n, one.warnings.representation.n_rounds) == (1, 1)
    assert one.warnings.current == ()


def test_many_clients_take_as_many_lines_as_there_is_room_for(tmp_path, command):
    (tmp_path / "run" / "server").mkdir(parents=True)
    journal = LogFile(tmp_path / "run" / ROUNDS, 0)
    resolved, facts = about()
    journal.begin("0" * 16, resolved, {**facts, "names": None, "n_clients": 5000, "sizes": None})
    for t in range(3):
        journal.append(played(t, np.where(np.arange(5000) % 2 == 0, CAME, AWAY)))
    journal.flush()
    lines = command("watch", tmp_path / "run").out.splitlines()
    assert "  and 4988 more clients" in lines
    assert len(lines) < 25


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "1 s"), (89, "89 s"), (91, "2 min"), (5000, "84 min"), (7200, "2.0 h")],
)
def test_times(seconds, words):
    assert _time(seconds) == words


def test_sparklines():
    assert _sparkline([], 3) == "   "
    assert _sparkline([0.5], 3) == "▁  "
    assert _sparkline([0, 1, 0.5], 5) == "▁█▅  " or _sparkline([0, 1, 0.5], 5) == "▁█▄  "
    assert len(_sparkline([0.1] * 100, 14)) == 14


# -- on a terminal -------------------------------------------------------------------------------

PROGRAM = """
import sys, time
from understudy import Gone, fedavg
from understudy.simulation import clustered_digits, simulate
run = simulate(clustered_digits(), fedavg(), model="softmax", availability=Gone([3]),
               rounds=int(sys.argv[2]), folder=sys.argv[1], workers=1)
for log in run:
    time.sleep(0.2)
"""


class Terminal:
    """What a process writes on a terminal of 80 × 40."""

    def __init__(self, *arguments):
        ours, theirs = pty.openpty()
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "40"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "understudy", *map(str, arguments)],
            stdin=theirs,
            stdout=theirs,
            stderr=subprocess.STDOUT,
            env={**environment, "PYTHONUTF8": "1"},
            start_new_session=True,
        )
        os.close(theirs)
        self._terminal, self.text = ours, ""

    def read(self, seconds=0.2):
        while select.select([self._terminal], [], [], seconds)[0]:
            try:
                self.text += os.read(self._terminal, 65536).decode("utf-8", "replace")
            except OSError:  # the process has ended
                return

    def until(self, pattern):
        """Wait until what is written from now on has this in it."""
        self.text, end = "", time.monotonic() + PATIENCE
        while not re.search(pattern, plain(self.text)):
            assert time.monotonic() < end, f"no {pattern!r} in {plain(self.text)[-3000:]!r}"
            assert self.process.poll() is None, plain(self.text)[-3000:]
            self.read()

    def end(self):
        self.process.send_signal(signal.SIGINT)
        end = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < end:
            self.read()
        self.read()
        return self.process.wait(PATIENCE)


def plain(text):
    return re.sub("\x1b\\[[0-9;?]*[A-Za-z]", "", text)


@contextmanager
def simulation(folder, rounds):
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(folder), str(rounds)])
    try:
        yield process
    finally:
        process.kill()
        process.wait(PATIENCE)


@pytest.mark.process
def test_a_run_is_watched_killed_resumed_and_ended_by_ctrl_c(tmp_path):
    terminal = Terminal("watch", tmp_path, "--every", "0.2")
    try:
        terminal.until("holds no run yet")
        with simulation(tmp_path / "run", 10_000) as process:
            terminal.until(r"running +[1-9]\d* of 10000")
            terminal.until("client 3, 5 % of the examples, was in none of the updates")
            process.kill()
            process.wait(PATIENCE)
            terminal.until("stopped")
            terminal.until("The process that wrote this run is gone; the run can be resumed.")
        with simulation(tmp_path / "run", 10_000):
            terminal.until(r"running +[1-9]\d* of 10000")
            code = terminal.end()
    finally:
        terminal.process.kill()
        terminal.process.wait(PATIENCE)
    left = plain(terminal.text)
    assert code == 0, left[-3000:]
    assert "Traceback" not in left
    assert re.search(r"running +[1-9]\d* of 10000", left.rpartition("\x1b[?1049l")[2])
