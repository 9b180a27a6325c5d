"""The report of a study as a file: from what it was made, and whether that is all there is now."""

from __future__ import annotations

import json
import os
import re
import shlex
from hashlib import sha256
from pathlib import Path

from understudy.core.files import write_file
from understudy.studies.store.store import Store

FILE = "report.html"
RUNS = "runs"  # the folder that commands look in
STATE = "understudy-state"  # name of the page's meta element
HEAD = 8192  # bytes of a page within which it stands
BODY = b"<body>\n"
OUTDATED = (
    b'<p class="outdated" role="status"><strong>This report is outdated.</strong> The study has '
    b"been run further since it was written; <code>understudy report</code> rewrites it.</p>\n"
)
_STATE = re.compile(rb'<meta name="understudy-state" content="([0-9a-f]+)">')


def report_path(folder: str | Path, study: str) -> Path:
    """Where the report of a study is, if it has one."""
    return Path(folder) / study / FILE


def rewriting_command(folder: str | Path, study: str) -> str:
    """The command that writes the report of a study again."""
    return shlex.join(["understudy", "report", study, *folder_option(folder)])


def folder_option(folder: str | Path) -> list[str]:
    """What a command needs to find a runs folder; nothing where it looks by itself."""
    shown = from_here(folder)
    return [] if shown == RUNS else ["--folder", shown]


def from_here(path: str | Path) -> str:
    """A path as one types it in the working directory: it then says nothing of the machine."""
    try:
        return os.path.relpath(path)
    except OSError:  # the working directory is gone
        return str(path)


def state_of(store: Store, study: str) -> str:
    """A hash of what a report shows: the study, and how far each of its cells is."""
    cells = [(cell.key, cell.labels, cell.status, cell.rounds) for cell in store.cells(study)]
    text = json.dumps([store.study(study).about, cells], sort_keys=True, default=str)
    return sha256(text.encode()).hexdigest()[:32]


def is_outdated(store: Store, folder: str | Path, study: str) -> bool:
    """Whether a study has a report that does not show what is in the store."""
    path = report_path(folder, study)
    if not path.is_file():
        return False
    with open(path, "rb") as file:
        found = _STATE.search(file.read(HEAD))
    return found is None or found[1].decode() != state_of(store, study)


def mark_outdated(folder: str | Path, study: str) -> None:
    """Say at the top of a study's report, if it has one, that there are newer results."""
    path = report_path(folder, study)
    if not path.is_file() or path.parent.is_symlink():  # nothing is written where a link leads
        return
    page = path.read_bytes()
    if OUTDATED not in page:
        write_file(path, page.replace(BODY, BODY + OUTDATED, 1))
