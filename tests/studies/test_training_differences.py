"""Strategies whose clients train differently: table, plan and report say so."""

from __future__ import annotations

import re

from tests.studies.texts import study
from understudy import compare, results
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
