"""The scale of tests: any study in seconds, with all that it is made of still in it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from understudy.server.strategy import Strategy
from understudy.studies.definition.blocks import StudyBlock
from understudy.studies.definition.cell import DataRecipe, Label
from understudy.studies.definition.overrides import Document, path_of

ROUNDS = 2
CELLS = 6
CLIENTS = 10
CLUSTERS = 2
EXAMPLES = 20  # of a client, where the partition can be told
STEPS = 2
BATCH = 10

Item = TypeVar("Item")

# partition → the sizes that it is given at most; what a study leaves at a default is set too
_SIZES: dict[str | None, dict[str, int]] = {
    None: {"n_clients": CLIENTS},
    "iid": {"n_clients": CLIENTS},
    "clustered": {"n_clients": CLIENTS, "n_clusters": CLUSTERS, "per_client": EXAMPLES},
    "classes_per_client": {"n_clients": CLIENTS, "per_client": EXAMPLES},
    "dirichlet": {"n_clients": CLIENTS},
}


@dataclass(frozen=True)
class Small:
    """That cells are made small for tests, but for these keys of the data and of training."""

    data: frozenset[str] = frozenset()
    local: bool = True


def small(told: Mapping[str, Any]) -> Small:
    """What a file's own ``[scale.tiny]`` says is not made smaller."""
    paths = [path_of(key) for key in told]
    data = {path[1] for path in paths if path[0] == "data" and len(path) > 1}
    data |= set(told["data"]) if isinstance(told.get("data"), Mapping) else set()
    return Small(frozenset(data), not any(path[0] == "local" for path in paths))


def few_levels(block: StudyBlock, told: Mapping[str, Any]) -> StudyBlock:
    """A block's own rounds, seeds and levels are made few too."""
    made = rounds_and_levels(block.document)
    own = {key: block.document[key] for key in ("rounds", "seeds", "availability") if key in told}
    if "axes" in told:
        own["axes"] = block.document["axes"]
    return StudyBlock(block.name, {**made, **own})


def rounds_and_levels(document: Document) -> Document:
    """Two rounds, one seed, the first and the last level of each axis and of availability."""
    seeds = document.get("seeds", 1)
    axes = {key: ends(levels) for key, levels in document["axes"].items()}
    made = {
        **document,
        "rounds": ROUNDS,
        "seeds": 1 if isinstance(seeds, int) else list(seeds)[:1],
        "availability": ends(document["availability"]),
        "axes": axes,
        "evaluate_every": 1,
    }
    made.pop("tune", None)
    if document.get("per_client_every"):
        made["per_client_every"] = ROUNDS
    return made


def ends(levels: Any) -> Any:
    """The first and the last of a list or of a table."""
    if isinstance(levels, dict):
        names = list(levels)
        return {name: levels[name] for name in dict.fromkeys([names[0], names[-1]])}
    if isinstance(levels, list | tuple) and len(levels) > 2:
        return [levels[0], levels[-1]]
    return levels


def small_data(recipe: Any, said: Collection[str]) -> Any:
    """Few clients with few examples each, but for what the scale itself says."""
    if not isinstance(recipe, DataRecipe):
        return recipe
    if recipe.partition == "shards":
        sizes = _shards(dict(recipe.settings))
    elif recipe.name == "synthetic" or recipe.partition is not None:
        sizes = _SIZES.get(recipe.partition, {})
    else:
        sizes = {}
    settings = dict(recipe.settings)
    for name, largest in sizes.items():
        if name not in said:
            given = settings.get(name)
            settings[name] = min(given, largest) if isinstance(given, int) else largest
    return replace(recipe, settings=settings)


def _shards(settings: dict[str, Any]) -> dict[str, int]:
    n_clients = min(settings.get("n_clients", CLIENTS), CLIENTS)
    per_client = settings.get("shards_per_client", 2)
    size = max(1, EXAMPLES // per_client)
    return {"n_clients": n_clients, "n_shards": n_clients * per_client, "shard_size": size}


def short_training(strategy: Strategy) -> Strategy:
    """A few small batches for each client."""
    local = strategy.local
    steps = STEPS if local.steps is None else min(local.steps, STEPS)
    batch = min(local.batch_size, BATCH)
    return replace(strategy, local=replace(local, steps=steps, batch_size=batch))


def few(items: Sequence[Item], labels: Sequence[dict[str, Label]], n: int = CELLS) -> list[Item]:
    """At most `n` of the items, in their order, that show as many different labels as can be."""
    pairs = [set(own.items()) for own in labels]
    seen: set[tuple[str, Label]] = set()
    chosen: list[int] = []
    while len(chosen) < min(n, len(items)):
        rest = [position for position in range(len(items)) if position not in chosen]
        best = max(rest, key=lambda position: (len(pairs[position] - seen), -position))
        chosen.append(best)
        seen |= pairs[best]
    return [items[position] for position in sorted(chosen)]
