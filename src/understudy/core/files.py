"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

TEMPORARY = ".new"  # after the name of a file that is being written


@contextmanager
def replaced(path: Path) -> Iterator[BinaryIO]:
    """A file to write into, which takes the place of `path` when the block has ended.

    Written, synced, renamed, the folder synced: at `path` is the old file or the whole new one, at
    any moment, and after a power cut too. Where the block raises, `path` stays as it was.
    """
    temporary = path.with_name(path.name + TEMPORARY)
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    sync_folder(path.parent)


def write_file(path: Path, content: bytes) -> None:
    """Put `content` at `path`, whole or not at all."""
    with replaced(path) as file:
        file.write(content)


def sync_folder(folder: Path) -> None:
    """Make renames and new names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
