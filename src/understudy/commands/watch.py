"""`understudy watch`: runs in a terminal, while they run and afterwards."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.commands import stored_study, text

if TYPE_CHECKING:
    from rich.console import Console

    from understudy.dashboard.watched import Watch

PIECE = 0.5  # seconds of reading before what was read is shown
REST = 4  # times what a look took, before the next one: large folders are looked at less often


def watch(
    runs: Annotated[
        list[Path] | None, typer.Argument(metavar="[RUNS]...", show_default=False)
    ] = None,
    every: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, help="Between two looks.")
    ] = 1.0,
    clients: Annotated[
        int | None,
        typer.Option(min=0, help="Rows of clients at most; by default as many as there is room."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Show how things are, and end.")] = False,
) -> None:
    """Watch runs in a terminal, while they run and afterwards.

    RUNS are runs folders, folders of studies, folders of simulations or of
    live federations, or folders that hold such; by default runs. It shows
    what runs and how far it is, who is left out, and the clients of a
    running run. Nothing is written there. Ctrl-C ends it. Where the
    output is no terminal it shows how things are, and ends.

    understudy watch
    understudy watch runs /var/lib/federation/run
    understudy watch runs --once
    """
    from rich.console import Console

    from understudy.dashboard.watched import Watch

    found = Watch(runs or [stored_study.RUNS])
    console = Console(highlight=False)
    if once or not console.is_terminal:
        _print(found, clients)
        return
    try:
        _live(found, console, every, clients)
    except KeyboardInterrupt:
        _print(found, clients)  # what was on the screen is gone with it


def _print(found: Watch, clients: int | None) -> None:
    from understudy.dashboard.terminal import lines

    shown = lines(found, found.look(), 12 if clients is None else clients)
    text.echo_lines(line.plain.rstrip() for line in shown)


def _live(found: Watch, console: Console, every: float, clients: int | None) -> None:
    from rich.console import Group
    from rich.live import Live

    from understudy.dashboard.terminal import lines

    with Live(console=console, screen=True, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            begin = time.monotonic()
            followed = found.look(PIECE)
            room = console.height
            shown = lines(found, followed, room if clients is None else clients)
            if clients is None and len(shown) > room:
                shown = lines(found, followed, max(3, room - (len(shown) - room) - 3))
            live.update(Group(*shown[:room]), refresh=True)
            time.sleep(max(every, REST * (time.monotonic() - begin)))
