"""The workloads, as plain data: what every engine has to do, and how much work that is.

Speed does not depend on what the pictures show, so the data are drawn: one prototype per class plus
noise, which keeps training stable at the workloads' learning rates. Only NumPy is imported, because
not every engine's environment has torch; the models are named here and built in ``models.py``.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent.parent
DATA_VERSION = 2  # part of the file names: raise it when the way of drawing changes
N_CLASSES = 10


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
    trained: tuple[int, ...]  # the clients that train, the same in every round
    batch_size: int
    epochs: int | None
    steps: int | None
    lr: float
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        if (self.epochs is None) == (self.steps is None):
            raise ValueError(f"{self.name}: exactly one of epochs and steps must be given")
        if self.epochs is not None and any(size % self.batch_size for size in self.sizes):
            raise ValueError(f"{self.name}: sizes must be multiples of {self.batch_size}")

    def client_steps(self, client: int) -> int:
        """Local steps of one client in one round."""
        if self.epochs is None:
            assert self.steps is not None
            return self.steps
        return self.epochs * self.sizes[client] // self.batch_size

    @property
    def steps_per_round(self) -> int:
        """Local steps of all clients in one round."""
        return sum(self.client_steps(client) for client in self.trained)

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
    )
}
# the others of the peers were never the fastest
PEERS_OF = {"W5": ("flower", "pfl", "fedjax"), "W6": ("flower", "pfl", "fedjax")}


def _path(workload: Workload, part: str) -> Path:
    return cache_folder() / "data" / f"{workload.name}-v{DATA_VERSION}-{part}.npy"


def _save(path: Path, array: NDArray[np.generic]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(f".{os.getpid()}.tmp")
    with unfinished.open("wb") as file:
        np.save(file, array)
    unfinished.replace(path)


def draw(workload: Workload) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The workload's examples, the clients one after the other: (n, *shape) and (n,).

    The last one belongs to no client: a test set, for engines that want one.
    """
    rng = np.random.default_rng([DATA_VERSION, *workload.name.encode()])
    n, d = sum(workload.sizes) + 1, prod(workload.shape)
    prototypes = 0.5 * rng.standard_normal((N_CLASSES, d), dtype=np.float32)
    labels = rng.integers(0, N_CLASSES, n)
    examples = 0.5 * rng.standard_normal((n, d), dtype=np.float32)
    examples += prototypes[labels]
    return examples.reshape(n, *workload.shape), labels


def prepare(workload: Workload) -> None:
    """Draw the data into the cache folder unless they are there; never part of a measured time."""
    if not (_path(workload, "x").exists() and _path(workload, "y").exists()):
        examples, labels = draw(workload)
        _save(_path(workload, "x"), examples)
        _save(_path(workload, "y"), labels)


def load(workload: Workload) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """All examples and labels, in memory."""
    prepare(workload)
    return np.load(_path(workload, "x")), np.load(_path(workload, "y"))


def client_slice(workload: Workload, client: int) -> slice:
    """Where the client's examples lie among all."""
    start = sum(workload.sizes[:client])
    return slice(start, start + workload.sizes[client])


def load_client(workload: Workload, client: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """One client's examples and labels, in memory."""
    prepare(workload)
    here = client_slice(workload, client)
    # A copy: pages of a mapped file would be faulted in during the measured rounds.
    examples = np.array(np.load(_path(workload, "x"), mmap_mode="r")[here])
    labels = np.array(np.load(_path(workload, "y"), mmap_mode="r")[here])
    return examples, labels
