"""Any rounds at all: the counts are those of a slow loop over clients, and no warning raises."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.representation.rounds import CAME, LATE, MISSING, played
from understudy.core.printable import is_printable
from understudy.core.types import Outcome, Reason, Refusal
from understudy.representation import ClientFacts, Representation, Thresholds, Voice, Warnings

SOON = Thresholds(
    rounds=2, rounds_never=1, chance=1.0, examples=0, late=1, refused=1, failed=1, one_row=0.1,
    one_row_others=0.5, empty=1, age=2,
)  # fmt: skip


@st.composite
def rounds(draw):
    """Logs of up to ten rounds; clients join on the way, and rows come from anybody."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, logs = draw(st.integers(1, 4)), []
    for t in range(draw(st.integers(0, 10))):
        n += int(rng.random() < 0.2)
        outcome = rng.integers(0, len(Outcome), n)
        c = int(rng.integers(0, 2 * n + 1)) if rng.random() < 0.8 else 0
        spoken = list(
            zip(
                rng.integers(0, n, c).tolist(),
                rng.integers(-1, n, c).tolist(),
                rng.choice([0.0, 0.5, -0.25], c).tolist(),
                strict=True,
            )
        )
        who = [int(rng.integers(0, n + 2)), "x\x1b[2J\n"]
        refusals = tuple(Refusal(one, Reason.TOO_LARGE, "why\n\x07") for one in who)
        notes = {"too_few_rows": 1.0} if rng.random() < 0.1 else {}
        metrics = {"accuracy": np.where(rng.random(n) < 0.5, np.nan, rng.random(n))}
        logs.append(
            played(
                t, outcome, spoken, clock=float(t), notes=notes,
                refusals=refusals if rng.random() < 0.3 else (),
                client_metrics=metrics if rng.random() < 0.3 else {},
            )
        )  # fmt: skip
    return logs


def slow(logs, client):
    """One client, by the definitions: voices of the steps, gap, ages while it was remembered."""
    voiced, gap, ages = [0] * len(Voice), 0, []
    began, asked, came = None, None, False
    for log in logs:
        if client >= len(log.outcome):
            continue
        became = log.outcome[client]
        came = came or became == CAME
        sources = [
            int(source)
            for one, source, coef in zip(log.ids, log.source, log.coef, strict=True)
            if one == client and coef != 0
        ]
        if client in sources:
            voice = Voice.FRESH if became == CAME else Voice.REMEMBERED
        elif any(source >= 0 for source in sources):
            voice = Voice.OTHERS
        else:
            voice = Voice.MIXTURE if sources and came else Voice.NOBODY
        if any(log.coef != 0) and not log.notes:
            voiced[voice] += 1
            gap = 0 if voice != Voice.NOBODY else gap + 1
            if voice == Voice.REMEMBERED:
                ages.append(0 if began is None else log.t - began)
        if became == CAME:
            began = log.t
        elif became == LATE and asked is not None:
            began = asked if began is None else max(began, asked)
        elif became == MISSING:
            asked = log.t
    return voiced, gap, ages


@settings(deadline=None)
@given(rounds())
def test_counts_are_those_of_a_slow_loop(logs):
    found = Representation.of(logs)
    for client in range(found.n_clients):
        voiced, gap, ages = slow(logs, client)
        assert found.voiced[client].tolist() == voiced
        assert found.gap[client] == gap
        assert found.age_sum[client] == sum(ages)
        assert found.steps[client] == sum(voiced)
    outcomes = sum(len(log.outcome) for log in logs)
    assert found.became.sum() == outcomes


@settings(deadline=None)
@given(rounds(), st.data())
def test_no_round_and_no_fact_makes_a_warning_raise(logs, data):
    known = data.draw(st.integers(0, 5))
    number = st.one_of(st.just(float("nan")), st.floats(0, 10))
    facts = ClientFacts(
        names=["a\x1b]0;b\x07\u202e" * known] * known,
        examples=np.array(data.draw(st.lists(number, min_size=known, max_size=known)), float),
        label_counts=np.full((known, 3), np.nan) if data.draw(st.booleans()) and known else None,
        left=data.draw(st.lists(st.integers(0, 9), max_size=2)),
        deadline=data.draw(st.sampled_from([None, 0.5])),
    )
    warnings = Warnings(facts, SOON)
    for log in logs:
        for one in (*warnings.add(log), *warnings):
            assert is_printable(one.text)
            assert "\n" not in one.text
            assert all(0 <= client < len(log.outcome) for client in one.clients)
            assert not set(one.clients) & set(facts.left)
            assert one.since <= log.t
        assert set(warnings.current).isdisjoint(warnings.past)
    assert warnings.representation.n_rounds == len(logs)
