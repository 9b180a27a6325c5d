"""The command line: thin, and quick to start, because each command imports what it needs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    name="understudy",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Federated learning when clients do not show up.",
)


def _version(wanted: bool) -> None:
    if wanted:
        from understudy._version import __version__

        typer.echo(f"understudy {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Say which, and stop."),
    ] = False,
) -> None:
    pass


@app.command()
def run(
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of each method.")] = 30,
    seeds: Annotated[int, typer.Option(min=1, help="How often all is repeated.")] = 5,
    folder: Annotated[Path, typer.Option(help="Where the report goes.")] = Path("runs/quickstart"),
) -> None:
    """A first comparison: handwritten digits on 20 clients, most of them missing."""
    from rich.console import Console
    from rich.progress import track

    from understudy.simulation.comparison import Setting, compare, standings
    from understudy.simulation.report import write_report
    from understudy.simulation.tables import introduction, table

    try:
        folder.mkdir(parents=True, exist_ok=True)  # fail now, not after the last round
    except OSError as error:
        raise typer.BadParameter(f"{folder}: {error.strerror}", param_hint="--folder") from None
    console, setting = Console(highlight=False), Setting(rounds=rounds, seeds=seeds)
    console.print(introduction(setting))
    n_runs = seeds * len(setting.contenders())
    watched = Console(stderr=True)
    played = list(
        track(
            compare(setting),
            total=n_runs,
            description="Playing",
            console=watched,
            transient=True,
            disable=not watched.is_terminal,
        )
    )
    rows = standings(setting, played)
    console.print(table(setting, rows))
    path = write_report(folder, setting, played, rows)
    typer.echo(f"Report: {path}")


@app.command("list")
def list_parts() -> None:
    """The parts a strategy can be put together from, with their parameters."""
    from understudy.listing import parts

    for line in parts():
        typer.echo(line)


def main() -> None:
    """Entry point of the ``understudy`` command."""
    app()
