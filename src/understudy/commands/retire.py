"""`understudy retire`: a client leaves a live federation for good."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy.commands import text


def retire(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", show_default=False)],
    clients: Annotated[list[str], typer.Argument(metavar="CLIENT...", show_default=False)],
) -> None:
    """Retire clients of a live federation, and erase what it remembers of them.

    FOLDER is the run's folder, CLIENT a client's id. A server that runs does
    it before its next round, otherwise the next run does when it starts. A
    retired client is never asked again.

    understudy retire /var/lib/federation/run hospital-3
    """
    from understudy.flower import request_retirement

    request_retirement(folder, *clients)
    text.echo(
        f"{', '.join(clients)}: retired before the next round, or when the next run starts. "
        "The server's log confirms it."
    )
