"""`understudy retire` and `same-as`: a client leaves a live federation, or is one that was gone."""

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


def same_as(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", show_default=False)],
    new: Annotated[str, typer.Argument(metavar="NEW", show_default=False)],
    old: Annotated[str, typer.Argument(metavar="OLD", show_default=False)],
) -> None:
    """Continue a vanished client of a live federation as the one it is now.

    FOLDER is the run's folder, NEW the id that the client has now, OLD the id
    that it had before its SuperNode restarted with another key. A server that
    runs does it before its next round, otherwise the next run does when it
    starts: the client keeps the number and the memory of OLD. An id that
    belongs to a registered key cannot be OLD.

    understudy same-as /var/lib/federation/run hospital-0 key-c6847529dbd707b9
    """
    from understudy.flower import request_same_as

    request_same_as(folder, new, old)
    text.echo(
        f"{new}: continues {old} from the next round on, or when the next run starts. "
        "The server's log confirms it."
    )
