"""Pickles of others that hold plain data: dict, list, int, float and str, and nothing else.

A pickle is a program for a small machine, and the usual reader runs whatever it says. This one
knows those instructions only that make plain data; at any other it stops. Memory is spent on what
is in the file, never on what the file announces.
"""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

MOST_DIGITS = 400  # of a number written as text: more than any float has

_INT = {0x4B: "<B", 0x4D: "<H", 0x4A: "<i"}  # BININT1, BININT2, BININT
_TEXT = {0x8C: "<B", 0x58: "<I", 0x8D: "<Q", 0x55: "<B", 0x54: "<i"}  # by the width of its length
_PUT = {0x71: "<B", 0x72: "<I"}  # BINPUT, LONG_BINPUT
_GET = {0x68: "<B", 0x6A: "<I"}  # BINGET, LONG_BINGET


class _Refused(ValueError):
    """Something that no pickle of plain data has."""


def read_plain_pickle(path: Path) -> Any:
    """What a pickle of plain data holds; a ValueError names what else is in it."""
    try:
        return _Reader(path.read_bytes()).value()
    except (ValueError, IndexError, KeyError, TypeError, struct.error) as error:
        raise ValueError(
            f"{path}: expected a pickle of plain data (dict, list, int, float, str); "
            f"{_words(error)}"
        ) from error


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, _Refused) else "it is cut short or damaged"


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0
        self.stack: list[Any] = []
        self.marks: list[int] = []  # sizes of the stack at which lists of arguments begin
        self.memo: dict[int, Any] = {}

    def value(self) -> Any:
        while True:
            code = self._take(1)[0]
            if code == 0x2E:  # STOP
                (found,) = self.stack
                return found
            self._run(code)

    def _run(self, code: int) -> None:
        stack = self.stack
        if code in _INT:
            stack.append(self._number(_INT[code]))
        elif code in _TEXT:
            stack.append(self._take(self._number(_TEXT[code])).decode("utf-8", "surrogatepass"))
        elif code in _PUT or code == 0x94:  # MEMOIZE
            key = len(self.memo) if code == 0x94 else self._number(_PUT[code])
            self.memo[key] = stack[-1]
        elif code in _GET:
            stack.append(self.memo[self._number(_GET[code])])
        elif code == 0x47:  # BINFLOAT
            stack.append(self._number(">d"))
        elif code == 0x8A:  # LONG1
            stack.append(int.from_bytes(self._take(self._take(1)[0]), "little", signed=True))
        elif code in b"IFLSVgp":
            self._line(code, self._until_newline())
        elif code == 0x28:  # MARK
            self.marks.append(len(stack))
        elif code in b"]}":
            stack.append([] if code == 0x5D else {})
        elif code in b"ald\x65us":
            self._collect(code)
        elif code == 0x80:  # PROTO
            self._take(1)
        elif code == 0x95:  # FRAME
            self._take(8)
        else:
            raise _Refused(f"it asks for something else (instruction 0x{code:02x})")

    def _line(self, code: int, line: bytes) -> None:
        """Instructions of the oldest kind, whose argument is a line of text."""
        if code == 0x70:  # PUT
            self.memo[int(line)] = self.stack[-1]
        elif code == 0x67:  # GET
            self.stack.append(self.memo[int(line)])
        elif code == 0x56:  # UNICODE
            self.stack.append(line.decode("raw-unicode-escape"))
        elif code == 0x53:  # STRING
            if len(line) < 2 or line[:1] != line[-1:] or line[:1] not in (b"'", b'"'):
                raise _Refused("it has a text without quotes")
            self.stack.append(line[1:-1].decode("unicode-escape"))
        elif len(line) > MOST_DIGITS:
            raise _Refused(f"it has a number of {len(line):,} digits")
        elif code == 0x46:  # FLOAT
            self.stack.append(float(line))
        elif line in (b"00", b"01"):
            raise _Refused("it holds true or false")
        else:  # INT, LONG
            self.stack.append(int(line.rstrip(b"L")))

    def _collect(self, code: int) -> None:
        stack = self.stack
        if code == 0x61:  # APPEND
            items = [stack.pop()]
        elif code == 0x73:  # SETITEM
            items = stack[-2:]
            del stack[-2:]
        else:
            start = self.marks.pop()
            items = stack[start:]
            del stack[start:]
            if code in b"ld":  # LIST, DICT
                stack.append([] if code == 0x6C else {})
        target = stack[-1]
        if code in b"ael":
            if type(target) is not list:
                raise _Refused("it appends to what is no list")
            target.extend(items)
            return
        if type(target) is not dict or len(items) % 2:
            raise _Refused("it sets what is no entry of a dict")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if type(key) not in (int, float, str) or (type(key) is float and math.isnan(key)):
                raise _Refused(f"it has a {type(key).__name__} as a key")
            target[key] = value

    def _number(self, form: str) -> Any:
        return struct.unpack(form, self._take(struct.calcsize(form)))[0]

    def _take(self, size: int) -> bytes:
        if size < 0 or size > len(self.data) - self.place:
            raise IndexError(size)
        self.place += size
        return self.data[self.place - size : self.place]

    def _until_newline(self) -> bytes:
        end = self.data.index(b"\n", self.place)
        line = self.data[self.place : end]
        self.place = end + 1
        return line
