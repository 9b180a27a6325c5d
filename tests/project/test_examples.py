"""The examples run: notebooks in a kernel of their own, the program at a small size."""

import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))

# In a process of its own: a kernel has threads, and warnings of Jupyter's own.
PLAY = """
import sys
import nbclient, nbformat

notebook = nbformat.read(sys.argv[1], as_version=4)
nbclient.NotebookClient(notebook, timeout=240, kernel_name="python3").execute()
nbformat.write(notebook, "played.ipynb")
"""


def played(name, folder):
    """The outputs of a notebook's cells, played in an empty folder: text, and kinds of data."""
    result = subprocess.run(
        [sys.executable, "-c", PLAY, str(EXAMPLES / name)],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=280,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    notebook = nbformat.read(folder / "played.ipynb", as_version=4)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    text = "".join(output.get("text", "") for output in outputs)
    return text, [kind for output in outputs for kind in output.get("data", {})]


def number_after(words, text):
    found = re.search(rf"{re.escape(words)} ([+-]?\d+\.?\d*)", text)
    assert found, f"no number after {words!r} in\n{text}"
    return float(found[1])


@pytest.mark.process
def test_own_data_and_model(tmp_path):
    text, kinds = played("own-data-and-model.ipynb", tmp_path)
    accuracy = number_after("stale:", text)
    assert 0.7 < accuracy < 1
    # the module that is taken away is the one that was evaluated
    assert number_after("accuracy", text) == pytest.approx(accuracy, abs=0.001)
    assert kinds.count("image/png") == 2


@pytest.mark.process
def test_a_study_and_its_report(tmp_path):
    text, kinds = played("study-and-report.ipynb", tmp_path)
    assert "21 cells done, 0 failed, 0 were there" in text
    page = (tmp_path / "runs" / "standing-in" / "report.html").read_text(encoding="utf-8")
    assert "standing-in" in page
    with_friends = number_after("fdms minus left out, friend present:", text)  # points
    assert with_friends > 5
    assert number_after("fdms minus left out, anyone missing:", text) < with_friends - 3
    assert kinds.count("image/png") == 1
    assert "minus left out, points</th>" in (tmp_path / "played.ipynb").read_text(encoding="utf-8")


@pytest.mark.process
def test_writing_parts(tmp_path):
    text, _ = played("writing-parts.ipynb", tmp_path)
    assert text.count("keeps its promises") == 2
    assert "broken: select says the same when called twice" in text
    ours, by_chance = (
        re.search(rf"{name}: accuracy (\S+), came (\d+) to (\d+) times", text)
        for name in ("ours", "by chance")
    )
    assert float(ours[1]) > 0.5
    # a sampler that looks at who came least often keeps counts together
    assert int(ours[3]) - int(ours[2]) < int(by_chance[3]) - int(by_chance[2])
    assert "coefficients sum to 1.000" in text


@pytest.mark.slow
@pytest.mark.process
def test_the_fair_comparison_at_a_small_size(tmp_path):
    program = [sys.executable, str(EXAMPLES / "compare_fairly.py"), "--rounds", "2", "--seeds", "1"]
    result = subprocess.run(
        program, capture_output=True, text=True, cwd=tmp_path, timeout=280, check=False
    )
    assert result.returncode == 0, result.stderr
    tables = result.stdout.strip().split("\n\n")
    assert len(tables) == 3
    for table in tables:
        _, head, *rows = table.splitlines()
        assert head.split()[:2] == ["strategy", "mean"]
        names = [row.split()[0] for row in rows]
        assert names == ["fedavg", "stale", "mifa", "fedar", "fedvarp", "fdms"]
    # everybody comes first and the local step is constant: two names for one method
    stale, mifa = (row.split()[1:] for row in tables[1].splitlines()[3:5])
    assert stale == mifa


@pytest.mark.process
def test_a_trainer_of_ones_own():
    program = [sys.executable, str(EXAMPLES / "own_trainer.py")]
    result = subprocess.run(program, capture_output=True, text=True, timeout=280, check=False)
    assert result.returncode == 0, result.stderr
    assert "PoolTrainer: accuracy" in result.stdout
    assert result.stdout.endswith("the same bits: True\n")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_is_kept_small_and_without_outputs(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert path.stat().st_size < 20_000
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert len(code) >= 5
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)


def test_every_notebook_is_played():
    names = {path.name for path in NOTEBOOKS}
    source = Path(__file__).read_text(encoding="utf-8")
    assert len(names) == 3
    assert names == set(re.findall(r'played\("([\w-]+\.ipynb)"', source))
