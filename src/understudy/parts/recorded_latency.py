"""`RecordedLatency`: devices compute and send as fast as FedScale measured."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from understudy.core import checks
from understudy.core.types import Cohort, Floats, Ints, Population
from understudy.parts.availability.trace import dealt
from understudy.parts.delay import BITS_PER_PARAMETER, sizes_for_steps, steps_in_round
from understudy.parts.local import Local
from understudy.parts.recordings.fedscale import read_capacities
from understudy.parts.recordings.recording import found

BACKWARDS = 3  # a training step takes three times as long as its forward pass


@dataclass
class RecordedLatencyState:
    device: Ints  # (N,) which device of the file each client is
    sample_seconds: Floats  # (N,) of one example, forwards
    kilobits: Floats  # (N,) a second, down and up
    sizes: Floats  # (N,) training examples, NaN where they do not matter
    n_down: int  # vectors that travel to a client: the model, and a correction
    n_params: int
    _local: Local


@dataclass(frozen=True)
class RecordedLatency:
    """`Latency` with the speeds and links of recorded devices (FedScale's capacities).

    delay = (3 · batch · steps · sample_seconds + (d_down + d) · 32 bits / link) · jitter

    Parameters
    ----------
    file : str or Path
        Where it is, found as by `Trace`: a pickle ``{id: {computation, communication}}``, in
        milliseconds an example and kilobits a second. Nothing in it is run: anything but plain
        data is refused.
    jitter : float
        Standard deviation of the logarithm of a factor on the whole, drawn in each round, ≥ 0.
    seed : int
        Which devices: dealt as by `FedScaleTrace`, so that with the same seed and as many devices
        in both files a client is the same device in both.

    Notes
    -----
    Steps are those of `Local` in round t, as in `Latency`; the factor of 3 is FedScale's, for
    forward and backward pass. The speeds were measured with FedScale's models: for a much smaller
    or larger one they are too slow or too fast.

    References
    ----------
    Lai et al., FedScale: Benchmarking Model and System Performance of Federated Learning at Scale,
    ICML 2022.
    """

    file: str | Path = "device_info/client_device_capacity"
    jitter: float = 0.0
    seed: int = 0

    deadline = math.inf

    def __post_init__(self) -> None:
        if not isinstance(self.file, str | Path):
            raise ValueError(f"file: expected the path of a pickle, got {self.file!r}")
        checks.number("jitter", self.jitter, low=0)
        checks.integer("seed", self.seed, low=0)

    def init(self, population: Population, n_params: int, local: Local) -> RecordedLatencyState:
        checks.integer("n_params", n_params, low=1)
        capacities = read_capacities(found(self.file))
        n_devices = len(capacities.kilobits)
        device = dealt(n_devices, int(population.n_clients), self.seed)
        return RecordedLatencyState(
            device=device,
            sample_seconds=capacities.sample_seconds[device],
            kilobits=capacities.kilobits[device],
            sizes=sizes_for_steps("RecordedLatency", population, local),
            n_down=1,
            n_params=int(n_params),
            _local=local,
        )

    def sends(self, state: RecordedLatencyState, cohort: Cohort) -> None:
        state.n_down = cohort.vectors_down

    def delay(
        self, state: RecordedLatencyState, asked: Ints, t: int, rng: np.random.Generator
    ) -> Floats:
        local = state._local
        examples = local.batch_size_at(t) * steps_in_round(local, state.sizes, t)
        computing = BACKWARDS * examples * state.sample_seconds
        kilobits = state.n_params * BITS_PER_PARAMETER * (state.n_down + 1) / 1000
        jitter = np.exp(self.jitter * rng.normal(size=len(state.device)))
        return np.asarray(((computing + kilobits / state.kilobits) * jitter)[asked])
