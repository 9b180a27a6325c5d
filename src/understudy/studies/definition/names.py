"""Names that become files and folders: of studies and of cells, also those that a store holds."""

from __future__ import annotations

import re

KEY_DIGITS = 16  # of a cell's name
LONGEST = 200  # characters of a study's name: a file system takes 255 bytes, endings included
_STUDY = re.compile(r"[A-Za-z0-9][\w.-]*")
_KEY = re.compile(f"[0-9a-f]{{{KEY_DIGITS}}}")
# in the runs folder, where a study has a folder too; the database keeps files beside its own
_TAKEN = re.compile(r"cells|understudy\.sqlite.*", re.IGNORECASE)


def is_key(text: object) -> bool:
    """Whether something can be the name of a cell; it is also that of a folder."""
    return isinstance(text, str) and _KEY.fullmatch(text) is not None


def why_no_study_name(name: str | None) -> str | None:
    """Why something cannot be the name of a study, which is also that of a folder; None: it can."""
    if name is None or not _STUDY.fullmatch(name):
        given = "none" if name is None else repr(name)
        return (
            "expected a name of letters, digits, '_', '.' and '-', beginning with a letter or a "
            f"digit, got {given}"
        )
    if len(name.encode()) > LONGEST:
        return f"expected a name of at most {LONGEST} bytes, got {len(name.encode())}"
    if _TAKEN.fullmatch(name):
        return f"{name!r} is what the runs folder itself uses; take another"
    return None
