"""Odd environments: the same bits, or one clear error and the same bits afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.environments import CASES, Case, run_in
from tests.studies.running import assert_same, contents

FEW = (
    "no coercion, workers",
    "TMPDIR={missing}",
    "a bad engine",
    "cwd deleted",
    "all closed",
    "stderr nobody reads",
)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("usual") / "study"
    done = run_in(Case(), folder)
    assert done.returncode == 0, done.stderr
    return contents(folder / "runs")


def check(case: Case, folder: Path, expected: dict[str, Any]) -> None:
    done = run_in(case, folder)
    assert "Traceback" not in done.stderr
    if case.error:
        assert done.returncode in (1, 2), done.stderr
        assert case.error in done.stderr
    if case.error or case.ends:
        done = run_in(Case(), folder)  # resumed in the usual one
    assert done.returncode == 0, done.stderr
    assert_same(contents(folder / "runs"), expected)


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("name", FEW)
def test_a_few_odd_environments(name: str, tmp_path: Path, expected: dict[str, Any]) -> None:
    check(CASES[name], tmp_path / "study", expected)


@pytest.mark.full
@pytest.mark.process
@pytest.mark.parametrize("name", [name for name in CASES if name not in FEW])
def test_many_odd_environments(name: str, tmp_path: Path, expected: dict[str, Any]) -> None:
    check(CASES[name], tmp_path / "study", expected)


def test_there_are_at_least_half_a_hundred() -> None:
    assert len(CASES) >= 49
