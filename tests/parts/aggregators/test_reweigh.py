"""Aggregators that give each client's stand-in a weight of their own, and what follows from it."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from understudy import (
    FDMS,
    MIFA,
    Arrivals,
    Capped,
    FedAR,
    FedAvgIS,
    FedVARP,
    Ignore,
    Local,
    Population,
    Stale,
    Strategy,
    Uniform,
)
from understudy.core.types import Block, Contributions
from understudy.parts.aggregators.linear import linear_sum
from understudy.parts.aggregators.stand_ins import refuse_without_stand_ins, stand_ins
from understudy.parts.schedules import inverse_time
from understudy.testing import ContractBroken, check_aggregator, play


@dataclass(frozen=True)
class Twice:
    """The first client's stand-in counts twice."""

    def check(self, strategy):
        refuse_without_stand_ins(self, strategy)

    def reweigh(self, contributions, end):
        told = stand_ins(contributions, end.n_parameters)
        weight = told.share * np.where(told.ids == 0, 2.0, 1.0)
        return told.weighted(contributions, weight, {"twice": 1.0})

    def aggregate(self, contributions):
        return linear_sum(contributions)


def rounds(strategy: Strategy, script, n: int = 3, n_parameters: int = 2, p=None):
    """What `fill` gave in each round of {client: update}; rows are borrowed until the next."""
    sizes = np.arange(1.0, n + 1)
    population = Population(n, n_examples=sizes, p=p)
    start = torch.zeros(3, dtype=torch.float64)
    state = strategy.init(population, start, n_parameters=n_parameters)
    for came in script:
        cohort = strategy.select(state, np.ones(n, dtype=bool))
        ids = sorted(set(came) & set(cohort.asked.tolist()))
        deltas = torch.tensor([came[i] for i in ids], dtype=torch.float64).reshape(len(ids), 3)
        filled = strategy.fill(state, cohort, Arrivals(ids, deltas, sizes[ids]))
        yield filled
        strategy.finish(state, filled)


SCRIPT = [
    {0: (1.0, 0, 8), 1: (0.0, 1, 4), 2: (1.0, 1, 2)},
    {0: (2.0, 0, 6), 1: (0.0, 3, 1)},
    {1: (1.0, 1, 1), 2: (5.0, 1, 3)},
    {2: (1.0, 2, 3)},
]


def test_the_step_the_log_and_the_note_have_the_new_coefficients() -> None:
    """Shares 1/6, 2/6, 3/6. Parameters: (2·(1, 0) + 2·(0, 1) + 3·(1, 1))/6; the buffer as ever."""
    filled = next(rounds(Strategy(aggregator=Twice()), SCRIPT))
    assert filled.update.tolist() == pytest.approx([5 / 6, 5 / 6, (8 + 8 + 6) / 6])
    assert filled.contributions.coef == pytest.approx([2 / 6, 2 / 6, 3 / 6])
    assert filled.stand_ins.coef == pytest.approx([1 / 6, 2 / 6, 3 / 6])
    assert filled.notes["largest_share"] == pytest.approx(3 / 7)
    assert filled.notes["twice"] == 1


def test_the_log_of_a_round_has_the_new_coefficients() -> None:
    strategy = Strategy(aggregator=Twice(), weighting="clients")
    state = strategy.init(Population(3), torch.zeros(3))
    _, applied = play(strategy, state, 0, available=np.ones(3, dtype=bool))
    own = np.where(applied.contributions.ids == 0, 2.0, 1.0)
    assert applied.contributions.coef == pytest.approx(own / len(own))


COMPENSATORS = [
    Ignore(),
    FDMS(),
    Stale(),
    Stale("model"),
    MIFA(wait=False),
    FedAR(rho=0.5),
    FedVARP(),
    FedAvgIS(),
    Capped(FDMS(), 0.2),
    Capped(Stale(), 0.2),
]


@pytest.mark.parametrize("sampler", [None, Uniform(2)], ids=["everyone", "two"])
@pytest.mark.parametrize("compensator", COMPENSATORS, ids=repr)
def test_stand_ins_weighted_by_shares_are_what_the_compensator_sums_to(compensator, sampler):
    fields = {} if sampler is None else {"sampler": sampler}
    local = Local(lr=0.5, schedule=inverse_time)
    strategy = Strategy(compensator=compensator, aggregator=Twice(), local=local, **fields)
    plain = replace(strategy, aggregator=Strategy().aggregator)
    p = np.full(3, 0.5)
    pairs = zip(rounds(strategy, SCRIPT, p=p), rounds(plain, SCRIPT, p=p), strict=True)
    first = True
    for filled, without in pairs:
        same = linear_sum(filled.stand_ins) if len(filled.stand_ins) else None
        if first and same is not None:  # later the two models differ, and models may be rows
            assert torch.allclose(same, without.update, rtol=1e-12)
            assert torch.allclose(filled.update[2:], without.update[2:], rtol=1e-12)
        first = first and same is None
        if len(filled.stand_ins):
            told = stand_ins(filled.stand_ins, 2)
            vectors = np.stack([explicit(filled.stand_ins, i) for i in told.ids])
            np.testing.assert_allclose(told.gram, vectors @ vectors.T, rtol=1e-12, atol=1e-12)
            total = told.share @ vectors
            np.testing.assert_allclose(total, linear_sum(filled.stand_ins)[:2], rtol=1e-12)


def explicit(told: Contributions, client: int) -> np.ndarray:
    """A stand-in, summed entry by entry."""
    mine = np.flatnonzero(told.ids == client)
    share = told.coef[mine].sum() if told.share is None else told.share[mine[0]]
    rows = [told.vector(int(told.row[e]))[:2].numpy() * told.coef[e] / share for e in mine]
    return np.sum(rows, axis=0)


def test_stand_ins_of_fedvarp() -> None:
    """Round 1, shares 1/6, 2/6, 3/6; 0 and 1 came, whose weights among them are 1/3 and 2/3.

    They stand for themselves. 2: its (1, 1) of round 0, plus 1/3 of (2, 0) − (1, 0) and 2/3 of
    (0, 3) − (0, 1): (4/3, 7/3).
    """
    strategy = Strategy(compensator=FedVARP(), aggregator=Twice())
    filled = list(itertools.islice(rounds(strategy, SCRIPT), 2))[1]
    assert explicit(filled.stand_ins, 0).tolist() == pytest.approx([2, 0])
    assert explicit(filled.stand_ins, 1).tolist() == pytest.approx([0, 3])
    assert explicit(filled.stand_ins, 2).tolist() == pytest.approx([4 / 3, 7 / 3])


@dataclass(frozen=True)
class Signed:
    """FedVARP without a word on what stands in for whom."""

    signed = True
    normalised = True

    def init(self, setup):
        return FedVARP().init(setup)

    def fill(self, state, end):
        return FedVARP().fill(state, end)

    def learn(self, state, end, step):
        return FedVARP().learn(state, end, step)


def test_signed_coefficients_without_stand_ins_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"Twice weighs .*; Signed gives signed coefficients"):
        Strategy(compensator=Signed(), aggregator=Twice())


def test_a_client_without_a_share_is_no_stand_in() -> None:
    block = Block(np.array([0, 1]), torch.eye(2, dtype=torch.float64))
    told = stand_ins(Contributions.of(([0, 1], block, [0, 1], [0.0, 1.0])), 2)
    assert told.ids.tolist() == [1]
    weighed = told.weighted(Contributions.of(([0, 1], block, [0, 1], [0.0, 1.0])), np.array([3.0]))
    assert weighed.coef.tolist() == [0.0, 3.0]


@dataclass(frozen=True)
class Answers:
    """An aggregator that reweighs to whatever it was told."""

    answer: object

    def reweigh(self, contributions, end):
        return self.answer(contributions)

    def aggregate(self, contributions):
        return linear_sum(contributions)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda told: None, "Answers.reweigh: expected Contributions, got None"),
        (lambda told: replace(told, ids=told.ids[::-1]), "expected the entries it was given"),
        (lambda told: replace(told, coef=told.coef * np.nan), "expected coef of shape"),
        (lambda told: replace(told, coef=told.coef[:1]), "expected coef of shape"),
        (
            lambda told: replace(told, buffer_coef=told.coef[:1], n_parameters=2),
            "expected buffer_coef of shape",
        ),
    ],
)
def test_a_bad_answer_is_named(answer, words) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        next(rounds(Strategy(aggregator=Answers(answer)), SCRIPT))


def test_the_public_check_finds_buffers_that_are_not_normalised() -> None:
    check_aggregator(Twice())
    with pytest.raises(ContractBroken, match="buffers keep coefficients"):
        check_aggregator(Answers(doubled))


def doubled(told: Contributions) -> Contributions:
    return replace(told, coef=2 * told.coef)


def test_coefficients_of_buffers_come_with_their_place() -> None:
    with pytest.raises(ValueError, match="n_parameters: expected a number with buffer_coef"):
        replace(Contributions.none(), buffer_coef=np.zeros(0))


def test_an_empty_round_is_not_reweighed() -> None:
    strategy = Strategy(aggregator=Twice())
    state = strategy.init(Population(3), torch.zeros(3))
    _, applied = play(strategy, state, 0, available=np.zeros(3, dtype=bool))
    assert not applied.stepped
    assert "twice" not in applied.notes
