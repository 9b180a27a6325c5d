"""Odd environments to run a small study in: variables, working directories, streams, limits."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

STUDY = """
name = "small"
title = "Größe ≥ 3 · ünder"
rounds = 3
seeds = 1
[data]
name = "digits"
partition = "clustered"
n_clients = 6
n_clusters = 2
per_client = 8
[model]
name = "mlp"
hidden = 8
[local]
lr = 0.1
[strategies]
stale = "stale"
"größte" = "fdms"
[availability]
half = {name = "fixed_dropout", alpha = 0.5}
"""
COMMAND = (sys.executable, "-P", "-m", "understudy")  # -P: as the installed script does
DELETED = "the working directory was deleted"
# in the place of modules that a process of ours imports
SHADOWS = ("json.py", "torch.py", "numpy.py", "queue.py", "understudy.py")


@dataclass(frozen=True)
class Case:
    """One environment.

    Parameters
    ----------
    env : mapping
        Variables that are set, or removed where None. ``{missing}``, ``{file}`` and ``{odd}`` stand
        for a path without anything, a file, and a folder with letters and spaces.
    only : bool
        Whether there are no other variables at all.
    cwd : str
        The working directory: a new folder of this name; ``deleted``, or an absolute path.
    shell : str
        Run in the shell before; redirections of the command come after it.
    streams : str
        Redirections.
    on : str
        Where cells run.
    error : str
        What the one line of the error contains; without it, the bits are the same.
    ends : bool
        Whether nobody is left to be told anything: it ends, with or without a word.
    """

    env: Mapping[str, str | None] = field(default_factory=dict)
    only: bool = False
    cwd: str = "plain"
    shell: str = ":"
    streams: str = ""
    on: str = "here"
    error: str = ""
    ends: bool = False


def of_env(name: str, *values: str | None, **more: str) -> dict[str, Case]:
    return {f"{name}={value}": Case({name: value, **more}) for value in values}


CASES: dict[str, Case] = {
    # how texts are written
    **of_env("LC_ALL", "C", "POSIX", "xx_YY.nonsense", "tr_TR.UTF-8"),
    **of_env("PYTHONUTF8", "0", "1", LC_ALL="C"),
    "no coercion": Case({"PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "LC_ALL": "C"}),
    **of_env("PYTHONIOENCODING", "ascii", "latin-1", "ascii:strict", "utf-16"),
    "no coercion, workers": Case({"PYTHONUTF8": "0", "LC_ALL": "C"}, on="local"),
    # folders of the machine
    **of_env("TMPDIR", "{missing}", "/proc", "{file}", "", "{odd}"),
    "TMPDIR missing, workers": Case({"TMPDIR": "{missing}"}, on="local"),
    **of_env("HOME", None, "{missing}", "/proc", "", "{file}"),
    **of_env("XDG_CACHE_HOME", "{file}"),
    **of_env("MPLCONFIGDIR", "/proc"),
    # threads
    **of_env("OMP_NUM_THREADS", "1", "2", "8", "0", "-1", "nonsense"),
    **of_env("MKL_NUM_THREADS", "3", "nonsense"),
    **of_env("OPENBLAS_NUM_THREADS", "2"),
    **of_env("OMP_DYNAMIC", "true"),
    "threads, workers": Case({"OMP_NUM_THREADS": "4", "MKL_NUM_THREADS": "4"}, on="local"),
    # terminals
    **of_env("COLUMNS", "1", "0", "-5", "nonsense", "100000"),
    **of_env("NO_COLOR", "1"),
    **of_env("FORCE_COLOR", "1"),
    **of_env("TERM", None, "dumb", "nonsense"),
    # Python
    **of_env("PYTHONHASHSEED", "0", "12345"),
    **of_env("PYTHONOPTIMIZE", "1", "2"),
    **of_env("PYTHONPATH", "{missing}"),
    **of_env("PYTHONDEVMODE", "1"),
    **of_env("PYTHONUNBUFFERED", "1"),
    # our own
    **of_env("UNDERSTUDY_DATA", "{missing}", "{file}"),
    **of_env("UNDERSTUDY_TRACEBACK", "1"),
    **of_env("UNDERSTUDY_ENGINE", "kernels", ""),
    "a bad engine": Case({"UNDERSTUDY_ENGINE": "fast"}, error="UNDERSTUDY_ENGINE: expected loop"),
    "a bad build": Case({"UNDERSTUDY_KERNELS": "sse"}, error="UNDERSTUDY_KERNELS: expected one of"),
    "a bad engine, workers": Case(
        {"UNDERSTUDY_ENGINE": "fast"}, on="local", error="UNDERSTUDY_ENGINE: expected loop"
    ),
    # others
    **of_env("TZ", "Nowhere/Nothing"),
    **of_env("PATH", "", "{missing}"),
    **of_env("CUDA_VISIBLE_DEVICES", "nonsense"),
    "nothing set": Case(only=True),
    "nothing set, workers": Case(only=True, on="local"),
    # working directories
    "cwd deleted": Case(cwd="deleted", error=DELETED),
    "cwd deleted, workers": Case(cwd="deleted", on="local", error=DELETED),
    "cwd with spaces": Case(cwd="two  words "),
    "cwd not ASCII": Case(cwd="Größe-文件", on="local"),
    "cwd not ASCII, C locale": Case({"LC_ALL": "C", "PYTHONUTF8": "0"}, cwd="Größe-文件"),
    "cwd with a line break": Case(cwd="two\nlines"),
    "cwd read-only": Case(cwd="/proc"),
    "cwd with modules": Case(cwd="shadows"),
    "cwd with modules, workers": Case(cwd="shadows", on="local"),
    # streams and limits
    "stdin closed": Case(streams="<&-"),
    "stdout closed": Case(streams=">&-"),
    "stderr closed": Case(streams="2>&-"),
    "all closed": Case(streams="<&- >&- 2>&-"),
    "all closed, workers": Case(streams="<&- >&- 2>&-", on="local"),
    "stdout nobody reads": Case(streams="| true", ends=True),
    "stderr nobody reads": Case(streams="2>&1 >/dev/null | true", ends=True),
    "stdout full": Case(streams=">/dev/full", error="No space left on device"),
    "umask": Case(shell="umask 077"),
    "few files": Case(shell="ulimit -n 64", on="local"),
    "no core": Case(shell="ulimit -c 0"),
}


def run_in(case: Case, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the study in the environment; its runs are in ``folder/runs``."""
    folder.mkdir(exist_ok=True)
    names = {"missing": folder / "missing", "file": folder / "file", "odd": folder / "odd Größe"}
    names["file"].write_text("")
    names["odd"].mkdir(exist_ok=True)
    (folder / "study.toml").write_text(STUDY, encoding="utf-8")
    env = {} if case.only else dict(os.environ)
    for name, value in case.env.items():
        env.pop(name, None)
        if value is not None:
            env[name] = value.format(**names)
    cwd = folder / case.cwd
    cwd.mkdir(exist_ok=True)
    if case.cwd == "shadows":
        for shadow in SHADOWS:
            (cwd / shadow).write_text("raise SystemExit('imported from the working directory')")
    gone = f"rmdir '{cwd}'" if case.cwd == "deleted" else ":"
    script = f'{gone}; {case.shell}; "$@" {case.streams}'
    arguments = ["run", str(folder / "study.toml"), "--folder", str(folder / "runs")]
    arguments += ["--no-report", "--on", case.on]
    if case.on == "local":
        arguments += ["--jobs", "1"]
    return subprocess.run(
        ["/bin/sh", "-c", script, "sh", *COMMAND, *arguments],
        env=env,
        cwd=cwd,
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
    )
