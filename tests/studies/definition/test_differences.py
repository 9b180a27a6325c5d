"""What rows differ in besides their method: table, plan and report say so."""

from __future__ import annotations

import html
import json
import re

import pytest

from tests.cli import Command
from tests.studies.texts import study, text
from understudy import Adam, Local, Proximal, Strategy, Study, compare, fdms, fedavg, results
from understudy.commands.run_plan import plan
from understudy.studies import StudyError
from understudy.studies.definition.builtins import built_in
from understudy.studies.definition.differences import (
    differences,
    first_of,
    in_a_sentence,
    in_words,
)
from understudy.studies.report.report import write_report
from understudy.studies.store.store import Store

UNLIKE = """\
[strategies]
fedavg = "fedavg"
fedprox = {method = "fedprox", sampler = "everyone", weighting = "examples"}
mifa = {method = "mifa", wait = false, weighting = "examples", local = "paper"}
"""
SENTENCE = (
    "Rows differ from fedavg, the first row, in more than the method: local.batch_size = 64 "
    "(mifa), not 32; local.epochs = 5 (mifa), not 1; local.schedule = inverse_time (mifa), not "
    "constant; local.weight_decay = 0.001 (mifa), not 0."
)
EVERYTHING = """\
[strategies]
base = {method = "fedavg", weighting = "examples"}
same = {method = "stale", weighting = "examples"}
few = {method = "fedavg", weighting = "examples", sampler = {name = "uniform", m = 6}}
other = {method = "stale", weighting = "clients", guard = "norm_guard"}
slow = {method = "fdms", weighting = "examples", server = {name = "sgd", lr = 0.5}}
[strategies.late]
method = "fdms"
weighting = "examples"
availability = {name = "fixed_dropout", alpha = 0.5, first_round_full = false}
[availability]
half = {name = "fixed_dropout", alpha = 0.5, first_round_full = true}
"""


def told(made, baseline: str | None = None) -> str | None:
    pairs = [(cell.labels, cell.resolved) for cell in made.cells()]
    first = first_of((labels for labels, _ in pairs), baseline)
    others = [name for name in made.strategies if name != first]
    found = differences(pairs, baseline)
    return in_a_sentence(found, str(first), others, is_first=baseline is None)


def test_a_methods_rule_is_no_difference_and_all_else_is():
    assert told(study(strategies=UNLIKE)) == SENTENCE
    assert told(study(strategies=UNLIKE.replace(', local = "paper"', ""))) is None


def test_every_part_is_compared_with_the_baseline():
    """How many are asked, the guard, a server's rate, an option of the availability."""
    made = study(strategies=EVERYTHING)
    assert told(made, "base") == (
        "Rows differ from base in more than the method: availability.first_round_full = off "
        "(late), not on; clients asked = 6 of 20 (few), not all; guard = "
        "NormGuard(factor=2.5) (other), not none; server.lr = 0.5 (slow), not 1; weighting = "
        "clients (other), not examples."
    )
    assert "server.lr = 1 (all other rows), not 0.5" in str(told(made, "slow"))
    pairs = [(cell.labels, cell.resolved) for cell in made.cells()]
    own = [one for one in differences(pairs, "base") if one.is_the_method]
    assert {(one.strategy, one.key, one.own.partition("(")[0]) for one in own} == {
        ("same", "compensator", "Stale"),
        ("few", "sampler", "Uniform"),
        ("other", "compensator", "Stale"),
        ("slow", "compensator", "FDMS"),
        ("late", "compensator", "FDMS"),
    }


def test_a_sampler_that_draws_by_examples_has_the_objective_of_weights_by_examples():
    """A plain mean of clients that are drawn by their examples: no other objective."""
    plain = """\
[strategies]
base = {method = "fedavg", sampler = {name = "uniform", m = 6}}
drawn = {method = "fedavg", sampler = {name = "by_data", m = 6}}
blind = {method = "fedavg", sampler = {name = "blind", inner = {name = "by_data", m = 6}}}
"""
    assert told(study(strategies=plain), "base") is None
    alike = plain.replace("by_data", "uniform").replace(
        "base = {", 'base = {weighting = "clients", '
    )
    assert "weighting = examples (drawn, blind), not clients" in str(
        told(study(strategies=alike), "base")
    )


def test_a_name_with_a_comma_is_one_item_of_a_list():
    assert in_words(["Zürich, University", "north", 3]) == '["Zürich, University", north, 3]'


def test_the_dropout_row_of_a_papers_figure_has_another_first_round():
    made = built_in("fdms-fig1", "quick")
    assert "availability.first_round_full = on (stale, stale_model, fdms), not off" in str(
        told(made, "dropout")
    )


def test_only_strategies_that_are_compared_differ():
    """An axis gives all strategies of a group the same value; a block is a group of its own."""
    plain = '[strategies]\na = "fedavg"\nb = {method = "fdms", weighting = "examples"}'
    axis = '[axes]\n"local.lr" = [0.1, 0.2]'
    assert told(study(axis, strategies=plain)) is None
    blocks = '[[block]]\nname = "a"\nlocal = {lr = 0.5}\n[[block]]\nname = "b"\n'
    assert told(study(blocks, strategies=plain)) is None
    own = plain.replace('"examples"', '"examples", local = {lr = 0.2}')
    sentence = told(study(axis, strategies=own), "a")
    assert sentence == "Rows differ from a in more than the method: local.lr = 0.2 (b), not 0.1."


def test_what_is_not_stored_is_no_difference():
    """Configurations of another version may lack a part, or a setting at its default."""
    base, rival = study(strategies='[strategies]\nbase = "fedavg"\nrival = "fedavg"').cells()
    bare = {"strategy": {"class": "Strategy", "weighting": "examples"}, "seed": 0}
    assert differences([(base.labels, base.resolved), (rival.labels, bare)], "base") == []
    given = {**rival.resolved["strategy"]["local"], "optimizer": "adam"}
    later = {**rival.resolved, "strategy": {**rival.resolved["strategy"], "local": given}}
    assert "optimizer" not in base.resolved["strategy"]["local"]
    assert differences([(base.labels, base.resolved), (rival.labels, later)], "base") == [
        ("rival", "local.optimizer", "adam", "sgd")
    ]


def test_table_latex_and_report_say_it(tmp_path):
    made = study(strategies=UNLIKE, top="seeds = 1")
    made.run(tmp_path, on="here", progress=False)
    frame = results(tmp_path, study="small")
    json.dumps(frame.attrs)  # plain: it can go into a file with the frame
    for shown in (compare(frame).to_text(), compare(frame).to_markdown()):
        assert SENTENCE in " ".join(re.sub(r"\\", "", shown).split())
    assert SENTENCE.replace("_", r"\_") in " ".join(compare(frame).to_latex().split())
    assert "Rows" not in compare(frame).to_csv()
    # of the rows that are there, from the baseline that is asked for
    other = compare(frame[frame["strategy"] != "fedprox"], baseline="mifa").to_text()
    assert (
        "Rows differ from mifa in more than the method: local.batch_size = 32 (fedavg), not 64"
        in (" ".join(other.split()))
    )
    page = write_report(tmp_path, "small").read_text(encoding="utf-8")
    words = " ".join(re.sub(r"<[^>]+>", " ", page).split())
    assert SENTENCE in words
    assert "what differs from the first" in words
    assert "compensator MIFA(wait=off); local.batch_size 64 instead of 32; local.epochs 5" in words


def test_a_report_of_configurations_without_all_parts(tmp_path):
    """As a live run or another version stores them."""
    study(top="seeds = 1").run(tmp_path, on="here", progress=False)
    with Store.open(tmp_path, write=True) as store:
        for cell in store.cells("small"):
            kept = store.resolved(cell.key)
            bare = {name: kept[name] for name in ("strategy", "seed")}
            store.begin(cell.key, bare, cell.facts, "0.0.9")
            store.finish(cell.key)
    assert "what differs" in write_report(tmp_path, "small").read_text(encoding="utf-8")


def test_a_dry_run_says_it(tmp_path, capsys, monkeypatch):
    file = tmp_path / "small.toml"
    file.write_text(text(strategies=UNLIKE))
    monkeypatch.chdir(tmp_path)
    said = Command(capsys, monkeypatch)("run", "small.toml", "--dry-run")
    assert said.code == 0
    assert " ".join(said.out.split()).endswith(SENTENCE)
    file.write_text(text(strategies=UNLIKE.replace(', local = "paper"', "")))
    assert "differ" not in Command(capsys, monkeypatch)("run", "small.toml", "--dry-run").out


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
    "Strategies given as objects keep their own settings instead of the study's: "
    "lr is 0.1 (b, c), not 0.5."
)


def test_a_strategy_object_that_does_not_follow_the_study_is_told_of(tmp_path):
    """Table, plan and report; and its own training is what it gets."""
    strategies = {
        "a": "fedavg",
        "b": fedavg(server=Adam()),
        "c": Strategy(local=FEDPROX, weighting="examples"),
    }
    mixed = made({"lr": 0.5}, strategies)
    rates = {cell.labels["strategy"]: cell.task.strategy.local.lr for cell in mixed.cells()}
    assert rates == {"a": 0.5, "b": 0.1, "c": 0.1}
    told = (
        "Rows differ from a, the first row, in more than the method: local.lr = 0.1 (b, c), not "
        f"0.5; server = Adam(lr=0.1, beta1=0.9, beta2=0.99, tau=0.001, schedule=constant) (b), "
        f"not Sgd. {KEPT}"
    )
    assert " ".join(" ".join(plan(mixed, tmp_path / "none")).split()).endswith(told)
    mixed.run(tmp_path, on="here", progress=False)
    frame = results(tmp_path, study="small")
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
    assert made({"epochs": 2}, strategies).kept_local == {"b": {"steps": ("5", "none")}}


def test_blocks_are_told_apart():
    blocks = [{"name": "x", "local": {"lr": 0.5}}, {"name": "y"}]
    found = made({"lr": 0.1}, {"a": "fedavg", "b": fedavg()}, block=blocks)
    assert found.kept_local == {"x/b": {"lr": ("0.1", "0.5")}}
