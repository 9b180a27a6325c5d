"""The wheel, installed outside the tree, is complete and works from another directory."""

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from understudy.simulation.training.kernels.compile import (
    INSTALLED,
    SIZES,
    file_name,
    supported,
)

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


def run(*command: str | Path, cwd: Path, **settings: str) -> str:
    """Run a command as a user would: nothing of this process's Python settings leaks in."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= settings
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{command} failed:\n{done.stdout}\n{done.stderr}"
    return done.stdout.strip()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the source distribution, so that this one is complete too."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def wheel_without_compiler(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of a machine whose compiler fails."""
    folder = tmp_path_factory.mktemp("dist-without")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT,
        cwd=folder, CC="false")  # fmt: skip
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment that holds the wheel and borrows the dependencies of this one."""
    return outside(wheel, tmp_path_factory.mktemp("outside") / "venv")


def outside(wheel: Path, folder: Path) -> Path:
    """Install a wheel into a new environment.

    The borrowed folder comes last on the path, and the .pth files in it, such as that of an
    editable install, are not read there: only the wheel can answer to ``import understudy``.
    """
    venv.create(folder, symlinks=True, with_pip=False)
    python = folder / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--no-deps",
        wheel, cwd=folder)  # fmt: skip
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


def test_wheel_has_the_license_and_every_file_of_the_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        assert "License-Expression: Apache-2.0" in archive.read(metadata).decode()
        (license_file,) = (name for name in names if name.endswith("licenses/LICENSE"))
        assert archive.read(license_file) == (ROOT / "LICENSE").read_bytes()
    source = ROOT / "src"
    expected = {
        path.relative_to(source).as_posix()
        for path in (source / "understudy").rglob("*")
        if path.is_file() and path.parent.name != "__pycache__" and path.suffix != ".so"
    }
    assert "understudy/py.typed" in expected
    assert expected <= names


def test_installed_wheel_is_the_one_imported(installed: Path, tmp_path: Path) -> None:
    code = "import understudy; print(understudy.__file__, understudy.__version__)"
    file, version = run(installed / "bin" / "python", "-c", code, cwd=tmp_path).split()
    assert Path(file).is_relative_to(installed)
    assert version in run(installed / "bin" / "understudy", "--version", cwd=tmp_path)


def test_installed_command_runs_a_study(installed: Path, tmp_path: Path) -> None:
    """Its worker processes, its built-in study and the page's template are those of the wheel."""
    command = (installed / "bin" / "understudy", "run", "--rounds", "2", "--seeds", "1")
    said = run(*command, cwd=tmp_path)
    assert said.endswith("Report: runs/quickstart/report.html")
    assert (tmp_path / "runs" / "quickstart" / "report.html").is_file()


COMPILED = {file_name(isa, bits) for isa in INSTALLED for bits in SIZES}
WHICH_BUILD = (
    "from understudy.simulation.training.kernels.library import Unavailable, chosen_isa\n"
    "try: print(chosen_isa())\n"
    "except Unavailable as error: print(error)"
)


def test_wheel_carries_the_compiled_kernels(wheel: Path, installed: Path, tmp_path: Path) -> None:
    if not supported():
        pytest.skip("the kernels are compiled on x86-64 Linux only")
    assert {Path(name).name for name in zipfile.ZipFile(wheel).namelist()} >= COMPILED
    assert wheel.stem.split("-")[2:4] == ["py3", "none"]
    assert wheel.stem.endswith("linux_x86_64")
    chosen = run(
        installed / "bin" / "python", "-c", WHICH_BUILD, cwd=tmp_path, UNDERSTUDY_ENGINE=""
    )
    assert chosen in INSTALLED or "this processor" in chosen


def test_without_a_compiler_the_build_succeeds_and_the_loop_trains(
    wheel_without_compiler: Path, tmp_path: Path
) -> None:
    names = zipfile.ZipFile(wheel_without_compiler).namelist()
    assert not [name for name in names if name.endswith(".so")]
    assert wheel_without_compiler.stem.endswith("py3-none-any")
    place = outside(wheel_without_compiler, tmp_path / "venv")
    said = run(place / "bin" / "python", "-c", WHICH_BUILD, cwd=tmp_path, UNDERSTUDY_ENGINE="")
    assert "not compiled" in said
    command = (place / "bin" / "understudy", "run", "--rounds", "2", "--seeds", "1")
    assert run(*command, cwd=tmp_path).endswith("Report: runs/quickstart/report.html")
