"""The cells of any study in seconds, with all that it is made of still in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from understudy.server.strategy import Strategy
from understudy.studies.definition.cell import Cell, DataRecipe, Task

ROUNDS = 2
CELLS = 6
CLIENTS = 10
CLUSTERS = 2
EXAMPLES = 20  # of a client, where the partition takes a number
STEPS = 2
BATCH = 10

# partition → the sizes that it is given at most; what a study leaves at a default is set too
SIZES: dict[str | None, dict[str, int]] = {
    None: {"n_clients": CLIENTS},
    "iid": {"n_clients": CLIENTS},
    "clustered": {"n_clients": CLIENTS, "n_clusters": CLUSTERS, "per_client": EXAMPLES},
    "classes_per_client": {"n_clients": CLIENTS, "per_client": EXAMPLES},
    "dirichlet": {"n_clients": CLIENTS},
}


def tiny_tasks(cells: Sequence[Cell]) -> list[Task]:
    """At most six of the cells, with few clients, two rounds and a few small batches each."""
    return [_tiny(cell.task) for cell in _few(cells)]


def _tiny(task: Task) -> Task:
    return task.changed(
        rounds=ROUNDS,
        evaluate_every=1,
        per_client_every=min(task.per_client_every, ROUNDS),
        # ResNet-18 would take half an hour to evaluate
        model={"name": "lenet5"} if "resnet18" in str(task.model) else task.model,
        data=_small_data(task.data),
        strategy=_short_training(task.strategy),
    )


def _small_data(recipe: Any) -> Any:
    if not isinstance(recipe, DataRecipe):
        return recipe
    settings = dict(recipe.settings)
    sizes = SIZES.get(recipe.partition, {})
    if recipe.partition == "shards":
        n_clients = min(settings.get("n_clients", CLIENTS), CLIENTS)
        per_client = settings.get("shards_per_client", 2)
        size = max(1, EXAMPLES // per_client)
        sizes = {"n_clients": n_clients, "n_shards": n_clients * per_client, "shard_size": size}
    few = {name: min(settings.get(name) or largest, largest) for name, largest in sizes.items()}
    return replace(recipe, settings={**settings, **few})


def _short_training(strategy: Strategy) -> Strategy:
    local = strategy.local
    steps = min(local.steps or STEPS, STEPS)
    short = replace(local, steps=steps, batch_size=min(local.batch_size, BATCH))
    return replace(strategy, local=short)


def _few(cells: Sequence[Cell]) -> list[Cell]:
    """In their order, those that show as many different labels as can be."""
    pairs = [set(cell.labels.items()) for cell in cells]
    seen: set[tuple[str, Any]] = set()
    chosen: list[int] = []
    while len(chosen) < min(CELLS, len(cells)):
        rest = [position for position in range(len(cells)) if position not in chosen]
        best = max(rest, key=lambda position: (len(pairs[position] - seen), -position))
        chosen.append(best)
        seen |= pairs[best]
    return [cells[position] for position in sorted(chosen)]
