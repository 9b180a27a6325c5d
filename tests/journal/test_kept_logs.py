"""The logs of a run: all that were yielded, compact where they are large."""

import pytest

from tests.simulation import small
from understudy import FedGS, FixedDropout, Strategy, fdms, fdms_dropout, fedavg, stale
from understudy.core.types import Outcome
from understudy.journal.memory import LARGE, KeptLogs
from understudy.simulation import clustered_digits, digits, federate, iid, simulate


def run_of(strategy, **settings):
    given = {"model": "softmax", "availability": FixedDropout(0.5), "rounds": 4, "workers": 1}
    return simulate(clustered_digits(), strategy, **given | settings)


def test_the_logs_are_those_that_were_yielded():
    run = run_of(stale(), oracle=True, per_client_every=2)
    assert (len(run.logs), repr(run.logs)) == (0, "<logs of 0 rounds>")
    first = next(iter(run))
    assert list(run.logs) == [first]
    others = list(run)
    assert small.all_facts(run.logs) == small.all_facts([first, *others])
    assert [log.t for log in run.logs[1:3]] == [1, 2]
    assert run.logs[-1] is run.last
    assert repr(run.logs) == "<logs of 4 rounds>"
    with pytest.raises(IndexError):
        run.logs[4]


def test_stored_logs_are_among_them(tmp_path):
    for log in run_of(stale(), folder=tmp_path):
        if log.t == 1:
            break
    again = run_of(stale(), folder=tmp_path)
    assert len(again.logs) == 0  # nobody has asked for them yet
    list(again)
    assert [log.t for log in again.logs] == [0, 1, 2, 3]


def test_large_logs_are_compressed_and_come_back_to_the_bit():
    """800 clients, all remembered from the first round on: 8 + 8 + 8 + 1 bytes for each."""
    federation = federate(digits(), iid, n_clients=800)
    run = simulate(
        federation, stale(), model="softmax", availability=fdms_dropout(0.5), rounds=3,
        per_client_every=3, workers=1,
    )  # fmt: skip
    yielded = list(run)
    assert len(yielded[-1].ids) == 800
    assert small.all_facts(run.logs) == small.all_facts(yielded)
    assert all(kept.timings == log.timings for kept, log in zip(run.logs, yielded, strict=True))
    sizes = [len(kept) for kept in run.logs._kept if isinstance(kept, bytes)]
    assert len(sizes) == 3
    assert sizes[1] < 25 * 800 / 2  # without metrics of clients


def test_small_logs_are_kept_as_they_are():
    (log,) = run_of(stale(), rounds=1)
    kept = KeptLogs()
    kept.append(log)
    assert log.ids.nbytes * 3 < LARGE
    assert kept[0] is log


# -- a method's name -------------------------------------------------------------------------------


def test_a_method_by_its_name_is_the_method():
    by_name, called = run_of("fdms"), run_of(fdms())
    assert by_name.strategy == fdms()
    assert small.all_facts(by_name) == small.all_facts(called)
    assert (by_name.last.outcome == Outcome.CAME).sum() == 10


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ("fdsm", KeyError, r"no strategy named 'fdsm'; did you mean 'fdms'\? known: fedavg, "),
        ("understudy:FedGS", TypeError, r"expected 'understudy:FedGS' to make a Strategy, got Fed"),
        (fedavg, TypeError, r"method, got fedavg; write fedavg\(\), with parentheses$"),
        (FedGS(alpha=2.0), TypeError, r"; write Strategy\(sampler=FedGS\(alpha=2.0\)\)$"),
        (fdms().compensator, TypeError, r"; write Strategy\(compensator=FDMS\(\)\)$"),
        (Strategy, TypeError, r"got Strategy; write Strategy\(\), with parentheses$"),
        (None, TypeError, r"strategy: expected a Strategy or the name of a method, got None$"),
    ],
)
def test_what_is_no_strategy_is_refused_with_what_to_write(given, error, words):
    with pytest.raises(error, match=words):
        run_of(given)
