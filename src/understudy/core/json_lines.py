"""JSON objects with a checksum of their own as their last entry, such as the lines of a log.

Objects that were written before there were checksums have none, and are read as they are. Inside a
JSON text a quotation mark is escaped, so what precedes the checksum occurs nowhere else.
"""

from __future__ import annotations

import re
from zlib import crc32

_SEAL = b', "crc32": '
_SEALED = re.compile(re.escape(_SEAL) + rb"\d+\}")


def sealed(text: bytes) -> bytes:
    """A JSON object with the CRC-32 of its text as one more entry, the last."""
    return text[:-1] + _SEAL + b"%d}" % crc32(text)  # in place of the last brace


def is_sealed(text: bytes) -> bool:
    """Whether a whole checksum is there, right or wrong, whatever comes after it."""
    return _SEALED.search(text) is not None


def is_damaged(text: bytes) -> bool:
    """Whether a checksum is there, and it is not the one of the rest."""
    body, seal, rest = text.rpartition(_SEAL)
    return bool(seal) and rest != b"%d}" % crc32(body + b"}")
