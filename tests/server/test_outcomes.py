"""What became of each client, who stood in, and what is learnt of clients on the way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from understudy import (
    FDMS,
    Applied,
    Arrivals,
    Ignore,
    Outcome,
    Population,
    Reason,
    RoundLog,
    Stale,
    Strategy,
    Uniform,
)

CAME, LATE, UNAVAILABLE = Outcome.CAME, Outcome.LATE, Outcome.UNAVAILABLE
MISSING, REFUSED, NOT_WANTED = Outcome.MISSING, Outcome.REFUSED, Outcome.NOT_WANTED


def log_of(applied: Applied) -> RoundLog:
    filled = applied.contributions
    return RoundLog(
        t=applied.t,
        outcome=applied.outcome,
        refusals=applied.refusals,
        ids=filled.ids,
        source=filled.source,
        coef=filled.coef,
        notes=applied.notes,
    )


def test_outcomes_are_numbered_once_and_for_all() -> None:
    """They are stored in logs: a number must not change its meaning."""
    assert {outcome.name: outcome.value for outcome in Outcome} == {
        "CAME": 0,
        "LATE": 1,
        "ERROR": 2,
        "UNAVAILABLE": 3,
        "MISSING": 4,
        "RESTARTED": 5,
        "REFUSED": 6,
        "NOT_WANTED": 7,
    }


def test_a_scripted_scenario() -> None:
    """Six clients, all wanted. Updates are vectors of ones unless said otherwise.

    Round 0: 5 is out of reach; 0, 1, 2 come; 3 sends NaN; 4 is silent.
    Round 1: 0 and 5 are out of reach; 1 comes; 4's update of round 0 arrives, and nothing of
        round 1; 5 sends one although not asked; 2 and 3 are silent.
    Round 2: all in reach; 4 is late with round 1 and comes, too; 3 sends NaN and then a good one;
        2's late one of round 1 is NaN and nothing fresh comes; 0's n_examples is 0; 1 is silent.
    Round 3: nobody in reach, but 1's update of round 2 arrives.
    """
    strategy = Strategy(compensator=Stale())
    state = strategy.init(Population(6), torch.zeros(2), seed=0)
    good, bad = torch.ones(2), torch.tensor([1.0, float("nan")])

    def play(reach: list[int], *sent: tuple[int, int, torch.Tensor, Any]) -> Applied:
        available = np.isin(np.arange(6), reach)
        ids, start, deltas, n_examples = zip(*sent, strict=True)
        arrivals = Arrivals(ids, deltas, n_examples=n_examples, start_round=start)
        return strategy.apply(state, strategy.select(state, available), arrivals)

    applied = play(
        [0, 1, 2, 3, 4], (0, 0, good, 1), (1, 0, good, 1), (2, 0, good, 1), (3, 0, bad, 1)
    )
    assert applied.outcome.tolist() == [CAME, CAME, CAME, REFUSED, MISSING, UNAVAILABLE]
    assert applied.t == 0

    applied = play([1, 2, 3, 4], (1, 1, good, 1), (4, 0, good, 1), (5, 1, good, 1))
    assert applied.outcome.tolist() == [UNAVAILABLE, CAME, MISSING, MISSING, LATE, UNAVAILABLE]
    assert [(r.id, r.reason) for r in applied.refusals] == [(5, Reason.NOT_ASKED)]

    applied = play(
        [0, 1, 2, 3, 4, 5],
        (4, 1, good, 1),
        (4, 2, good, 1),
        (3, 2, bad, 1),
        (3, 2, good, 1),
        (2, 1, bad, 1),
        (0, 2, good, 0),
    )
    assert applied.outcome.tolist() == [REFUSED, MISSING, MISSING, CAME, CAME, MISSING]

    applied = play([], (1, 2, good, 1))
    assert applied.outcome.tolist() == [UNAVAILABLE, LATE] + [UNAVAILABLE] * 4
    assert not applied.stepped
    assert state.t == 4
    # what may still arrive: round 2's of 2 and 5, round 1's of 3 (never refused, never answered)
    assert state.pending.tolist() == [[2, 2], [3, 1], [5, 2]]


def test_those_not_wanted_are_marked_so() -> None:
    strategy = Strategy(sampler=Uniform(2))
    state = strategy.init(Population(5), torch.zeros(2), seed=0)
    cohort = strategy.select(state, np.ones(5, dtype=bool))
    first, second = cohort.wanted.tolist()
    applied = strategy.apply(state, cohort, Arrivals([first], torch.ones(1, 2)))
    expected = [NOT_WANTED] * 5
    expected[first], expected[second] = CAME, MISSING
    assert applied.outcome.tolist() == expected
    assert applied.outcome.dtype == np.int8
    # late, and not wanted this time: late says more
    while second in (cohort := strategy.select(state, np.ones(5, dtype=bool))).wanted:
        strategy.apply(state, cohort, Arrivals.none())
    late = Arrivals([second], torch.ones(1, 2), start_round=[0])
    assert strategy.apply(state, cohort, late).outcome[second] == LATE


def test_who_stood_in_for_whom() -> None:
    """Three clients of equal weight. Round 0: all come, D0 = D1 = (1, 0), D2 = (0, 1).

    Round 1: 1 is away; R10 = 1 > R12 = 1/2, so 0 stands in for 1, with coefficient 1/3.
    """
    strategy = Strategy(compensator=FDMS())
    state = strategy.init(Population(3), torch.zeros(2), seed=0)
    everyone = np.ones(3, dtype=bool)
    deltas = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    log = log_of(
        strategy.apply(state, strategy.select(state, everyone), Arrivals([0, 1, 2], deltas))
    )
    assert log.stand_ins == []
    cohort = strategy.select(state, everyone)
    log = log_of(strategy.apply(state, cohort, Arrivals([0, 2], deltas[[0, 2]])))
    assert log.stand_ins == [(1, 0, pytest.approx(1 / 3))]
    assert all(
        isinstance(absent, int) and isinstance(source, int) and isinstance(coef, float)
        for absent, source, coef in log.stand_ins
    )


def test_a_mixture_stands_in_under_no_name() -> None:
    """In the first round nobody has a friend: the mean of those who came speaks for 2."""
    strategy = Strategy(compensator=FDMS())
    state = strategy.init(Population(3), torch.zeros(1), seed=0)
    cohort = strategy.select(state, np.ones(3, dtype=bool))
    log = log_of(strategy.apply(state, cohort, Arrivals([0, 1], torch.tensor([[1.0], [3.0]]))))
    assert log.stand_ins == [(2, -1, pytest.approx(1 / 3))]
    assert state.params.item() == pytest.approx(2.0)


def test_ones_own_old_update_is_no_stand_in() -> None:
    strategy = Strategy(compensator=Stale())
    state = strategy.init(Population(2), torch.zeros(1), seed=0)
    everyone = np.ones(2, dtype=bool)
    strategy.apply(state, strategy.select(state, everyone), Arrivals([0, 1], torch.ones(2, 1)))
    log = log_of(
        strategy.apply(state, strategy.select(state, everyone), Arrivals([0], torch.ones(1, 1)))
    )
    assert log.ids.tolist() == log.source.tolist() == [0, 1]
    assert log.stand_ins == []


# -- facts learnt on the way -----------------------------------------------------------------------


def test_examples_are_learnt_and_weigh_and_the_unknown_count_as_the_mean() -> None:
    """Four clients by examples; the population knows n_0 = 10 only.

    Round 0: 0 and 1 come, 1 tells n_1 = 30 in the same arrival. Ignore: weights 10 : 30, updates
        1 and 5, so the step is (10 x 1 + 30 x 5)/40 = 4.
    Round 1: 0 and 2 come; 2 tells nothing (the round has no n_examples), so it weighs the mean
        (10 + 30)/2 = 20: (10 x 1 + 20 x 4)/30 = 3.
    Round 2: 0 tells n_0 = 50 now, 3 tells n_3 = 40: (50 x 2 + 40 x 11)/90 = 6.
    """
    strategy = Strategy(compensator=Ignore(), weighting="examples")
    nan = float("nan")
    population = Population(4, n_examples=[10, nan, nan, nan])
    state = strategy.init(population, torch.zeros(1, dtype=torch.float64), seed=0)
    steps = []
    script: list[tuple[list[int], list[float], list[float] | None]] = [
        ([0, 1], [1, 5], [10, 30]),
        ([0, 2], [1, 4], None),
        ([0, 3], [2, 11], [50, 40]),
    ]
    for ids, updates, told in script:
        before = state.params.clone()
        cohort = strategy.select(state, np.ones(4, dtype=bool))
        deltas = torch.tensor(updates, dtype=torch.float64)[:, None]
        strategy.apply(state, cohort, Arrivals(ids, deltas, n_examples=told))
        steps.append((state.params - before).item())
    assert steps == pytest.approx([4, 3, 6])
    np.testing.assert_array_equal(state.n_examples, [50, 30, nan, 40])
    np.testing.assert_array_equal(population.n_examples, [10, nan, nan, nan])  # not touched


def test_an_absent_client_keeps_the_weight_it_would_have_had() -> None:
    """Stale by examples, n = (1, 2, 3), updates 6, 12, 18 in round 0: (6 + 24 + 54)/6 = 14.

    Round 1: only 0 comes, with 0; 1 and 2 are remembered: (0 + 24 + 54)/6 = 13. Client 2 tells by
    a late update that it has 5 examples now: (0 + 2 x 12 + 5 x 18)/8 = 14.25 in round 2.
    """
    strategy = Strategy(compensator=Stale(), weighting="examples")
    state = strategy.init(Population(3), torch.zeros(1, dtype=torch.float64), seed=0)
    steps = []
    script: list[dict[str, list[Any]]] = [
        {"ids": [0, 1, 2], "deltas": [6, 12, 18], "n_examples": [1, 2, 3]},
        {"ids": [0], "deltas": [0], "n_examples": [1]},
        {"ids": [0, 2], "deltas": [0, 18], "n_examples": [1, 5], "start_round": [2, 1]},
    ]
    for sent in script:
        before = state.params.clone()
        cohort = strategy.select(state, np.ones(3, dtype=bool))
        deltas = torch.tensor(sent.pop("deltas"), dtype=torch.float64)[:, None]
        strategy.apply(state, cohort, Arrivals(deltas=deltas, **sent))
        steps.append((state.params - before).item())
    assert steps == pytest.approx([14, 13, 14.25])


def test_with_no_examples_known_all_weigh_alike() -> None:
    strategy = Strategy(weighting="examples")
    state = strategy.init(Population(2), torch.zeros(1), seed=0)
    cohort = strategy.select(state, [True, True])
    strategy.apply(state, cohort, Arrivals([0, 1], torch.tensor([[1.0], [2.0]])))
    assert state.params.item() == 1.5
    assert state.known_population().n_examples is None


def test_a_retired_client_has_no_weight() -> None:
    """Stale, three clients, updates 3, 6, 9; client 2 retires: (3 + 6)/2 instead of 18/3."""
    strategy = Strategy(compensator=Stale())
    state = strategy.init(Population(3), torch.zeros(1), seed=0)
    everyone = np.ones(3, dtype=bool)
    deltas = torch.tensor([[3.0], [6.0], [9.0]])
    strategy.apply(state, strategy.select(state, everyone), Arrivals([0, 1, 2], deltas))
    assert state.params.item() == 6.0
    strategy.retire(state, 2)
    cohort = strategy.select(state, everyone)
    assert cohort.wanted.tolist() == [0, 1]
    applied = strategy.apply(state, cohort, Arrivals([0], deltas[:1]))
    assert state.params.item() == 6.0 + 4.5
    assert applied.outcome.tolist() == [CAME, MISSING, NOT_WANTED]
    for wrong in (3, -1, True, 1.0, "1"):
        with pytest.raises(ValueError, match="id: expected a whole number >= 0 and <= 2"):
            strategy.retire(state, wrong)  # type: ignore[arg-type]


def test_what_the_select_gave_is_not_tied_to_the_state() -> None:
    """A cohort is the caller's: changing it, or the mask, changes nothing inside."""
    strategy = Strategy()
    state = strategy.init(Population(3), torch.zeros(1), seed=0)
    mask = np.ones(3, dtype=bool)
    strategy.apply(state, strategy.select(state, mask), Arrivals.none())
    cohort = strategy.select(state, mask)
    mask[:] = False
    cohort.pending[:] = 77
    assert cohort.asked.tolist() == [0, 1, 2]
    assert state.pending.tolist() == [[0, 0], [1, 0], [2, 0]]


# -- the population --------------------------------------------------------------------------------


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"n_clients": 0}, r"n_clients: expected a whole number >= 1, got 0"),
    ({"n_clients": -3}, r"n_clients: expected a whole number >= 1, got -3"),
    ({"n_clients": 2.0}, r"n_clients: expected a whole number >= 1, got 2\.0"),
    ({"n_clients": True}, r"n_clients: expected a whole number >= 1, got True"),
    ({"n_clients": "2"}, r"n_clients: expected a whole number >= 1, got '2'"),
    ({"n_examples": [1]}, r"n_examples: expected shape \(2,?\), got \(1,\)"),
    ({"n_examples": 5}, r"n_examples: expected shape \(2,?\), got \(\)"),
    ({"n_examples": [[1, 2]]}, r"n_examples: expected shape \(2,?\), got \(1, 2\)"),
    ({"n_examples": [1, 0]}, r"n_examples\[1\]: expected a number > 0 .*, got 0\.0"),
    ({"n_examples": [-1, 1]}, r"n_examples\[0\]: expected a number > 0 .*, got -1\.0"),
    ({"n_examples": [1, np.inf]}, r"n_examples\[1\]: expected a number > 0 .*, got inf"),
    ({"n_examples": ["many", 1]}, r"n_examples: expected an array of float"),
    ({"label_counts": [1, 2]}, r"label_counts: expected shape \(2, any\), got \(2,\)"),
    ({"label_counts": [[1, 2]]}, r"label_counts: expected shape \(2, any\), got \(1, 2\)"),
    ({"label_counts": [[1, 2], [3]]}, r"label_counts: expected an array of float"),
    ({"label_counts": [[1, 2], [3, -4]]}, r"label_counts\[1\]: expected counts >= 0"),
    ({"label_counts": [[np.inf, 2], [3, 4]]}, r"label_counts\[0\]: expected counts >= 0"),
    ({"features": [[1.0]]}, r"features: expected shape \(2, any\), got \(1, 1\)"),
    ({"similarity": np.ones((2, 3))}, r"similarity: expected shape \(2, 2\), got \(2, 3\)"),
    ({"similarity": [[1, 0.5], [0.4, 1]]}, r"similarity: expected a symmetric matrix"),
    ({"similarity": [[1, np.inf], [np.inf, 1]]}, r"similarity\[0\]: expected finite numbers"),
    ({"p": [0.5, 1.5]}, r"p\[1\]: expected a probability in \[0, 1\], got 1\.5"),
    ({"p": [-0.1, 1]}, r"p\[0\]: expected a probability in \[0, 1\], got -0\.1"),
    ({"p": [np.nan, 1]}, r"p\[0\]: expected a probability in \[0, 1\], got nan"),
    ({"p": [0.5]}, r"p: expected shape \(2,?\), got \(1,\)"),
    ({"groups": [0]}, r"groups: expected shape \(2,?\), got \(1,\)"),
    ({"groups": ["a", "b"]}, r"groups: expected an array of int"),
]


@pytest.mark.parametrize(("fields", "message"), WRONG)
def test_a_wrong_population_is_refused_naming_field_range_and_value(
    fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Population(**{"n_clients": 2, **fields})


def test_a_population_copies_what_it_is_given() -> None:
    sizes = np.array([1.0, 2.0])
    population = Population(2, n_examples=sizes, groups=[3, 4])
    sizes[0] = 99
    assert population.n_examples is not None
    assert population.n_examples.tolist() == [1.0, 2.0]
    assert population.groups is not None
    assert population.groups.dtype == np.int64
    with pytest.raises(AttributeError):
        population.n_clients = 3  # type: ignore[misc]


def test_a_population_does_not_shrink_and_keeps_its_fields() -> None:
    strategy = Strategy()
    state = strategy.init(Population(3, p=[0.5] * 3), torch.zeros(1), seed=0)
    with pytest.raises(ValueError, match=r"at least the 3 clients there are, got 2; .*retire"):
        strategy.grow(state, Population(2, p=[0.5] * 2))
    with pytest.raises(ValueError, match=r"population\.p: the population had it"):
        strategy.grow(state, Population(4))
    assert state.n_clients == 3
    strategy.grow(state, Population(4, p=[0.5] * 4))
    assert state.n_clients == len(state.active) == len(state.n_examples) == 4
