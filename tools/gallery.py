"""The gallery's pictures and what its scripts print, for ``docs/gallery.md``.

``python -m tools.gallery`` (``make gallery``) runs every script of ``examples/gallery`` in a folder
of its own; picture and text go to ``docs/gallery``.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parent.parent
SCRIPTS = ROOT / "examples" / "gallery"
SHOWN = ROOT / "docs" / "gallery"


def renew(script: Path, shown: Path) -> None:
    """Run one script; keep its picture and what it printed."""
    with TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, str(script)], cwd=folder, stdout=subprocess.PIPE, check=True
        )
        picture = Path(folder) / f"{script.stem}.svg"
        (shown / picture.name).write_bytes(picture.read_bytes())
        (shown / f"{script.stem}.txt").write_bytes(done.stdout)


def main() -> None:
    SHOWN.mkdir(exist_ok=True)
    for script in sorted(SCRIPTS.glob("*.py")):
        print(script.relative_to(ROOT), flush=True)
        renew(script, SHOWN)


if __name__ == "__main__":
    main()
