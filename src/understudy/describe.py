"""Parts as plain data: to tell whose checkpoint it is, and to name what differs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import partial
from types import CodeType
from typing import Any
from zlib import crc32

import numpy as np
import torch


def describe(part: Any) -> Any:
    """A part as plain data: its class and its hyper-parameters, nested."""
    if dataclasses.is_dataclass(part) and not isinstance(part, type):
        values = {
            item.name: describe(getattr(part, item.name)) for item in dataclasses.fields(part)
        }
        return {"class": _name(type(part)), **values}
    if isinstance(part, list | tuple):
        return [describe(item) for item in part]
    if isinstance(part, np.generic):
        return part.item()
    if part is None or isinstance(part, bool | int | float | str):
        return part
    if isinstance(part, partial):
        settings = {"arguments": describe(part.args), **describe(part.keywords)}
        return {"class": "partial", "function": describe(part.func), **settings}
    if isinstance(part, torch.Tensor | np.ndarray):
        array = np.asarray(part.detach().cpu() if isinstance(part, torch.Tensor) else part)
        return f"{array.dtype}{array.shape} {crc32(array.tobytes()):08x}"
    if isinstance(part, Mapping):
        return {str(name): describe(value) for name, value in part.items()}
    if isinstance(part, torch.nn.Module):
        public = {name: value for name, value in vars(part).items() if not name.startswith("_")}
        return {"class": _name(type(part)), **describe(public), **describe(part.state_dict())}
    if isinstance(part, type) or hasattr(part, "__qualname__"):
        return _name(part)
    if " at 0x" in repr(part):  # an object without words of its own: its next life is elsewhere
        return {"class": _name(type(part)), **describe(vars(part))}
    return repr(part)


def differences(ours: Any, theirs: Any, place: str = "") -> list[str]:
    """Where two descriptions differ, each as a sentence."""
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        if ours.get("class") != theirs.get("class"):
            return [
                f"{place or 'strategy'} is {theirs.get('class')} there, {ours.get('class')} here"
            ]
        names = dict.fromkeys([*ours, *theirs])
        return [
            sentence
            for name in names
            for sentence in differences(
                ours.get(name), theirs.get(name), f"{place}.{name}" if place else name
            )
        ]
    same = ours == theirs and type(ours) is type(theirs)  # 1 and 1.0 mean different things as m
    return [] if same else [f"{place} is {theirs!r} there, {ours!r} here"]


def _name(thing: Any) -> str:
    """Short for our own, with its module for other people's; a lambda is told by its code."""
    module = getattr(thing, "__module__", "")
    name = getattr(thing, "__qualname__", repr(thing))
    if "<lambda>" in name and hasattr(thing, "__code__"):
        name += f" {crc32(_code(thing.__code__)):08x}"
    return name if module.partition(".")[0] == "understudy" else f"{module}:{name}"


def _code(code: CodeType) -> bytes:
    """What a function does, without where it stands or lies in memory."""
    constants = [_code(c) if isinstance(c, CodeType) else repr(c).encode() for c in code.co_consts]
    return code.co_code + b" ".join(constants) + " ".join(code.co_names).encode()
