"""From a file that keeps each client's arrays to a federation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from understudy.core import checks
from understudy.core.shown import shown
from understudy.simulation.data.federation import Federation
from understudy.simulation.data.natural.clients import (
    Examples,
    chosen_names,
    natural_federation,
)
from understudy.simulation.data.natural.features import (
    KINDS,
    Convert,
    Features,
    checked,
    converter,
)


class StoredClients(Protocol):
    """The clients of a file."""

    path: Path

    def sizes(self, kind: str) -> Mapping[str, int]:
        """Client → examples (of text: snippets), in the order of the file."""
        ...

    def features(self, user: str, kind: str) -> Features:
        """A client's arrays, by name."""
        ...


def stored_federation(
    kind: str,
    train: StoredClients,
    test: StoredClients | None,
    *,
    min_examples: int,
    n_clients: int | None,
    test_share: float,
    validation: float,
    seed: int,
    length: int,
    vocabulary: int,
    name: str,
) -> Federation:
    """The clients of a file, and the test examples of another; see `tff_femnist`."""
    checks.choice("kind", kind, KINDS)
    checks.integer("length", length, low=1)
    known = KINDS[kind]
    users = chosen_names(train.sizes(kind), min_examples, n_clients, seed, str(train.path))
    stored = {user: _of(train, user, kind) for user in users}
    if kind == "stackoverflow":
        checks.integer("vocabulary", vocabulary, low=1)
    convert = converter(kind, stored, length, vocabulary)
    examples = _converted(train, stored, convert)
    # of text a client may be left with nothing to tell: a single character
    examples = {user: own for user, own in examples.items() if len(own.y) >= min_examples}
    if not examples:
        raise ValueError(f"{train.path}: no client is left with {min_examples} examples")
    tested: dict[str, Examples] = {}
    if test is not None:
        names = _test_names(test, kind, users, n_clients, seed)
        found = _converted(test, {user: _of(test, user, kind) for user in names}, convert)
        tested = {user: own for user, own in found.items() if len(own.y)}
    return natural_federation(
        examples,
        tested,
        own_tests=known.own_tests,
        test_share=test_share,
        validation=validation,
        seed=seed,
        n_classes=known.n_classes or vocabulary + 2,
        name=name,
        where=str(train.path),
    )


def _test_names(
    test: StoredClients, kind: str, users: list[str], n_clients: int | None, seed: int
) -> list[str]:
    """Whose test examples are taken: those of the chosen, or of as many others."""
    sizes = test.sizes(kind)
    if n_clients is None:
        return list(sizes)
    own = [user for user in users if user in sizes] if KINDS[kind].own_tests else []
    return own or chosen_names(sizes, 1, min(n_clients, len(sizes)), seed, str(test.path))


def _of(stored: StoredClients, user: str, kind: str) -> Features:
    try:
        return checked(kind, stored.features(user, kind))
    except ValueError as error:
        raise _named(stored, user, error) from error


def _converted(
    stored: StoredClients, features: Mapping[str, Features], convert: Convert
) -> dict[str, Examples]:
    found = {}
    for user, own in features.items():
        try:
            found[user] = convert(own)
        except ValueError as error:
            raise _named(stored, user, error) from error
    return found


def _named(stored: StoredClients, user: str, error: ValueError) -> ValueError:
    if str(stored.path) in str(error):
        return error
    return ValueError(f"{stored.path}, client {shown(user, 60)}: {error}")
