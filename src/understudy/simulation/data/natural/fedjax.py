"""FedJAX's SQLite files: a table of clients, each a compressed package of arrays. Needs msgpack."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.core.inflate import MOST_COMPRESSED, MOST_INFLATED
from understudy.core.shown import shown
from understudy.simulation.data.federation import Federation
from understudy.simulation.data.natural.features import Features
from understudy.simulation.data.natural.stored import StoredClients, stored_federation
from understudy.simulation.data.sources import MissingData, located_file

NUMBERS, BYTES = 1, 4  # the types that arrays have among msgpack's extensions
KINDS_OF_NUMBERS = {
    "bool",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    *(f"float{bits}" for bits in (16, 32, 64)),
}
HOW = "FedJAX's datasets write them, or any program of theirs that uses SQLiteFederatedDataBuilder"


def fedjax(
    train: str | Path,
    kind: str,
    test: str | Path | None = None,
    *,
    length: int = 80,
    vocabulary: int = 10_000,
    min_examples: int = 1,
    n_clients: int | None = None,
    test_share: float = 0.2,
    validation: float = 0.0,
    seed: int = 0,
) -> Federation:
    """A federation in FedJAX's SQLite files; clients as they come.

    Parameters
    ----------
    train : path
        The file; a relative path is looked for here, then in the folder in ``UNDERSTUDY_DATA``,
        then in ``./data``.
    kind : {"femnist", "cifar100", "shakespeare", "stackoverflow"}
        What is in it: ``pixels`` and ``label``, ``image`` and ``label``, ``snippets``, ``tokens``.
    test : path, optional
        The file with the test examples.
    length : int
        Of a text: tokens of a sequence, as of `tff_shakespeare`.
    vocabulary : int
        Of words, as of `tff_stackoverflow`.
    min_examples, n_clients, validation, seed
        As of `tff_femnist`.
    test_share : float
        Share of each client's examples that is held out, where there is no test file.

    Notes
    -----
    A table ``federated_data`` with ``client_id``, ``data`` (zlib, in it msgpack) and
    ``num_examples``. No array is made that is larger than its data.

    References
    ----------
    Ro et al., FedJAX: Federated Learning Simulation with JAX, 2021.
    """
    with _opened(train) as first, _maybe(test) as second:
        return stored_federation(
            kind,
            first,
            second,
            min_examples=min_examples,
            n_clients=n_clients,
            test_share=test_share,
            validation=validation,
            seed=seed,
            length=length,
            vocabulary=vocabulary,
            name=f"fedjax_{kind}",
        )


@contextmanager
def _maybe(file: str | Path | None) -> Iterator[StoredClients | None]:
    if file is None:
        yield None
        return
    with _opened(file) as opened:
        yield opened


@contextmanager
def _opened(file: str | Path) -> Iterator[StoredClients]:
    path = located_file(file)
    if not path.is_file():
        raise MissingData(f"fedjax: no {path}; {HOW}")
    address = f"{path.resolve().as_uri()}?mode=ro"
    with closing(sqlite3.connect(address, uri=True)) as base:
        yield _Sqlite(path, base)


class _Sqlite:
    """The clients of an open file; examples are read when they are asked for."""

    def __init__(self, path: Path, base: sqlite3.Connection) -> None:
        self.path, self.base = path, base

    def sizes(self, kind: str) -> Mapping[str, int]:
        rows = self._rows("SELECT client_id, num_examples FROM federated_data ORDER BY rowid")
        if not rows:
            raise ValueError(f"{self.path}: expected clients in federated_data, found none")
        for user, size in rows:
            if type(size) is not int or size < 0 or not isinstance(user, bytes | str):
                raise ValueError(
                    f"{self.path}, client {shown(user, 60)}: expected num_examples, a whole "
                    f"number, got {shown(size, 60)}"
                )
        return {_name(user): size for user, size in rows}

    def features(self, user: str, kind: str) -> Features:
        # ids are bytes in FedJAX's own files, text in others
        question = "SELECT data FROM federated_data WHERE client_id IN (?, ?)"
        rows = self._rows(question, user, user.encode("utf-8", "surrogateescape"))
        if len(rows) != 1 or not isinstance(rows[0][0], bytes):
            raise ValueError(f"expected data of bytes, got {len(rows)} rows")
        found = _unpacked(_inflated(rows[0][0]))
        if not isinstance(found, dict):
            raise ValueError(f"expected arrays by name, got {shown(found, 60)}")
        return {_name(key): np.asarray(value) for key, value in found.items()}

    def _rows(self, question: str, *given: object) -> list[Any]:
        try:
            return self.base.execute(question, given).fetchall()
        except sqlite3.Error as error:
            raise ValueError(
                f"{self.path}: expected FedJAX's SQLite file with a table federated_data "
                f"(client_id, data, num_examples); {error}"
            ) from error


def _name(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return str(value)


def _inflated(data: bytes) -> bytes:
    """What zlib has compressed, up to a bound that no client of a benchmark comes near."""
    stream = zlib.decompressobj()
    try:
        found = stream.decompress(data, min(MOST_INFLATED, MOST_COMPRESSED * len(data) + 1))
    except zlib.error as error:
        raise ValueError(f"expected data compressed by zlib; {error}") from error
    if not stream.eof:
        raise ValueError("expected whole data compressed by zlib, got some cut short or endless")
    return found


def _unpacked(data: bytes) -> Any:
    try:
        import msgpack
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "FedJAX's files need msgpack; install understudy-fl[fedjax]", name="msgpack"
        ) from error
    try:
        return msgpack.unpackb(data, ext_hook=_extension, strict_map_key=False)
    except Exception as error:  # of msgpack's own, and of what is in the package
        raise ValueError(f"expected a package of arrays; {error}") from error


def _extension(code: int, data: bytes) -> npt.NDArray[Any]:
    """An array: of numbers (shape, type, bytes), or of bytes (shape, list)."""
    import msgpack

    if code not in (NUMBERS, BYTES):
        raise ValueError(f"extension {code}, which no array has")
    shape, *rest = msgpack.unpackb(data, raw=True)
    if not isinstance(shape, list) or not all(type(side) is int and side >= 0 for side in shape):
        raise ValueError(f"an array of shape {shown(shape, 60)}")
    array: npt.NDArray[Any]
    if code == BYTES:
        (content,) = rest
        if not all(isinstance(one, bytes) for one in content):
            raise ValueError("an array of bytes with something else in it")
        array = np.empty(len(content), dtype=object)
        array[:] = content
    else:
        kind, content = rest
        if _name(kind) not in KINDS_OF_NUMBERS:
            raise ValueError(f"an array of {shown(_name(kind), 60)}")
        array = np.frombuffer(content, dtype=_name(kind))
    if prod(shape) != array.size:
        raise ValueError(f"an array of shape {tuple(shape)} with {array.size:,} entries")
    return array.reshape(shape)
