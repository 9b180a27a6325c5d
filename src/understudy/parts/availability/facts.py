"""What some availabilities must know of the clients, or an error that says what is missing."""

from __future__ import annotations

import numpy as np

from understudy.core.types import Bools, Floats, Population


def known_sizes(population: Population, asker: str) -> Floats:
    """(N,) training examples of each client."""
    sizes = population.n_examples
    if sizes is None:
        raise ValueError(
            f"{asker} needs population.n_examples, the number of training examples of each client, "
            f"and there is none; give Population(n_clients, n_examples=[…])"
        )
    if np.isnan(sizes).any():
        client = int(np.argmax(np.isnan(sizes)))
        raise ValueError(
            f"{asker} needs population.n_examples of every client, and that of client "
            f"{population.called(client)} is unknown (NaN)"
        )
    return sizes


def held_labels(population: Population, asker: str) -> Bools:
    """(N, C) whether a client holds an example of a class."""
    counts = population.label_counts
    if counts is None:
        raise ValueError(
            f"{asker} needs population.label_counts, the label histogram of each client, and there "
            "is none; give Population(n_clients, label_counts=[[…], …]) of shape (N, C)"
        )
    without = np.isnan(counts).any(axis=1) | ~(counts > 0).any(axis=1)
    if without.any():
        client = int(np.argmax(without))
        raise ValueError(
            f"{asker} needs population.label_counts of every client, and client "
            f"{population.called(client)} has {counts[client]}: expected at least one class with a "
            "count > 0, and no NaN"
        )
    return np.asarray(counts > 0)


def smallest_label(population: Population, asker: str) -> Floats:
    """(N,) smallest label each client holds, divided by the last label C − 1: in [0, 1]."""
    held = held_labels(population, asker)
    n_classes = held.shape[1]
    if n_classes < 2:
        raise ValueError(f"{asker} needs at least two classes, got label_counts of {n_classes}")
    return np.asarray(np.argmax(held, axis=1) / (n_classes - 1))


def label_shares(population: Population, asker: str) -> Floats:
    """(N, C) share of each class among a client's examples."""
    held_labels(population, asker)  # everybody's histogram is known, and not empty
    assert population.label_counts is not None
    counts = population.label_counts
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))
