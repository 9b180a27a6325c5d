"""What one hostile client gains, under FedAvg, FDMS and what bounds it.

    python benchmarks/hostile_friend.py    # prints tables, writes benchmarks/hostile_friend.json

20 clients in 4 clusters, a model of 1,000 entries. The update of an honest client is its cluster's
direction plus noise of its own, of norm 2.2 on average, and it says that it has 50 to 150 examples.
Client 0 is hostile and always comes. Nobody's size is confirmed by a population, as in a live
federation; weights are by examples.

Shares: client 0 sends the mean of the updates that the others made in the round. It is more like
anybody than their true friends, whose noise differs. An honest client comes with probability 0.3.
Printed is the share of a round that one client's row carries (the note `largest_share`), mean and
maximum over rounds 20 to 99.

Gains: how far one round's attack moves the model away from where it would be had client 0 been
honest in that round, over the mean norm of an honest update; smallest, mean and largest over 20
seeds, where an honest client comes with probability 0.3 and where it does with 0.8. The attack
comes in round 0, or in round 20 after client 0 was honest, or copied the others, until then. It
sends an honest update turned round (or, of a copycat, the others' mean turned round, at honest
norm), as it is or a million times as large, with an honest number of examples or a claim of a
million.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from understudy import FDMS, Arrivals, Capped, Median, NormGuard, Population, Strategy, TrimmedMean
from understudy.core.rng import generator
from understudy.core.roles import Compensator
from understudy.core.types import Applied, Bools, Floats, Ints
from understudy.server.state import ServerState

OUTPUT = Path(__file__).with_suffix(".json")
N_CLIENTS, N_CLUSTERS, D, ROUNDS, FIRST = 20, 4, 1000, 100, 20
COMES, NOISE = (0.3, 0.8), 1.5
HONEST_NORM = 2.2
SEEDS = 20
MILLION = 1e6

STRATEGIES: dict[str, dict[str, Any]] = {
    "FedAvg": {},
    "FedAvg, claim_factor=1e9": {"claim_factor": 1e9},  # claims are believed
    "FedAvg, NormGuard()": {"guard": NormGuard()},
    "FDMS()": {"compensator": FDMS()},
    "Capped(FDMS(), 0.2)": {"compensator": Capped(FDMS(), 0.2)},
    "Median()": {"aggregator": Median()},
    "TrimmedMean(0.1)": {"aggregator": TrimmedMean(0.1)},
    "TrimmedMean(0.34)": {"aggregator": TrimmedMean(0.34)},
    "FDMS(), Median()": {"compensator": FDMS(), "aggregator": Median()},
    "Capped(FDMS(), 0.2), Median()": {
        "compensator": Capped(FDMS(), 0.2),
        "aggregator": Median(),
    },
    "Capped(FDMS(), 0.2), Median(min_rows=5, mixtures=False)": {
        "compensator": Capped(FDMS(), 0.2),
        "aggregator": Median(min_rows=5, mixtures=False),
    },
}


@dataclass(frozen=True)
class Attack:
    """What client 0 does in the round that is looked at, and until then."""

    round: int = FIRST
    copies: bool = False  # until then it sends the mean of the others, else honest updates
    times: float = 1.0  # how large, in honest norms
    n_examples: float | None = None  # None: as many as it has


ATTACKS = {
    "turned round": Attack(),
    "and claims a million": Attack(n_examples=MILLION),
    "a million times as large": Attack(times=MILLION),
    "a copycat turns round": Attack(copies=True),
    "a copycat, a million times as large": Attack(copies=True, times=MILLION),
    "round 0, a million times as large": Attack(round=0, times=MILLION),
}


class Clients:
    """What the clients of one seed would send, and who comes."""

    def __init__(self, seed: int, comes: float = COMES[0]) -> None:
        self.seed, self.comes = seed, comes
        self.centres = generator(seed, "centres").normal(size=(N_CLUSTERS, D))
        self.sizes = generator(seed, "sizes").integers(50, 151, N_CLIENTS).astype(np.float64)

    def round(self, t: int) -> tuple[Floats, Bools]:
        """(N, D) updates, each client's own, and (N,) who comes."""
        rng = generator(self.seed, "updates", t)
        noise = NOISE * rng.normal(size=(N_CLIENTS, D))
        honest = self.centres[np.arange(N_CLIENTS) % N_CLUSTERS] + noise
        here = rng.random(N_CLIENTS) < self.comes
        here[0] = True
        return honest, here


def scaled(updates: Floats) -> Floats:
    """Updates whose expected norm is that of an honest client."""
    return np.asarray(updates * (HONEST_NORM / np.sqrt(D * (1 + NOISE**2))))


# -- shares ------------------------------------------------------------------------------------


def measured(compensator: Compensator, seed: int = 0) -> dict[str, float]:
    """Mean and maximum of `largest_share`, and how often the hostile client's row had it."""
    strategy, clients = Strategy(compensator=compensator), Clients(seed)
    state = strategy.init(Population(N_CLIENTS), torch.zeros(D), seed=seed)
    shares, hostile = [], 0
    for t in range(ROUNDS):
        updates, here = clients.round(t)
        updates[0] = updates[1:].mean(axis=0)
        applied = played(strategy, state, updates, np.flatnonzero(here), clients.sizes)
        if t >= FIRST:
            shares.append(applied.notes["largest_share"])
            rows, total = applied.contributions.by_row()
            loudest = applied.contributions.row == rows[np.argmax(total)]
            hostile += int(applied.contributions.source[loudest][0] == 0)
    return {
        "mean": float(np.mean(shares)),
        "max": float(np.max(shares)),
        "rounds_in_which_it_is_client_0": hostile / len(shares),
    }


def played(
    strategy: Strategy, state: ServerState, updates: Floats, came: Ints, sizes: Floats
) -> Applied:
    cohort = strategy.select(state, np.ones(N_CLIENTS, dtype=np.bool_))
    deltas = torch.from_numpy(updates[came]).float()
    return strategy.apply(state, cohort, Arrivals(came, deltas, n_examples=sizes[came]))


# -- gains -------------------------------------------------------------------------------------


def gains(strategy: Strategy, clients: Clients) -> Iterator[tuple[str, float]]:
    """Each attack, and how far it moved the model, in honest norms."""
    for copies in (False, True):
        state = strategy.init(Population(N_CLIENTS), torch.zeros(D), seed=clients.seed)
        for t in range(FIRST + 1):
            updates, here = clients.round(t)
            updates, came = scaled(updates), np.flatnonzero(here)
            for name, attack in ATTACKS.items():
                if attack.round == t and attack.copies == copies:
                    yield name, gain(strategy, state, updates, came, clients.sizes, attack)
            if copies:
                updates[0] = updates[1:].mean(axis=0)
            played(strategy, state, updates, came, clients.sizes)


def gain(
    strategy: Strategy,
    state: ServerState,
    updates: Floats,
    came: Ints,
    sizes: Floats,
    attack: Attack,
) -> float:
    """How far apart two models are after one round, that of an attack and that of none."""
    hostile, claims = updates.copy(), sizes.copy()
    imitated = updates[1:].mean(axis=0) if attack.copies else updates[0]
    hostile[0] = -attack.times * HONEST_NORM * imitated / np.linalg.norm(imitated)
    claims[0] = sizes[0] if attack.n_examples is None else attack.n_examples
    ends = []
    for sent, told in ((updates, sizes), (hostile, claims)):
        after = deepcopy(state, {id(strategy): strategy})
        played(strategy, after, sent, came, told)
        ends.append(after.params)
    return float(torch.linalg.vector_norm(ends[1] - ends[0])) / HONEST_NORM


def table_of_gains(comes: float, seeds: int = SEEDS) -> dict[str, dict[str, dict[str, float]]]:
    """Strategy → attack → smallest, mean and largest gain over the seeds."""
    table = {}
    for name, parts in STRATEGIES.items():
        strategy = Strategy(weighting="examples", **parts)
        found: dict[str, list[float]] = {attack: [] for attack in ATTACKS}
        for seed in range(seeds):
            for attack, moved in gains(strategy, Clients(seed, comes)):
                found[attack].append(moved)
        table[name] = {
            attack: {"min": min(all_), "mean": float(np.mean(all_)), "max": max(all_)}
            for attack, all_ in found.items()
        }
    return table


def who_came(comes: float, seeds: int = SEEDS) -> list[int]:
    """Fewest and most clients in the rounds of the attacks, client 0 among them."""
    rounds = [Clients(seed, comes).round(t)[1] for seed in range(seeds) for t in (0, FIRST)]
    counts = [int(here.sum()) for here in rounds]
    return [min(counts), max(counts)]


def markdown(table: dict[str, dict[str, dict[str, float]]]) -> str:
    """A table for the documentation: each gain from the smallest to the largest."""
    lines = [f"| | {' | '.join(ATTACKS)} |", f"| --- |{' --- |' * len(ATTACKS)}"]
    for name, row in table.items():
        cells = [f"{short(row[attack]['min'])} – {short(row[attack]['max'])}" for attack in ATTACKS]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def short(value: float) -> str:
    """Two digits behind the point; large ones as a power of ten."""
    return f"{value:.2f}" if value < 100 else f"{value:.0e}".replace("e+0", "e")


def main() -> None:
    shares = {"FDMS()": measured(FDMS()), "Capped(FDMS(), 0.2)": measured(Capped(FDMS(), 0.2))}
    print(json.dumps(shares, indent=1))
    tables = {str(comes): table_of_gains(comes) for comes in COMES}
    for comes in COMES:
        fewest, most = who_came(comes)
        print(f"\nan honest client comes with probability {comes}: {fewest} to {most} came")
        print(f"gains in honest norms, smallest and largest of {SEEDS} seeds:")
        print(markdown(tables[str(comes)]))
    report = {
        "honest_norm": HONEST_NORM,
        "seeds": SEEDS,
        "who_came": {str(comes): who_came(comes) for comes in COMES},
        "shares": shares,
        "gains": tables,
    }
    OUTPUT.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
