"""A federation of the clients that a file names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from understudy.core import checks
from understudy.core.rng import generator
from understudy.simulation.data.federation import Federation


class Examples(NamedTuple):
    """What one client has."""

    x: npt.NDArray[Any]
    y: npt.NDArray[Any]


Clients = Mapping[str, Examples]


def chosen_names(
    sizes: Mapping[str, int], min_examples: int, n_clients: int | None, seed: int, where: str
) -> list[str]:
    """Who is taken: all with enough examples, or some of these by lot, in the order of the file."""
    checks.integer("min_examples", min_examples, low=1)
    enough = [name for name, size in sizes.items() if size >= min_examples]
    if not enough:
        most = max(sizes.values(), default=0)
        raise ValueError(
            f"{where}: min_examples={min_examples} leaves none of {len(sizes):,} clients; the "
            f"largest has {most:,} examples"
        )
    if n_clients is None:
        return enough
    checks.integer("n_clients", n_clients, low=1)
    if n_clients > len(enough):
        raise ValueError(
            f"n_clients: expected at most {len(enough):,}, who have {min_examples} examples or "
            f"more each ({where}), got {n_clients}"
        )
    drawn = generator(seed, "natural clients").permutation(len(enough))[:n_clients]
    return [enough[place] for place in np.sort(drawn)]


def natural_federation(
    train: Clients,
    test: Clients,
    *,
    own_tests: bool,
    test_share: float,
    validation: float,
    seed: int,
    n_classes: int,
    name: str,
    where: str,
) -> Federation:
    """Clients as they come; without test examples a share of each client's own is held out.

    `own_tests`: a name in both is one client, whose own test examples these are.
    """
    x, y, whose = _joined(train, where)
    given: Any = test_share
    if test:
        test_x, test_y, test_whose = _joined(test, where)
        known = own_tests and bool(np.isin(test_whose, whose).any())
        given = (test_x, test_y, test_whose) if known else (test_x, test_y)
    made = Federation.from_arrays(
        x, y, clients=whose, test=given, validation=validation, seed=seed, name=name
    )
    if n_classes and made.n_classes > n_classes:
        raise ValueError(
            f"{where}: expected labels in 0 .. {n_classes - 1}, got {made.n_classes - 1}"
        )
    return replace(made, n_classes=n_classes or made.n_classes)


def _joined(
    clients: Clients, where: str
) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[np.str_]]:
    for part in ("x", "y"):
        shapes = {getattr(own, part).shape[1:]: user for user, own in clients.items()}
        if len(shapes) > 1:
            (one, first), (other, second) = list(shapes.items())[:2]
            raise ValueError(
                f"{where}: expected {part} of one shape, got {one} of client {first!r} and {other} "
                f"of client {second!r}"
            )
    x = np.concatenate([own.x for own in clients.values()])
    y = np.concatenate([own.y for own in clients.values()])
    return x, y, np.repeat(list(clients), [len(own.y) for own in clients.values()])
