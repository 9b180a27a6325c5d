"""The tables of modules in ``docs/architecture.md``, from the first line of each module.

``python -m tools.architecture`` (``make architecture``) renews them. Below a heading such as
``### `core/` `` comes a sentence, and then the table of that folder's modules; a folder without a
heading is an error.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "understudy"
PAGE = ROOT / "docs" / "architecture.md"
HEAD = "| module | what it is for |\n| --- | --- |\n"
TABLE = re.compile(r"^### `([\w/]+)/`\n\n(.*?\n\n)" + re.escape(HEAD) + r"((?:\|.*\n)+)", re.M)


def first_line(path: Path) -> str:
    """What a module says of itself, without the full stop."""
    told = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    return told.partition("\n")[0].replace("``", "`").removesuffix(".")


def rows(package: Path = PACKAGE) -> dict[str, list[str]]:
    """Folder as in its heading → the lines of its table."""
    found: dict[str, list[str]] = {}
    for path in sorted(package.rglob("*.py")):
        if path.name == "__init__.py":
            continue
        name = path.relative_to(package).with_suffix("").as_posix()
        folder = name.rpartition("/")[0] or "understudy"
        found.setdefault(folder, []).append(f"| `{name}` | {first_line(path)} |\n")
    return found


def renewed(page: str, tables: dict[str, list[str]]) -> str:
    """The page with its tables replaced."""
    headings = [found[1] for found in TABLE.finditer(page)]
    if sorted(headings) != sorted(tables):
        missing = sorted(set(tables) ^ set(headings)) or "one of them comes twice"
        raise ValueError(f"headings: expected one for each folder of the package, got {missing}")
    return TABLE.sub(lambda m: f"### `{m[1]}/`\n\n{m[2]}{HEAD}{''.join(tables[m[1]])}", page)


def main() -> None:
    PAGE.write_text(renewed(PAGE.read_text("utf-8"), rows()), "utf-8")


if __name__ == "__main__":
    main()
