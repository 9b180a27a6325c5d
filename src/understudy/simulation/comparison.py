"""A first comparison: what the methods make of the same absences, on the embedded digits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import stats

from understudy import strategies
from understudy.availability import Always, FixedDropout
from understudy.local import Local
from understudy.roles import Availability
from understudy.samplers.uniform import Uniform
from understudy.simulation.digits import clustered_digits
from understudy.simulation.engine import simulate
from understudy.strategy import Strategy
from understudy.types import Floats

BASELINE = "dropout"
LAST = 10  # rounds at the end over which accuracy is averaged: single rounds fluctuate


@dataclass(frozen=True)
class Contender:
    """A method in the comparison."""

    name: str
    words: str  # what stands in for an absent client
    strategy: Strategy
    availability: Availability


@dataclass(frozen=True)
class Setting:
    """What all methods face; FL-FDMS's clustered setting, with the digits for its images."""

    rounds: int = 30
    seeds: int = 5
    n_clients: int = 20
    n_clusters: int = 5
    per_client: int = 64
    alpha: float = 0.7
    model: str = "mlp"
    local: Local = field(default_factory=lambda: Local(lr=0.1, epochs=2, batch_size=5))

    def contenders(self) -> tuple[Contender, ...]:
        """The methods, in the order of the table."""
        missing, local = FixedDropout(self.alpha), self.local
        fedavg, uniform = (
            strategies.fedavg(local=local),
            strategies.fedavg(sampler=Uniform(), local=local),
        )
        return (
            Contender("full", "there is none", fedavg, Always()),
            Contender("dropout", "nothing", fedavg, missing),
            Contender("stale", "its last update", strategies.stale(local=local), missing),
            Contender("fedar", "its last update, louder", strategies.fedar(local=local), missing),
            Contender("fedvarp", "its last, as control", strategies.fedvarp(local=local), missing),
            Contender("fdms", "its friend's update", strategies.fdms(local=local), missing),
            Contender("uniform", "nothing; 4 are asked", uniform, missing),
            Contender("fedgs", "nothing; 4 are asked", strategies.fedgs(local=local), missing),
        )


@dataclass(frozen=True, eq=False)
class Played:
    """One method with one seed."""

    name: str
    seed: int
    accuracy: Floats  # (T,)
    loss: Floats  # (T,)
    stood_in: (
        Floats  # (N, N) rounds in which the row's absent client was spoken for by the column's
    )


@dataclass(frozen=True)
class Standing:
    """One method over all seeds, in percent; half-widths are NaN with a single seed."""

    name: str
    words: str
    accuracy: float
    accuracy_half_width: float
    difference: float  # to the baseline, paired by seed
    difference_half_width: float
    fluctuation: float  # standard deviation over the last rounds, mean over seeds

    def cells(self) -> tuple[str, str, str, str, str]:
        """The row of the table, as text."""
        difference = "–"
        if self.name != BASELINE:
            difference = _plus_minus(self.difference, self.difference_half_width, "+.1f")
        accuracy = _plus_minus(self.accuracy, self.accuracy_half_width, ".1f")
        return self.name, self.words, accuracy, difference, f"{self.fluctuation:.1f}"


def compare(setting: Setting) -> Iterator[Played]:
    """Play every method with every seed, one after another."""
    for seed in range(setting.seeds):
        federation = clustered_digits(
            setting.n_clients, setting.n_clusters, per_client=setting.per_client, seed=seed
        )
        for contender in setting.contenders():
            run = simulate(
                federation,
                contender.strategy,
                model=setting.model,
                availability=contender.availability,
                rounds=setting.rounds,
                seed=seed,
            )
            accuracy, loss = np.zeros(setting.rounds), np.zeros(setting.rounds)
            stood_in = np.zeros((setting.n_clients, setting.n_clients))
            for log in run:
                accuracy[log.t] = log.metrics["test_accuracy"]
                loss[log.t] = log.metrics["test_loss"]
                for absent, source, _ in log.stand_ins:
                    if source >= 0:
                        stood_in[absent, source] += 1
            yield Played(contender.name, seed, accuracy, loss, stood_in)


def standings(setting: Setting, played: Sequence[Played]) -> list[Standing]:
    """The table: one row per method, in the setting's order."""
    last = {
        contender.name: np.array(
            [run.accuracy[-LAST:] * 100 for run in played if run.name == contender.name]
        )
        for contender in setting.contenders()
    }  # name -> (seeds, rounds)
    rows = []
    for contender in setting.contenders():
        final = last[contender.name].mean(axis=1)
        difference = final - last[BASELINE].mean(axis=1)
        rows.append(
            Standing(
                contender.name,
                contender.words,
                float(final.mean()),
                half_width(final),
                float(difference.mean()),
                half_width(difference),
                float(last[contender.name].std(axis=1).mean()),
            )
        )
    return rows


def half_width(values: Floats) -> float:
    """Half of the 95 % t-interval of a mean; NaN for a single value."""
    n = len(values)
    if n < 2:
        return float("nan")
    return float(stats.t.ppf(0.975, n - 1) * values.std(ddof=1) / np.sqrt(n))


def _plus_minus(value: float, width: float, form: str) -> str:
    number = f"{value:{form}}".replace("-", "−")
    return number if np.isnan(width) else f"{number} ± {width:.1f}"
