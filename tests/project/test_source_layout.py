"""The tree keeps its layers, its folders stay small, and the architecture page lists all of it."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tools import architecture

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "understudy"
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py")
AT_MOST = 20  # modules in a folder


def lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    """The contracts of ``pyproject.toml``, checked for the package below ``root/src``."""
    program = "from importlinter.cli import lint_imports; raise SystemExit(lint_imports())"
    return subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, 'src'); {program}"],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root / "src")},
        capture_output=True,
        text=True,
    )


def copied(folder: Path) -> Path:
    shutil.copytree(PACKAGE, folder / "src" / "understudy")
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def test_imports_go_down(tmp_path):
    checked = lint_imports(copied(tmp_path))
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("core/rng.py", "def f():\n    from understudy.studies import store\n", "The package"),
        ("parts/local.py", "import understudy.simulation\n", "The package"),
        ("studies/store/schema.py", "from understudy.studies.report import figures\n", "Studies"),
        ("simulation/data/models.py", "from understudy.simulation.training import pool\n", "Simul"),
        ("core/rng.py", "def f():\n    from understudy.core import types\n", "No cycles"),
    ],
)
def test_an_import_that_goes_up_is_found(module, line, contract, tmp_path):
    file = copied(tmp_path) / "src" / "understudy" / module
    if contract == "No cycles":
        checks = file.with_name("checks.py")  # which `types` imports
        checks.write_text(checks.read_text() + "\n\n" + line)
    file.write_text(file.read_text() + "\n\n" + line)
    checked = lint_imports(tmp_path)
    assert checked.returncode == 1
    broken = [text for text in checked.stdout.splitlines() if "BROKEN" in text]
    assert any(text.startswith(contract) for text in broken), checked.stdout


def test_what_only_type_checkers_see_is_no_import(tmp_path):
    file = copied(tmp_path) / "src" / "understudy" / "core" / "rng.py"
    guarded = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import understudy.studies\n"
    file.write_text(file.read_text() + "\n\n" + guarded)
    checked = lint_imports(tmp_path)
    assert checked.returncode == 0, checked.stdout


def test_no_folder_has_too_many_modules():
    sizes = Counter(path.parent for path in MODULES)
    too_many = {str(folder): n for folder, n in sizes.items() if n > AT_MOST}
    assert not too_many


def test_tests_lie_where_what_they_test_lies():
    """Or in a folder of its own kind: contracts, reference implementations, the project's pages."""
    kinds = {"browser", "contracts", "golden", "project", "properties", "reference", "stored"}
    tests = ROOT / "tests"
    folders = {path.parent.relative_to(tests) for path in tests.rglob("test_*.py")}
    assert Path() not in folders
    odd = [f for f in folders if f.parts[0] not in kinds and not (PACKAGE / f).is_dir()]
    assert not odd


def test_a_class_name_stands_for_one_thing():
    places: dict[str, list[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(str(path.relative_to(PACKAGE)))
    twice = {name: files for name, files in places.items() if len(files) > 1}
    assert not twice


def test_the_architecture_page_lists_every_module_in_its_own_words():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    layout = page[page.index("## Source layout") :]
    listed = re.findall(r"^\| `([\w/]+)` \|", layout, re.M)
    there = [str(path.relative_to(PACKAGE).with_suffix("")) for path in MODULES]
    assert sorted(listed) == there
    assert architecture.renewed(page, architecture.rows()) == page, "make architecture renews it"


def test_a_folder_without_a_heading_is_an_error():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    with pytest.raises(ValueError, match=r"headings: .* got \['journal'\]"):
        architecture.renewed(page.replace("### `journal/`", "### Journal"), architecture.rows())
