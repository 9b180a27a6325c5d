"""`understudy doctor`: what this machine has, and how to get the rest."""

from __future__ import annotations

import platform
import re
import shutil
import textwrap
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Annotated

import typer

from understudy.commands import text
from understudy.commands.findings import Finding

GIGABYTE = 1e9
LIBRARIES = ("torch", "numpy", "scipy", "pandas", "matplotlib")
# package → what it is for; recommended where this version of ours has an extra that needs it
EXTRAS = {
    "ray": "runs on a cluster",
    "pyarrow": "Parquet files",
    "flwr": "Flower, for live federations",
    "sse-starlette": "understudy dashboard, a local page",
    "h5py": "data of TFF",
    "msgpack": "data of FedJAX",
}
FOR_DEVELOPERS = ("test", "docs")  # extras
_OPTIONAL = re.compile(
    r"""(?P<need>(?P<name>[\w.-]+)[^;]*?)\s*;.*extra == ['"](?P<extra>\w+)['"]"""
)
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
BROWSER_PURPOSE = "tests of the report open it there"


def doctor(
    runs: Annotated[
        Path | None, typer.Argument(help="A runs folder whose files are to be verified.")
    ] = None,
    folder: Annotated[Path, typer.Option(help="The runs folder.")] = Path("runs"),
) -> None:
    """Check the installation: versions, machine, data sets, extras.

    With a runs folder: whether its database, checkpoints and models are what was written.

    understudy doctor
    understudy doctor runs
    """
    if runs is not None:
        from understudy.commands.check_runs import check_runs

        found = list(check_runs(runs))
        text.echo_lines(page(found))
        if not all(finding.found for finding in found):
            raise typer.Exit(1)
        return
    text.echo_lines(page(examine(folder)))


def examine(folder: str | Path = "runs") -> list[Finding]:
    """Everything that a study may need, in the order of the printed page.

    `folder` is where runs would go: its disk is looked at.
    """
    return [*_versions(), *_machine(Path(folder)), *_data_sets(), *_extras()]


def page(findings: list[Finding], width: int = 80) -> Iterator[str]:
    """The examination as lines of text."""
    column = max(len(finding.name) for finding in findings) + 4
    about = ""
    for finding in findings:
        if finding.about != about:
            if about:
                yield ""
            yield finding.about
            about = finding.about
        yield from textwrap.wrap(
            finding.words,
            width,
            initial_indent=f"  {finding.name}".ljust(column),
            subsequent_indent=" " * column,
            break_on_hyphens=False,
            break_long_words=False,
        )


def _versions() -> Iterator[Finding]:
    from understudy._version import __version__

    yield Finding("versions", "understudy", True, __version__)
    yield Finding("versions", "python", True, platform.python_version())
    for name in LIBRARIES:
        yield Finding("versions", name, True, version(name))


def _machine(folder: Path) -> Iterator[Finding]:
    import psutil
    import torch

    from understudy.core.threads import usable_cores

    memory = psutil.virtual_memory()
    free, total = memory.available / GIGABYTE, memory.total / GIGABYTE
    yield Finding("machine", "cores", True, str(usable_cores()))
    yield Finding("machine", "memory", True, f"{free:.1f} GB free of {total:.1f} GB")
    devices = ["cpu"]
    devices += [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    devices += ["mps"] if torch.backends.mps.is_available() else []
    yield Finding("machine", "devices", True, ", ".join(devices))
    yield _engine()
    existing = next(
        place for place in (folder.absolute(), *folder.absolute().parents) if place.exists()
    )
    disk = shutil.disk_usage(existing).free / GIGABYTE
    yield Finding("machine", "disk", True, f"{disk:.0f} GB free for {folder}")


def _engine() -> Finding:
    """What trains the clients of small nets."""
    import numpy as np

    from understudy.simulation.training.kernels.library import VERSION, Unavailable, loaded

    try:
        isa = loaded(np.dtype(np.float32)).isa
    except Unavailable as reason:
        return Finding("machine", "engine", False, f"the loop for all models: {reason}")
    return Finding("machine", "engine", True, f"compiled kernels {VERSION} ({isa}) for small nets")


def _data_sets() -> Iterator[Finding]:
    from understudy.simulation.data.sources import DATASETS, MissingData

    for name, source in DATASETS.items():
        if source.files is None:
            yield Finding("data sets", name, True, source.origin)
            continue
        try:
            words = str(source.located()[0].parent)
            part = source.subset()
            yield Finding("data sets", name, True, f"{words} ({part})" if part else words)
        except MissingData as error:
            yield Finding("data sets", name, False, str(error).removeprefix(f"{name}: "))


def optional_requirements() -> dict[str, str]:
    """Package → requirement, such as ``ray>=2.40``, of the extras that this installation has."""
    try:
        told = requires("understudy-fl") or []
    except PackageNotFoundError:  # run from its source
        return {}
    found = [match for line in told if (match := _OPTIONAL.match(line))]
    return {match["name"]: match["need"] for match in found if match["extra"] not in FOR_DEVELOPERS}


def _extras() -> Iterator[Finding]:
    known = optional_requirements()
    for name, purpose in EXTRAS.items():
        if name not in known:
            continue  # nothing here would use it
        try:
            yield Finding("extras", name, True, f"{version(name)} ({purpose})")
        except PackageNotFoundError:
            how = f"pip install '{known[name]}'"
            yield Finding("extras", name, False, f"not installed: {how} ({purpose})")
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    words = f"not installed: with the system's tools ({BROWSER_PURPOSE})"
    if browser is not None:
        words = f"{browser} ({BROWSER_PURPOSE})"
    yield Finding("extras", "chromium", browser is not None, words)
