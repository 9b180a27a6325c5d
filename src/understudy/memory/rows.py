"""RowStore: one remembered row per client, in memory or in a file, safe against a kill.

Rows live in slots; `slot` says which client's row is where. A slot that the last commit points to
is never written: a new row of that client goes to the lowest free slot, and the old slot is free
again once the next commit no longer needs it. A row written since the commit is overwritten in
place. So the file always holds the last committed round whole, and never more is written than
the rows that changed.

A row in a file has a checksum, which a commit keeps beside its slot. A row that was there when the
file was opened is verified once, when it is first read; rows that this process wrote are not.
"""

from __future__ import annotations

import heapq
import os
import warnings
import zlib
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch

from understudy.core.files import file_named, no_link_opener
from understudy.core.types import Block, Ints
from understudy.memory.tensor_stream import CheckpointError, raw_bytes

ALIGNMENT = 64  # bytes: results of vectorised kernels may depend on how a row is aligned
SMALL = 64 * 2**20  # bytes of all rows: a file of no more may hold them three times
AT_ONCE = 2**20  # bytes to be read ahead by one request: of a larger one Linux reads a part


def stride_bytes(width: int, dtype: torch.dtype) -> int:
    """Distance between two slots: the row's bytes, rounded up to the alignment."""
    return -(-max(1, width) * dtype.itemsize // ALIGNMENT) * ALIGNMENT


def spare_slots(n_rows: int) -> int:
    """Slots beyond one per client: how many rows may change between two commits."""
    return min(n_rows, max(16, n_rows // 4))


@lru_cache(maxsize=1)
def cached_bytes() -> int:
    """Bytes of a file that, once read, likely stays in the system's cache."""
    return int(psutil.virtual_memory().total) // 4


class RowStore:
    """At most one row of `width` numbers for each of `n_rows` clients.

    With a `path` it is a file, mapped for reading and written with pwrite (so that a full disk is
    an error and not a signal), whose rows are on the CPU; else the rows live in anonymous memory.
    Where few clients have a row, there is room for `slots` at first.
    """

    def __init__(
        self,
        n_rows: int,
        width: int,
        dtype: torch.dtype,
        device: torch.device | str = "cpu",
        path: Path | None = None,
        slots: int | None = None,
    ) -> None:
        self.width, self.dtype, self.path = width, dtype, path
        self.device = torch.device("cpu" if path is not None else device)
        self.slot: Ints = np.full(n_rows, -1, dtype=np.int64)
        self._stride = stride_bytes(width, dtype)
        self._capacity = 0
        self._owner: Ints = np.zeros(0, dtype=np.int64)  # (capacity,) client of a slot, -1 free
        self._kept = np.zeros(0, dtype=np.bool_)  # (capacity,) the last commit points to it
        self._crc = np.zeros(0, dtype=np.uint32)  # (capacity,) of each row in the file
        self._doubted = np.zeros(0, dtype=np.bool_)  # (capacity,) to be verified when it is read
        self._free: list[int] = []  # heap: neither owned nor kept
        self._written = 0  # slots taken since the last commit
        self._dirty = False
        self._doubtful = False  # whether any row is to be verified
        self._unsealed = 0  # rows that were committed before there were checksums
        self._data: torch.Tensor  # (capacity, width)
        self._fd = -1
        if path is not None:
            self._fd = no_link_opener(str(path), os.O_RDWR | os.O_CREAT)
        at_first = n_rows if slots is None else min(slots, n_rows)
        self._extend(at_first + (spare_slots(n_rows) if path is not None else 0))

    # -- reading -------------------------------------------------------------------------------

    @property
    def n_rows(self) -> int:
        return len(self.slot)

    @property
    def known(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """(N,) whose row is there."""
        return self.slot >= 0

    def get(self, client: int) -> torch.Tensor:
        """A client's row, borrowed until it is written again; zeros where there is none."""
        slot = int(self.slot[client])
        if slot < 0:
            return torch.zeros(self.width, dtype=self.dtype, device=self.device)
        if self._doubted[slot]:
            self._verify(np.array([slot]))
        return self._data[slot]

    def gather(self, clients: Ints) -> torch.Tensor:
        """(len(clients), width): a copy of their rows, zeros where there is none."""
        wanted = self.slot[clients]
        self._verify(wanted[wanted >= 0])
        slots = torch.from_numpy(wanted).to(self.device)
        if bool((slots >= 0).all()):
            return self._data[slots]
        # a slot that nobody has may be a hole of the file: reading it can need room on the disk
        rows = torch.zeros((len(slots), self.width), dtype=self.dtype, device=self.device)
        rows[slots >= 0] = self._data[slots[slots >= 0]]
        return rows

    def part(self, clients: Ints, columns: Ints) -> torch.Tensor:
        """(len(clients), len(columns)): a copy of some entries of their rows, zeros where none."""
        there = np.flatnonzero(self.slot[clients] >= 0)
        slots = self.slot[clients[there]]
        self._verify(slots)
        place = torch.from_numpy(np.asarray(columns)).to(self.device)
        found = self._data[torch.from_numpy(slots).to(self.device)[:, None], place]
        if len(there) == len(clients):
            return found
        whole = found.new_zeros((len(clients), len(columns)))
        whole[torch.from_numpy(there).to(self.device)] = found
        return whole

    def block(self) -> Block:
        """All slots as one block: the row of client i is number `slot[i]`."""
        self._verify(self.slot[self.known])
        on_disk = self.path is not None and self.bytes() > cached_bytes()
        return Block(self._owner.copy(), self._data, self.read_ahead if on_disk else None)

    def read_ahead(self, slots: Ints) -> None:
        """Have the system begin to read slots of a file, and return at once.

        A sum goes through several rows in step; the system, which reads on where one left off, does
        not foresee that. Where the file is in its cache, this takes a fifth of the sum.
        """
        if not hasattr(os, "posix_fadvise"):
            return
        ordered = np.unique(slots)
        starts = np.flatnonzero(np.diff(ordered, prepend=-2) > 1)  # of stretches without a gap
        ends = [*starts[1:].tolist(), len(ordered)]
        for start, end in zip(starts.tolist(), ends, strict=True):
            stop = (int(ordered[end - 1]) + 1) * self._stride
            for offset in range(int(ordered[start]) * self._stride, stop, AT_ONCE):
                size = min(AT_ONCE, stop - offset)
                with suppress(OSError):  # advice only: not every file system takes it
                    os.posix_fadvise(self._fd, offset, size, os.POSIX_FADV_WILLNEED)

    @property
    def checksums(self) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
        """(N,) the checksum of each client's row in the file, 0 where there is none."""
        crc = np.zeros(self.n_rows, dtype=np.uint32)
        crc[self.known] = self._crc[self.slot[self.known]]
        return crc

    def verify(self) -> int:
        """Verify what was in the file when it was opened; how many rows have no checksum.

        Rows are verified when they are read; this is for whoever wants to know before.
        """
        self._verify(self.slot[self.known])
        return self._unsealed

    def _verify(self, slots: Ints) -> None:
        if not self._doubtful:
            return
        for slot in slots[self._doubted[slots]]:
            found = zlib.crc32(raw_bytes(self._data[slot]))
            if found != int(self._crc[slot]):
                raise CheckpointError(
                    f"{self.path}: damaged: the row of client {self._owner[slot]} does not fit its "
                    f"checksum (expected {int(self._crc[slot]):08x}, got {found:08x})"
                )
            self._doubted[slot] = False
        self._doubtful = bool(self._doubted.any())

    # -- writing -------------------------------------------------------------------------------

    def put(self, client: int, row: torch.Tensor) -> None:
        """Remember a row for a client, in place of the one before."""
        if row.shape != (self.width,):
            raise ValueError(f"row: expected shape ({self.width},), got {tuple(row.shape)}")
        before = int(self.slot[client])
        if before >= 0 and not self._kept[before]:
            self._write(before, row)
            return
        if not self._free:
            more = min(spare_slots(self.n_rows), max(16, self._capacity))
            self._extend(self._capacity + max(1, more))
        slot = self._free[0]
        self._write(slot, row)  # a full disk raises here, and nothing has changed
        heapq.heappop(self._free)
        self._written += 1
        if before >= 0:
            self._owner[before] = -1  # kept until the next commit, then free
        self.slot[client], self._owner[slot] = slot, client

    def scatter(self, clients: Ints, rows: torch.Tensor) -> None:
        """Remember several rows."""
        for client, row in zip(clients, rows, strict=True):
            self.put(int(client), row)

    def put_part(self, clients: Ints, columns: Ints, values: torch.Tensor) -> None:
        """Change some entries of their rows; where there was no row, its others are zeros.

        In memory nothing else is touched. A file gets whole rows, as by `put`.
        """
        place = torch.from_numpy(np.asarray(columns)).to(self.device)
        new = self.slot[clients] < 0
        if self.path is None and not new.any():
            slots = torch.from_numpy(self.slot[clients]).to(self.device)
            self._data[slots[:, None], place] = values
            return
        for client, row in zip(clients.tolist(), values, strict=True):
            whole = self.get(client).clone()
            whole[place] = row
            self.put(client, whole)

    def drop(self, client: int) -> None:
        """Forget a client's row."""
        slot = int(self.slot[client])
        if slot >= 0:
            self.slot[client], self._owner[slot] = -1, -1
            if not self._kept[slot]:
                heapq.heappush(self._free, slot)

    def erase_column(self, column: int) -> None:
        """Set one entry of every row to 0, as a new row has it; for rows that are over clients."""
        for client in np.flatnonzero(self.known):
            row = self.get(int(client))
            if row[column] != 0:
                row = row.clone()
                row[column] = 0
                self.put(int(client), row)

    def erase_free(self) -> None:
        """Overwrite what free slots still hold, such as the row of somebody who left for good."""
        nothing = torch.zeros(self.width, dtype=self.dtype, device=self.device)
        for slot in self._free:
            self._write(slot, nothing)
        self.flush()

    def grow(self, n_rows: int) -> None:
        """Make room for more clients; rows stay where they are."""
        self.slot = np.concatenate([self.slot, np.full(n_rows - self.n_rows, -1, dtype=np.int64)])

    # -- commits -------------------------------------------------------------------------------

    @property
    def crowded(self) -> bool:
        """Whether a commit would now be good: as many rows changed as a file has room for.

        That is the spare slots, so that a large file stays little larger than its rows. In a small
        one it is twice the rows, which only clients that leave can bring about: a commit waits for
        the disk three times, longer than many a round takes.
        """
        is_small = self.n_rows * self._stride <= SMALL
        room = 2 * self.n_rows if is_small else spare_slots(self.n_rows)
        return self.path is not None and self._written >= room

    def flush(self) -> None:
        """Force the rows to the disk: what a commit does before it points to them."""
        if self.path is not None and self._dirty:
            with file_named(self.path):
                os.fsync(self._fd)
            self._dirty = False

    def committed(self) -> None:
        """The current slots are now what the last commit points to; others are free again."""
        if self.path is None:
            return
        released = self._kept & (self._owner < 0)
        self._kept = self._owner >= 0
        for slot in np.flatnonzero(released):
            heapq.heappush(self._free, int(slot))
        self._written = 0

    def restore(self, slot: Ints, crc: np.ndarray[Any, np.dtype[np.uint32]] | None = None) -> None:
        """Take up a commit: the rows are in the file, each client's in its `slot` (N,), -1 without.

        Without their checksums `crc` (N,) rows are not verified.
        """
        if self.path is None or len(slot) != self.n_rows:
            raise ValueError(f"slot: expected a file and {self.n_rows} slots, got {len(slot)}")
        self._extend(int(slot.max(initial=-1)) + 1)
        self.slot = np.array(slot, dtype=np.int64)
        clients = np.flatnonzero(self.slot >= 0)
        self._owner[self.slot[clients]] = clients
        self._kept = self._owner >= 0
        self._free = [int(s) for s in np.flatnonzero(~self._kept)]  # sorted: a heap
        if crc is None:
            self._unsealed = len(clients)
            # from now on they have one: what is read next must be what is here now
            for place in self.slot[clients]:
                self._crc[place] = zlib.crc32(raw_bytes(self._data[place]))
        else:
            self._crc[self.slot[clients]] = crc[clients]
            self._doubted[self.slot[clients]] = True
            self._doubtful = bool(len(clients))

    def bytes(self) -> int:
        """What all slots take, in memory or on disk."""
        return self._capacity * self._stride

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            self.close()

    # -- slots ---------------------------------------------------------------------------------

    def _extend(self, capacity: int) -> None:
        old, capacity = self._capacity, max(capacity, self._capacity)
        size, added = capacity * self._stride, capacity - old
        if self.path is not None:
            if os.fstat(self._fd).st_size < size:
                os.ftruncate(self._fd, size)  # a hole: takes no disk until written
            raw = _read_only_map(self.path, size)
        else:
            raw = torch.empty(size, dtype=torch.uint8, device=self.device)
        rows = raw.view(capacity, self._stride).view(self.dtype)[:, : self.width]
        if self.path is None and old:
            rows[:old] = self._data
        # from here on nothing can fail
        self._data, self._capacity = rows, capacity
        self._owner = np.concatenate([self._owner, np.full(added, -1, dtype=np.int64)])
        self._kept = np.concatenate([self._kept, np.zeros(added, dtype=np.bool_)])
        self._crc = np.concatenate([self._crc, np.zeros(added, dtype=np.uint32)])
        self._doubted = np.concatenate([self._doubted, np.zeros(added, dtype=np.bool_)])
        for slot in range(old, capacity):
            heapq.heappush(self._free, slot)

    def _write(self, slot: int, row: torch.Tensor) -> None:
        if self.path is None:
            self._data[slot].copy_(row)
            return
        data = raw_bytes(row.to(self.dtype))
        self._crc[slot], self._doubted[slot] = zlib.crc32(data), False
        offset = slot * self._stride
        with file_named(self.path):
            while data:
                done = os.pwrite(self._fd, data, offset)
                data, offset = data[done:], offset + done
        self._dirty = True


def _read_only_map(path: Path, size: int) -> torch.Tensor:
    if size == 0:
        return torch.empty(0, dtype=torch.uint8)
    mapped = np.memmap(path, dtype=np.uint8, mode="r", shape=(size,))
    with warnings.catch_warnings():
        # torch warns that writing to it is undefined: nobody does, rows are written with pwrite
        warnings.simplefilter("ignore")
        return torch.from_numpy(mapped)
