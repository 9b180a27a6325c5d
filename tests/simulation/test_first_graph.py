"""FedGS on graphs made of what clients train: as they come, and with everybody at the start."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.simulation.small import all_facts, federation
from understudy import Blind, FedGS, Population, Strategy, fedgs
from understudy.core.rng import generator
from understudy.core.types import Outcome
from understudy.graph import functional_similarity, update_similarity
from understudy.parts.local import Local
from understudy.simulation import simulate
from understudy.simulation.first_graph import validation_inputs

LOCAL = Local(lr=0.1, steps=3, batch_size=4)


def held(sizes=(8, 12, 9, 7, 10)):
    """Clients that hold two validation examples each."""
    made = federation(sizes, dtype=torch.float32)
    clients = tuple(mine[:-2] for mine in made.clients)
    return replace(made, clients=clients, validation=tuple(mine[-2:] for mine in made.clients))


def run_of(graph, *, data=None, wrap=lambda sampler: sampler, folder=None, rounds=3, **settings):
    sampler = FedGS(m=2, graph=graph, **settings)
    strategy = Strategy(sampler=wrap(sampler), local=LOCAL)
    data = held() if data is None else data
    return simulate(data, strategy, model="softmax", rounds=rounds, seed=4, folder=folder)


def came_in(log):
    """All can be reached: whoever is picked comes."""
    return np.flatnonzero(log.outcome == Outcome.CAME).tolist()


def twin(run, graph):
    """V of everybody's update from the first model, by the functions of the two equations."""
    start, n = run.start(), run.federation.n_clients
    deltas = run.train(start, np.arange(n), 0).deltas.clone()
    if graph == "updates":
        return update_similarity(deltas)
    return functional_similarity(
        run.module(),
        [start + delta for delta in deltas],
        validation_inputs(run.federation, 4),
        generator(4, "graph/noise"),
    )


@pytest.mark.parametrize("graph", ["updates", "functional"])
@pytest.mark.parametrize("wrap", [lambda sampler: sampler, Blind], ids=["alone", "blind"])
def test_everybody_is_known_before_the_first_round(graph, wrap):
    run = run_of(graph, wrap=wrap, everybody_first=True)
    state, sampler = run.state.sampler, run.strategy.sampler
    sampler = getattr(sampler, "inner", sampler)
    assert state.first.known.all()
    assert state.counts.tolist() == [0] * 5  # nobody was picked
    known = sampler._similarity(state, run.state.population)
    np.testing.assert_allclose(known, twin(run, graph), rtol=1e-5, atol=1e-7)
    assert [len(came_in(log)) for log in run] == [2, 2, 2]
    assert state.counts.sum() == 6


@pytest.mark.parametrize("graph", ["updates", "functional"])
def test_clients_come_in_as_they_are_first_seen(graph):
    run = run_of(graph, rounds=1)
    assert not run.state.sampler.first.known.any()
    (log,) = run
    assert np.flatnonzero(run.state.sampler.first.known).tolist() == came_in(log)


@pytest.mark.parametrize("graph", ["updates", "functional"])
def test_a_resumed_run_has_the_same_bits(graph, tmp_path):
    whole = all_facts(run_of(graph, everybody_first=True, rounds=4))
    for _ in run_of(graph, everybody_first=True, rounds=2, folder=tmp_path / "run"):
        pass
    rest = run_of(graph, everybody_first=True, rounds=4, folder=tmp_path / "run")
    assert all_facts(rest) == whole


def test_the_graph_of_answers_needs_validation_examples():
    with pytest.raises(ValueError, match="needs a validation set"):
        run_of("functional", data=federation((8, 12, 5), dtype=torch.float32))


def test_elsewhere_the_graph_has_to_be_given_what_it_is_made_of():
    for strategy, words in (
        (fedgs(graph="functional"), "needs answers="),
        (fedgs(graph="updates", everybody_first=True), "nobody was trained before round 0"),
    ):
        state = strategy.init(Population(5), torch.zeros(4), seed=0)
        with pytest.raises(ValueError, match=words):
            strategy.select(state, available=np.ones(5))
    with pytest.raises(ValueError, match="everybody_first: expected graph="):
        FedGS(graph="labels", everybody_first=True)
