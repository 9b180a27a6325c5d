"""What a person sees: strategies, federations and runs in a few words."""

from dataclasses import dataclass, field

import numpy as np
import pytest
import torch

import understudy
from tests.simulation import small
from understudy import (
    FDMS,
    Blind,
    Capped,
    Exponential,
    FedGS,
    FixedDropout,
    Local,
    NormGuard,
    Strategy,
    Uniform,
    registry,
    stale,
)
from understudy.core.shown import WIDTH, part_text
from understudy.simulation import Federation, clustered_digits, simulate

NAMES = {name: getattr(understudy, name) for name in dir(understudy)}


# -- strategies ------------------------------------------------------------------------------------


def test_a_strategy_tells_what_differs_from_the_defaults():
    assert repr(Strategy()) == "Strategy(weighting='examples')"
    assert repr(Strategy(weighting="clients")) == "Strategy(weighting='clients')"
    assert repr(Strategy(Uniform(2))) == "Strategy(sampler=Uniform(m=2), weighting='examples')"


def test_a_long_strategy_has_a_line_for_each_part():
    strategy = Strategy(
        sampler=Blind(FedGS(alpha=2.0)),
        compensator=Capped(FDMS(), 0.1),
        local=Local(schedule=Exponential(), steps=10),
        guard=NormGuard(3.0),
    )
    assert repr(strategy) == (
        "Strategy(\n"
        "    sampler=Blind(inner=FedGS(alpha=2.0)),\n"
        "    compensator=Capped(share=0.1),\n"
        "    local=Local(schedule=Exponential(), steps=10),\n"
        "    guard=NormGuard(factor=3.0),\n"
        "    weighting='examples',\n"
        ")"
    )


@pytest.mark.parametrize("name", registry.STRATEGIES)
def test_every_method_is_read_back_from_its_repr(name):
    strategy = registry.STRATEGIES[name]()
    assert eval(repr(strategy), NAMES) == strategy
    assert eval(part_text(strategy), NAMES) == strategy
    assert "\n" not in part_text(strategy)
    assert ("\n" in repr(strategy)) == (len(part_text(strategy)) > WIDTH)


def test_a_whole_number_where_the_default_is_a_fraction_is_told():
    """As a sampler's m, 1 is one client and 1.0 is everyone."""

    @dataclass(frozen=True)
    class Part:
        share: float = 1.0
        table: np.ndarray = field(default_factory=lambda: np.zeros(2))

    same = np.zeros(2)
    assert part_text(Part(1, same)) == "Part(share=1, table=array([0., 0.]))"


# -- federations -----------------------------------------------------------------------------------


def test_a_federation_tells_who_holds_how_much():
    assert repr(clustered_digits()) == (
        "<Federation 'digits': 20 clients in 5 groups, 1,280 training examples (64 each), "
        "359 for testing, inputs of shape (1, 8, 8), 10 classes>"
    )
    assert repr(small.federation()) == (
        "<Federation: 3 clients, 25 training examples (5 to 12 each), 5 for testing, "
        "inputs of shape (6,), 3 classes>"
    )


def test_a_federation_of_one_client_with_targets():
    federation = Federation.from_arrays(
        np.zeros((20, 3)), np.linspace(0, 1, 20), clients=["me"] * 20, test=0.2, validation=0.1
    )
    assert repr(federation) == (
        "<Federation: 1 client, 14 training examples (14 each), 2 for validation, 4 for testing "
        "(each client's own), inputs of shape (3,), regression>"
    )


# -- runs ------------------------------------------------------------------------------------------


def test_a_run_tells_its_strategy_how_far_it_is_and_how_good():
    run = simulate(
        clustered_digits(), stale(), model="softmax", availability=FixedDropout(0.5), rounds=3,
        evaluate_every=2, workers=1,
    )  # fmt: skip
    begin = f"<Run of {stale()!r}: "
    assert repr(run) == f"{begin}0 of 3 rounds done>"
    evaluated = {}
    for log in run:
        evaluated |= log.metrics
        told = f", test_accuracy {evaluated['test_accuracy']:.4f}" if evaluated else ""
        assert repr(run) == f"{begin}{log.t + 1} of 3 rounds done{told}>"
    assert evaluated


def test_a_run_without_accuracy_tells_its_loss():
    targets = np.linspace(0, 1, 30)[:, None]
    federation = Federation.from_arrays(np.eye(30), targets, clients=np.arange(30) % 3)
    run = simulate(
        federation, Strategy(), model="softmax", rounds=1, workers=1,
        loss=torch.nn.functional.mse_loss,
    )  # fmt: skip
    (log,) = run
    assert repr(run) == (
        f"<Run of {Strategy()!r}: 1 of 1 rounds done, test_loss {log.metrics['test_loss']:.4f}>"
    )
