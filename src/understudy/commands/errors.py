"""What goes wrong, in one line on stderr that names the thing; no traceback."""

from __future__ import annotations

import errno
import os
import sys
import traceback

import click

from understudy.core.printable import one_line, printable

# exit codes: a cell failed, a bad study or call, stopped after rounds were stored, Ctrl-C
FAILED, REFUSED, STOPPED, INTERRUPTED = 1, 2, 3, 130
OF_THE_MACHINE = (errno.ENOSPC, errno.EDQUOT, errno.EIO)  # nobody's typing mistake
TRACEBACK = "UNDERSTUDY_TRACEBACK"  # set to anything: errors come with their traceback


def report_error(error: Exception) -> int:
    """Print an error as one line and return the exit code; one not foreseen is raised again."""
    if os.environ.get(TRACEBACK):
        raise error
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return error.exit_code  # the help is printed already
    if isinstance(error, click.ClickException):
        say(_of_click(error))
        return error.exit_code
    if isinstance(error, KeyError) and type(error) is not KeyError:
        say(str(error))  # a name that stands for nothing
        return REFUSED
    if isinstance(error, BrokenPipeError):  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    rounds = getattr(error, "rounds", 0)
    if rounds and (isinstance(error, OSError) or _is_ours(error)):
        say(f"{error}; stopped after {rounds} round{'s' * (rounds > 1)}, which are kept")
        return STOPPED
    if isinstance(error, OSError):
        say(_of_system(error))
        return FAILED if error.errno in OF_THE_MACHINE else REFUSED
    if isinstance(error, ValueError | TypeError | ImportError) or _is_ours(error):
        say(str(error))
        return REFUSED
    raise error


def say(text: str) -> None:
    """One line on stderr, under the command's name."""
    print("understudy: " + " ".join(one_line(text).split()), file=sys.stderr)


def print_traceback(error: Exception) -> None:
    """Of an error that nobody foresaw; its words may be anybody's."""
    print(printable("".join(traceback.format_exception(error))), file=sys.stderr, end="")


def _of_click(error: click.ClickException) -> str:
    words = error.format_message().rstrip(".")
    if isinstance(error, click.UsageError) and error.ctx is not None:
        return f"{words} (see {error.ctx.command_path} --help)"
    return words


def _of_system(error: OSError) -> str:
    if error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _is_ours(error: Exception) -> bool:
    return type(error).__module__.partition(".")[0] == "understudy"
