"""Remembered updates in half or a quarter of the room: how a row is written, and read again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import torch

PRECISIONS = ("full", "float16", "bfloat16", "int8")
INT8_BLOCK = 256  # entries that share a scale
_HALF = 32768.0  # the largest entry of a row in float16, well below its end of 65,504


@dataclass(frozen=True)
class RowFormat:
    """How rows of `width` numbers of `dtype` are kept.

    ``"float16"``: each row is divided by a scale of its own, so that nothing leaves the range.
    ``"bfloat16"``: the range of float32, with three digits. ``"int8"``: 256 entries share a scale,
    the largest of them is 127, others are rounded to the nearest.
    """

    precision: str
    width: int
    dtype: torch.dtype

    @property
    def is_full(self) -> bool:
        return self.precision == "full"

    @property
    def stored_width(self) -> int:
        if self.precision == "float16":
            return self.width + 2  # a float32: the scale
        if self.precision == "int8":
            return self._n_blocks * (4 + INT8_BLOCK)
        return self.width

    @property
    def stored_dtype(self) -> torch.dtype:
        stored = {"float16": torch.float16, "bfloat16": torch.bfloat16, "int8": torch.int8}
        return stored.get(self.precision, self.dtype)

    @property
    def _n_blocks(self) -> int:
        return -(-self.width // INT8_BLOCK)

    def encoded(self, row: torch.Tensor) -> torch.Tensor:
        """(stored_width,) what is kept of a row; of a full one the row itself."""
        if self.precision == "float16":
            values = row.float()
            scale = _positive(values.abs().max() / _HALF)
            return torch.cat([scale.view(1).view(torch.float16), (values / scale).half()])
        if self.precision == "bfloat16":
            return row.to(torch.bfloat16)
        if self.precision == "int8":
            values = row.new_zeros(self._n_blocks * INT8_BLOCK, dtype=torch.float32)
            values[: self.width] = row
            blocks = values.view(self._n_blocks, INT8_BLOCK)
            scales = _positive(blocks.abs().amax(dim=1) / 127)
            numbers = (blocks / scales[:, None]).round_().to(torch.int8)
            return torch.cat([scales.view(torch.int8), numbers.view(-1)])
        return row

    def decoded(self, stored: torch.Tensor) -> torch.Tensor:
        """(width,) the row, as near as it was kept; a full one is not copied."""
        if self.precision == "float16":
            # a row that is not there is zeros, and its scale too
            return stored[2:].to(self.dtype).mul_(stored[:2].clone().view(torch.float32)[0])
        if self.precision == "bfloat16":
            return stored.to(self.dtype)
        if self.precision == "int8":
            scales = stored[: 4 * self._n_blocks].clone().view(torch.float32)
            numbers = stored[4 * self._n_blocks :].view(self._n_blocks, INT8_BLOCK)
            return numbers.to(self.dtype).mul_(scales[:, None]).view(-1)[: self.width]
        return stored


def _positive(scale: torch.Tensor) -> torch.Tensor:
    """No scale is zero, nor so small that dividing by it is not finite."""
    return scale.clamp(min=torch.finfo(torch.float32).tiny)


class DecodedRows(Sequence[torch.Tensor]):
    """The rows of a store, each decoded when it is asked for."""

    def __init__(self, stored: Sequence[torch.Tensor] | torch.Tensor, form: RowFormat) -> None:
        self._stored, self._form = stored, form

    def __len__(self) -> int:
        return len(self._stored)

    @overload
    def __getitem__(self, index: int) -> torch.Tensor: ...

    @overload
    def __getitem__(self, index: slice) -> list[torch.Tensor]: ...

    def __getitem__(self, index: int | slice) -> torch.Tensor | list[torch.Tensor]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        return self._form.decoded(self._stored[index])
