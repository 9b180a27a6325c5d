"""outcomes.jsonl: on disk when a round is; no damage is read as an outcome, and none vanishes."""

import json
import logging
import warnings
from pathlib import Path

import numpy as np
import pytest

from tests.crafted import flipped
from tests.power_cut import PowerCut
from understudy import Outcome
from understudy.flower import read_outcomes
from understudy.flower.rounds.outcomes import FILE, ClientOutcome, OutcomeFile


def records(t):
    return [
        ClientOutcome(t, 0, "clinic", Outcome.CAME, seconds=1.5),
        ClientOutcome(t, 1, "Zürich\n", Outcome.REFUSED, "not finite: NaN"),
    ]


def written(folder, rounds):
    file = OutcomeFile(folder / FILE, 0)
    for t in range(rounds):
        file.append(records(t))
    return [one for t in range(rounds) for one in records(t)]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="names of open files are needed")
def test_a_power_cut_leaves_the_rounds_that_were_appended(tmp_path, monkeypatch):
    folder, left = tmp_path / "run", tmp_path / "left"
    folder.mkdir()
    power = PowerCut(monkeypatch, folder)
    OutcomeFile(folder / FILE, 0)
    power.left(left)
    assert read_outcomes(left) == []  # there, and empty
    expected = written(folder, 3)
    power.left(left)
    assert read_outcomes(left) == expected
    resumed = OutcomeFile(folder / FILE, 2)  # the third was not committed
    power.left(left)
    assert read_outcomes(left) == expected[:4]
    resumed.append(records(2))
    power.left(left)
    assert read_outcomes(left) == expected
    assert [path.name for path in folder.iterdir()] == [FILE]


HOSTILE = [
    "",
    "no JSON",
    "[]",
    "3",
    "[" * 100_000,
    '{"t": 1}',
    '{"t": 1, "client": 0, "id": "a", "outcome": "went"}',
    '{"t": 1, "client": 0, "id": "a", "outcome": 3}',
    '{"t": 1, "client": 0, "id": "a", "outcome": "came", "more": 1}',
    '{"t": 1, "client": -1, "id": "a", "outcome": "came"}',
    '{"t": "1", "client": 0, "id": "a", "outcome": "came"}',
    '{"t": true, "client": 0, "id": "a", "outcome": "came"}',
    '{"t": 1, "client": 0, "id": ["a"], "outcome": "came"}',
    '{"t": 1, "client": 0, "id": "a", "outcome": "came", "seconds": "1"}',
    '{"t": 1, "client": 0, "id": "a", "outcome": "came", "seconds": NaN}',
    '{"t": 1e999, "client": 0, "id": "a", "outcome": "came"}',
    '{"t": ' + "9" * 400 + ".0}",
    '{"t": ' + "9" * 4000 + "}",
    '{"t": ' + "9" * 5000 + "}",
    '{"t": 1, "\x1b[2J": 2}',
    "\udcff",
    "a\rb",
]


@pytest.mark.parametrize("line", HOSTILE)
def test_a_line_that_is_no_outcome_is_named_and_costs_no_other_line(line, tmp_path, said):
    expected = written(tmp_path, 3)
    path = tmp_path / FILE
    lines = path.read_bytes().splitlines(keepends=True)
    lines.insert(2, line.encode("utf-8", "surrogateescape") + b"\n")
    path.write_bytes(b"".join(lines))
    with pytest.warns(UserWarning, match=r"outcomes\.jsonl, line 3: no outcome \(") as warned:
        assert read_outcomes(tmp_path) == expected
    assert len(str(warned[0].message)) < 400
    assert str(warned[0].message).isprintable()

    resumed = OutcomeFile(path, 2)
    assert "outcomes.jsonl, line 3: no outcome" in said.text
    assert path.read_bytes() == b"".join(lines[:5])  # the third round was not committed
    resumed.append(records(2))
    with pytest.warns(UserWarning, match=r"outcomes\.jsonl, line 3: no outcome"):
        assert read_outcomes(tmp_path) == expected


@pytest.fixture
def said(caplog):
    """What Flower's logger says."""
    logger = logging.getLogger("flwr")
    before, logger.propagate = logger.propagate, True
    yield caplog
    logger.propagate = before


def quietly_read(folder):
    """The records, and what was warned of."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        return read_outcomes(folder), "".join(str(one.message) for one in warned)


def test_no_flipped_bit_reads_as_another_outcome(tmp_path):
    """Every bit of four lines: what is read is what was written, without a line that is named."""
    expected = written(tmp_path, 2)
    path = tmp_path / FILE
    content = path.read_bytes()
    for bit in range(8 * len(content)):
        path.write_bytes(flipped(content, bit))
        number = content[: bit // 8].count(b"\n")
        found, said = quietly_read(tmp_path)
        assert f"line {number + 1}: no outcome" in said, bit
        # where the end of a line is damaged it takes the next one with it
        is_end = content[bit // 8] == ord("\n")
        assert found == expected[:number] + expected[number + 1 + is_end :], bit


def test_no_damaged_line_vanishes_on_resume(tmp_path):
    written(tmp_path, 2)
    path = tmp_path / FILE
    content, rng = path.read_bytes(), np.random.default_rng(0)
    for bit in rng.choice(8 * len(content), size=100, replace=False).tolist():
        path.write_bytes(flipped(content, bit))
        before = quietly_read(tmp_path)
        OutcomeFile(path, 2)  # all was committed
        assert path.read_bytes().removesuffix(b"\n") == flipped(content, bit).removesuffix(b"\n")
        assert quietly_read(tmp_path) == before


def test_many_damaged_lines_are_one_message(tmp_path):
    (tmp_path / FILE).write_bytes(b"?\n" * 10_000)
    found, said = quietly_read(tmp_path)
    assert found == []
    assert said.endswith("; and 9995 more lines")
    assert len(said) < 1000


@pytest.mark.parametrize(
    ("rest", "kept"),
    [
        (b"{", False),
        (b'{"t": ', False),
        (b'{"t": 1', False),
        (b'{"t": 2, "client": 0, "id', False),  # not committed: the round is repeated
        (b'{"t": 1, "client": 0, "id', True),  # committed, so it was whole once
        (b"\x00\x00\x00", True),
    ],
)
def test_a_line_cut_short_by_a_kill_is_no_damage_if_its_round_is_repeated(
    rest, kept, tmp_path, said
):
    expected = written(tmp_path, 2)
    path = tmp_path / FILE
    content = path.read_bytes()
    path.write_bytes(content + rest)
    assert read_outcomes(tmp_path) == expected
    OutcomeFile(path, 2)
    assert path.read_bytes() == content + (rest + b"\n" if kept else b"")
    assert ("outcomes.jsonl, line 5: no outcome" in said.text) == kept


def test_a_last_line_that_lacks_only_its_end_is_whole(tmp_path):
    expected = written(tmp_path, 2)
    path = tmp_path / FILE
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    assert read_outcomes(tmp_path) == expected
    OutcomeFile(path, 2)
    assert path.read_bytes() == content


def test_lines_from_before_there_were_checksums_are_read_and_kept(tmp_path):
    expected = written(tmp_path, 2)
    path = tmp_path / FILE
    plain = [json.loads(line) for line in path.read_bytes().splitlines()]
    old = b"".join(
        json.dumps({name: one[name] for name in one if name != "crc32"}).encode() + b"\n"
        for one in plain
    )
    path.write_bytes(old)
    assert read_outcomes(tmp_path) == expected
    OutcomeFile(path, 2).append(records(2))
    assert path.read_bytes().startswith(old)
    assert read_outcomes(tmp_path) == [*expected, *records(2)]


@pytest.mark.parametrize("target", ["precious", "nowhere"])
def test_outcomes_are_not_written_through_links(target, tmp_path):
    precious, path = tmp_path / "precious", tmp_path / FILE
    precious.write_text(json.dumps({"t": 0}) + "\n")
    path.symlink_to(tmp_path / target)
    with pytest.raises(OSError, match="is a symbolic link"):
        OutcomeFile(path, 0)
    path.unlink()
    file = OutcomeFile(path, 0)
    path.unlink()
    path.symlink_to(tmp_path / target)
    with pytest.raises(OSError, match="is a symbolic link"):
        file.append(records(0))
    assert precious.read_text() == json.dumps({"t": 0}) + "\n"
    assert not (tmp_path / "nowhere").exists()
