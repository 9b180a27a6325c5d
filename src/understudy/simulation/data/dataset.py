"""Examples that nobody holds yet, and how they are divided among clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from understudy.core import checks
from understudy.core.rng import generator
from understudy.core.shown import part_text
from understudy.core.types import Ints
from understudy.memory.pixels import ByteScale, Pixels
from understudy.registry import named
from understudy.simulation.data import user_data
from understudy.simulation.data.federation import Federation
from understudy.simulation.data.partition_check import checked_partition
from understudy.simulation.data.partitions import PARTITIONS, Partition, hold_out


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images as they are stored, and their labels.

    They stay bytes, also in a federation: floats are made of the few that a step, or somebody,
    looks at. `federate` keeps those that a client holds, and no others. ``x, y = dataset`` gives
    all of them as floats.

    Parameters
    ----------
    name : str
        What it is called.
    stored : (n, …) tensor of uint8
        The values as stored, channels first.
    y : (n,) tensor of int64
        Labels, 0 .. C-1.
    test : int array, optional
        The published test set, where there is one.
    scale : float
        What the stored values are divided by.
    mean, std : tuple of float, optional
        Of each channel, in [0, 1]: what is then subtracted, and divided by.
    """

    name: str
    stored: torch.Tensor
    y: torch.Tensor
    test: Ints | None = None
    scale: float = 255.0
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        for what in ("mean", "std"):
            given = getattr(self, what)
            if given is None:
                continue
            array = checks.array(what, given, (self.stored.shape[1],), float)
            if not np.isfinite(array).all() or (what == "std" and array.min() <= 0):
                raise ValueError(f"{what}: expected finite numbers (std: > 0), got {given}")

    @property
    def x(self) -> torch.Tensor:
        """(n, …) float32, all inputs; converted anew each time."""
        return self.take(np.arange(len(self.stored)))

    def take(self, indices: Ints) -> torch.Tensor:
        """(len(indices), …) float32, some of the inputs."""
        return self.kept(indices).floats()

    def kept(self, indices: Ints) -> Pixels:
        """(len(indices), …) float32, some of the inputs, which stay bytes."""
        stored = self.stored.index_select(0, torch.from_numpy(indices))
        return Pixels(stored.contiguous(), ByteScale(self.scale, self.mean, self.std))

    def __iter__(self) -> Iterator[torch.Tensor]:
        """x and y."""
        yield self.x
        yield self.y

    def __len__(self) -> int:
        return len(self.y)


def divide(
    data: Dataset,
    partition: str | Callable[..., Partition] | None,
    *,
    test: float,
    validation: float = 0.0,
    seed: int,
    **settings: Any,
) -> Federation:
    """A data set divided among clients; see `understudy.simulation.federate`."""
    name = repr(partition) if isinstance(partition, str) else part_text(partition)
    if isinstance(partition, str):
        partition = named("partition", partition, PARTITIONS)
    if not callable(partition):
        raise TypeError(f"partition: expected a name or a function of labels, got {partition!r}")
    train, tested = _held_out(data, test, seed)
    labels = data.y.numpy()
    returned = partition(labels[train], rng=generator(seed, "partition"), **settings)
    clients, groups = checked_partition(name, returned, len(train))
    clients, kept, _ = user_data.split([train[mine] for mine in clients], 0.0, validation, seed)
    everything = np.concatenate([*clients, *kept, tested])
    used = np.unique(everything)
    return Federation(
        x=data.kept(used).laid_out(np.searchsorted(used, everything)),
        y=data.y[torch.from_numpy(used)],
        clients=tuple(np.searchsorted(used, mine) for mine in clients),
        validation=tuple(np.searchsorted(used, mine) for mine in kept) if validation else None,
        test=np.searchsorted(used, tested),
        groups=groups,
        n_classes=int(data.y.max()) + 1,
        name=data.name,
    )


def _held_out(data: Dataset, test: float, seed: int) -> tuple[Ints, Ints]:
    if data.test is None:
        return hold_out(len(data), test, generator(seed, "hold out"))
    return np.setdiff1d(np.arange(len(data)), data.test), data.test
