"""Traces of any kind that is known, told apart by how the file begins."""

from __future__ import annotations

from pathlib import Path

from understudy.parts.recordings.fedscale import read_fedscale
from understudy.parts.recordings.flash import read_flash
from understudy.parts.recordings.recording import Recording, existing
from understudy.parts.recordings.two_state import read_two_state


def read_recording(file: str | Path) -> tuple[str, Recording]:
    """What the file is a trace for (the name of the availability), and what is in it."""
    path = existing(file, "a trace: a CSV device,t_s,state, FLASH's JSON or FedScale's pickle")
    with path.open("rb") as content:
        start = content.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")
    if start[:1] in (b"{", b"["):
        return "flash_trace", read_flash(path)
    if start[:1] == b"\x80" or start[:2] in (b"(d", b"}q"):
        return "fedscale_trace", read_fedscale(path)
    return "trace", read_two_state(path)
