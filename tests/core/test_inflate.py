"""A few kilobytes can stand for gigabytes: what is stored compressed is inflated with a bound."""

from __future__ import annotations

import base64
import gzip
import json
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from tests.peak import peak
from understudy import CheckpointError
from understudy.core.inflate import MOST_INFLATED, inflated
from understudy.core.json_lines import sealed
from understudy.core.types import RoundLog
from understudy.journal.arrays import pack, unpack
from understudy.journal.codec import line_of
from understudy.journal.file import LogFile
from understudy.simulation.data.formats import read_idx

ZEROS = bytes(2**26)  # 64 MiB
BOMB = zlib.compress(ZEROS, 9)  # 64 KiB
LITTLE = 2**21  # bytes that the refusal of a bomb may take


@pytest.mark.parametrize("size", [0, 1, 100, 2**16])
@pytest.mark.parametrize("level", [0, 1, 9])
def test_what_has_the_announced_size_comes_back(size: int, level: int) -> None:
    for data in (bytes(size), bytes(range(256)) * (size // 256)):
        assert inflated(zlib.compress(data, level), len(data)) == data


@pytest.mark.parametrize(
    ("data", "size", "words"),
    [
        (BOMB, 100, "expected 100 bytes of compressed data, got more"),
        (zlib.compress(b"four"), 5, "got 4"),
        (zlib.compress(b"four"), 3, "got more"),
        (zlib.compress(b"four")[:-1], 4, "cut short"),
        (zlib.compress(b"four"), 10**15, "cannot hold the announced 1,000,000,000,000,000"),
        (b"", 0, "cut short"),
    ],
)
def test_any_other_size_is_refused(data: bytes, size: int, words: str) -> None:
    def refused() -> None:
        with pytest.raises(ValueError, match=words):
            inflated(data, size)

    assert peak(refused) < LITTLE


@pytest.mark.parametrize(
    "head",
    [
        b"|u1 (10) |u1 0\n",  # far less than there is
        b"|u1 (1099511627776) |u1 0\n",  # more than the blob can hold
        b"<i8 (134217729) |u1 1\n",  # sums of more than a gigabyte
        b"<U1000000 (2000) <U1 0\n",  # small in the file, large in memory
        b"|u1 (-1) |u1 0\n",
        b"|O (8388608) |O 0\n",
        b"<f8 (" + b"9" * 400 + b") <f8 0\n",
    ],
)
def test_a_crafted_array_of_the_database_takes_no_memory(head: bytes) -> None:
    def refused() -> None:
        with pytest.raises(ValueError, match=r"expected|announced"):
            unpack(head + BOMB)

    assert peak(refused) < LITTLE


def test_what_could_not_be_read_is_not_written() -> None:
    huge = np.broadcast_to(np.zeros((), dtype=np.float64), (MOST_INFLATED // 8 + 1,))
    with pytest.raises(ValueError, match=r"expected an array of at most 1,073,741,824 bytes"):
        pack(huge)


def test_a_crafted_array_of_a_log_takes_no_memory(tmp_path: Path) -> None:
    few = np.arange(3)
    path, body = tmp_path / "rounds.jsonl", base64.b64encode(BOMB).decode()
    blob = base64.b64encode(b"|u1 (10) |u1 0\n" + BOMB).decode()
    made: list[dict[str, object]] = []
    for shape in ([3], [2**50], [-1], ["3"], [2**20, "3"], [1.5], 3):  # of the first codec
        array = {"array": body, "dtype": "int8", "shape": shape}
        made.append({"t": 0, "ids": array, "refusals": [], "client_metrics": {}})
    plain = json.loads(line_of(RoundLog(0, few.astype(np.int8), (), few, few, few / 2, {})))
    made.append({**plain, "arrays": {**plain["arrays"], "ids": blob}})
    for plain in made:
        path.write_bytes(sealed(json.dumps(plain).encode()) + b"\n")

        def refused() -> None:
            with pytest.raises(CheckpointError, match=r"rounds\.jsonl, line 1: cannot be used"):
                list(LogFile(path, 1).stored(1))

        assert peak(refused) < LITTLE


@pytest.mark.parametrize("sides", [(10,), (2**31, 2**31, 7)])
def test_a_crafted_image_file_takes_no_memory(sides: tuple[int, ...], tmp_path: Path) -> None:
    head = struct.pack(f">BBBB{len(sides)}I", 0, 0, 8, len(sides), *sides)
    path = tmp_path / "images.gz"
    path.write_bytes(gzip.compress(head + ZEROS, 9))

    def refused() -> None:
        with pytest.raises(ValueError, match=r"images\.gz: expected \d+ values of shape"):
            read_idx(path)

    assert peak(refused) < LITTLE
