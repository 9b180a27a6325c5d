"""The command line: thin, and quick to start, because each command imports what it needs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Annotated

import click
import typer

from understudy.commands import errors, text
from understudy.commands.dashboard import dashboard
from understudy.commands.doctor import doctor
from understudy.commands.export import export
from understudy.commands.list_parts import list_parts
from understudy.commands.new_app import new_app
from understudy.commands.plot import plot
from understudy.commands.report import report
from understudy.commands.retire import retire, same_as
from understudy.commands.run import run
from understudy.commands.show import show
from understudy.commands.studies import studies
from understudy.commands.table import table
from understudy.commands.try_out import try_table
from understudy.commands.watch import watch

app = typer.Typer(
    name="understudy",
    no_args_is_help=True,
    suggest_commands=False,  # click does by itself
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},  # of every command
    pretty_exceptions_enable=False,
    help="Federated learning when clients do not show up.",
    epilog="Start with: understudy run",
)


def _version(wanted: bool) -> None:
    if wanted:
        from understudy._version import __version__

        text.echo(f"understudy {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    pass


COMMANDS: dict[str, Callable[..., None]] = {
    "run": run,
    "try": try_table,
    "studies": studies,
    "list": list_parts,
    "show": show,
    "watch": watch,
    "table": table,
    "plot": plot,
    "report": report,
    "dashboard": dashboard,
    "export": export,
    "new-app": new_app,
    "retire": retire,
    "same-as": same_as,
    "doctor": doctor,
}
for _name, _command in COMMANDS.items():
    app.command(_name)(_command)


def _refuse_deleted_directory() -> None:
    """MKL would end the process with words about a library that cannot be loaded."""
    try:
        os.getcwd()
    except FileNotFoundError:
        words = "the working directory was deleted; change to one that exists"
        raise FileNotFoundError(words) from None


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the ``understudy`` command."""
    command = typer.main.get_command(app)
    given = None if arguments is None else list(arguments)
    try:
        _refuse_deleted_directory()
        code = command.main(given, prog_name="understudy", standalone_mode=False)
    except click.Abort:
        code = errors.INTERRUPTED
    except Exception as error:
        try:
            code = errors.report_error(error)
        except Exception as unforeseen:
            errors.print_traceback(unforeseen)
            code = errors.FAILED
    sys.exit(code)
