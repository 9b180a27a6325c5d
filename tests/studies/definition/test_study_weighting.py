"""A study has one weighting for all its rows, and says where a stored one had another."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from tests.cli import Command
from tests.studies.texts import study
from understudy import Markov, Study, Uniform, fdms, fedavg, mdsample
from understudy.studies import StudyError
from understudy.studies.definition import builtins

ROWS = """\
[strategies]
fedavg = "fedavg"
fdms = "fdms"
fedgs = "fedgs"
mdsample = "mdsample"
parts = {compensator = "fdms"}
drawn = {method = "fedavg", sampler = {name = "blind", inner = "by_data"}}
own = {method = "fdms", weighting = "clients"}
paper = {method = "fedgs", weighting = "paper"}
"""
BY_DATA = {"mdsample": "clients", "drawn": "clients"}
OWN = {"own": "clients", "paper": "examples"}


def weightings(made: Study, *labels: str) -> dict:
    found = {}
    for cell in made.cells():
        place = [cell.labels[name] for name in ("strategy", *labels)]
        told = cell.resolved["strategy"]["weighting"]
        assert told == cell.task.strategy.weighting
        found[place[0] if len(place) == 1 else tuple(place)] = told
    return found


def expected(rest: str) -> dict[str, str]:
    return {"fedavg": rest, "fdms": rest, "fedgs": rest, "parts": rest, **BY_DATA, **OWN}


def test_one_weighting_for_all_rows() -> None:
    assert weightings(study(strategies=ROWS)) == expected("examples")
    assert weightings(study(strategies=ROWS, top='weighting = "examples"')) == expected("examples")
    assert weightings(study(strategies=ROWS, top='weighting = "clients"')) == expected("clients")


def test_each_papers_own() -> None:
    papers = expected("clients") | {"fedavg": "examples", "fedgs": "examples"}
    # by examples in the method's paper: two samplers by examples do not go together
    rows = ROWS.replace('drawn = {method = "fedavg",', 'drawn = {method = "fdms",')
    assert weightings(study(strategies=rows, top='weighting = "paper"')) == papers
    assert weightings(study(strategies=rows, overrides=["weighting=paper"])) == papers


def test_blocks_and_axes_set_it_too() -> None:
    blocks = '[[block]]\nname = "a"\n[[block]]\nname = "b"\nweighting = "paper"'
    assert weightings(study(blocks), "block") == {
        ("drop", "a"): "examples",
        ("fdms", "a"): "examples",
        ("drop", "b"): "examples",
        ("fdms", "b"): "clients",
    }
    axis = study('[axes]\nweighting = ["examples", "clients"]', strategies=ROWS)
    told = weightings(axis, "weighting")
    assert (told["fdms", "examples"], told["fdms", "clients"]) == ("examples", "clients")
    assert told["own", None] == "clients"  # which the axis does not touch
    assert told["mdsample", "examples"] == told["mdsample", "clients"] == "clients"


@pytest.mark.parametrize("asked", ["size", 1, ["examples"], True])
def test_another_word_is_refused(asked) -> None:
    with pytest.raises(StudyError, match="weighting: expected one of 'examples', 'clients'"):
        study(overrides={"weighting": asked})


@pytest.mark.parametrize("asked", ['"alike"', "3", '["clients"]'])
def test_another_word_of_one_strategy_is_refused(asked) -> None:
    rows = f'[strategies]\ndrop = "fedavg"\nown = {{method = "fdms", weighting = {asked}}}'
    words = r"strategies\.own\.weighting: expected one of 'examples', 'clients', 'paper', got "
    with pytest.raises(StudyError, match=words):
        study(strategies=rows).cells()


def of_objects(**asked) -> Study:
    return Study(
        "small",
        data={"name": "digits", "partition": "clustered", "per_client": 30},
        model="softmax",
        rounds=2,
        **asked,
    )


def test_objects_keep_their_own_and_it_is_told() -> None:
    rows = {"a": "fedavg", "b": fdms(weighting="clients"), "c": mdsample(), "d": fedavg()}
    made = of_objects(strategies=rows, weighting="examples")
    assert weightings(made) == {"a": "examples", "b": "clients", "c": "clients", "d": "examples"}
    assert made.kept_local == {"b": {"weighting": ("clients", "examples")}}
    assert of_objects(strategies=rows, weighting="paper").kept_local == {}
    assert of_objects(strategies=rows).kept_local == {}  # the tables tell what differs
    axis = of_objects(strategies=rows, axes={"weighting": ["examples", "clients", "paper"]})
    told = weightings(axis, "weighting")
    assert [told["b", level] for level in ("examples", "clients", "paper")] == [
        "examples", "clients", "clients",
    ]  # fmt: skip
    assert {told["c", level] for level in ("examples", "clients", "paper")} == {"clients"}


def test_a_weighting_that_no_strategy_follows_is_refused() -> None:
    with pytest.raises(StudyError) as refused:
        of_objects(strategies={"a": fedavg(), "b": fdms()}, weighting="clients")
    assert str(refused.value) == (
        "study 'small': weighting: has no effect. Strategies given as objects keep their own "
        "settings instead of the study's: weighting is examples (a, b), not clients. Give it to "
        "each of them, as in fedavg(weighting='clients'), or give methods by name, as in "
        "{'method': 'fedavg'}"
    )


def mine(m: int = 2):
    """Somebody's method, with a weighting of its own."""
    return fdms(sampler=Uniform(m), weighting="clients")


def test_a_method_of_ones_own_by_name() -> None:
    rows = f"[strategies]\nmine = {{method = '{__name__}:mine', m = 3}}"
    assert weightings(study(strategies=rows)) == {"mine": "examples"}
    assert weightings(study(strategies=rows, top='weighting = "paper"')) == {"mine": "clients"}


@pytest.mark.parametrize("name", builtins.NAMES)
def test_studies_of_papers_ask_for_the_papers_own(name) -> None:
    asked = builtins.built_in(name)._document.get("weighting")
    own = (
        "quickstart",
        "quickstart-tuned",
        "server-step",
        "concord",
        "absence",
        "newer-readings",
    )
    one_objective = name in own or name.endswith("-home")
    assert asked == (None if one_objective else "paper")


# -- a study that was stored when the default was another ------------------------------------------

STORED = Path(__file__).parents[2] / "stored" / "flat_layout.zip"
LINE = (
    "Defaults have changed since this study ran: weighting is now 'examples' (was 'clients'): "
    "2 of {n} cells run again"
)


@pytest.fixture
def understudy(tmp_path, monkeypatch, capsys) -> Command:
    with zipfile.ZipFile(STORED) as archive:
        archive.extractall(tmp_path)
    monkeypatch.chdir(tmp_path)
    return Command(capsys, monkeypatch)


RUN = ("run", "kept.toml", "--folder", "kept_runs")


def test_changed_defaults_are_told_before_cells_run_again(understudy) -> None:
    assert LINE.format(n=4) in " ".join(understudy(*RUN, "--dry-run").out.split())
    said = understudy(*RUN, "--no-report")
    assert (said.code, said.err.splitlines()[0]) == (0, LINE.format(n=4))
    said = understudy(*RUN, "--no-report")
    assert (said.code, "Defaults have changed" in said.err) == (0, False)


def test_asked_for_by_name_the_former_default_runs_nothing_again(understudy) -> None:
    said = understudy(*RUN, "--no-report", "--set", "weighting=paper")
    assert (said.code, said.err) == (0, "")


def test_cells_that_had_only_begun_are_counted_too(understudy) -> None:
    said = understudy("run", "half.toml", "--folder", "half_runs", "--dry-run")
    assert " ".join(said.out.split()).endswith("(was 'clients'): 1 of 1 cell runs again")


def test_further_rows_and_seeds_do_not_hide_it(understudy) -> None:
    more = ("--dry-run", "--seeds", "3", "--set", "strategies.mifa=mifa")
    assert LINE.format(n=9) in " ".join(understudy(*RUN, *more).out.split())


def test_what_the_user_changed_is_no_default(understudy) -> None:
    said = understudy(*RUN, "--dry-run", "--set", "weighting=clients")
    assert (said.code, "Defaults have changed" in said.out) == (0, False)
    for own in ("local.lr=0.2", "rounds=5", "strategies.fdms.similarity=distance"):
        said = understudy(*RUN, "--dry-run", "--set", own)
        told = " ".join(said.out.split()).partition("Defaults")[2]
        # of a strategy that the user changed it is not known what was meant
        assert told == ("" if "fdms" in own else LINE.format(n=4).partition("Defaults")[2])


def test_a_row_that_the_user_changed_does_not_hide_the_others(understudy) -> None:
    own = ("--set", "strategies.fedavg.server=momentum")
    said = " ".join(understudy(*RUN, "--dry-run", *own).out.split())
    assert said.endswith(LINE.format(n=4))  # of fdms


def test_other_defaults_are_told_likewise(understudy, monkeypatch) -> None:
    """Whatever differs between the resolved configurations, of every part."""
    before = Markov.__init__.__defaults__
    monkeypatch.setattr(Markov.__init__, "__defaults__", (0.25, *before[1:]))
    said = " ".join(understudy(*RUN, "--dry-run").out.split())
    assert said.endswith(
        "Defaults have changed since this study ran: availability.p is now 0.25 (was 0.5), "
        "weighting is now 'examples' (was 'clients'): 4 of 4 cells run again"
    )
    said = " ".join(understudy(*RUN, "--dry-run", "--set", "weighting=paper").out.split())
    assert said.endswith("ran: availability.p is now 0.25 (was 0.5): 4 of 4 cells run again")
