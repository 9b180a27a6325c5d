"""Checkpoints by somebody who knows the format: anything may be wrong, the checksum fits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from understudy.memory.tensor_stream import Entry, write


def contents_of(path: Path) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """What a checkpoint says of itself, and its tensors."""
    with safe_open(path, framework="pt") as file:
        about = json.loads(file.metadata()["understudy"])
        tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    return about, tensors


def write_crafted(path: Path, about: Mapping[str, Any], tensors: Mapping[str, Any]) -> None:
    """A file with these contents and the right checksum."""
    write(path, {name: Entry.of(name, value) for name, value in tensors.items()}, about)


def write_as_before(path: Path) -> None:
    """Write a checkpoint again as it was before there were checksums."""
    about, tensors = contents_of(path)
    about.pop("checksum")
    kept = {name: value for name, value in tensors.items() if not name.endswith(".crc")}
    save_file(kept, path, metadata={"understudy": json.dumps(about)})


def flipped(content: bytes, bit: int) -> bytes:
    """The same bytes with one bit flipped."""
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)
