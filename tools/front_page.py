"""The first comparison, in ``README.md`` and on the documentation's front page: table and picture.

``python -m tools.front_page`` (``make front-page``) runs the quickstart in an empty folder. What it
prints replaces the table in the README, which the front page shows too; the picture is
``docs/_static/quickstart.svg``.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from understudy import plots, results

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "_static" / "quickstart.svg"
TABLE = re.compile(r"(?<=^```text\n)quickstart: .*?(?=^```$)", re.M | re.S)


def run_quickstart(folder: Path, options: Sequence[str] = ()) -> str:
    """What ``understudy run`` prints in this folder, on 80 columns."""
    done = subprocess.run(
        [sys.executable, "-m", "understudy", "run", *options],
        cwd=folder,
        env={**os.environ, "COLUMNS": "80"},
        stdout=subprocess.PIPE,
        encoding="utf-8",
        check=True,
    )
    return done.stdout


def with_table(page: str, printed: str) -> str:
    """The page with its table replaced."""
    if len(TABLE.findall(page)) != 1:
        raise ValueError("expected one text block that begins with 'quickstart: '")
    return TABLE.sub(lambda _: printed, page)


def picture(folder: Path) -> bytes:
    """Accuracy of every method in every situation, as SVG."""
    return plots.svg(plots.levels(results(folder / "runs" / "quickstart"), "availability"))


def main() -> None:
    readme = ROOT / "README.md"
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        printed = run_quickstart(folder)
        readme.write_text(with_table(readme.read_text("utf-8"), printed), "utf-8")
        PICTURE.write_bytes(picture(folder))


if __name__ == "__main__":
    main()
