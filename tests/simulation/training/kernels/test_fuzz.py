"""The boundary of the kernels under random cases: each answer equals the loop's, or is refused."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from understudy.simulation.training.kernels import compile as compilation
from understudy.simulation.training.kernels.library import NEEDS, processor_flags

ROOT = Path(__file__).parents[4]
MINUTES = float(os.environ.get("UNDERSTUDY_FUZZ_MINUTES", "3"))  # of each build, in the full tests
BUILDS = ("avx512", "avx2", "plain")

pytestmark = pytest.mark.process


def fuzz(*arguments: str, seconds: float = 280) -> tuple[int, str]:
    """The command's exit code and words."""
    if not compilation.supported():
        pytest.skip("the kernels are compiled on x86-64 Linux only")
    try:
        compilation.compiler()
    except compilation.CannotCompile as error:
        pytest.skip(str(error))
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation.training.kernels.fuzz", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, "UNDERSTUDY_ENGINE": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
    )
    return done.returncode, done.stdout


def counted(said: str, kind: str) -> int:
    """How many cases ended so."""
    found = re.search(rf"^ +([\d,]+)  {kind}$", said, re.MULTILINE)
    return int(found[1].replace(",", "")) if found else 0


def needed(isa: str) -> None:
    if not NEEDS.get(isa, set()) <= processor_flags():
        pytest.skip(f"this processor has no {isa}")


def test_cases_are_equal_to_the_loop_or_refused():
    code, said = fuzz("--cases", "300")
    assert code == 0, said
    assert counted(said, "equal") >= 75, said  # to refuse everything would be right, too
    assert counted(said, "refused") >= 50, said


def test_faults_that_are_put_in_are_found():
    code, said = fuzz("--planted")
    assert code == 0, said
    found = dict(line.split(": ") for line in said.splitlines() if line.count(": ") == 1)
    assert found == {
        "none": "equal",
        "a number": "other numbers",
        "no numbers": "other numbers",
        "beside the rows": "written elsewhere",
        "the parameters": "written elsewhere",
        "between the arrays": "written between arrays",
        "an error": "an error where the loop has an answer",
        "an assertion": "an unclear error",
        "a fault": "crash",
        "a loop without end": "hang",
        "a wait without end": "hang",
    }


@pytest.mark.slow
@pytest.mark.parametrize("isa", ["plain", "avx2"])
def test_nothing_is_found_under_the_sanitizers(isa):
    needed(isa)
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    code, said = fuzz("--sanitize", "--isa", isa, "--cases", "250", "--seed", "1")
    assert code == 0, said
    assert counted(said, "equal") >= 60, said


@pytest.mark.full
@pytest.mark.timeout(60 * MINUTES + 900)
@pytest.mark.parametrize("more", [(), ("--sanitize",)], ids=["as it is", "sanitized"])
@pytest.mark.parametrize("isa", BUILDS)
def test_minutes_of_cases(isa, more, request):
    """Of other seeds each time, as Hypothesis draws: `make test-full` prints the seed."""
    needed(isa)
    if more and shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    given = str(request.config.getoption("hypothesis_seed"))
    seed = given if given.isdigit() else "2"
    arguments = ("--isa", isa, "--seed", seed, "--minutes", str(MINUTES), *more)
    code, said = fuzz(*arguments, seconds=60 * MINUTES + 600)
    assert code == 0, said
    assert counted(said, "equal") >= counted(said, "refused") / 3, said
