"""The same strategy, live and simulated, comes to the same parameters."""

import numpy as np
import pytest
import torch
from flwr.app import ArrayRecord

from tests.flower.loopback import LoopbackGrid, nodes_of
from understudy import (
    MIFA,
    Bernoulli,
    FedAWE,
    FixedDropout,
    Local,
    Markov,
    Proximal,
    Scaffold,
    Strategy,
    fdms,
    fedgs,
    refl,
)
from understudy.flower import ClientData, UnderstudyStrategy, client_app
from understudy.simulation import Federation, build, clustered_digits, simulate

SEED = 3
ROUNDS = 15


@pytest.fixture(scope="module")
def federation() -> Federation:
    """In float64: in float32, last bits decide who resembles whom after some rounds."""
    digits = clustered_digits(n_clients=10, per_client=40)
    return Federation(digits.x.double(), digits.y, digits.clients, digits.test, n_classes=10)


@pytest.fixture(scope="module")
def module() -> torch.nn.Module:
    return build("mlp", (1, 8, 8), 10, seed=SEED).double()


def live(federation, module, strategy, availability, rounds=ROUNDS, **options):
    """The rounds through the adapter: its result, and the strategy with its state."""

    def data(context):
        held = torch.from_numpy(federation.clients[context.node_config["partition-id"]])
        return ClientData(federation.x[held], federation.y[held], n_classes=10)

    grid = LoopbackGrid(nodes_of(client_app(module, data), federation.n_clients))
    adapter = UnderstudyStrategy(
        strategy,
        seed=SEED,
        availability=availability,
        fraction_evaluate=0.0,
        clock=grid.time.clock(),
        **options,
    )
    result = adapter.start(grid, ArrayRecord(module.state_dict()), num_rounds=rounds)
    return result, adapter


def simulated(federation, module, strategy, availability, rounds=ROUNDS):
    run = simulate(
        federation,
        strategy,
        model=module,
        availability=availability,
        rounds=rounds,
        seed=SEED,
        workers=1,
    )
    return list(run), run


@pytest.mark.parametrize(
    ("strategy", "availability"),
    [
        (fdms(), FixedDropout(0.6)),
        (Strategy(compensator=MIFA(wait=False)), Bernoulli(0.5)),
        (fedgs(m=4), Markov(0.5)),
        (Strategy(compensator=FedAWE(model="last")), FixedDropout(0.4)),
        (refl(m=4), Bernoulli(0.5)),
        (Strategy(local=Local(lr=0.05, epochs=2, rule=Scaffold())), FixedDropout(0.4)),
        (
            Strategy(local=Local(steps=7, momentum=0.5, weight_decay=1e-3, rule=Proximal(0.1))),
            FixedDropout(0.4),
        ),
    ],
    ids=["fdms", "mifa", "fedgs", "fedawe", "refl", "scaffold", "proximal"],
)
def test_adapter_and_simulator_agree(federation, module, strategy, availability):
    logs, run = simulated(federation, module, strategy, availability)
    result, adapter = live(federation, module, strategy, availability)
    expected = run.state.params
    assert adapter.server.state.t == ROUNDS
    torch.testing.assert_close(adapter.server.state.params, expected, rtol=1e-5, atol=1e-10)
    sent = torch.cat(
        [torch.from_numpy(array.numpy()).reshape(-1) for array in result.arrays.values()]
    )
    torch.testing.assert_close(sent, expected, rtol=1e-5, atol=1e-10)
    came = {one.client for one in adapter.outcomes if one.outcome == 0}
    assert came == set(np.flatnonzero(logs[-1].outcome == 0).tolist())
    assert len(came) < federation.n_clients


def test_who_stands_in_for_whom_is_the_same(federation, module, tmp_path):
    from understudy.journal.file import LogFile

    logs, _ = simulated(federation, module, fdms(), FixedDropout(0.6))
    live(federation, module, fdms(), FixedDropout(0.6), folder=tmp_path / "run")
    stored = list(LogFile(tmp_path / "run" / "rounds.jsonl", ROUNDS).stored(ROUNDS))
    for ours, theirs in zip(stored, logs, strict=True):
        np.testing.assert_array_equal(ours.ids, theirs.ids)
        np.testing.assert_array_equal(ours.source, theirs.source)
        np.testing.assert_allclose(ours.coef, theirs.coef, rtol=1e-12)
        np.testing.assert_array_equal(ours.outcome, theirs.outcome)
    assert sum(len(log.stand_ins) for log in logs) > 50
