"""``python -m tools.absence docs [RUNS]``: make the page of the benchmark, ``docs/benchmark.md``.

It is made of what lies in ``docs/results/absence``: `understudy export absence --to docs/results`
puts it there. With a folder of runs, what the trials of the tuned blocks scored is written first.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tools.absence.cells import SCALE, STUDY
from tools.absence.page import PAGE, page
from tools.trials import write_trials


def main(docs: Path, runs: Path | None = None) -> None:
    """Write the page and its pictures; pictures of another name go."""
    if runs is not None:
        write_trials(STUDY, docs, runs, whole=False, scale=SCALE)
    text, pictures = page(docs)
    folder = docs / "results" / STUDY
    for old in folder.glob("map-*.svg"):
        if old.name not in pictures:
            old.unlink()
    for name, content in pictures.items():
        (folder / name).write_bytes(content)
    (docs / PAGE).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
