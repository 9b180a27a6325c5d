"""`understudy dashboard`: a local page that shows runs while they run, and afterwards."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from understudy.commands import stored_study, text

NEEDED = ("starlette", "uvicorn", "sse_starlette")


def dashboard(
    runs: Annotated[
        list[Path] | None, typer.Argument(metavar="[RUNS]...", show_default=False)
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 0,
    host: Annotated[
        str, typer.Option(help="The address to listen at; others than this machine need --token.")
    ] = "127.0.0.1",
    token: Annotated[
        str | None,
        typer.Option(
            help="The secret in the address; by default a random one.",
            show_default=False,
            envvar="UNDERSTUDY_TOKEN",
        ),
    ] = None,
) -> None:
    """Show runs on a local web page, while they run and afterwards.

    RUNS are runs folders, folders of studies, folders of simulations or of
    live federations, or folders that hold such; by default runs. Nothing is
    written there. Ctrl-C ends it.

    understudy dashboard
    understudy dashboard runs /var/lib/federation/run --port 8777
    """  # fmt: skip
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise ImportError(
            "understudy dashboard needs Starlette, uvicorn and sse-starlette: "
            "pip install '.[dashboard]' in the folder of a clone"
        )
    from understudy.dashboard.serve import serve

    def ready(address: str) -> None:
        text.echo("The dashboard is open until Ctrl-C:")
        text.echo(f"  {address}")

    serve(runs or [stored_study.RUNS], host=host, port=port, token=token, ready=ready)
