"""One vector for a whole model, and back: the parameters, then the floating buffers.

Integer buffers (such as BatchNorm's count of batches) are not part of the vector: a module keeps
its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy


@dataclass(frozen=True)
class Layout:
    """Where each named array of a model lies in the flat vector.

    Parameters come first, then persistent floating buffers, each in the module's own order. Tied
    parameters appear once, under their first name.
    """

    names: tuple[str, ...]
    shapes: tuple[torch.Size, ...]
    n_names_of_parameters: int
    dtype: torch.dtype  # the one type of all entries
    _lengths: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_lengths", tuple(prod(shape) for shape in self.shapes))

    @classmethod
    def of(cls, module: nn.Module) -> Layout:
        """The layout of a module's parameters and floating buffers."""
        parameters = list(module.named_parameters())
        entries = parameters + list(_floating_buffers(module))
        if not parameters:
            raise ValueError(f"module: expected at least one parameter, got none in {module!r}")
        for name, entry in entries:
            if is_lazy(entry):
                raise ValueError(
                    f"module: {name!r} has no shape yet; pass one batch through the module first"
                )
            if entry.dtype != parameters[0][1].dtype or not entry.dtype.is_floating_point:
                raise ValueError(
                    "module: expected one floating type for all parameters and floating buffers, "
                    f"got {parameters[0][1].dtype} for {parameters[0][0]!r} and {entry.dtype} "
                    f"for {name!r}; convert it, for example with module.float()"
                )
        return cls(
            names=tuple(name for name, _ in entries),
            shapes=tuple(entry.shape for _, entry in entries),
            n_names_of_parameters=len(parameters),
            dtype=parameters[0][1].dtype,
        )

    @property
    def size(self) -> int:
        """d, the length of the vector."""
        return sum(self._lengths)

    @property
    def n_parameters(self) -> int:
        """How many entries of the vector are parameters; the rest are floating buffers."""
        return sum(self._lengths[: self.n_names_of_parameters])

    def vector(self, module: nn.Module) -> torch.Tensor:
        """(d,) a copy of the module's values."""
        return torch.cat([entry.detach().reshape(-1) for entry in self.entries(module).values()])

    def load(self, module: nn.Module, vector: torch.Tensor) -> None:
        """Write a (d,) vector into the module."""
        with torch.no_grad():
            named = self.named(vector)
            for name, entry in self.entries(module).items():
                entry.copy_(named[name])

    def named(self, vector: torch.Tensor) -> dict[str, torch.Tensor]:
        """Views of a (d,) vector, by name, in their shapes."""
        if vector.shape != (self.size,):
            raise ValueError(f"vector: expected shape ({self.size},), got {tuple(vector.shape)}")
        pieces = torch.split(vector, list(self._lengths))
        return {
            name: piece.view(shape)
            for name, piece, shape in zip(self.names, pieces, self.shapes, strict=True)
        }

    def parameters(self, vector: torch.Tensor) -> list[torch.Tensor]:
        """Views of the parameters only, in the module's order."""
        return list(self.named(vector).values())[: self.n_names_of_parameters]

    def join(self, named: Mapping[str, Any]) -> torch.Tensor:
        """(d,) the vector of named arrays (tensors, or what torch can read as one)."""
        missing = [name for name in self.names if name not in named]
        unexpected = [name for name in named if name not in self.names]
        if missing or unexpected:
            words = [f"missing {missing}"] * bool(missing)
            words += [f"unexpected {unexpected}"] * bool(unexpected)
            raise ValueError(f"named: expected the names of the layout; {', '.join(words)}")
        pieces = []
        for name, shape in zip(self.names, self.shapes, strict=True):
            values = torch.as_tensor(named[name])
            if values.shape != shape:
                raise ValueError(
                    f"named[{name!r}]: expected shape {tuple(shape)}, got {tuple(values.shape)}"
                )
            pieces.append(values.detach().to(self.dtype).reshape(-1))
        return torch.cat(pieces)

    def entries(self, module: nn.Module) -> dict[str, torch.Tensor]:
        """The module's own tensors, by name, in the order of the vector."""
        entries: dict[str, torch.Tensor] = dict(module.named_parameters())
        entries.update(_floating_buffers(module))
        shapes = {name: entry.shape for name, entry in entries.items()}
        if shapes != dict(zip(self.names, self.shapes, strict=True)):
            raise ValueError("module: its names or shapes are not those of this layout")
        return entries


def other_buffers(module: nn.Module) -> list[torch.Tensor]:
    """The buffers that are not in the vector: integer ones, and those that are not persistent."""
    inside = {id(buffer) for _, buffer in _floating_buffers(module)}
    return [buffer for buffer in module.buffers() if id(buffer) not in inside]


def _floating_buffers(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    persistent = module.state_dict(keep_vars=True)
    for name, buffer in module.named_buffers():
        if name in persistent and (buffer.is_floating_point() or buffer.is_complex()):
            yield name, buffer
