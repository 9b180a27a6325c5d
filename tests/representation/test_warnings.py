"""Warnings: there when somebody is left out, with the right words, and not where nobody is."""

import re
from dataclasses import asdict

import numpy as np
import pytest

from tests.representation.rounds import (
    AWAY,
    CAME,
    ERROR,
    LATE,
    MISSING,
    NOT,
    REFUSED,
    RESTARTED,
    played,
)
from understudy import (
    Bernoulli,
    Cyclic,
    Deadline,
    Diurnal,
    FixedDropout,
    Gone,
    Latency,
    LogNormal,
    Markov,
    OwnCycle,
    RoundRobin,
    fdms,
    fdms_dropout,
    fedar,
    fedavg,
    fedgs,
    fedvarp,
    mifa,
    stale,
)
from understudy.core.types import Reason, Refusal
from understudy.representation import ClientFacts, Thresholds, Warnings, warnings_of
from understudy.simulation import clustered_digits, simulate

HOSPITALS = tuple(f"hospital-{number}" for number in range(8))


def facts(**fields):
    return ClientFacts(
        **{"names": HOSPITALS, "examples": np.array([10, 10, 10, 30, 10, 11, 9, 10.0]), **fields}
    )


def all_but(*absent, outcome=AWAY, n=8):
    return [outcome if number in absent else CAME for number in range(n)]


def sampled(t, came):
    """A round of those who came, of many who were not picked otherwise."""
    ids = np.flatnonzero(came)
    log = played(t, np.where(came, CAME, NOT), [])
    fields = {"ids": ids, "source": ids, "coef": np.full(len(ids), 1 / len(ids))}
    return type(log)(**{**vars(log), **fields})


def texts(warnings):
    return [one.text for one in warnings]


# -- left out ------------------------------------------------------------------------------------


def test_who_is_in_none_of_the_updates_is_named_with_the_share_of_the_examples():
    """3 and 5 come twice, then no more: 41 of 100 examples. Told in the tenth round without."""
    logs = [played(t, all_but(*([3, 5] if t >= 2 else []))) for t in range(14)]
    warnings = Warnings(facts())
    told = [(log.t, one) for log in logs for one in warnings.add(log)]
    assert [t for t, _ in told] == [11]
    assert told[0][1].text == (
        "hospital-3 and hospital-5, 41 % of the examples, were in none of the last 10 rounds' "
        "updates: they could not be reached"
    )
    assert (told[0][1].kind, told[0][1].clients, told[0][1].since) == ("left out", (3, 5), 11)
    (now,) = warnings.current
    assert "none of the last 12 rounds'" in now.text
    assert (now.since, now.until, warnings.past) == (11, None, ())


def test_a_client_that_never_came_is_told_sooner():
    warnings = Warnings(facts())
    told = [log.t for t in range(9) for log in [played(t, all_but(6))] if warnings.add(log)]
    assert told == [4]
    assert texts(warnings.current) == [
        (
            "hospital-6, 9 % of the examples, was in none of the updates so far (9 rounds): it "
            "could not be reached"
        )
    ]


def test_labels_and_accuracies_of_those_left_out_are_told():
    counts = np.tile([50.0, 50.0, 0.0, 0.0], (8, 1))
    counts[3] = [0, 10, 80, 10]
    known = facts(label_counts=counts, classes=("cat", "dog", "eel\x1b[2J", "fox"))
    accuracy = np.array([0.8] * 3 + [0.2] + [0.8] * 4)
    logs = [played(t, all_but(3)) for t in range(6)]
    logs += [played(6, all_but(3), client_metrics={"accuracy": accuracy})]
    (text,) = texts(warnings_of(logs, known).current)
    assert text == (
        "hospital-3, 30 % of the examples, was in none of the updates so far (7 rounds): it could "
        "not be reached; its labels: dog, eel�[2J and fox (nobody else has eel�[2J and fox); "
        "accuracy there: 20.0 %, mean of all: 72.5 %"
    )


def test_without_names_and_sizes_clients_are_numbers_and_shares_are_of_clients():
    logs = [played(t, all_but(3, 5)) for t in range(6)]
    (text,) = texts(warnings_of(logs).current)
    assert text.startswith("clients 3 and 5, 25 % of the clients, were in none")


def test_a_name_of_nothing_that_is_seen_is_a_number():
    logs = [played(t, all_but(1)) for t in range(6)]
    for blank in ("", "  ", "\u200b\u2060"):
        (text,) = texts(warnings_of(logs, facts(names=("a", blank, "c"))).current)
        assert text.startswith("client 1, ")


def test_many_are_counted_and_a_few_named():
    logs = [played(t, all_but(*range(0, 100, 20), n=100)) for t in range(6)]
    (text,) = texts(warnings_of(logs).current)
    assert text.startswith("clients 0, 20, 40 and 2 more, 5 % of the clients, were in none")


def test_who_has_left_is_not_missed():
    logs = [played(t, all_but(3, 5)) for t in range(20)]
    assert not len(warnings_of(logs, facts(left=[3, 5])))


def test_too_few_examples_to_speak_of():
    logs = [played(t, all_but(3)) for t in range(20)]
    assert not len(warnings_of(logs, facts(), Thresholds(examples=0.31)))
    assert len(warnings_of(logs, facts(), Thresholds(examples=0.30)).current) == 1


def test_a_warning_that_no_longer_holds_is_past():
    """Away in rounds 2 to 13, back in 14: it held from the tenth round without it to the last."""
    logs = [played(t, all_but(*([3] if 2 <= t < 14 else []))) for t in range(20)]
    warnings = warnings_of(logs, facts())
    assert warnings.current == ()
    (past,) = warnings.past
    assert (past.since, past.until) == (11, 13)
    assert str(past).startswith("rounds 12 to 14: hospital-3, 30 % of the examples, was in none of")
    assert str(warnings) == str(past)


def test_who_comes_and_goes_is_told_once():
    """Ten rounds away, one there, again and again."""
    logs = [played(t, all_but(*([3] if t % 11 else []))) for t in range(200)]
    warnings = Warnings(facts())
    assert sum(len(warnings.add(log)) for log in logs) == 1
    assert len(warnings.past) > 10


def test_why_is_told_by_what_became_of_them():
    outcomes = {1: MISSING, 2: ERROR, 3: REFUSED, 4: NOT}
    row = [outcomes.get(number, CAME) for number in range(20)]
    warnings = warnings_of([played(t, row) for t in range(6)])
    assert warnings.current[0].text.endswith(
        ": 1 did not answer, 1 failed, 1 sent what was refused and 1 could not be reached, or were "
        "not picked"
    )


def test_who_comes_with_a_weight_of_nothing_is_left_out():
    spoken = [(one, one, 0.0 if one == 3 else 0.1) for one in range(8)]
    warnings = warnings_of([played(t, all_but(), spoken) for t in range(5)], facts())
    (text,) = texts(warnings.current)
    assert text.endswith("in none of the updates so far (5 rounds): it came, with a weight of 0")


def test_a_round_that_was_added_is_not_counted_again():
    warnings = Warnings()
    for _ in range(3):
        for t in range(4):
            warnings.add(played(t, all_but(3)))
    assert warnings.representation.n_rounds == 4
    assert not len(warnings)


# -- where nothing is wrong ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("strategy", "availability"),
    [
        (fedavg(), None),
        (fedavg(), FixedDropout(0.7)),
        (fedavg(), Bernoulli(0.3)),
        (fedgs(), None),
        (fedgs(), FixedDropout(0.7)),
        (fedgs(), LogNormal()),
        (fdms(), FixedDropout(0.7)),
        (fdms(), fdms_dropout(0.7)),
        (stale(), Bernoulli(0.4)),
        (fedar(), FixedDropout(0.7)),
        (fedvarp(), Bernoulli(0.3)),
        (mifa(), FixedDropout(0.7)),
        (mifa(), Bernoulli(0.2)),
        # who is away comes back after a while: others do so as well
        (fedavg(), Cyclic(n_groups=4)),
        (mifa(), Cyclic(n_groups=10, rounds_each=2)),
        (fdms(), Cyclic(n_groups=4, rounds_each=5)),
        (fedavg(), OwnCycle(0.5, cycle=20)),
        (fedavg(), Markov(0.5, session=5.0)),
        (stale(), Markov(0.3, session=3.0)),
        (fedgs(m=0.2), Diurnal()),
        (fedavg(), RoundRobin()),
    ],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_nobody_is_left_out_where_all_come_equally_often(strategy, availability, seed):
    """Of 20 clients FedGS asks 4, and 14 are away: gaps of ten rounds are nothing unusual."""
    run = simulate(
        clustered_digits(),
        strategy,
        model="softmax",
        availability=availability,
        rounds=60,
        seed=seed,
        evaluate=(),
    )
    list(run)
    assert str(run.warnings) == "nobody was left out"


def test_an_ample_deadline_makes_nobody_late():
    run = simulate(
        clustered_digits(),
        fedavg(),
        model="softmax",
        availability=Bernoulli(0.5),
        delay=Deadline(Latency(), seconds=600.0),
        rounds=40,
        evaluate=(),
    )
    list(run)
    assert str(run.warnings) == "nobody was left out"


def test_a_client_that_is_gone_is_found_among_those_that_come_and_go():
    run = simulate(
        clustered_digits(),
        fedavg(),
        model="softmax",
        availability=Gone([3, 5], inner=Markov(0.7, session=3.0)),
        rounds=60,
        evaluate=(),
    )
    list(run)
    assert [one.clients for one in run.warnings.current] == [(3, 5)]


def test_how_long_the_others_stay_away_tells_how_long_is_too_long():
    """Ten clients are away for 8 rounds of 16; the eleventh for good, after its first eight."""
    warnings, found = Warnings(), []
    for t in range(120):
        row = [CAME if (t + 2 * k) // 8 % 2 else AWAY for k in range(10)]
        came = np.array([one == CAME for one in [*row, CAME if t < 8 else AWAY]])
        found += [(t, one.clients) for one in warnings.add(sampled(t, came))]
    ((t, clients),) = found
    # their gaps end in one of about 8 rounds: ln(0.01 / (11 · 94)) / ln(7 / 8) = 86, after the
    # first 8; they are there in half of the rounds, by which 17 would do
    assert clients == (10,)
    assert 70 < t < 96


def test_a_run_of_groups_that_come_in_turn_may_just_have_begun():
    """Three of four are there after five rounds, or one: those are told at once, these later."""
    for present, first in ((6, 5), (2, 10)):
        warnings = Warnings()
        for t in range(12):
            warnings.add(sampled(t, np.arange(8) < present))
        (warning,) = warnings
        assert warning.since + 1 == first
        assert len(warning.clients) == 8 - present


@pytest.mark.parametrize("rate", [0.02, 0.2, 0.5, 0.9])
def test_a_sampler_that_picks_a_few_raises_no_false_alarm(rate):
    """1,000 clients, 400 rounds: gaps of hundreds of rounds at 2 %, and none is told."""
    rng = np.random.default_rng(0)
    warnings = Warnings()
    for t in range(400):
        warnings.add(sampled(t, rng.random(1000) < rate))
    assert not len(warnings)


def test_one_that_the_sampler_never_picks_is_found_among_those():
    rng, warnings = np.random.default_rng(0), Warnings(limits=Thresholds(examples=0))
    for t in range(200):
        came = rng.random(1000) < 0.2
        came[17] = False
        warnings.add(sampled(t, came))
    assert [one.clients for one in warnings] == [(17,)]


# -- the others ----------------------------------------------------------------------------------


def test_a_remembered_client_is_not_left_out_but_how_old_it_is_can_be_asked_for():
    everyone = [(one, one, 1 / 8) for one in range(8)]
    logs = [played(0, all_but())]
    logs += [played(t, all_but(3), everyone) for t in range(1, 40)]
    assert not len(warnings_of(logs, facts()))
    warnings = warnings_of(logs, facts(), Thresholds(age=30))
    assert texts(warnings.current) == ["hospital-3: represented by updates of 39 rounds ago"]
    assert warnings.representation.heard(3).age == 20.0


def test_clients_that_are_always_late_are_told_with_the_deadline():
    """Asked in even rounds of 60 s, they answer 74 s later, in odd ones."""
    warnings = Warnings(facts(deadline=60.0))
    for t in range(8):
        row = all_but(1, 2, 6, outcome=MISSING if t % 2 == 0 else LATE)
        seconds = {} if t % 2 == 0 else {1: 70.0, 2: 74.0, 6: 90.0}
        warnings.add(played(t, row, clock=60.0 * (t + 1)), seconds)
    late = next(one for one in warnings.current if one.kind == "late")
    assert late.text == (
        "3 of 8 clients have always been late (hospital-1, hospital-2 and hospital-6): the "
        "deadline of 60 s is below their median of 74 s"
    )
    left_out = next(one for one in warnings.current if one.kind == "left out")
    assert left_out.text.endswith(": they answered too late")


def test_the_rounds_clocks_tell_how_long_late_answers_took_at_least_and_at_most():
    """Asked at 0 s, 120 s, …; there between 60 and 120 s later."""
    warnings = Warnings(facts(deadline=60.0))
    for t in range(8):
        row = all_but(1, outcome=MISSING if t % 2 == 0 else LATE)
        warnings.add(played(t, row, clock=60.0 * (t + 1)))
    late = next(one for one in warnings.current if one.kind == "late")
    assert late.text.endswith("the deadline of 60 s is below its median of 60 to 120 s")


def test_who_is_late_after_it_came_in_time_is_not_always_late():
    rows = [all_but()] + [all_but(1, outcome=LATE)] * 3
    logs = [played(t, row) for t, row in enumerate(rows)]
    assert texts(warnings_of(logs, facts()).current) == [
        "1 of 8 clients has been late each time since an update came in time (hospital-1)"
    ]


def test_who_is_refused_again_and_again_is_told_with_the_reason():
    refusal = Refusal(1, Reason.WRONG_LENGTH, "expected (10,), got (12,)")
    logs = [played(t, all_but(1, outcome=REFUSED), refusals=(refusal,)) for t in range(3)]
    assert texts(warnings_of(logs, facts()).current) == [
        (
            "hospital-1 was refused in 3 rounds, and no update of it was taken since: wrong "
            "length: expected (10,), got (12,)"
        )
    ]
    logs += [played(3, all_but())]
    assert warnings_of(logs, facts()).current == ()


def test_a_stranger_that_is_refused_again_and_again_is_told():
    refusal = Refusal("x\x1b[31m" + "y" * 500, Reason.NO_ROOM, "at most 8 clients")
    logs = [played(t, all_but(), refusals=(refusal,)) for t in range(3)]
    (text,) = texts(warnings_of(logs, facts()).current)
    assert "which is no client, was refused 3 times: no room: at most 8 clients" in text
    assert "\x1b" not in text
    assert len(text) < 250


def test_who_fails_again_and_again_is_told():
    rows = [all_but(1, outcome=ERROR), all_but(1, outcome=RESTARTED), all_but(1, outcome=ERROR)]
    logs = [played(t, row) for t, row in enumerate(rows)]
    assert texts(warnings_of(logs, facts()).current) == [
        ("hospital-1 failed 3 times and has not come since: errors, or restarts while training")
    ]


def test_one_client_that_speaks_for_many_is_told():
    """Client 0 for 1, 2, 3 and itself: three of eight coefficients are for others."""
    spoken = [(0, 0, 0.125), *((one, 0, 0.125) for one in (1, 2, 3))]
    spoken += [(one, one, 0.125) for one in (4, 5, 6, 7)]
    logs = [played(t, all_but(1, 2, 3), spoken) for t in range(10)]
    assert not len(warnings_of(logs[:9], facts()))
    assert texts(warnings_of(logs, facts()).current) == [
        "hospital-0 stood in for 3 others: 38 % of the step, on average over the last 10"
    ]


def test_nobody_comes_any_more():
    """Never before in 10 rounds: the eleventh empty one is beyond chance; MIFA's own waits not."""
    logs = [played(t, all_but()) for t in range(10)]
    logs += [played(t, all_but(*range(8)), []) for t in range(10, 18)]
    assert not len(warnings_of(logs[:13], facts()))
    assert texts(warnings_of(logs, facts()).current) == ["nobody came in the last 8 rounds"]


def test_whom_a_method_waits_for_in_vain_is_told():
    """MIFA takes no step until all were seen, and client 3 is gone."""
    run = simulate(
        clustered_digits(), mifa(), model="softmax", availability=Gone([3]), rounds=12, evaluate=()
    )
    list(run)
    assert texts(run.warnings.current) == [
        "no step was taken in 12 rounds: client 3, 5 % of the examples, has never come"
    ]


# -- of runs -------------------------------------------------------------------------------------


def test_a_run_tells_while_it_goes_on_and_its_logs_tell_the_same():
    run = simulate(
        clustered_digits(),
        fedavg(),
        model="softmax",
        availability=Gone([3, 5]),
        rounds=8,
        evaluate=(),
    )
    n_told = [len(run.warnings) for _ in run]
    assert n_told == [0, 0, 0, 0, 1, 1, 1, 1]
    assert texts(run.warnings) == [
        (
            "clients 3 and 5, 10 % of the examples, were in none of the updates so far (8 rounds): "
            "they could not be reached; their labels: 5, 6, 8 and 9"
        )
    ]
    again = warnings_of(run.logs, run.warnings.facts, Thresholds(rounds_never=7))
    assert (texts(again.current), again.current[0].since) == (texts(run.warnings), 6)


def test_slow_clients_of_a_simulation_are_told():
    delay = Deadline(Latency(step_seconds=5.0, step_spread=1.0), seconds=25.0)
    run = simulate(
        clustered_digits(), fedavg(), model="softmax", delay=delay, rounds=30, evaluate=()
    )
    list(run)
    late = next(one for one in run.warnings if one.kind == "late")
    assert "always been late (client" in late.text
    assert re.search(r": the deadline of 25 s is below (its|their) median of \d", late.text)


@pytest.mark.parametrize("limits", [{"rounds": 0}, {"chance": 0.0}, {"one_row": 1.5}, {"age": 0}])
def test_thresholds_are_checked(limits):
    with pytest.raises(ValueError, match=next(iter(limits))):
        Thresholds(**limits)


def test_thresholds_of_a_journal_are_not_trusted():
    given = asdict(Thresholds(rounds=3, age=7))
    assert Warnings.told({"warn": given}).limits == Thresholds(rounds=3, age=7)
    for strange in (None, 3, {"rounds": "many"}, {"rounds": 0}, {"other": 1}, [3]):
        assert Warnings.told({"warn": strange}).limits == Thresholds()


def test_facts_of_a_journal_are_not_trusted():
    known = ClientFacts.told(
        {"names": [1, None], "sizes": [3, None, "x"], "label_counts": [[1, 2], [3]], "left": ["a"]},
        {"delay": {"class": "Combined", "first": {"class": "Deadline", "seconds": 5.0}}},
    )
    assert (known.names, known.left, known.deadline) == (["1", "None"], [], 5.0)
    assert known.examples.tolist()[:1] == [3.0]
    assert known.label_counts is None
    logs = [played(t, all_but(3)) for t in range(6)]
    (text,) = texts(warnings_of(logs, known).current)
    assert text.startswith("client 3, 12 % of the examples, was in none")
    assert not len(warnings_of([], ClientFacts.told({"sizes": 3, "names": {}}, None)))
