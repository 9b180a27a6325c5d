"""A federation from the name of a data set, or from a data set, and a partition."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from understudy.simulation.data.dataset import Dataset, divide
from understudy.simulation.data.federation import Federation
from understudy.simulation.data.partitions import Partition
from understudy.simulation.data.sources import Normalise, source_of


def federate(
    data: str | Dataset,
    partition: str | Callable[..., Partition] | None = "iid",
    *,
    test: float = 0.2,
    validation: float = 0.0,
    seed: int = 0,
    root: str | Path | None = None,
    normalise: Normalise = True,
    **settings: Any,
) -> Federation:
    """Divide a data set among clients.

    Parameters
    ----------
    data : str or Dataset
        A name in `DATASETS`, ``"module:name"`` of such a function, or what a function of
        `understudy.simulation.data.image_sets` returned.
    partition : str or function
        A name in `PARTITIONS`, ``"module:name"``, or a function of labels and ``rng`` that returns
        a `Partition`; it sees the labels of what is left for training. None for data that come
        divided, such as ``"synthetic"``.
    test : float
        Share of all examples that is held out for testing, where no test set was published.
    validation : float
        Share of each client's examples, as in `Federation.from_arrays`.
    seed : int
        Decides what is held out, and who gets what.
    root : path, optional
        Where the files of a named data set are, if not where they are looked for.
    normalise : bool, or (mean, std)
        Of the images of a named data set, as in `mnist`.
    **settings
        Passed on to the partition (or, without one, to the data).

    Returns
    -------
    Federation
        With those examples only that a client or the test set holds.

    Examples
    --------
    >>> from understudy.simulation import federate
    >>> federation = federate("digits", "classes_per_client", n_clients=10, k=2, seed=1)
    >>> federation.n_clients, int(federation.sizes[0]), len(federation.test)
    (10, 130, 359)
    """
    if isinstance(data, str):
        source = source_of(data)
        load = source.loader
        if normalise is not True:
            load = partial(load, normalise=source.checked_normalise(normalise))
        if partition is None:
            if root is not None:
                settings["root"] = root
            # a loader has shares of its own: it is told those that were asked for
            shares = {"test": (test, 0.2), "validation": (validation, 0.0)}
            known = inspect.signature(load).parameters
            for name, (share, default) in shares.items():
                if share != default and name in known:
                    settings[name] = share
            divided = load(seed=seed, **settings)
            if not isinstance(divided, Federation):
                raise ValueError(f"partition: {data!r} does not come divided; name a partition")
            return divided
        loaded: Dataset | Federation = load() if root is None else load(root)
        if isinstance(loaded, Federation):
            raise ValueError(f"partition: {data!r} comes divided; expected None, got {partition!r}")
        data = loaded
    elif normalise is not True:
        raise ValueError(f"normalise: expected with the name of a data set only, got {normalise!r}")
    return divide(data, partition, test=test, validation=validation, seed=seed, **settings)
