"""`understudy new-app`: a Flower app to begin with."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from understudy.commands import text

TEMPLATE = "flower_app"  # in the wheel beside the package's modules, in the tree among the examples
NOT_PART = shutil.ignore_patterns("__pycache__", ".flwr", "secrets", "federation")


def new_app(
    folder: Annotated[Path, typer.Argument(metavar="DIR", show_default=False)],
) -> None:
    """Write a Flower app that learns digits from clients that do not always show up.

    DIR is created, or must be empty. The app has the layout that Flower
    expects, runs in its simulation and on a real federation, and comes
    with scripts for certificates and keys: its README.md says how.

    understudy new-app my-app
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder}: expected a folder that is new or empty")
    shutil.copytree(_template(), folder, ignore=NOT_PART, dirs_exist_ok=True)
    text.echo(f"{folder}: a Flower app. Start with {folder / 'README.md'}")


def _template() -> Path:
    package = Path(__file__).parents[1]
    places = (package / TEMPLATE, package.parents[1] / "examples" / TEMPLATE)
    for place in places:
        if (place / "pyproject.toml").is_file():
            return place
    raise FileNotFoundError(f"{places[0]}: the app is missing; install understudy again")
