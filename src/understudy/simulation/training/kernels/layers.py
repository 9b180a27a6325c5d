"""The layers that the kernels know, each with what it was called with and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

Pair = tuple[int, int]


class Refused(ValueError):
    """The kernels cannot train it; says why."""


@dataclass(frozen=True)
class Convolution:
    """Sizes are those of the weight itself, whatever a layer says of itself."""

    weight: str
    bias: str | None
    inputs: int
    outputs: int
    window: Pair
    padding: Pair

    @property
    def n_weights(self) -> int:
        return self.outputs * self.inputs * self.window[0] * self.window[1]


@dataclass(frozen=True)
class LinearLayer:
    weight: str
    bias: str | None
    inputs: int
    outputs: int

    @property
    def n_weights(self) -> int:
        return self.outputs * self.inputs


@dataclass(frozen=True)
class PoolLayer:
    kind: str  # "max" or "average"
    window: Pair
    stride: Pair


@dataclass(frozen=True)
class Activation:
    kind: str  # "relu", "tanh" or "sigmoid"


@dataclass(frozen=True)
class Dropout:
    p: float


@dataclass(frozen=True)
class Reshape:
    """One example becomes an array of this shape; None: a vector, of whatever length."""

    shape: tuple[int, ...] | None


Weighted = Convolution | LinearLayer
Layer = Weighted | PoolLayer | Activation | Dropout | Reshape
