"""Checksums of the database's rows: written with each row, verified when it is first read.

`checksum(…)` is a function of SQL on our connections: the CRC-32 of a row's values. Rows from
before there were checksums have NULL there, and are not verified.
"""

from __future__ import annotations

import sqlite3
import struct
from zlib import crc32

# table → what its checksum is of, in this order
COLUMNS = {
    "studies": ("name", "about", "version", "changed"),
    "study_cells": ("study", "position", "key", "labels", "seed"),
    "runs": ("key", "status", "error", "version", "resolved", "facts", "changed"),
    "rounds": (
        *("key", "t", "clock", "megabytes_up", "megabytes_down"),
        *("wanted", "asked", "came", "late", "refused", "metrics", "notes", "timings", "refusals"),
    ),
    "round_arrays": ("key", "t", "outcome", "ids", "source", "coef", "errors"),
    "round_totals": ("key", "t", "source", "coef", "others"),
    "client_metrics": ("key", "t", "position", "name", "value"),
    "client_counts": ("key", "name", "value"),
    "run_metrics": ("key", "name", "value"),
    "run_arrays": ("key", "name", "value"),
}
OF_A_RUN = ("runs", "rounds", "round_arrays", "round_totals", "client_metrics", "client_counts",
            "run_metrics", "run_arrays")  # fmt: skip


def checksum(*values: int | float | str | bytes | None) -> int:
    """CRC-32 of values as SQLite gives them; each with its type and length, so that none blend."""
    crc = 0
    for value in values:
        match value:
            case None:
                kind, data = b"n", b""
            case int():
                kind, data = b"i", str(value).encode()
            case float():
                kind, data = b"f", struct.pack("<d", value)
            case str():
                kind, data = b"s", value.encode(errors="surrogatepass")
            case _:
                kind, data = b"b", value
        crc = crc32(data, crc32(kind + len(data).to_bytes(8, "little"), crc))
    return crc


def define(connection: sqlite3.Connection) -> None:
    """Make `checksum` known to a connection."""
    connection.create_function("checksum", -1, checksum, deterministic=True)


def insert(table: str, how: str = "INSERT") -> str:
    """The statement that writes a row of all columns, with its checksum."""
    names = COLUMNS[table]
    values = ", ".join(f"?{place}" for place in range(1, len(names) + 1))
    columns = ", ".join((*names, "crc32"))
    return f"{how} INTO {table} ({columns}) VALUES ({values}, checksum({values}))"


def renew(table: str, where: str) -> str:
    """The statement that gives rows that were changed the checksum of what they are now."""
    return f"UPDATE {table} SET crc32 = checksum({', '.join(COLUMNS[table])}) WHERE {where}"


def damaged(table: str) -> str:
    """The condition of SQL under which a row does not fit its checksum."""
    return f"(crc32 IS NOT NULL AND crc32 != checksum({', '.join(COLUMNS[table])}))"
