"""What the package imports is what it declares."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXTRAS = ("ray", "parquet", "flower", "dashboard", "hdf5", "fedjax")


def imported() -> set[str]:
    """Distributions that the source imports, wherever in a file."""
    names: set[str] = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module.partition(".")[0])
    foreign = names - set(sys.stdlib_module_names) - {"understudy"}
    known = packages_distributions()
    return {normal(dist) for name in foreign for dist in known.get(name, [name])[:1]}


def declared(*extras: str) -> set[str]:
    with open(ROOT / "pyproject.toml", "rb") as file:
        project = tomllib.load(file)["project"]
    lines = [*project["dependencies"]]
    for extra in extras:
        lines += project["optional-dependencies"][extra]
    return {normal(re.split(r"[^\w.-]", line)[0]) for line in lines}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_everything_imported_is_declared() -> None:
    # IPython is imported in a notebook only, where it is
    assert imported() - declared(*EXTRAS) - {"ipython"} == set()


def test_everything_declared_is_imported() -> None:
    assert declared() - imported() == set()


def test_everything_declared_has_a_tested_version() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {normal(line.partition("==")[0]) for line in lines if "==" in line}
    assert declared(*EXTRAS, "test", "docs") - pinned == set()
