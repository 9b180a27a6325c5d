"""Images that are kept as bytes train to the bits of their floats, by every build and engine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.simulation.small import federation
from tests.simulation.training.kernels.nets import by_loop, made, needs_kernels, recipe, trained
from understudy import Local, fedavg
from understudy.memory.pixels import ByteScale, Pixels
from understudy.simulation import Federation, federate, simulate
from understudy.simulation.data.fingerprint import federation_digest
from understudy.simulation.data.models import build as build_model
from understudy.simulation.training.kernel_engine import KernelEngine
from understudy.simulation.training.kernels import unpacking
from understudy.simulation.training.trainers.ray_work import Kit
from understudy.simulation.training.trainers.task import TrainingTask

SIZES = (30, 11, 1, 64, 7)
CIFAR = ByteScale(255.0, (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))
CASES = {
    "lenet5": ((3, 32, 32), CIFAR),
    "fdms_cnn": ((1, 28, 28), ByteScale(255.0, (0.1307,), (0.3081,))),
    "softmax": ((784,), ByteScale()),
    "mlp": ((45,), ByteScale(16.0)),
}


def both(shape: tuple[int, ...], scaling: ByteScale) -> tuple[Federation, Federation]:
    """The same data, kept as bytes and as floats."""
    data = federation(SIZES, shape, 10)
    draw = torch.Generator().manual_seed(0)
    stored = torch.randint(0, 256, data.x.shape, dtype=torch.uint8, generator=draw)
    kept = Pixels(stored, scaling)
    order = np.random.default_rng(0).permutation(len(stored))  # they lie anywhere
    return tuple(
        Federation(x, data.y, data.clients, data.test, n_classes=10)
        for x in (kept.laid_out(order), kept.floats())
    )


@needs_kernels
@pytest.mark.parametrize("isa", ["avx2", "avx512"])
@pytest.mark.parametrize("case", CASES)
def test_the_kernels_train_and_say_the_same(build, case: str, isa: str) -> None:
    (shape, scaling), local = CASES[case], Local(lr=0.05, epochs=2, batch_size=9)
    module, library = made(lambda: build_model(case, shape, 10, 1), torch.float32), None
    library = build("float32", isa, None)
    found = []
    for data in both(shape, scaling):
        engine = KernelEngine(recipe(module, data, local), data.x, data.y, library=library)
        assert (engine._unpacking is not None) == isinstance(data.x, Pixels)
        rows, told = trained(engine, module, range(len(SIZES)))
        outputs = engine.outputs(rows[0], np.arange(len(data.y)))
        found.append((rows.numpy().tobytes(), told, outputs.numpy().tobytes()))
    assert found[0] == found[1]


@needs_kernels
def test_where_compiled_code_would_differ_the_inputs_are_floats(build, monkeypatch) -> None:
    """A byte that came out otherwise: the engine takes plain floats, and the bits stay."""
    kept, plain = both(*CASES["softmax"])
    module, local = made(lambda: build_model("softmax", (784,), 10, 1), torch.float32), Local()
    expected, _ = trained(
        KernelEngine(recipe(module, plain, local), plain.x, plain.y, library=build("float32")),
        module, [0],
    )  # fmt: skip
    real = ByteScale.terms
    monkeypatch.setattr(ByteScale, "terms", lambda self: real(self) * np.float32(1.0000002))
    engine = KernelEngine(recipe(module, kept, local), kept.x, kept.y, library=build("float32"))
    assert engine._unpacking is None
    assert type(engine.x) is torch.Tensor
    assert torch.equal(trained(engine, module, [0])[0], expected)


@needs_kernels
@pytest.mark.parametrize("beyond", [-1, 118, 2**40])
def test_an_index_beyond_the_examples_is_an_error_wherever_they_lie(build, beyond: int) -> None:
    kept, _ = both(*CASES["softmax"])
    assert len(kept.x) == 118
    module = made(lambda: build_model("softmax", (784,), 10, 1), torch.float32)
    own = recipe(module, kept, Local())
    own = replace(own, clients=(np.array([0, beyond]), *kept.clients[1:]))
    engine = KernelEngine(own, kept.x, kept.y, library=build("float32"))
    with pytest.raises(IndexError, match=r"clients\[0\]: expected indices of 0 \.\. "):
        trained(engine, module, [0])
    with pytest.raises(IndexError, match=r"indices: expected indices of 0 \.\. "):
        engine.outputs(torch.zeros(engine.plan.d), np.array([0, beyond]))


def test_a_federation_lays_a_clients_images_side_by_side() -> None:
    """So that a round reads stretches of memory; numbers, and with them all bits, stay."""
    data = federate("digits", "dirichlet", n_clients=10, alpha=0.5, seed=1)
    assert isinstance(data.x, Pixels)
    assert data.x.place is not None
    first = 0
    for held in data.clients:
        assert data.x.place[held].tolist() == list(range(first, first + len(held)))
        first += len(held)
    assert not all((np.diff(held) == 1).all() for held in data.clients)


@needs_kernels
def test_channels_of_few_numbers_are_floats(build, monkeypatch) -> None:
    kept, _ = both(*CASES["mlp"])
    module = made(lambda: build_model("mlp", (45,), 10, 1), torch.float32)
    monkeypatch.setattr(unpacking, "SHORTEST", 46)
    engine = KernelEngine(recipe(module, kept, Local()), kept.x, kept.y, library=build("float32"))
    assert engine._unpacking is None


@pytest.mark.parametrize("case", CASES)
def test_the_loop_trains_the_same(case: str) -> None:
    (shape, scaling), local = CASES[case], Local(lr=0.05, epochs=1, batch_size=9)
    module = made(lambda: build_model(case, shape, 10, 1), torch.float32)
    (rows, told), (expected, told_before) = (
        by_loop(module, data, local, range(len(SIZES))) for data in both(shape, scaling)
    )
    assert torch.equal(rows, expected)
    assert told == told_before


@pytest.mark.parametrize("engine", ["auto", "loop"])
def test_whole_runs_are_the_same_and_so_is_what_they_are_called(engine: str) -> None:
    kept, plain = both(*CASES["softmax"])
    assert federation_digest(kept) == federation_digest(plain)
    runs = [
        simulate(
            data,
            fedavg(local=Local(lr=0.05)),
            model="softmax",
            rounds=2,
            evaluate=("test", "train"),
            per_client_every=1,
            engine=engine,
            workers=1,
        )
        for data in (kept, plain)
    ]
    one, other = (list(run) for run in runs)
    assert torch.equal(runs[0].state.params, runs[1].state.params)
    assert [log.metrics for log in one] == [log.metrics for log in other]


@pytest.mark.process
def test_worker_processes_share_the_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    from understudy.simulation.training.trainers import loop_trainer

    monkeypatch.setattr(loop_trainer, "WORTH_WORKERS", 0.0)
    kept, plain = both((1, 20, 39), ByteScale())  # rows that are no multiple of 64 bytes
    found = []
    for data, workers in ((kept, 2), (plain, 1)):
        run = simulate(
            data, fedavg(local=Local(lr=0.05)), model="softmax", rounds=2, engine="loop",
            workers=workers,
        )  # fmt: skip
        list(run)
        found.append(run.state.params)
    assert torch.equal(*found)
    assert isinstance(kept.x, Pixels)
    assert kept.x.stored.data_ptr() == kept.shared()[0].tensor.data_ptr()
    assert torch.equal(kept.x, plain.x)


def test_bytes_travel_to_a_cluster_as_bytes() -> None:
    kept, plain = both(*CASES["softmax"])
    module = made(lambda: build_model("softmax", (784,), 10, 1), torch.float32)
    kit = Kit.of(TrainingTask.of(kept, module, Local(), 0))
    assert kit.x.data.nbytes * 4 == plain.x.nbytes
    x = kit.task().federation.x
    assert isinstance(x, Pixels)
    assert torch.equal(x, plain.x)


def test_images_of_users_stay_bytes_and_become_the_same_floats() -> None:
    images = np.random.default_rng(0).integers(0, 256, (30, 1, 6, 6), dtype=np.uint8)
    labels, whose = np.arange(30) % 3, np.arange(30) % 5
    data = Federation.from_arrays(images, labels, clients=whose)
    assert isinstance(data.x, Pixels)
    assert torch.equal(data.x, torch.from_numpy(images).float() / 255)
    tested = Federation.from_arrays(images, labels, clients=whose, test=(images[:4], labels[:4]))
    assert isinstance(tested.x, Pixels)
    assert torch.equal(tested.x[30:], data.x[:4])
    double = Federation.from_arrays(images, labels, clients=whose, dtype=torch.float64)
    assert type(double.x) is torch.Tensor
    assert torch.equal(replace(data, name="again").x, data.x)
