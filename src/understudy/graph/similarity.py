"""How alike are two clients? By their updates, for FL-FDMS, or by their data, for FedGS's graph.

`cosines`, `distances` and `gram` are of updates. The other three are answers for the graph;
in these NaN means "not known yet". Everything is float64, and a Gram matrix is summed over pieces
of d, so that no second copy of all updates is made.

References
----------
Wang et al., "FedGS: Federated Graph-Based Sampling with Arbitrary Client Availability", AAAI 2023,
https://arxiv.org/abs/2211.13975. Equation numbers are this paper's.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from understudy.core.types import Vectors
from understudy.graph.products import Rows, gram_float32, largest_entries, pieces, scaled_gram

__all__ = [
    "cosine_rows",
    "cosine_similarity",
    "cosines",
    "distances",
    "functional_similarity",
    "gram",
    "most_alike",
    "update_similarity",
]

Matrix = NDArray[np.float64]
# Columns of a piece at the least, where there are thousands of rows; part of the bits of a run.
_NARROWEST = 1024


def cosines(
    vectors: Vectors,
    n_parameters: int,
    groups: Sequence[NDArray[np.int64]] | None = None,
    *,
    single: bool = False,
) -> Matrix:
    """(k, k) cosine of each pair over the first `n_parameters` entries; 0 where one is zero.

    With `groups` of positions only pairs within one of them are computed (see
    `understudy.graph.pair_groups`); all other entries are 0. In `single` precision products take
    half the time and cosines are off by about 1e-6; updates beyond its range are multiplied in
    double precision all the same.
    """
    products = gram_float32(vectors, n_parameters, groups) if single else None
    if products is None:
        largest = largest_entries(vectors, n_parameters)
        products = scaled_gram(vectors, n_parameters, largest, narrowest=_NARROWEST, groups=groups)
    norms = np.sqrt(np.diag(products))
    scale = np.outer(norms, norms)
    cosine = np.divide(products, scale, out=np.zeros_like(products), where=scale > 0)
    return np.asarray(np.clip(cosine, -1.0, 1.0))


def distances(vectors: Vectors, n_parameters: int) -> Matrix:
    """(k, k) Euclidean distance of each pair over the first `n_parameters` entries."""
    largest = float(largest_entries(vectors, n_parameters).max(initial=0.0)) or 1.0
    scale = np.full(len(vectors), largest)
    products = scaled_gram(vectors, n_parameters, scale, narrowest=_NARROWEST)
    squares = np.diag(products)
    apart = np.sqrt(np.maximum(squares[:, None] + squares[None, :] - 2 * products, 0.0))
    with np.errstate(over="ignore"):  # a hostile update is as far as a number goes
        return np.asarray(np.minimum(apart * largest, np.finfo(np.float64).max))


def gram(vectors: Vectors, n_parameters: int, mix: Matrix | None = None) -> Matrix:
    """(k, k) scalar products over the first `n_parameters` entries, in float64.

    With `mix` (m, k) those (m, m) of mixtures of the vectors, which are never kept as a whole.
    """
    if mix is None:
        return scaled_gram(vectors, n_parameters, np.zeros(len(vectors)), narrowest=_NARROWEST)
    mixing: Any = mix
    if np.count_nonzero(mix) < mix.size / 4:
        from scipy.sparse import csr_array  # here: it takes a while, and memory

        mixing = csr_array(mix)
    total = np.zeros((len(mix), len(mix)))
    for piece in pieces(vectors, n_parameters, _NARROWEST):
        mixtures: Matrix = np.asarray(mixing @ piece)
        total += mixtures @ mixtures.T
    return total


def most_alike(vectors: Vectors, others: Vectors, n_parameters: int) -> NDArray[np.int64]:
    """(k,) for each vector the position of that of `others` with the largest cosine.

    The first of equal ones; products are in float32, so that nearly equal ones may be taken for
    each other.
    """
    rows = [*vectors, *others]
    largest = largest_entries(rows, n_parameters)
    divisor = np.where(largest > 0, largest, 1.0)[:, None]
    products = np.zeros((len(vectors), len(others)))
    squares = np.zeros(len(others))
    for piece in pieces(rows, n_parameters, _NARROWEST):
        piece /= divisor
        single = piece.astype(np.float32)
        mine, theirs = single[: len(vectors)], single[len(vectors) :]
        products += mine @ theirs.T
        squares += (theirs**2).sum(axis=1)
    return np.asarray((products / np.sqrt(np.maximum(squares, 1e-300))).argmax(axis=1))


def cosine_similarity(features: ArrayLike) -> Matrix:
    """Cosine of every two clients' feature vectors (eq. 10 with the cosine as f_sim).

    Parameters
    ----------
    features
        u, (N, f): label histograms, or anything else that tells what a client's data are like. A
        row of zeros or with a NaN is a client that is not known yet.

    Returns
    -------
    (N, N) in [-1, 1], ones on the diagonal, NaN between an unknown client and any other.
    """
    rows = np.asarray(features, dtype=np.float64)
    if rows.ndim != 2:
        raise ValueError(f"features must have shape (N, f), got {rows.shape}")
    return _known_cosines(rows, len(rows), rows.shape[1], "features")


def update_similarity(
    updates: torch.Tensor | NDArray[np.floating] | Sequence[torch.Tensor],
) -> Matrix:
    """Cosine of every two clients' updates, negative values set to zero (eq. 11).

    Parameters
    ----------
    updates
        The updates, (k, d) or k vectors of length d. A row of zeros or with a NaN is a client that
        is not known yet.

    Returns
    -------
    (k, k) in [0, 1], ones on the diagonal, NaN between an unknown client and any other.

    Notes
    -----
    The paper uses the updates of the first round.
    """
    if isinstance(updates, (torch.Tensor, np.ndarray)):
        if updates.ndim != 2:
            raise ValueError(f"updates must have shape (k, d), got {tuple(updates.shape)}")
        k, d = (int(length) for length in updates.shape)
    else:
        shapes = {tuple(row.shape) for row in updates}
        if len(shapes) > 1 or any(len(shape) != 1 for shape in shapes):
            raise ValueError(f"updates must be vectors of one length, got shapes {sorted(shapes)}")
        k, d = len(updates), next(iter(shapes))[0] if shapes else 0
    # np.maximum keeps NaN
    return np.maximum(_known_cosines(updates, k, d, "updates"), 0.0)


def functional_similarity(
    module: torch.nn.Module,
    vectors: Sequence[torch.Tensor | None] | torch.Tensor | Callable[[int], torch.Tensor | None],
    validation_inputs: torch.Tensor | NDArray[np.floating],
    rng: np.random.Generator,
    *,
    n_clients: int | None = None,
    n_samples: int = 256,
    ridge: float = 1e-3,
    noise: str = "covariance",
) -> Matrix:
    """Cosine of what the clients' models answer, on average, to the same noise (eq. 12).

    Parameters
    ----------
    module
        The model's architecture. It is copied; the copy is set to evaluation mode.
    vectors
        theta_i: the clients' flat models (parameters, then, if the vector goes on, floating
        buffers), or a function that gives client k's when asked, one at a time. None is a client
        that is not known yet.
    validation_inputs
        (n, ...), n > 1: the inputs of the server's small validation set. Its mean and covariance
        are those of the noise.
    rng
        Draws the noise.
    n_clients
        Needed where `vectors` is a function.
    n_samples
        Size of the noise batch; the paper does not give one.
    ridge
        Where n is not above the number of input values, the covariance has no full rank; this
        share of the mean variance is then added to its diagonal.
    noise
        ``"covariance"``: Gaussian noise with the mean and covariance of the inputs, as in the
        paper; ``"scalar"``: every value drawn by itself, with the one mean and standard deviation
        of all values, as in the authors' program.

    Returns
    -------
    (N, N) in [0, 1], ones on the diagonal, NaN between an unknown client and any other.

    Notes
    -----
    The layer l is the output layer, the paper's choice: whatever `module` returns, usually logits.
    """
    if callable(vectors):
        if n_clients is None:
            raise ValueError("n_clients must be given when vectors is a function, got None")
        load = vectors
    else:
        if n_clients not in (None, len(vectors)):
            raise ValueError(f"n_clients must be len(vectors) = {len(vectors)}, got {n_clients}")
        n_clients = len(vectors)
        load = vectors.__getitem__
    drawn = torch.from_numpy(noise_like(validation_inputs, rng, n_samples, ridge, noise))
    model = copy.deepcopy(module).eval()
    answers: list[Matrix | None] = []
    for k in range(n_clients):
        vector = load(k)
        answers.append(None if vector is None else mean_answer(model, vector, drawn, k))
    width = next((len(answer) for answer in answers if answer is not None), 1)
    rows = [np.full(width, np.nan) if answer is None else answer for answer in answers]
    return np.maximum(cosine_similarity(np.array(rows).reshape(n_clients, width)), 0.0)


def cosine_rows(
    rows: Matrix | Sequence[torch.Tensor],
    ids: NDArray[np.integer],
    n_clients: int,
    least: float = -1.0,
) -> Callable[[int, int], Matrix]:
    """A function that gives rows of V, (N, N), which is never there as a whole.

    Parameters
    ----------
    rows
        What is compared: a matrix (k, f), or k vectors of one length. A row of zeros or with a NaN
        is a client that is not known yet.
    ids
        (k,) whose rows they are, ascending; nothing is known of the other clients.
    n_clients
        N.
    least
        Smaller cosines are set to this one.

    Notes
    -----
    Wide rows are multiplied once, in pieces of columns, and V is kept in float32; of narrow ones
    the products are made when they are asked for.
    """
    k = len(rows)
    d = (rows.shape[1] if isinstance(rows, np.ndarray) else len(rows[0])) if k else 0
    largest = largest_entries(rows, d) if k and d else np.zeros(k)
    known = np.isfinite(largest) & (largest > 0)
    place = np.full(n_clients, -1)
    place[ids[known]] = np.flatnonzero(known)
    there = place >= 0
    if isinstance(rows, np.ndarray) and d <= _NARROWEST:
        unit = np.divide(rows, largest[:, None], out=np.zeros_like(rows), where=known[:, None])
        unit /= np.maximum(np.sqrt((unit**2).sum(axis=1, keepdims=True)), 1e-300)

        def products(of: NDArray[np.intp], among: NDArray[np.intp]) -> Matrix:
            return unit[of] @ unit[among].T
    else:
        table = scaled_gram(rows, d, largest, narrowest=1, unknown=~known)
        norms = np.sqrt(np.where(known, np.diagonal(table), 1.0))
        table /= norms[:, None]
        table /= norms[None, :]
        cosine = table.astype(np.float32)
        del table

        def products(of: NDArray[np.intp], among: NDArray[np.intp]) -> Matrix:
            return cosine[of][:, among].astype(np.float64)

    def block(start: int, stop: int) -> Matrix:
        found = np.full((stop - start, n_clients), np.nan)
        mine = np.flatnonzero(there[start:stop])
        if len(mine):
            alike = np.clip(products(place[start + mine], place[there]), -1.0, 1.0)
            found[np.ix_(mine, np.flatnonzero(there))] = np.maximum(alike, least)
        found[np.arange(stop - start), np.arange(start, stop)] = 1.0
        return found

    return block


def _known_cosines(rows: Rows, k: int, d: int, name: str) -> Matrix:
    """Cosines of k rows of length d; NaN between one that is zero or has a NaN and any other."""
    largest = largest_entries(rows, d) if k and d else np.zeros(k)
    infinite = np.isinf(largest)
    if infinite.any():
        raise ValueError(
            f"{name} must be finite (or NaN: not known), row {infinite.argmax()} is not"
        )
    known = largest > 0  # false for NaN
    products = scaled_gram(rows, d, largest, narrowest=1, unknown=~known)
    norms = np.sqrt(np.where(known, np.diagonal(products), 1.0))
    cosine: Matrix = np.clip((products + products.T) / 2 / np.outer(norms, norms), -1.0, 1.0)
    cosine[~known, :] = np.nan
    cosine[:, ~known] = np.nan
    np.fill_diagonal(cosine, 1.0)
    return cosine


def _to_numpy(values: torch.Tensor) -> Matrix:
    array: Matrix = values.detach().to("cpu", torch.float64).numpy()
    return array


def noise_like(
    inputs: torch.Tensor | NDArray[np.floating],
    rng: np.random.Generator,
    n_samples: int,
    ridge: float = 1e-3,
    noise: str = "covariance",
) -> Matrix:
    """(n_samples, ...) noise like the inputs; see `functional_similarity`."""
    if noise == "covariance":
        return _gaussian_like(inputs, rng, n_samples, ridge)
    if noise == "scalar":
        return _scalar_noise(inputs, rng, n_samples)
    raise ValueError(f'noise must be "covariance" or "scalar", got {noise!r}')


def _scalar_noise(
    inputs: torch.Tensor | NDArray[np.floating], rng: np.random.Generator, n_samples: int
) -> Matrix:
    """(n_samples, ...) independent noise with the mean and standard deviation of all values."""
    examples = _to_numpy(inputs) if isinstance(inputs, torch.Tensor) else inputs.astype(np.float64)
    drawn = rng.normal(examples.mean(), examples.std(), (n_samples, *examples.shape[1:]))
    return np.asarray(drawn, dtype=np.float64)


def _gaussian_like(
    inputs: torch.Tensor | NDArray[np.floating],
    rng: np.random.Generator,
    n_samples: int,
    ridge: float,
) -> Matrix:
    """(n_samples, ...) noise with the mean and the covariance of the inputs (n, ...)."""
    examples = _to_numpy(inputs) if isinstance(inputs, torch.Tensor) else inputs.astype(np.float64)
    if examples.ndim < 2 or len(examples) < 2 or not np.isfinite(examples).all():
        raise ValueError(
            "validation_inputs must be at least two finite examples (n, ...), "
            f"got shape {examples.shape}"
        )
    if n_samples < 1:
        raise ValueError(f"n_samples must be at least 1, got {n_samples}")
    if not 0 <= ridge < np.inf:
        raise ValueError(f"ridge must be a finite number >= 0, got {ridge}")
    n = len(examples)
    flat = examples.reshape(n, -1)
    mean = flat.mean(axis=0)
    centred = flat - mean
    # g @ centred / sqrt(n - 1), g ~ N(0, 1), has the sample covariance without ever forming it.
    noise = mean + rng.standard_normal((n_samples, n)) @ centred / np.sqrt(n - 1)
    if n <= flat.shape[1]:
        mean_variance = (centred**2).sum() / (n - 1) / flat.shape[1]
        deviation = np.sqrt(ridge * mean_variance)
        noise += deviation * rng.standard_normal(noise.shape)
    shaped: Matrix = noise.reshape(n_samples, *examples.shape[1:])
    return shaped


def mean_answer(
    model: torch.nn.Module, vector: torch.Tensor, noise: torch.Tensor, k: int = 0
) -> Matrix:
    """Client k's mean output on the noise, flattened."""
    parts = dict(model.named_parameters())
    n_parameters = sum(part.numel() for part in parts.values())
    buffers = {name: b for name, b in model.named_buffers() if b.is_floating_point()}
    n_all = n_parameters + sum(part.numel() for part in buffers.values())
    if vector.ndim != 1 or len(vector) not in (n_parameters, n_all):
        raise ValueError(
            f"vectors: client {k}'s must have length {n_parameters} (parameters) or {n_all} "
            f"(and floating buffers), got shape {tuple(vector.shape)}"
        )
    like: dict[str, torch.Tensor] = {**parts}
    if len(vector) == n_all:
        like.update(buffers)
    pieces = torch.split(vector.detach(), [part.numel() for part in like.values()])
    state = {
        name: piece.view(part.shape).to(part.device, part.dtype)
        for (name, part), piece in zip(like.items(), pieces, strict=True)
    }
    first = next(iter(parts.values()), noise)
    with torch.no_grad():
        answer = torch.func.functional_call(model, state, (noise.to(first.device, first.dtype),))
    mean: Matrix = _to_numpy(answer).reshape(len(noise), -1).mean(axis=0)
    return mean
