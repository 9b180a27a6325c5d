"""MATLAB files that are damaged or crafted: read, or one error that names the file."""

from __future__ import annotations

import gzip
import json
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from understudy.simulation.data.formats import read_idx, read_svhn

FUZZED = 400
CRASHES = FUZZED // 50  # SciPy's own: data set files are trusted input (SECURITY.md)


def written(path: Path, *, compressed: bool = True) -> Path:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (32, 32, 3, 2), dtype=np.uint8)
    labels = np.array([[3], [10]], dtype=np.uint8)
    savemat(path, {"X": images, "y": labels}, do_compression=compressed)
    return path


def test_a_stream_that_is_cut_or_damaged_is_our_error(tmp_path: Path) -> None:
    whole = written(tmp_path / "whole.mat").read_bytes()
    path = tmp_path / "damaged.mat"
    for content in (
        b"",
        whole[:60],
        whole[:200],
        whole[: len(whole) // 2],
        whole[:160] + b"\xff" * 40 + whole[200:],  # zlib.error
        whole[:140] + b"\0" * 100,
    ):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"damaged\.mat: expected"):
            read_svhn(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(ValueError, match=r"damaged\.mat: expected"):
        read_svhn(path)


def test_sizes_are_checked_before_they_are_allocated(tmp_path: Path) -> None:
    """A header of 300 GB in a file of 6 kB."""
    path = written(tmp_path / "large.mat", compressed=False)
    content = path.read_bytes()
    shape = struct.pack("<4i", 32, 32, 3, 2)
    assert content.count(shape) == 1
    path.write_bytes(content.replace(shape, struct.pack("<4i", 32, 32, 3, 100_000_000)))
    with pytest.raises(ValueError, match=r"X of shape \(32, 32, 3, 100000000\) does not fit"):
        read_svhn(path)


@pytest.mark.parametrize("labels", [[[1.5], [2.0]], [[np.nan], [1.0]], [["a"], ["b"]]])
def test_labels_are_digits(tmp_path: Path, labels: list[list[object]]) -> None:
    path = tmp_path / "labels.mat"
    savemat(path, {"X": np.zeros((32, 32, 3, 2), dtype=np.uint8), "y": np.array(labels)})
    with pytest.raises(ValueError, match=r"labels\.mat: expected labels"):
        read_svhn(path)


def test_a_damaged_gzip_file_is_our_error(tmp_path: Path) -> None:
    path = tmp_path / "images.gz"
    content = gzip.compress(b"\0\0\x08\x01\0\0\0\x04abcd" * 50)
    path.write_bytes(content[:14] + b"\xff" * 8 + content[22:])
    with pytest.raises(zlib.error):  # what gzip raises is not an OSError
        gzip.decompress(path.read_bytes())
    with pytest.raises(ValueError, match=r"images\.gz: expected a whole gzip file"):
        read_idx(path)


# Runs apart from the tests: a crafted file may crash SciPy. Prints what became of each file.
FUZZER = """
import json, sys, warnings
from pathlib import Path
import numpy as np
from understudy.simulation.data.formats import read_svhn

folder, first, last = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
wholes = [(folder / name).read_bytes() for name in ("compressed.mat", "plain.mat")]
path = folder / "fuzzed.mat"
warnings.simplefilter("ignore")
for seed in range(first, last):
    rng = np.random.default_rng(seed)
    content = bytearray(wholes[seed % 2])
    for _ in range(int(rng.integers(1, 6))):
        # most of a file are pixels: half of the damage goes to the headers
        place = int(rng.integers(128, 260 if rng.random() < 0.5 else len(content)))
        content[place : place + 1] = bytes(rng.integers(0, 256, int(rng.integers(0, 3))).tolist())
    path.write_bytes(content)
    print(seed, end=" ", flush=True)
    try:
        images, labels = read_svhn(path)
        print("read", images.shape[1:] == (3, 32, 32) and len(images) == len(labels), flush=True)
    except ValueError as error:
        print("refused", str(error).startswith(str(path)), flush=True)
    except BaseException as error:
        print("raised", json.dumps(repr(error)), flush=True)
"""


@pytest.mark.process
@pytest.mark.slow
def test_fuzzed_files_are_read_or_refused(tmp_path: Path) -> None:
    written(tmp_path / "compressed.mat")
    written(tmp_path / "plain.mat", compressed=False)
    outcomes: dict[int, list[str]] = {}
    crashed: list[int] = []
    first = 0
    while first < FUZZED:
        done = subprocess.run(
            [sys.executable, "-c", FUZZER, str(tmp_path), str(first), str(FUZZED)],
            capture_output=True,
            text=True,
            timeout=250,
        )
        for line in done.stdout.splitlines():
            seed, *outcome = line.split(" ", 2)
            outcomes[int(seed)] = outcome
        last = max(outcomes, default=first)
        first = last + 1
        if done.returncode != 0:
            assert done.returncode < 0, done.stderr
            crashed.append(last)
            del outcomes[last]
    assert len(outcomes) + len(crashed) == FUZZED
    assert [o for o in outcomes.values() if o not in (["read", "True"], ["refused", "True"])] == []
    assert len(crashed) <= CRASHES, json.dumps(crashed)
    kinds = [outcome[0] for outcome in outcomes.values()]
    assert min(kinds.count("read"), kinds.count("refused")) > FUZZED // 20
