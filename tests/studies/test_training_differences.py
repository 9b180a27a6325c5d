"""Strategies whose clients train differently: table, plan and report say so."""

from __future__ import annotations

import html
import re

import pytest

from tests.cli import Command
from tests.studies.texts import study, text
from understudy import Adam, Local, Proximal, Strategy, Study, compare, fdms, fedavg, results
from understudy.commands.run_plan import plan
from understudy.studies import StudyError
from understudy.studies.definition.training import training_differences
from understudy.studies.report.report import write_report

UNLIKE = """\
[strategies]
fedavg = "fedavg"
fedprox = "fedprox"
mifa = {method = "mifa", wait = false, local = "paper"}
"""
SENTENCE = (
    "Local training differs: batch_size is 32 (fedavg, fedprox) and 64 (mifa); epochs is 1 "
    "(fedavg, fedprox) and 5 (mifa); schedule is constant (fedavg, fedprox) and inverse_time "
    "(mifa); weight_decay is 0 (fedavg, fedprox) and 0.001 (mifa)."
)


def told(made) -> str | None:
    return training_differences((cell.labels, cell.resolved) for cell in made.cells())


def test_a_methods_rule_is_no_difference_and_all_else_is():
    assert told(study(strategies=UNLIKE)) == SENTENCE
    assert told(study(strategies=UNLIKE.replace(', local = "paper"', ""))) is None


def test_only_strategies_that_are_compared_differ():
    """An axis gives all strategies of a group the same value; a block is a group of its own."""
    axis = '[axes]\n"local.lr" = [0.1, 0.2]'
    assert told(study(axis)) is None
    blocks = '[[block]]\nname = "a"\nlocal = {lr = 0.5}\n[[block]]\nname = "b"\n'
    assert told(study(blocks)) is None
    own = '[strategies]\na = "fedavg"\nb = {method = "fdms", local = {lr = 0.2}}'
    sentence = told(study(axis, strategies=own))
    assert sentence == "Local training differs: lr is 0.1 (a) and 0.2 (b)."


def test_table_and_report_say_it(tmp_path):
    made = study(strategies=UNLIKE, top="seeds = 1")
    made.run(tmp_path, on="here", progress=False)
    frame = results(tmp_path, study="small")
    assert frame.attrs["training"] == SENTENCE
    for shown in (compare(frame).to_text(), compare(frame).to_markdown()):
        assert SENTENCE in " ".join(shown.split())
    page = write_report(tmp_path, "small").read_text(encoding="utf-8")
    assert SENTENCE in " ".join(re.sub(r"<[^>]+>", " ", page).split())


def test_a_dry_run_says_it(tmp_path, capsys, monkeypatch):
    file = tmp_path / "small.toml"
    file.write_text(text(strategies=UNLIKE))
    monkeypatch.chdir(tmp_path)
    said = Command(capsys, monkeypatch)("run", "small.toml", "--dry-run")
    assert said.code == 0
    assert " ".join(said.out.split()).endswith(SENTENCE)
    file.write_text(text(strategies=UNLIKE.replace(', local = "paper"', "")))
    assert "differs" not in Command(capsys, monkeypatch)("run", "small.toml", "--dry-run").out


# -- strategies given as objects -------------------------------------------------------------------


def made(local, strategies, **more) -> Study:
    return Study(
        "small",
        data={"name": "digits", "partition": "clustered", "per_client": 30},
        model="softmax",
        strategies=strategies,
        rounds=2,
        local=local,
        **more,
    )


FEDPROX = Local(rule=Proximal(0.1))  # a rule is the method's own, and no difference
KEPT = (
    "Strategies given as objects keep their own local training instead of the study's: "
    "lr is 0.1 (b, c), not 0.5."
)


def test_a_strategy_object_that_does_not_follow_the_study_is_told_of(tmp_path):
    """Table, plan and report; and its own training is what it gets."""
    strategies = {"a": "fedavg", "b": fedavg(server=Adam()), "c": Strategy(local=FEDPROX)}
    mixed = made({"lr": 0.5}, strategies)
    rates = {cell.labels["strategy"]: cell.task.strategy.local.lr for cell in mixed.cells()}
    assert rates == {"a": 0.5, "b": 0.1, "c": 0.1}
    told = f"Local training differs: lr is 0.5 (a) and 0.1 (b, c). {KEPT}"
    assert " ".join(" ".join(plan(mixed, tmp_path / "none")).split()).endswith(told)
    mixed.run(tmp_path, on="here", progress=False)
    frame = results(tmp_path, study="small")
    assert frame.attrs["training"] == told
    assert told in " ".join(compare(frame).to_text().split())
    page = write_report(tmp_path, "small").read_text(encoding="utf-8")
    assert told in " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


@pytest.mark.parametrize("local", [{"lr": 0.5}, Local(lr=0.5)])
def test_a_local_that_no_strategy_follows_is_refused(local):
    with pytest.raises(StudyError) as refused:
        made(local, {"b": fedavg(), "c": fedavg(server=Adam())})
    assert str(refused.value) == (
        f"study 'small': local: has no effect. {KEPT} Give it to each of them, as in "
        "fedavg(local=Local(lr=0.1)), or give methods by name, as in {'method': 'fedavg'}"
    )


def test_objects_that_agree_or_decide_by_themselves_are_no_contradiction():
    objects = {"a": fedavg(local=Local(lr=0.5)), "b": fdms(local=Local(lr=0.5, batch_size=8))}
    assert made({"lr": 0.5}, objects).kept_local == {}
    assert made("paper", objects).kept_local == {}
    own = {"a": {"method": fedavg(), "local": {"lr": 0.2}}, "b": "fdms"}
    assert made({"lr": 0.5}, own).kept_local == {}
    found = made({"lr": 0.5, "batch_size": 16}, own).kept_local
    assert found == {"a": {"batch_size": ("32", "16")}}
    # an axis reaches objects, too
    varied = made({"lr": 0.5}, {"a": fedavg(), "b": fdms()}, axes={"local.lr": [0.2, 0.3]})
    assert varied.kept_local == {}
    assert {cell.task.strategy.local.lr for cell in varied.cells()} == {0.2, 0.3}


def test_steps_of_an_object_that_the_epochs_of_the_study_do_not_replace():
    strategies = {"a": "fedavg", "b": fedavg(local=Local(epochs=2, steps=5))}
    assert made({"epochs": 2}, strategies).kept_local == {"b": {"steps": ("5", "None")}}


def test_blocks_are_told_apart():
    blocks = [{"name": "x", "local": {"lr": 0.5}}, {"name": "y"}]
    found = made({"lr": 0.1}, {"a": "fedavg", "b": fedavg()}, block=blocks)
    assert found.kept_local == {"x/b": {"lr": ("0.1", "0.5")}}
