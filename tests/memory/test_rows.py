"""RowStore: one row per client, whole after a crash, wherever the rows lie."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from understudy.memory import rows
from understudy.memory.rows import RowStore, spare_slots, stride_bytes

DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int32,
    torch.int64,
    torch.uint8,
]
MOST_CLIENTS = 40


def row_number(number: int, width: int, dtype: torch.dtype) -> torch.Tensor:
    """A row that differs from its neighbours in every entry, and survives any of the types."""
    return ((torch.arange(width) * 3 + number * 7) % 128).to(dtype)


def bits(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().view(torch.uint8).numpy().tobytes()


class Rows(RuleBasedStateMachine):
    """A RowStore beside a plain dictionary; subclasses say where the rows lie."""

    in_file = False

    @initialize(
        n_rows=st.sampled_from([1, 2, 5, 20, 24]),
        width=st.sampled_from([1, 3, 16, 33]),
        dtype=st.sampled_from(DTYPES),
    )
    def start(self, n_rows: int, width: int, dtype: torch.dtype) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "memory.rows" if self.in_file else None
        self.width, self.dtype, self.numbers = width, dtype, 0
        self.store = RowStore(n_rows, width, dtype, path=self.path)
        self.model: dict[int, torch.Tensor] = {}
        self.committed_model: dict[int, torch.Tensor] = {}
        self.committed_slot = np.full(n_rows, -1)
        self.committed_bytes: dict[int, bytes] = {}  # slot: what the file holds there
        self.taken = 0  # slots taken since the commit
        self.views: list[tuple[int, torch.Tensor, bytes]] = []  # borrowed rows

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            self.views.clear()
            self.folder.cleanup()

    def client(self, number: int) -> int:
        return number % self.store.n_rows

    def expected_slot(self, client: int) -> tuple[int, bool]:
        """The slot a new row of this client must go to, and whether that is a free one."""
        kept = set(self.committed_bytes)
        now = int(self.store.slot[client])
        if now >= 0 and now not in kept:
            return now, False
        used = kept | {int(s) for s in self.store.slot if s >= 0}
        return next(s for s in range(len(used) + 1) if s not in used), True

    @rule(number=st.integers(0, MOST_CLIENTS))
    def put(self, number: int) -> None:
        client = self.client(number)
        slot, anew = self.expected_slot(client)
        row = row_number(self.numbers, self.width, self.dtype)
        self.numbers += 1
        self.views = [view for view in self.views if view[0] != client]
        self.store.put(client, row)
        self.model[client] = row
        self.taken += anew
        assert self.store.slot[client] == slot, "the lowest free slot comes first"

    @rule(start=st.integers(0, MOST_CLIENTS), count=st.integers(1, MOST_CLIENTS))
    def scatter(self, start: int, count: int) -> None:
        for number in range(min(count, self.store.n_rows)):
            self.put(start + number)

    @rule(number=st.integers(0, MOST_CLIENTS))
    def drop(self, number: int) -> None:
        client = self.client(number)
        self.views = [view for view in self.views if view[0] != client]
        self.store.drop(client)
        self.model.pop(client, None)

    @rule(numbers=st.lists(st.integers(0, MOST_CLIENTS), max_size=6))
    def gather(self, numbers: list[int]) -> None:
        clients = np.array([self.client(number) for number in numbers], dtype=np.int64)
        rows = self.store.gather(clients)
        assert rows.shape == (len(clients), self.width)
        for client, row in zip(clients.tolist(), rows, strict=True):
            assert bits(row) == bits(self.model.get(client, torch.zeros_like(row)))
        before = [bits(self.store.get(client)) for client in clients.tolist()]
        rows.fill_(1)  # a copy: the store does not see it
        assert [bits(self.store.get(client)) for client in clients.tolist()] == before

    @rule(number=st.integers(0, MOST_CLIENTS))
    def borrow(self, number: int) -> None:
        client = self.client(number)
        if client in self.model:
            view = self.store.get(client)
            self.views.append((client, view, bits(view)))

    @precondition(lambda self: self.store.n_rows < MOST_CLIENTS)
    @rule(more=st.integers(0, 10))
    def grow(self, more: int) -> None:
        self.store.grow(min(MOST_CLIENTS, self.store.n_rows + more))

    @rule()
    def commit(self) -> None:
        self.store.flush()
        self.store.committed()
        self.taken = 0
        if self.path is None:
            return
        self.committed_slot = self.store.slot.copy()
        self.committed_model = dict(self.model)
        self.committed_bytes = {
            int(slot): self.in_the_file(int(slot)) for slot in self.store.slot if slot >= 0
        }

    @precondition(lambda self: self.in_file)
    @rule(garbage=st.integers(0, 255))
    def crash(self, garbage: int) -> None:
        """Reopen from the committed slots; what was not committed may be anything by then."""
        self.store.close()
        self.views.clear()
        stride = stride_bytes(self.width, self.dtype)
        assert self.path is not None
        with open(self.path, "r+b") as file:
            for slot in range(self.path.stat().st_size // stride):
                if slot not in self.committed_bytes:
                    file.seek(slot * stride)
                    file.write(bytes([garbage]) * stride)
        self.store = RowStore(len(self.committed_slot), self.width, self.dtype, path=self.path)
        self.store.restore(self.committed_slot)
        self.model, self.taken = dict(self.committed_model), 0

    def in_the_file(self, slot: int) -> bytes:
        assert self.path is not None
        with open(self.path, "rb") as file:
            file.seek(slot * stride_bytes(self.width, self.dtype))
            return file.read(self.width * self.dtype.itemsize)

    @invariant()
    def rows_are_the_models(self) -> None:
        assert set(np.flatnonzero(self.store.known).tolist()) == set(self.model)
        block = self.store.block()
        for client in range(self.store.n_rows):
            row = self.store.get(client)
            assert row.dtype == self.dtype
            assert bits(row) == bits(self.model.get(client, torch.zeros_like(row)))
            slot = int(self.store.slot[client])
            if slot >= 0:
                assert block.owner[slot] == client
                assert bits(block.data[slot]) == bits(row)
        assert (block.owner >= 0).sum() == len(self.model), "a free slot has no owner"

    @invariant()
    def what_is_committed_is_never_written(self) -> None:
        for slot, content in self.committed_bytes.items():
            assert self.in_the_file(slot) == content

    @invariant()
    def borrowed_rows_stay(self) -> None:
        for client, view, content in self.views:
            assert bits(view) == content, f"a borrowed row of client {client} changed"

    @invariant()
    def rows_are_aligned(self) -> None:
        for client in self.model:
            assert self.store.get(client).data_ptr() % 64 == 0

    @invariant()
    def room_is_bounded(self) -> None:
        n = self.store.n_rows
        stride = stride_bytes(self.width, self.dtype)
        assert self.store.bytes() % stride == 0
        assert self.store.bytes() // stride <= 3 * n + spare_slots(n)
        assert self.store.crowded == (self.in_file and self.taken >= 2 * n)


class RowsInAFile(Rows):
    in_file = True


SETTINGS = settings(max_examples=60, stateful_step_count=30)
TestInMemory = Rows.TestCase
TestInMemory.settings = SETTINGS
TestInAFile = RowsInAFile.TestCase
TestInAFile.settings = SETTINGS


def test_stride_is_a_multiple_of_64_bytes() -> None:
    """1 byte, 64, 65 and 16 or 17 floats: 64, 64, 128, 64, 128 bytes from slot to slot."""
    assert stride_bytes(1, torch.uint8) == 64
    assert stride_bytes(64, torch.uint8) == 64
    assert stride_bytes(65, torch.uint8) == 128
    assert stride_bytes(16, torch.float32) == 64
    assert stride_bytes(17, torch.float32) == 128
    assert stride_bytes(0, torch.float32) == 64  # a slot always takes room


def test_spare_slots_are_a_quarter_and_at_least_16_and_at_most_one_each() -> None:
    assert [spare_slots(n) for n in (1, 16, 17, 64, 100, 10_000)] == [1, 16, 16, 16, 25, 2500]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rows_keep_their_type(tmp_path: Path, dtype: torch.dtype) -> None:
    """Extreme values of each type come back to the bit, from memory and from a reopened file."""
    if dtype.is_floating_point:
        info = torch.finfo(dtype)
        values = [info.max, info.min, info.tiny, info.eps, -0.0, float("nan"), float("inf")]
    else:
        values = [torch.iinfo(dtype).max, torch.iinfo(dtype).min, 0, 1, 2, 3, 4]
    row = torch.tensor(values, dtype=dtype)
    in_memory = RowStore(2, 7, dtype)
    in_memory.put(1, row)
    in_file = RowStore(2, 7, dtype, path=tmp_path / "a.rows")
    in_file.put(1, row)
    assert bits(in_memory.get(1)) == bits(row) == bits(in_file.get(1))
    in_file.flush()
    again = RowStore(2, 7, dtype, path=tmp_path / "a.rows")
    again.restore(in_file.slot)
    assert bits(again.get(1)) == bits(row)
    assert bits(again.get(0)) == bits(torch.zeros(7, dtype=dtype))


def test_a_row_is_converted_and_a_strided_one_is_taken_in_order(tmp_path: Path) -> None:
    for path in (None, tmp_path / "a.rows"):
        store = RowStore(1, 3, torch.float32, path=path)
        store.put(0, torch.tensor([1, 2, 3], dtype=torch.float64))
        assert store.get(0).tolist() == [1, 2, 3]
        store.put(0, torch.arange(6, dtype=torch.float32)[::2])
        assert store.get(0).tolist() == [0, 2, 4]
        store.put(0, torch.ones(3, requires_grad=True).detach())
        assert store.get(0).tolist() == [1, 1, 1]


@pytest.mark.parametrize("shape", [(2,), (4,), (1, 3), ()])
def test_a_row_of_another_shape_is_refused(tmp_path: Path, shape: tuple[int, ...]) -> None:
    for path in (None, tmp_path / "a.rows"):
        store = RowStore(1, 3, torch.float32, path=path)
        with pytest.raises(ValueError, match=r"row: expected shape \(3,\), got \("):
            store.put(0, torch.zeros(shape))
        assert not store.known.any()


def test_crowded_after_as_many_new_slots_as_are_spare(tmp_path: Path, monkeypatch) -> None:
    """N = 40 has 16 spare slots. A row written twice between commits takes one slot only."""
    monkeypatch.setattr(rows, "SMALL", 40 * 64 - 1)  # a byte less than 40 rows of 64 bytes take
    store = RowStore(40, 4, torch.float32, path=tmp_path / "a.rows")
    row = torch.ones(4)
    for client in range(15):
        store.put(client, row)
        store.put(client, row)
    assert not store.crowded
    store.put(15, row)
    assert store.crowded
    store.committed()
    assert not store.crowded
    in_memory = RowStore(40, 4, torch.float32)
    for client in range(40):
        in_memory.put(client, row)
    assert not in_memory.crowded  # nothing to commit


def test_a_small_file_is_crowded_only_by_clients_that_leave(tmp_path: Path) -> None:
    """40 clients of 64 bytes: 40 committed rows and 40 new ones, which are then overwritten.

    A row that is dropped leaves its slot to the next, which counts again: at 80 it is crowded."""
    path = tmp_path / "a.rows"
    store = RowStore(40, 16, torch.float32, path=path)
    for turn in range(6):
        for client in range(40):
            store.put(client, torch.full((16,), float(turn)))
        assert not store.crowded
        if turn == 0:
            store.committed()
    assert path.stat().st_size <= (80 + 16) * 64
    for left in range(1, 41):
        store.drop(0)
        store.put(0, torch.ones(16))
        assert store.crowded == (left == 40)
    assert path.stat().st_size <= (80 + 16) * 64


def test_all_rows_change_between_commits_and_the_file_stays_bounded(tmp_path: Path) -> None:
    """N = 40: 40 committed and 40 new rows at most are needed, so 80 slots, plus 16 spare."""
    path = tmp_path / "a.rows"
    store = RowStore(40, 100, torch.float32, path=path)
    for turn in range(20):
        for client in range(40):
            store.put(client, torch.full((100,), float(turn * 40 + client)))
        store.committed()
    assert path.stat().st_size <= (80 + 16) * stride_bytes(100, torch.float32)
    assert [store.get(client)[0].item() for client in range(40)] == [760 + c for c in range(40)]


def test_a_view_lives_on_when_the_file_is_extended(tmp_path: Path) -> None:
    """40 rows, 16 spare: the 57th slot makes the file longer and maps it anew."""
    store = RowStore(40, 8, torch.float64, path=tmp_path / "a.rows")
    for client in range(40):
        store.put(client, torch.full((8,), float(client), dtype=torch.float64))
    store.committed()
    views = [store.get(client) for client in range(40)]
    block, before = store.block(), store.bytes()
    for client in range(40):
        store.put(client, torch.full((8,), -1.0, dtype=torch.float64))
    assert store.bytes() > before
    assert [view[7].item() for view in views] == list(range(40))
    assert [block.data[slot, 0].item() for slot in range(40)] == list(range(40))
    assert all(store.get(client).eq(-1).all() for client in range(40))


def test_a_map_made_before_sees_what_is_written_after(tmp_path: Path) -> None:
    store = RowStore(2, 5, torch.float32, path=tmp_path / "a.rows")
    block = store.block()  # mapped while the file is one hole
    store.put(1, torch.arange(5.0))
    assert block.data[int(store.slot[1])].tolist() == [0, 1, 2, 3, 4]


def test_retired_rows_make_room_for_others() -> None:
    """In memory a dropped row's slot is free at once: of four clients at a time, the fourth finds
    the three first slots taken, and spare_slots(6) = 6 more are made; then no more are needed."""
    store = RowStore(3, 2, torch.float32)
    for number in range(10):
        store.grow(3 + number)
        store.put(number, torch.ones(2))
        if number >= 3:
            store.drop(number - 3)
    assert store.bytes() == (3 + 6) * 64
    assert store.slot.max() == 3


def test_a_failed_write_leaves_the_row_before(tmp_path: Path, monkeypatch) -> None:
    """No room for a new slot: the client still has the row it had, or none, and a commit later
    keeps that."""
    path = tmp_path / "a.rows"
    store = RowStore(3, 4, torch.float32, path=path)
    store.put(0, torch.full((4,), 5.0))
    store.flush()
    store.committed()

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    for client in (0, 1):
        with pytest.raises(OSError, match="No space left"):
            store.put(client, torch.full((4,), 6.0))
    monkeypatch.undo()
    assert store.known.tolist() == [True, False, False]
    assert store.get(0).tolist() == [5, 5, 5, 5]
    store.committed()
    store.put(2, torch.full((4,), 7.0))
    assert store.get(0).tolist() == [5, 5, 5, 5]  # its slot was not given away
    store.put(1, torch.full((4,), 8.0))
    assert [store.get(client)[3].item() for client in range(3)] == [5, 8, 7]


FULL_DISK = """
import resource, sys
from pathlib import Path
import torch
from understudy.memory.rows import RowStore

store = RowStore(40, 1000, torch.float32, path=Path(sys.argv[1]))
unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
# room for ten rows and a half: row 10 is cut, row 11 does not begin
resource.setrlimit(resource.RLIMIT_FSIZE, (10 * 4032 + 2000, unlimited[1]))
for client in range(12):
    try:
        store.put(client, torch.full((1000,), float(client)))
        print("put", client)
    except OSError as error:
        print("refused", client, error.errno)
print("read", [store.get(client)[999].item() for client in range(10)])
resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
for client in range(10, 40):
    store.put(client, torch.full((1000,), float(client)))
print("whole", all(bool((store.get(c) == c).all()) for c in range(40)))
store.committed()
# committed: every new row needs a new slot, and beyond the 56th the file itself must grow
resource.setrlimit(resource.RLIMIT_FSIZE, (56 * 4032, unlimited[1]))
try:
    for client in range(40):
        store.put(client, torch.full((1000,), -1.0))
except OSError as error:
    print("not extended", client, error.errno)
print("kept", [store.get(client)[0].item() for client in (15, 16, 17)])
resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
store.put(16, torch.full((1000,), -2.0))
print("goes on", store.get(16)[0].item(), store.get(17)[0].item())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no limit on the size of a file there")
def test_a_full_disk_is_an_error_and_not_a_signal(tmp_path: Path) -> None:
    """A limit on the file's size stands for the full disk. 40 rows of 4000 bytes (slots of 4032),
    16 spare slots. EFBIG is 27."""
    child = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path / "a.rows")],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert child.returncode == 0, child.stdout + child.stderr
    assert child.stdout.splitlines() == [
        *(f"put {client}" for client in range(10)),
        "refused 10 27",
        "refused 11 27",
        f"read {[float(client) for client in range(10)]}",
        "whole True",
        "not extended 16 27",
        "kept [-1.0, 16.0, 17.0]",
        "goes on -2.0 17.0",
    ]


UNKNOWN_ONLY = """
import os, sys
from pathlib import Path
import numpy as np
import torch
from understudy.memory.rows import RowStore

path = Path(sys.argv[1])
store = RowStore(40, 4096, torch.float32, path=path)
store.put(3, torch.ones(4096))
os.truncate(path, 4096 * 4)  # slot 0, which client 3 has, is all that is left of the file
known = store.gather(np.array([3, 0, 39]))
print("known", known.sum(dim=1).tolist())
os.truncate(path, 0)
print("unknown", float(store.gather(np.array([0, 1, 39])).abs().sum()), store.get(5).sum().item())
print("nobody", tuple(store.gather(np.zeros(0, dtype=np.int64)).shape))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a mapped file cannot be cut there")
def test_rows_of_unknown_clients_are_not_read_from_the_file(tmp_path: Path) -> None:
    """Reading a hole of a full tmpfs, like reading beyond a file's end, is SIGBUS: no error that
    a program could catch."""
    child = subprocess.run(
        [sys.executable, "-c", UNKNOWN_ONLY, str(tmp_path / "a.rows")],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert child.returncode == 0, f"{child.returncode}: {child.stdout}{child.stderr}"
    assert child.stdout.splitlines() == [
        "known [4096.0, 0.0, 0.0]",
        "unknown 0.0 0.0",
        "nobody (0, 4096)",
    ]


@pytest.mark.parametrize("in_file", [False, True])
def test_room_for_few_rows_grows_with_them(in_file: bool, tmp_path: Path) -> None:
    path = tmp_path / "rows" if in_file else None
    store = RowStore(1000, 4, torch.float32, path=path, slots=16)
    assert store.bytes() == (16 + (spare_slots(1000) if in_file else 0)) * 64
    for client in range(0, 1000, 2):
        store.put(client, torch.full((4,), float(client)))
    assert [float(store.get(client)[0]) for client in (0, 17, 998)] == [0.0, 0.0, 998.0]
    assert store.bytes() < 1100 * 64
    assert store.gather(np.arange(1000)).sum() == 4 * sum(range(0, 1000, 2))


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="the system cannot be told")
def test_slots_are_read_ahead_in_stretches_where_the_file_exceeds_the_cache(
    tmp_path: Path, monkeypatch
) -> None:
    """Width 16 of float32 is a stride of 64 bytes; of at most 128 bytes at once."""
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(
        os, "posix_fadvise", lambda fd, offset, size, advice: asked.append((offset, size))
    )
    monkeypatch.setattr(rows, "AT_ONCE", 128)
    store = RowStore(20, 16, torch.float32, path=tmp_path / "memory.rows")
    store.scatter(np.arange(20), torch.ones(20, 16))
    assert store.block().ahead is None  # the system has it in its cache
    assert RowStore(20, 16, torch.float32).block().ahead is None
    monkeypatch.setattr(rows, "cached_bytes", lambda: 0)
    ahead = store.block().ahead
    assert ahead is not None
    ahead(np.array([9, 2, 3, 4]))  # 2, 3, 4 lie side by side: 192 bytes from 128 on
    assert asked == [(128, 128), (256, 64), (576, 64)]
    monkeypatch.undo()
    store.close()
    ahead(np.array([2]))  # it is advice: a file that is closed, or cannot be told, is no error
