"""What a number of examples is worth that no population confirms: at most a cap, or one vote."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from understudy import (
    FDMS,
    MIFA,
    Arrivals,
    ByData,
    Capped,
    FedAR,
    FedVARP,
    Gather,
    Ignore,
    KeepAsking,
    Median,
    Population,
    PowerOfChoice,
    Stale,
    Strategy,
    TrimmedMean,
)
from understudy.core.claims import believed, lower_median, without_gaps
from understudy.core.types import Applied
from understudy.parts.samplers.uniform import known_sizes
from understudy.server import checkpoint, checkpoint_contents
from understudy.server.checkpoint import load_state, save_state
from understudy.server.state import ServerState

HONEST = [2.0, 3.0, 4.0, 5.0, 6.0]
DELTAS = [*HONEST, -100.0]  # client 5 is the hostile one
CLAIMS = [10, 20, 30, 40, 50, 1e6]
SURE = Population(6, n_examples=np.array(CLAIMS))  # the same sizes, confirmed
NAN = float("nan")


def start(strategy: Strategy, population: Population | None = None) -> ServerState:
    return strategy.init(population or Population(6), torch.zeros(1, dtype=torch.float64), seed=0)


def play(
    strategy: Strategy, state: ServerState, came: Any = range(6), claims: Any = CLAIMS
) -> Applied:
    ids = list(came)
    cohort = strategy.select(state, np.ones(state.n_clients, dtype=bool))
    deltas = torch.tensor([[DELTAS[i]] for i in ids], dtype=torch.float64)
    told = [claims[i] for i in ids]
    return strategy.apply(state, cohort, Arrivals(ids, deltas, n_examples=told))


def by_examples(**parts: Any) -> Strategy:
    return Strategy(weighting="examples", **parts)


ROBUST = {
    "median": by_examples(aggregator=Median()),
    "trimmed": by_examples(aggregator=TrimmedMean(0.2)),
    "capped and median": by_examples(compensator=Capped(FDMS(), 0.2), aggregator=Median()),
    "capped and trimmed": by_examples(
        compensator=Capped(Stale(), 0.2), aggregator=TrimmedMean(0.2)
    ),
    "memory and median": by_examples(compensator=MIFA(wait=False), aggregator=Median()),
}


@pytest.mark.parametrize("name", ROBUST)
def test_a_claim_of_a_million_does_not_move_a_robust_round_beyond_the_honest(name):
    strategy = ROBUST[name]
    state = start(strategy)
    applied = play(strategy, state)
    assert 2 <= float(state.params) <= 6
    assert applied.notes["claims_ignored"] == 6  # nobody's size is confirmed
    assert applied.notes["rows_held"] >= 1
    before = float(state.params)
    play(strategy, state, came=[1, 2, 3, 4, 5])  # what was claimed before is no fact now
    assert 2 <= float(state.params) - before <= 6


def test_one_vote_each_is_the_ordinary_median():
    """Of -100, 2, 3, 4, 5, 6 the two middle values are 3 and 4."""
    strategy = ROBUST["median"]
    state = start(strategy)
    play(strategy, state)
    assert float(state.params) == pytest.approx(3.5)


def test_capped_gives_one_vote_where_the_sum_is_a_mean():
    """A mean has no bound, but six votes of one sixth each: (20 - 100) / 6."""
    strategy = by_examples(compensator=Capped(Ignore(), 0.2))
    state = start(strategy)
    play(strategy, state)
    assert float(state.params) == pytest.approx(-80 / 6)


def test_under_the_mean_a_claim_counts_at_most_ten_times_the_median():
    """The lower of the two middle claims is 30: 1e6 counts as 300, of 450 in all."""
    strategy = by_examples()
    state = start(strategy)
    applied = play(strategy, state)
    honest = sum(n * x for n, x in zip(CLAIMS[:5], HONEST, strict=True))
    assert float(state.params) == pytest.approx((honest - 300 * 100) / 450)
    assert applied.notes["claims_capped"] == 1
    assert applied.notes["claims_cap"] == 300
    assert state.n_examples.tolist() == CLAIMS  # kept as told: a claim


def test_the_factor_is_a_parameter():
    strategy = by_examples(claim_factor=1.0)
    state = start(strategy)
    applied = play(strategy, state)
    assert applied.notes["claims_capped"] == 3  # 40, 50 and the million
    counted = applied.contributions.coef / applied.contributions.coef[0] * 10
    np.testing.assert_allclose(counted, [10, 20, 30, 30, 30, 30])
    with pytest.raises(ValueError, match=r"claim_factor: expected a number in \[1, inf\], got 0"):
        Strategy(claim_factor=0.5)


def test_the_factor_is_told_where_it_is_not_the_default():
    from understudy.core.describe import describe

    assert "claim_factor" not in describe(Strategy())
    assert describe(Strategy(claim_factor=3.0))["claim_factor"] == 3.0
    assert "min_rows" not in describe(Strategy(aggregator=Median()))["aggregator"]
    assert "mixtures" not in describe(Strategy(aggregator=TrimmedMean()))["aggregator"]
    assert describe(Strategy(aggregator=Median(5)))["aggregator"]["min_rows"] == 5
    assert describe(Strategy(aggregator=Median(mixtures=False)))["aggregator"]["mixtures"] is False


@pytest.mark.parametrize(
    "strategy", [by_examples(), by_examples(aggregator=Median()), by_examples(compensator=Capped())]
)
def test_confirmed_sizes_are_never_capped(strategy):
    """Client 5 has 33,000 times the median, as the population says: it has nearly all weight."""
    state = start(strategy, SURE)
    applied = play(strategy, state)
    assert -100 <= float(state.params) < -99
    assert not {"claims_capped", "claims_ignored"} & applied.notes.keys()


def test_what_the_population_calls_claimed_is_not_confirmed():
    claimed = np.array([False] * 5 + [True])
    population = replace(SURE, claimed=claimed)
    assert population.confirmed.tolist() == [True] * 5 + [False]
    strategy = ROBUST["median"]
    state = start(strategy, population)
    applied = play(strategy, state)
    # the hostile one weighs 30, the mean of the others: with it, 2, 3 and 4 have half of all 180
    assert float(state.params) == pytest.approx(4.5)
    assert applied.notes["claims_ignored"] == 1
    with pytest.raises(ValueError, match=r"claimed: expected \(6,\) true or false"):
        replace(SURE, claimed=np.array([0.5] * 6))


@pytest.mark.parametrize(
    "strategy",
    [
        ROBUST["median"],
        ROBUST["trimmed"],
        by_examples(compensator=Capped(FDMS(), 0.2), aggregator=Median(min_rows=5, mixtures=False)),
    ],
    ids=["median", "trimmed", "capped"],
)
def test_one_vote_is_not_the_mean_of_confirmed_sizes_one_of_which_is_large(strategy):
    """Six are confirmed, one of them 34 times the others and away: the seventh's vote is 100."""
    sizes = np.array([3400.0, *[100.0] * 5, NAN])
    state = start(strategy, Population(7, n_examples=sizes))
    values, claims = [2.0, 3.0, 4.0, 5.0, 6.0, -100.0], [100] * 5 + [1]
    cohort = strategy.select(state, np.array([False] + [True] * 6))
    deltas = torch.tensor(values, dtype=torch.float64)[:, None]
    arrivals = Arrivals(np.arange(1, 7), deltas, n_examples=np.array(claims))
    applied = strategy.apply(state, cohort, arrivals)
    assert 2 <= float(state.params) <= 6
    assert applied.notes["rows_held"] >= 1


def test_a_robust_part_believes_no_more_than_the_population_says():
    """Ten times what it says is let in; as a vote it counts as it says."""
    strategy = ROBUST["median"]
    state = start(strategy, Population(6, n_examples=np.full(6, 10.0)))
    applied = play(strategy, state, claims=[10] * 5 + [100])
    assert applied.refusals == ()
    assert float(state.params) == pytest.approx(3.5)
    assert applied.notes["claims_ignored"] == 1


def test_figures_of_the_clients_themselves_bound_no_later_report():
    """A client that once said 10 may well have 200 now; one that was said to have 10 may not."""
    for claimed, n_refused in ((np.ones(6, dtype=bool), 0), (None, 1)):
        population = Population(6, n_examples=np.full(6, 10.0), claimed=claimed)
        strategy = by_examples()
        state = start(strategy, population)
        applied = play(strategy, state, claims=[10, 10, 10, 10, 10, 200])
        assert len(applied.refusals) == n_refused


# -- what else reads sizes ---------------------------------------------------------------------


def test_an_unknown_size_is_not_decided_by_one_claim():
    """Five claims, one of them hostile: the sixth client counts as their median."""
    strategy = by_examples(compensator=FedVARP())
    state = start(strategy)
    play(strategy, state, came=[1, 2, 3, 4, 5])
    cohort = strategy.select(state, np.ones(6, dtype=bool))
    filled = strategy.fill(state, cohort, Arrivals.none())
    assert filled.end.base.tolist() == [40, 20, 30, 40, 50, 400]
    assert without_gaps(np.array([10, 30, NAN, 20]), None).tolist() == [10, 30, 20, 20]


@pytest.mark.parametrize("sampler", [ByData(4), PowerOfChoice(2, candidates=3, losses="last")])
@pytest.mark.parametrize("aggregator", [None, Median()])
def test_samplers_by_size_draw_by_what_is_believed(sampler, aggregator):
    parts = {} if aggregator is None else {"aggregator": aggregator}
    strategy = Strategy(sampler=sampler, **parts)
    state = start(strategy)
    state.n_examples[:] = CLAIMS
    sizes = known_sizes(state.known_population())
    assert sizes.tolist() == ([10, 20, 30, 40, 50, 300] if aggregator is None else [1] * 6)


@pytest.mark.parametrize("compensator", [Stale(), MIFA(wait=False), FedAR(), FDMS()], ids=repr)
def test_memories_take_the_claims_of_the_absent_as_they_count_now(compensator):
    """The hostile one comes first and alone, when nobody can tell that its claim is odd."""
    strategy = by_examples(compensator=compensator)
    state = start(strategy)
    play(strategy, state, came=[5])
    applied = play(strategy, state, came=[0, 1, 2, 3, 4])
    share = applied.contributions.coef[applied.contributions.ids == 5].sum()
    assert share == pytest.approx(300 / 450, rel=0.08)  # FedAR gives an old update up to 2^0.1 more


def test_gather_takes_the_claims_of_those_who_came_first_as_they_count_now():
    strategy = by_examples(sampler=KeepAsking(), compensator=Gather())
    state = start(strategy)
    state.sampler.missing[:] = True  # all are wanted
    assert not play(strategy, state, came=[5]).stepped
    applied = play(strategy, state, came=[0, 1, 2, 3, 4])
    assert applied.stepped
    share = applied.contributions.coef[applied.contributions.ids == 5].sum()
    assert share == pytest.approx(300 / 450)


def test_a_late_claim_is_a_claim():
    strategy = by_examples(compensator=MIFA(wait=False))
    state = start(strategy)
    play(strategy, state, came=[0, 1, 2, 3, 4])
    cohort = strategy.select(state, np.ones(6, dtype=bool))
    late = Arrivals(
        [5], torch.full((1, 1), -100.0, dtype=torch.float64), n_examples=[1e6], start_round=[0]
    )
    assert strategy.apply(state, cohort, late).notes["claims_capped"] == 1
    applied = play(strategy, state, came=[0])
    assert applied.contributions.coef.max() == pytest.approx(300 / 450)


# -- what survives -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mean", "median"])
def test_a_saved_claim_is_still_a_claim(name, tmp_path):
    strategy = {"mean": by_examples(), "median": ROBUST["median"]}[name]
    sizes = np.array([10, NAN, NAN, NAN, NAN, 1e6])
    known = Population(6, n_examples=sizes, claimed=sizes == 1e6)
    state = start(strategy, known)
    play(strategy, state)
    save_state(state, tmp_path / "state.safetensors")
    again = load_state(tmp_path / "state.safetensors", strategy)
    assert again.population.confirmed.tolist() == [True] + [False] * 5
    play(strategy, state)
    play(strategy, again)
    assert torch.equal(again.params, state.params)
    whole = start(strategy, known)
    for _ in range(2):
        play(strategy, whole)
    assert torch.equal(again.params, whole.params)


def test_a_file_of_before_claims_were_told_apart_is_read(tmp_path, monkeypatch):
    """The population's sizes were all confirmed then; Gather did not note base weights."""
    strategy = by_examples(sampler=KeepAsking(), compensator=Gather())
    state = start(strategy, Population(6, n_examples=np.array([10, 20, 30, 40, 50, 60.0])))
    state.sampler.missing[:] = True
    claims = [10, 20, 30, 40, 50, 60]
    play(strategy, state, came=[5], claims=claims)
    older = tuple(name for name in checkpoint_contents.POPULATION if name != "claimed")
    packed = checkpoint._packed

    def packed_before(one):
        entries, about = packed(one)
        del entries["compensator.base_when_came"], about["kinds"]["compensator.base_when_came"]
        return entries, about

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "POPULATION", older)
        patch.setattr(checkpoint, "_packed", packed_before)
        save_state(state, tmp_path / "old.safetensors")
    again = load_state(tmp_path / "old.safetensors", strategy)
    assert again.population.claimed is None
    assert again.population.confirmed.all()
    for one in (state, again):
        play(strategy, one, came=[0, 1, 2, 3, 4], claims=claims)
    assert torch.equal(again.params, state.params)


def test_growing_confirms_nothing_by_itself():
    """Newcomers' sizes are what the larger population says; a claim of an old client stays one."""
    strategy = ROBUST["median"]
    state = start(strategy)
    play(strategy, state)
    strategy.grow(state, Population(8, n_examples=np.array([NAN] * 6 + [30, 1e6])))
    assert state.population.confirmed.tolist() == [False] * 6 + [True, True]
    grown = Population(9, n_examples=np.full(9, 1e6), claimed=np.array([False] + [True] * 8))
    strategy.grow(state, grown)
    assert state.population.confirmed.tolist() == [True] + [False] * 8
    strategy.grow(state, Population(10))
    assert state.population.confirmed.tolist() == [True] + [False] * 9
    assert np.isnan(state.n_examples[9])


# -- few rows ----------------------------------------------------------------------------------


def rows_held(aggregator: Any, came: list[int], compensator: Any = None) -> float:
    strategy = Strategy(aggregator=aggregator, compensator=compensator or Ignore())
    return play(strategy, start(strategy), came=came).notes["rows_held"]


def test_how_many_hostile_rows_a_round_holds_is_told():
    assert [rows_held(Median(), list(range(k))) for k in (1, 2, 3, 4, 5, 6)] == [0, 0, 1, 1, 2, 2]
    assert [rows_held(TrimmedMean(0.1), list(range(k))) for k in (2, 4, 6)] == [0, 0, 0]
    assert [rows_held(TrimmedMean(0.2), list(range(k))) for k in (4, 5, 6)] == [0, 1, 1]
    assert [rows_held(TrimmedMean(0.34), list(range(k))) for k in (2, 3, 6)] == [0, 1, 2]


def test_a_mixture_of_all_is_moved_by_one():
    """Nobody was seen together: FDMS lets the mean of the three that came speak for the others."""
    assert rows_held(Median(), [0, 1, 5], FDMS()) == 0
    assert rows_held(Median(mixtures=False), [0, 1, 5], FDMS()) == 1
    assert rows_held(TrimmedMean(0.34, mixtures=False), [0, 1, 5], FDMS()) == 1


def test_the_weight_of_a_mixture_gives_no_stand_in_more():
    """20 clients: 5 came, 4 are away and all most like client 0, 11 were never seen.

    Client 0 carries 1/20 for itself, the cap of 0.2 for others, and its fifth of the mixture's
    11/20. In proportion to all that it carries it would be more than half of the round.
    """
    strategy = Strategy(
        compensator=Capped(FDMS(), 0.2), aggregator=Median(min_rows=5, mixtures=False)
    )
    state = strategy.init(Population(20), torch.zeros(9), seed=0)
    everyone = torch.eye(9) * torch.arange(9)[:, None]  # 0 sends what all share, the others differ
    everyone[:, 0] = 1.0
    for came in (range(9), range(5)):
        cohort = strategy.select(state, np.ones(20, dtype=bool))
        applied = strategy.apply(state, cohort, Arrivals(list(came), everyone[list(came)]))
    filled = applied.contributions
    assert filled.coef[filled.source == 0].sum() == pytest.approx(0.25)
    assert filled.coef[filled.source < 0].sum() == pytest.approx(11 / 20)
    assert applied.notes["rows_held"] == 1


@pytest.mark.parametrize("robust", [Median, lambda **options: TrimmedMean(0.34, **options)])
def test_mixtures_can_be_left_out(robust):
    """An FDMS that has learnt nothing is then `Ignore`, under a robust aggregator as well."""
    moved = {}
    for mixtures in (True, False):
        strategy = by_examples(compensator=Capped(FDMS()), aggregator=robust(mixtures=mixtures))
        state = start(strategy)
        play(strategy, state, came=[0, 1, 5])
        moved[mixtures] = float(state.params)
    plain = by_examples(aggregator=robust())
    state = start(plain)
    play(plain, state, came=[0, 1, 5])
    assert moved[False] == pytest.approx(float(state.params))
    assert moved[False] == pytest.approx(2)  # of -100, 2 and 3
    assert moved[True] < -10


@pytest.mark.parametrize("k", [3, 4, 5, 6])
def test_where_it_says_that_it_holds_it_does(k):
    """Whatever the hostile one sends, the result lies between values of the honest ones."""
    strategy = ROBUST["median"]
    came = [*range(k - 1), 5]
    state = start(strategy)
    assert play(strategy, state, came=came).notes["rows_held"] >= 1
    assert min(HONEST[: k - 1]) <= float(state.params) <= max(HONEST[: k - 1])


def test_of_two_rows_the_median_is_the_mean():
    strategy = ROBUST["median"]
    state = start(strategy)
    assert play(strategy, state, came=[0, 5]).notes["rows_held"] == 0
    assert float(state.params) == -49


@pytest.mark.parametrize("aggregator", [Median(min_rows=3), TrimmedMean(0.34, min_rows=3)])
def test_with_too_few_rows_no_step_is_taken(aggregator):
    strategy = by_examples(aggregator=aggregator, compensator=FDMS())
    state = start(strategy)
    applied = play(strategy, state, came=[0, 5])  # and a mixture, which is nobody's row
    assert not applied.stepped
    assert applied.notes["too_few_rows"] == 2
    assert float(state.params) == 0
    assert state.t == 1
    assert state.idle.tolist() == [0]
    applied = play(strategy, state)
    assert applied.stepped
    assert "too_few_rows" not in applied.notes
    assert 2 <= float(state.params) <= 6


def test_memories_count_as_rows():
    strategy = Strategy(aggregator=Median(min_rows=3), compensator=Stale())
    state = start(strategy)
    assert play(strategy, state).stepped
    assert play(strategy, state, came=[0]).stepped  # and five remembered ones


@pytest.mark.parametrize("make", [Median, TrimmedMean])
def test_min_rows_is_checked(make):
    with pytest.raises(ValueError, match="min_rows: expected a whole number >= 1, got 0"):
        make(min_rows=0)


# -- the functions -----------------------------------------------------------------------------


def test_the_lower_median():
    assert lower_median(np.array([1e6, 100.0])) == 100
    assert lower_median(np.array([3.0, 1, 2])) == 2
    assert np.isnan(lower_median(np.zeros(0)))


def test_of_two_claims_the_smaller_one_is_the_measure():
    everyone = np.ones(2, dtype=bool)
    counted = believed(Population(2), np.array([100, 1e6]), everyone, factor=10.0, ignored=False)
    assert counted.tolist() == [100, 1000]


def test_claims_of_retired_clients_are_no_measure():
    active = np.array([True, True, True, False, False])
    sizes = np.array([10, 20, 1e6, 1e6, 1e6])
    counted = believed(Population(5), sizes, active, factor=10.0, ignored=False)
    assert counted[:3].tolist() == [10, 20, 200]
