"""Scalar products of many long rows: the Gram matrix, in pieces of columns.

No second copy of all rows is made. In float64 the sums of a piece are exact to the last bits; in
float32 a piece is a product at twice the speed, whose sums are added up in float64.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from understudy.core.types import Bools, Vectors

__all__ = ["gram_float32", "largest_entries", "pieces", "scaled_gram"]

Matrix = NDArray[np.float64]
Rows = Vectors | NDArray[np.floating]  # (k, d), or k vectors of length d

_CHUNK = 1 << 22  # float64 values held at once while a Gram matrix is summed: 32 MB
# Columns of a product in float32: sums of more would lose digits, and fewer are slower.
_SINGLE = 16_384
# Largest entries between which squares, and their sums, stay well within float32.
_SMALLEST_SINGLE, _LARGEST_SINGLE = 1e-12, 1e12


def scaled_gram(
    rows: Rows,
    n_columns: int,
    scale: Matrix,
    *,
    narrowest: int,
    unknown: Bools | None = None,
    groups: Sequence[NDArray[np.int64]] | None = None,
) -> Matrix:
    """(k, k) scalar products of rows over their first columns, each divided by its scale.

    `scale` (k,) is the largest entry of each row, so that no square leaves the range; where it is
    not above zero, the row is taken as it is. Those `unknown` count as zero. One BLAS call for each
    piece (and group, if only pairs within `groups` are wanted: the others stay 0), where a loop
    over pairs would read every row k times.
    """
    total = np.zeros((len(rows), len(rows)))
    divisor = np.where(scale > 0, scale, 1.0)[:, None]
    for piece in pieces(rows, n_columns, narrowest):
        piece /= divisor
        if unknown is not None:
            piece[unknown] = 0.0
        if _is_one_product(groups, len(rows)):
            total += piece @ piece.T
        else:
            assert groups is not None
            total += _products_within(piece, groups)
    return total


def _products_within(piece: NDArray[np.floating], groups: Sequence[NDArray[np.int64]]) -> Matrix:
    """(k, k) scalar products of the rows of each group; 0 for pairs of no group."""
    products = np.zeros((len(piece), len(piece)))
    for group in groups:
        members = piece[group]
        products[np.ix_(group, group)] = members @ members.T
    return products


def largest_entries(rows: Rows, n_columns: int) -> Matrix:
    """(k,) largest absolute entry of each row; NaN where it has one."""
    if isinstance(rows, np.ndarray):
        return np.array([np.abs(row[:n_columns]).max() for row in rows], dtype=np.float64)
    return np.array([float(row[:n_columns].abs().max()) for row in rows])


def pieces(rows: Rows, n_columns: int, narrowest: int) -> Iterator[Matrix]:
    """(k, width) copies in float64 of some columns after the other."""
    width = max(narrowest, _CHUNK // max(1, len(rows)))
    for start in range(0, n_columns, width):
        columns = slice(start, min(start + width, n_columns))
        if isinstance(rows, np.ndarray):
            yield rows[:, columns].astype(np.float64)
            continue
        if isinstance(rows, torch.Tensor):
            piece = rows[:, columns]
        else:
            # rows of a memory on the disk are on the CPU, wherever those are that came
            device = rows[0].device
            piece = torch.stack([row[columns].to(device) for row in rows])
        yield piece.detach().cpu().to(torch.float64, copy=True).numpy()


def gram_float32(
    rows: Rows, n_columns: int, groups: Sequence[NDArray[np.int64]] | None = None
) -> Matrix | None:
    """(k, k) scalar products of rows in single precision; None where their range does not allow it.

    Relative to the product of two rows' norms the error is about 1e-6 at most. With `groups` only
    pairs within one of them are computed, as in `scaled_gram`.
    """
    largest = largest_entries(rows, n_columns)
    entries = largest[largest > 0]
    if not np.isfinite(largest).all() or (
        len(entries) and not _SMALLEST_SINGLE <= entries.min() <= entries.max() <= _LARGEST_SINGLE
    ):
        return None
    total = np.zeros((len(rows), len(rows)))
    for start in range(0, n_columns, _SINGLE):
        columns = slice(start, min(start + _SINGLE, n_columns))
        if isinstance(rows, np.ndarray | torch.Tensor):
            piece = np.asarray(rows[:, columns], dtype=np.float32)  # no copy of float32 on the CPU
        else:
            single = [row[columns].detach().cpu().float() for row in rows]
            piece = torch.stack(single).numpy()
        if _is_one_product(groups, len(rows)):
            total += piece @ piece.T
        else:
            assert groups is not None
            total += _products_within(piece, groups)
    return total


def _is_one_product(groups: Sequence[NDArray[np.int64]] | None, k: int) -> bool:
    return groups is None or (len(groups) == 1 and len(groups[0]) == k)
