"""The words run: Python blocks of the README and the pages, and the examples in docstrings.

A page's blocks are one program, run from top to bottom in an empty folder. Where a ``text`` block
follows a ``python`` block directly, it is what that block prints; numbers with a decimal point may
differ a little, since another kind of CPU rounds otherwise.
"""

import contextlib
import dataclasses
import doctest
import importlib
import io
import re
from pathlib import Path

import pytest

import understudy
from tests.cli import Command
from tests.wording import quaint
from understudy import (
    Blind,
    FixedDropout,
    NormGuard,
    RoundEnd,
    RoundLog,
    RoundStart,
    Setup,
    Uniform,
    fdms,
    plots,
    registry,
)
from understudy.measures import MEASURES
from understudy.simulation import clustered_digits, simulate
from understudy.studies.definition import builtins

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [page for page in PAGES if "_build" not in page.relative_to(ROOT).parts]

BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```$(?:\n+^```text\n(?P<printed>.*?)^```$)?", re.M | re.S
)
# A file that a page shows and asks to save: it is there when the page's blocks run.
SAVED = re.compile(r"`(?P<name>[\w-]+\.toml)`:\n\n^```toml\n(?P<text>.*?)^```$", re.M | re.S)
LOGGING = ROOT / "docs" / "logging.md"  # played by a test of its own
TOLERANCE = 0.05  # of a printed number such as an accuracy


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def same(found: str, expected: str) -> bool:
    """Word by word the same, but for small differences of numbers with a decimal point."""
    ours, theirs = found.split(), expected.split()
    return len(ours) == len(theirs) and all(map(same_word, ours, theirs))


def same_word(found: str, expected: str) -> bool:
    number = re.compile(r"-?\d+\.\d+")
    if number.fullmatch(found) and number.fullmatch(expected):
        return abs(float(found) - float(expected)) <= TOLERANCE
    return found == expected


def test_the_comparison_of_what_is_printed_can_fail():
    assert same("round 3: 0.75\n", "round 3: 0.77")
    assert not same("round 3: 0.75", "round 4: 0.75")
    assert not same("round 3: 0.75", "round 3: 0.95")
    assert not same("one", "one two")
    assert not same("a.b", "a.c")


def play(page: Path) -> None:
    """Run a page's blocks in the current folder, and compare what they print."""
    text = read(page)
    for saved in SAVED.finditer(text):
        Path(saved["name"]).write_text(saved["text"], encoding="utf-8")
    names = {"__name__": "page"}
    for block in BLOCK.finditer(text):
        line = text.count("\n", 0, block.start("code"))
        # empty lines before it, so that an error names the line of the page
        program = compile("\n" * line + block["code"], str(page), "exec")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(program, names)
        if block["printed"] is not None:
            assert same(printed.getvalue(), block["printed"]), (
                f"{named(page)}, line {line}: prints\n{printed.getvalue()}"
            )


@pytest.mark.parametrize(
    "page", [page for page in PAGES if BLOCK.search(read(page)) and page != LOGGING], ids=named
)
def test_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    play(page)


def test_the_page_on_logging_writes_event_files(tmp_path, monkeypatch):
    """Of a simulation and of a study's cells; TensorBoard reads them as a person would see them."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    def scalars(folder, name):
        events = EventAccumulator(str(tmp_path / "logs" / folder)).Reload()
        return {event.step: event.value for event in events.Scalars(name)}

    monkeypatch.chdir(tmp_path)
    play(LOGGING)
    assert scalars("fdms", "came") == dict.fromkeys(range(5), 6)
    # a note of the part: nobody has a friend yet in round 0, and some have one later
    lacking = scalars("fdms", "no_candidate")
    assert list(lacking) == [0, 1, 2, 3, 4]
    assert 0 < lacking[4] < lacking[0] == 1
    accuracy = scalars("fdms", "test_accuracy")
    assert list(accuracy) == [0, 1, 2, 3, 4]
    assert 0.1 < accuracy[0] < accuracy[4] < 1

    rounds = understudy.results("runs/mine", level="round")
    for strategy in ("dropout", "fdms"):
        for seed in (0, 1):
            cell = rounds[(rounds["strategy"] == strategy) & (rounds["seed"] == seed)]
            stored = dict(zip(cell["t"], cell["test_accuracy"], strict=True))
            assert len(stored) == 3
            assert scalars(f"mine/{strategy}-{seed}", "test_accuracy") == pytest.approx(stored)


def same_results(found: str, expected: str) -> bool:
    """Word by word the same; another kind of CPU may move results by a point, and p by 0.05."""
    ours, theirs = found.split(), expected.split()
    return len(ours) == len(theirs) and all(map(same_result, ours, theirs))


def same_result(found: str, expected: str) -> bool:
    decimals = re.compile(r"<?[+−]?\d+\.(\d{2,3})")
    ours, theirs = decimals.fullmatch(found), decimals.fullmatch(expected)
    if ours is None or theirs is None:
        return found == expected
    one, other = (float(word.lstrip("<").replace("−", "-")) for word in (found, expected))
    return abs(one - other) <= (0.05 if len(ours[1]) == 3 else 1.0)


def test_the_readme_shows_the_table_that_a_first_run_prints(tmp_path, monkeypatch, capsys):
    (shown,) = re.findall(
        r"^```text\n(quickstart: .*?)^```$", read(ROOT / "README.md"), re.M | re.S
    )
    monkeypatch.chdir(tmp_path)
    said = Command(capsys, monkeypatch)("run", "--on", "here")
    assert said.code == 0, said.err
    assert same_results(said.out, shown), f"README.md: `understudy run` prints\n{said.out}"
    # the comparison can fail: other labels, other results, another p
    for changed in (
        ("stale", "mifa"),
        ("fdms       6.0    8", "fdms       6.0    7"),
        ("0.0", "0.9"),
    ):
        assert changed[0] in shown
        assert not same_results(said.out, shown.replace(*changed))
    assert max(map(len, said.out.splitlines())) <= 80


PROSE = [*PAGES, ROOT / "CHANGELOG.md", ROOT / "SECURITY.md"]
PROSE += sorted((ROOT / "examples").glob("*.ipynb"))
PROSE += sorted((SOURCE / "understudy" / "studies" / "report").glob("*.html"))


@pytest.mark.parametrize("page", PROSE, ids=named)
def test_a_page_has_no_quaint_words(page):
    assert quaint(read(page)) == []


@pytest.mark.parametrize("study", builtins.listed(), ids=lambda study: study.name)
def test_a_built_in_study_is_told_without_quaint_words(study):
    assert quaint(f"{study.title}. {study.shows}") == []


def test_quaint_words_are_found():
    assert quaint("It goes\non, Louder.") == ["goes on", "Louder"]
    assert quaint("ongoing on the wayside") == []


def test_no_block_is_overlooked():
    """Every fence that says python is one that the pattern above takes up."""
    for page in PAGES:
        text = read(page)
        assert len(BLOCK.findall(text)) == text.count("```python"), named(page)


def test_a_study_is_shown_as_toml_and_not_as_a_text_in_python():
    for page in PAGES:
        assert '.toml").write_text(' not in read(page), named(page)
    saved = [found["name"] for found in SAVED.finditer(read(ROOT / "docs" / "studies.md"))]
    assert saved == ["friends.toml"]


def with_examples():
    for path in sorted((SOURCE / "understudy").rglob("*.py")):
        if ">>> " in read(path):
            yield ".".join(path.relative_to(SOURCE).with_suffix("").parts)


@pytest.mark.parametrize("name", list(with_examples()))
def test_examples_in_docstrings(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize(
    "public", [place.partition(":")[2] for place in sorted(registry.PUBLIC.values())]
)
def test_every_registered_part_has_a_page(public):
    pages = [*(ROOT / "docs" / "algorithms").glob("*.md"), ROOT / "docs" / "attendance.md"]
    assert any(re.search(rf"`{public}\b", read(page)) for page in pages), (
        f"{public} is registered, but no page says what it does"
    )


@pytest.mark.parametrize("public", sorted(set(understudy.__all__) - {"__version__"}))
def test_every_public_name_is_in_the_reference(public):
    reference = read(ROOT / "docs" / "api.md")
    assert re.search(rf":: {public}$", reference, re.M), f"docs/api.md lacks {public}"


def section(heading: str) -> set[str]:
    """Words in backticks in a section of the reference."""
    reference = read(ROOT / "docs" / "api.md")
    level = re.search(rf"^(#+) {re.escape(heading)}$", reference, re.M)
    assert level, heading
    rest = reference[level.end() :]
    end = re.search(rf"^#{{1,{len(level[1])}}} ", rest, re.M)
    return set(re.findall(r"`(\w+)(?:\(\))?`", rest[: end.start() if end else None]))


@pytest.mark.parametrize(
    ("kind", "heading"),
    [
        (RoundLog, "RoundLog"),
        (Setup, "For those who write parts"),
        (RoundStart, "For those who write parts"),
        (RoundEnd, "For those who write parts"),
    ],
)
def test_the_reference_has_every_field(kind, heading):
    fields = {field.name for field in dataclasses.fields(kind)}
    properties = {name for name, value in vars(kind).items() if isinstance(value, property)}
    assert fields | properties <= section(heading)


def test_the_reference_has_every_column_of_a_runs_frame():
    federation = clustered_digits(n_clients=6, n_clusters=3, per_client=16)
    run = simulate(
        federation,
        fdms(sampler=Blind(Uniform(4)), guard=NormGuard()),
        model="softmax",
        availability=FixedDropout(0.3),
        oracle=True,
        rounds=3,
    )
    assert len(list(run)) == 3
    columns = set(run.frame().columns)
    assert {"came", "no_candidate", "guard_bound", "oracle_error_wanted", "sigma_f"} <= columns
    assert columns <= section("Columns of `run.frame()`") | section("Notes")


def test_the_reference_has_every_column_of_results_by_client(tmp_path):
    study = understudy.Study(
        name="small",
        data=clustered_digits(n_clients=6, n_clusters=3, per_client=16),
        model="softmax",
        strategies={"fdms": fdms()},
        availability={"missing": FixedDropout(0.3)},
        rounds=2,
        per_client_every=1,
    )
    study.run(tmp_path, jobs=1, progress=False)
    columns = set(understudy.results(tmp_path / "small", level="client").columns)
    assert {"client", "spoke_for_others", "group", "accuracy"} <= columns
    assert columns <= section('Columns of `results(…, level="client")`')


def test_the_reference_has_every_measure_and_every_plot():
    assert set(MEASURES) <= section("Measures")
    reference = read(ROOT / "docs" / "api.md")
    missing = [name for name in plots.__all__ if not re.search(rf":: {name}$", reference, re.M)]
    assert missing == []


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)", read(page)):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{named(page)}: {target}"
