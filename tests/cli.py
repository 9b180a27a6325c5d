"""Runs the command in this process, as a terminal of 80 columns would see it."""

import warnings
from dataclasses import dataclass

import pytest

with warnings.catch_warnings():
    # typer imports names that newer versions of click call deprecated
    warnings.simplefilter("ignore", DeprecationWarning)
    from understudy.cli import main


@dataclass(frozen=True)
class Said:
    """What a command printed, and the code it ended with."""

    code: int
    out: str
    err: str


class Command:
    """Called with arguments, runs them."""

    def __init__(self, capsys, monkeypatch):
        self._capsys = capsys
        monkeypatch.setenv("COLUMNS", "80")
        monkeypatch.setenv("NO_COLOR", "1")
        monkeypatch.delenv("UNDERSTUDY_TRACEBACK", raising=False)

    def __call__(self, *arguments):
        self._capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        captured = self._capsys.readouterr()
        return Said(ended.value.code or 0, captured.out, captured.err)
