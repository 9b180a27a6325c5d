"""The workloads, as plain data: what every engine has to do, and how much work that is.

Speed does not depend on what the pictures show, so the data are drawn: one prototype per class plus
noise, which keeps training stable at the workloads' learning rates. Pictures are drawn as bytes, as
those of MNIST and CIFAR-10 are stored; every engine trains on the same floats, the bytes divided by
255, and keeps them as it does. Only NumPy is imported, because
not every engine's environment has torch; the models are named here and built in ``models.py``.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache, cached_property
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent.parent
DATA_VERSION = 3  # part of the file names: raise it when the way of drawing changes
N_CLASSES = 10

Stored = NDArray[np.uint8] | NDArray[np.float32]


def cache_folder() -> Path:
    """Where environments and drawn data are kept: UNDERSTUDY_BENCH, else .bench in the project."""
    folder = Path(os.environ.get("UNDERSTUDY_BENCH") or ROOT / ".bench")
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".gitignore").write_text("*\n")
    return folder


@dataclass(frozen=True)
class Workload:
    """One federated averaging job. A client makes `steps` steps, or `epochs` passes over its data.

    Sizes are multiples of the batch size where epochs count, because engines treat a last, smaller
    batch differently and would else do different work.
    """

    name: str
    title: str
    model: str  # a name in models.MODELS
    shape: tuple[int, ...]  # of one example
    sizes: tuple[int, ...]  # examples of each client
    trained: tuple[int, ...]  # the clients that train
    batch_size: int
    epochs: int | None
    steps: int | None
    lr: float
    weight_decay: float = 0.0
    cohort: int | None = None  # so many of them train, others in every round; None: all
    pictures: bool = True  # bytes

    def __post_init__(self) -> None:
        if (self.epochs is None) == (self.steps is None):
            raise ValueError(f"{self.name}: exactly one of epochs and steps must be given")
        if self.epochs is not None and any(size % self.batch_size for size in self.sizes):
            raise ValueError(f"{self.name}: sizes must be multiples of {self.batch_size}")
        if self.cohort is not None and len(set(self.sizes)) > 1:
            raise ValueError(f"{self.name}: a cohort that changes needs clients of one size")

    def client_steps(self, client: int) -> int:
        """Local steps of one client in one round."""
        if self.epochs is None:
            assert self.steps is not None
            return self.steps
        return self.epochs * self.sizes[client] // self.batch_size

    @property
    def steps_per_round(self) -> int:
        """Local steps of all clients in one round."""
        if self.cohort is not None:
            return self.cohort * self.client_steps(0)
        return sum(self.client_steps(client) for client in self.trained)

    @property
    def clients_per_round(self) -> int:
        """How many clients train in one round."""
        return self.cohort or len(self.trained)

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Where the examples of each client begin among all."""
        return np.cumsum([0, *self.sizes])

    @property
    def visited_per_client(self) -> int | None:
        """Examples a client sees in `steps` steps, for engines that can only count epochs."""
        return None if self.steps is None else self.steps * self.batch_size


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload(
            name="W1",
            title="FL-FDMS's MNIST: 20 clients × 200, CNN, batch 5, 2 epochs",
            model="mnist_cnn",
            shape=(1, 28, 28),
            sizes=(200,) * 20,
            trained=tuple(range(20)),
            batch_size=5,
            epochs=2,
            steps=None,
            lr=0.1,
        ),
        Workload(
            name="W2",
            title="FL-FDMS's CIFAR-10: 20 clients × 1000, LeNet, batch 20, 2 epochs",
            model="lenet",
            shape=(3, 32, 32),
            sizes=(1000,) * 20,
            trained=tuple(range(20)),
            batch_size=20,
            epochs=2,
            steps=None,
            lr=0.1,
        ),
        Workload(
            name="W3",
            title="FedAR's MNIST: 100 clients × 600, softmax regression, batch 64, 5 steps",
            model="softmax_784",
            shape=(784,),
            sizes=(600,) * 100,
            trained=tuple(range(100)),
            batch_size=64,
            epochs=None,
            steps=5,
            lr=0.1,
            weight_decay=0.001,
        ),
        Workload(
            name="W4",
            title="small and unequal: 6 of 30 clients, softmax regression, batch 10, 10 epochs",
            model="softmax_60",
            shape=(60,),
            # The six that train have 960 examples together, so 960 steps a round.
            sizes=(
                *(250, 110, 480, 60, 170, 130, 90, 320, 70, 400),
                *(50, 140, 1000, 80, 210, 120, 60, 150, 550, 100),
                *(190, 70, 280, 90, 130, 180, 60, 750, 110, 230),
            ),
            trained=(1, 5, 9, 13, 16, 25),
            batch_size=10,
            epochs=10,
            steps=None,
            lr=0.1,
            pictures=False,
        ),
        Workload(
            name="W5",
            title="perceptron: 50 clients × 200, MLP 784-200-200-10, batch 10, 2 epochs",
            model="mlp_200",
            shape=(784,),
            sizes=(200,) * 50,
            trained=tuple(range(50)),
            batch_size=10,
            epochs=2,
            steps=None,
            lr=0.05,
        ),
        Workload(
            name="W6",
            title="McMahan's CNN 32/64: 10 clients × 100, batch 10, 1 epoch",
            model="mcmahan_cnn",
            shape=(1, 28, 28),
            sizes=(100,) * 10,
            trained=tuple(range(10)),
            batch_size=10,
            epochs=1,
            steps=None,
            lr=0.05,
        ),
        Workload(
            name="W7",
            title="many: 1,000 of 10,000 clients × 20, softmax regression, batch 10, 1 epoch",
            model="softmax_60",
            shape=(60,),
            sizes=(20,) * 10_000,
            trained=tuple(range(10_000)),
            batch_size=10,
            epochs=1,
            steps=None,
            lr=0.1,
            cohort=1000,
            pictures=False,
        ),
    )
}
# the others of the peers were never the fastest
PEERS_OF = dict.fromkeys(("W5", "W6", "W7"), ("flower", "pfl", "fedjax"))


def _path(workload: Workload, part: str) -> Path:
    return cache_folder() / "data" / f"{workload.name}-v{DATA_VERSION}-{part}.npy"


def _save(path: Path, array: NDArray[np.generic]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(f".{os.getpid()}.tmp")
    with unfinished.open("wb") as file:
        np.save(file, array)
    unfinished.replace(path)


def draw(workload: Workload) -> tuple[Stored, NDArray[np.int64]]:
    """The workload's examples, the clients one after the other: (n, *shape) and (n,).

    The last one belongs to no client: a test set, for engines that want one.
    """
    rng = np.random.default_rng([DATA_VERSION, *workload.name.encode()])
    n, d = sum(workload.sizes) + 1, prod(workload.shape)
    prototypes = 0.5 * rng.standard_normal((N_CLASSES, d), dtype=np.float32)
    labels = rng.integers(0, N_CLASSES, n)
    examples = 0.5 * rng.standard_normal((n, d), dtype=np.float32)
    examples += prototypes[labels]
    stored: Stored = examples
    if workload.pictures:
        stored = np.clip(np.rint(128 + 60 * examples), 0, 255).astype(np.uint8)
    return stored.reshape(n, *workload.shape), labels


def floats_of(stored: Stored) -> NDArray[np.float32]:
    """What is trained on: bytes are divided by 255."""
    if stored.dtype == np.uint8:
        return stored.astype(np.float32) / np.float32(255)
    return stored.astype(np.float32, copy=False)


def prepare(workload: Workload) -> None:
    """Draw the data into the cache folder unless they are there; never part of a measured time."""
    if not (_path(workload, "x").exists() and _path(workload, "y").exists()):
        examples, labels = draw(workload)
        _save(_path(workload, "x"), examples)
        _save(_path(workload, "y"), labels)


def load_stored(workload: Workload) -> tuple[Stored, NDArray[np.int64]]:
    """All examples as they are stored, and labels, in memory."""
    prepare(workload)
    return np.load(_path(workload, "x")), np.load(_path(workload, "y"))


def load(workload: Workload) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """All examples and labels, in memory."""
    stored, labels = load_stored(workload)
    return floats_of(stored), labels


def client_slice(workload: Workload, client: int) -> slice:
    """Where the client's examples lie among all."""
    return slice(int(workload.starts[client]), int(workload.starts[client + 1]))


def load_client(workload: Workload, client: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """One client's examples and labels, in memory."""
    here, (examples, labels) = client_slice(workload, client), _mapped(workload.name)
    # Copies: pages of a mapped file would be faulted in during the measured rounds.
    return floats_of(np.array(examples[here])), np.array(labels[here])


@cache
def _mapped(name: str) -> tuple[Stored, NDArray[np.int64]]:
    workload = WORKLOADS[name]
    prepare(workload)
    return (
        np.load(_path(workload, "x"), mmap_mode="r"),
        np.load(_path(workload, "y"), mmap_mode="r"),
    )
