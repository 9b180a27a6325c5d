"""``python -m tools.absence docs``: make the page of the benchmark, ``docs/benchmark.md``.

It is made of what lies in ``docs/results/absence``: `understudy export absence --to docs/results`
puts it there.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tools.absence.cells import STUDY
from tools.absence.page import PAGE, page


def main(docs: Path) -> None:
    """Write the page and its pictures; pictures of another name go."""
    text, pictures = page(docs)
    folder = docs / "results" / STUDY
    for old in folder.glob("map-*.svg"):
        if old.name not in pictures:
            old.unlink()
    for name, content in pictures.items():
        (folder / name).write_bytes(content)
    (docs / PAGE).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
