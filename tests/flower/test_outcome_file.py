"""outcomes.jsonl: on disk when a round is, without a power cut in the way; a bad line is named."""

import json
from pathlib import Path

import pytest

from tests.power_cut import PowerCut
from understudy import CheckpointError, Outcome
from understudy.flower import read_outcomes
from understudy.flower.outcomes import FILE, ClientOutcome, OutcomeFile


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


@pytest.mark.parametrize(
    "line",
    [
        "no JSON",
        "[]",
        "3",
        "[" * 100_000,
        '{"t": 1}',
        '{"t": 1, "client": 0, "id": "a", "outcome": "went"}',
        '{"t": 1, "client": 0, "id": "a", "outcome": 3}',
        '{"t": 1, "client": 0, "id": "a", "outcome": "came", "more": 1}',
        "\udcff",
    ],
)
def test_a_line_that_is_no_outcome_is_named(line, tmp_path):
    written(tmp_path, 2)
    path = tmp_path / FILE
    lines = path.read_bytes().splitlines(keepends=True)
    lines.insert(2, line.encode("utf-8", "surrogateescape") + b"\n")
    path.write_bytes(b"".join(lines))
    with pytest.raises(CheckpointError, match=r"outcomes\.jsonl, line 3: no outcome"):
        read_outcomes(tmp_path)


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
