"""The answer in words, from numbers made up: what is claimed, and what is not."""

import math

import pytest

from understudy.tryout.effects import Effect
from understudy.tryout.findings import (
    ClientFinding,
    MethodFinding,
    Situation,
    TableFindings,
    _steps,
)
from understudy.tryout.numbers_in_words import Scale
from understudy.tryout.words import answers, in_short

ACCURACY = Scale("accuracy", 100.0, 1)


def sure(mean):
    return Effect(mean, abs(mean) / 4, 0.001, 5)


def unsure(mean):
    return Effect(mean, 0.1, 0.4, 5)


def situation(label, loss, methods=(), gone=None, clients=()):
    made = [MethodFinding(name, {0: 0.7 + e.mean}, e, -e.mean / loss.mean) for name, e in methods]
    return Situation(label, gone, {0: 0.7}, loss, tuple(made), clients)


def found(*situations, **options):
    settings = {"rounds": 40, "tail": 4} | options
    return TableFindings(
        ACCURACY, ACCURACY, {0: 0.8}, {0: 0.85}, 0.5, situations, (), 100, 5, **settings
    )


def told(findings, question):
    (sentences,) = [one.sentences for one in answers(findings) if question in one.question]
    return list(sentences)


def test_a_gain_where_clients_are_missing_is_no_loss_that_methods_fail_to_recover():
    one = situation("1 of 3 missing", sure(0.02), [("stale", unsure(-0.01))])
    assert in_short(found(one)) == (
        "1 of 3 missing: accuracy is 2.0\u00a0points higher where the absent are left out."
    )


def test_a_loss_that_may_be_noise_does_not_mean_that_little_can_be_gained():
    one = situation("half missing", unsure(-0.08), [("fedar", unsure(0.09))])
    (sentence,) = told(found(one), "recovers")
    assert sentence == (
        "half missing: that there is a loss is not shown; fedar is best, 79.0\u00a0%, "
        "9.0\u00a0points above leaving the absent out (−1.0 to 19.0): may be noise, p = 0.4."
    )


def test_methods_that_are_worse_are_named_where_none_is_better():
    one = situation("half missing", sure(-0.1), [("fedar", unsure(-0.01)), ("stale", sure(-0.2))])
    assert told(found(one), "recovers") == [
        (
            "half missing: none; fedar comes closest to leaving the absent out, 69.0\u00a0%, "
            "1.0\u00a0points lower (−9.0 to 11.0): may be noise, p = 0.4."
        ),
        "half missing: worse than leaving the absent out: stale.",
    ]
    assert in_short(found(one)).endswith("and no method is shown to recover it.")


def test_a_difference_that_rounds_to_nothing_has_no_direction():
    words = told(found(situation("without x", unsure(-0.0001))), "lose when")[-1]
    assert "a difference of 0.0\u00a0points (−10.0 to 10.0): may be noise" in words


def test_many_clients_gone_in_turn_are_summed_up_and_the_rest_is_told():
    gone = [situation(f"without {name}", unsure(0.01), gone=name) for name in "abc"]
    gone.append(situation("without d", sure(-0.1), gone="d"))
    traced = situation("as in t.csv", sure(-0.05), [("fdms", sure(0.06))])
    assert in_short(found(traced, *gone)) == (
        "as in t.csv: leaving the absent out costs 5.0\u00a0points of accuracy, and fdms recovers "
        "all of the loss; of 4 clients, 1 is shown to be missed; the largest loss is without d: "
        "leaving the absent out costs 10.0\u00a0points of accuracy."
    )


def test_who_loses_nothing_is_told_once():
    change = Effect(0.0, 0.0, 1.0, 5)
    nobody = tuple(ClientFinding(n, 10, 2.0, 0.8, 0.8, change) for n in "abcd")
    hit = (ClientFinding("a", 10, 2.0, 0.8, 0.5, sure(-0.3)), *nobody[1:])
    situations = [situation(f"without {n}", unsure(0.0001), gone=n, clients=nobody) for n in "abc"]
    situations.append(situation("without d", sure(-0.1), gone="d", clients=hit))
    assert told(found(*situations), "Which clients") == [
        "without d: a by 30.0\u00a0points (80.0\u00a0% → 50.0\u00a0%).",
        "without d, the others: 10.0\u00a0points worse on average, by rows.",
        "without a, without b and without c: no client loses on average.",
        (
            "Measured as accuracy on each client's own held-out rows: 2 to 2 of them in each run."
        ),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("rise", "unfinished"), [(0.02, True), (0.008, False), (0.0, False), (math.nan, False)]
)
def test_training_that_was_not_over_is_said(rise, unfinished):
    """More than 3 % of 0.8 − 0.5."""
    one = found(situation("half missing", sure(-0.1)), rise=rise)
    assert in_short(one).endswith("Training was not over after 40 rounds.") == unfinished
    said = [words for words in told(one, "lose when") if words.startswith("Training was not over")]
    expected = (
        "Training was not over: with everybody, accuracy rose by 2.0\u00a0points in the last "
        "quarter of the 40 rounds. More rounds (--rounds 80) may change all that follows."
    )
    assert said == ([expected] if unfinished else [])


def test_when_it_was_measured_and_which_steps_were_picked():
    picks = {
        "half missing/left out": {"server": "sgd(lr=1.0)"},
        "half missing/stale": {"server": "sgd(lr=4.0)"},
        "half missing/everyone": {"server": "sgd(lr=1.0)"},
        "gone/left out": {"server": "sgd(lr=2.0)"},
    }
    steps = _steps(picks)
    assert steps["half missing"] == {"left out": "1", "stale": "4", "everyone": "1"}
    cautions = told(found(situation("half missing", sure(-0.1)), steps=steps), "bear in mind")
    assert (
        "Accuracy is the mean over the last 4 of 40 rounds; each client's own is of the last round."
    ) in cautions
    assert (
        "Server steps picked on validation data, of 0.5, 1, 2 and 4: half missing: 1 of left out "
        "and everyone; 4 of stale. gone: 2 of left out. Beyond 4 there may be a better one."
    ) in cautions
    one = told(found(situation("half missing", sure(-0.1)), tail=1), "bear in mind")
    assert "All numbers are those of the model after round 40." in one
    assert not any("Server steps" in words for words in one)
