"""Files that are there whole or not at all."""

from __future__ import annotations

import errno
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
        with file_named(path), open(temporary, "wb", opener=no_link_opener) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    sync_folder(path.parent)


@contextmanager
def file_named(path: Path) -> Iterator[None]:
    """An error of the system within, such as a full disk when something is written, names `path`.

    Only what opens or renames a file names it by itself.
    """
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = str(path)
        raise


def no_link_opener(path: str, flags: int) -> int:
    """For `open`: a symbolic link in the place of the file is an error, and nothing is written."""
    try:
        return os.open(path, flags | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise _link_error(path) from None


def refuse_link(path: Path) -> None:
    """Raise where a symbolic link is in the place of a file or folder that is to be written.

    A folder of runs may come from somebody else: what is written to it stays in it.
    """
    if path.is_symlink():
        raise _link_error(str(path))


def _link_error(path: str) -> OSError:
    words = "is a symbolic link, and nothing is written through one; put a file or folder there"
    return OSError(errno.ELOOP, words, path)


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
