"""rounds.jsonl: a line is read as it was written, or is an error that names it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.crafted import flipped
from understudy import CheckpointError, Reason, Refusal
from understudy.core.types import RoundLog
from understudy.journal.file import LogFile


def log(t: int) -> RoundLog:
    return RoundLog(
        t=t,
        outcome=np.arange(6, dtype=np.int8) % 3,
        refusals=(Refusal(10**5000, Reason.UNKNOWN_ID, "x" * 30_000_000),) if t == 1 else (),
        ids=np.arange(3),
        source=np.arange(3),
        coef=np.full(3, 1 / (t + 3)),
        notes={"n": t / 7},
        metrics={"test_accuracy": t / 3},
        timings={"train": 0.5},
    )


def written(path: Path) -> bytes:
    logs = LogFile(path, 0)
    for t in range(5):
        logs.append(log(t))
    logs.flush()
    return path.read_bytes()


def read(path: Path, n: int = 5) -> list[str]:
    return [repr(one) for one in LogFile(path, n).stored(n)]


def test_logs_come_back_and_junk_in_a_refusal_is_not_kept(tmp_path: Path) -> None:
    content = written(tmp_path / "rounds.jsonl")
    assert read(tmp_path / "rounds.jsonl") == [repr(log(t)) for t in range(5)]
    assert len(content) < 10_000
    for line in content.splitlines():
        assert isinstance(json.loads(line)["crc32"], int)  # plain JSON for everybody else


def test_every_flipped_bit_is_noticed_and_the_line_named(tmp_path: Path) -> None:
    path = tmp_path / "rounds.jsonl"
    content = written(path)
    for bit in range(0, len(content) * 8, 37):
        path.write_bytes(flipped(content, bit))
        line = content[: bit // 8].count(b"\n") + 1
        with pytest.raises(CheckpointError) as refused:
            read(path)
        said = str(refused.value)
        assert f"rounds.jsonl, line {line}:" in said or "got fewer" in said, (bit, said)


LINES: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "exchanged": lambda lines: [lines[0], lines[2], lines[1], *lines[3:]],
    "doubled": lambda lines: [lines[0], lines[1], lines[1], *lines[2:]],
    "lost": lambda lines: [lines[0], *lines[2:], lines[1]],
    "no JSON": lambda lines: [lines[0], b"hello\n", *lines[2:]],
    "a long number": lambda lines: [lines[0], b'{"t": 1, "x": ' + b"9" * 5000 + b"}\n", *lines[2:]],
    "another table": lambda lines: [lines[0], b'{"t": 1, "outcome": [1]}\n', *lines[2:]],
    "deep": lambda lines: [lines[0], b'{"t": 1, "x": ' + b"[" * 100_000 + b"\n", *lines[2:]],
}


@pytest.mark.parametrize("kind", LINES)
def test_lines_that_are_not_what_they_were_are_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "rounds.jsonl"
    lines = written(path).splitlines(keepends=True)
    path.write_bytes(b"".join(LINES[kind](lines)))
    with pytest.raises(CheckpointError, match=r"rounds\.jsonl, line [23]: "):
        read(path)


def test_fewer_lines_than_rounds_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rounds.jsonl"
    path.write_bytes(written(path)[:-1])
    with pytest.raises(CheckpointError, match=r"expected the logs of 5 rounds, got fewer: 4"):
        read(path)


def test_lines_from_before_checksums_are_read(tmp_path: Path) -> None:
    path = tmp_path / "rounds.jsonl"
    plain = []
    for line in written(path).splitlines():
        data = json.loads(line)
        data.pop("crc32")
        plain.append(json.dumps(data).encode() + b"\n")
    path.write_bytes(b"".join(plain))
    assert read(path) == [repr(log(t)) for t in range(5)]


def test_the_name_of_a_new_file_is_made_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    real = os.fsync

    def noted(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    LogFile(tmp_path / "rounds.jsonl", 0)
    assert synced == [str(tmp_path)]
