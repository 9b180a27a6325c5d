"""Where everything lies: a chain of layers laid out in one arena, as ``kernels.c`` reads it.

A plan holds for one chain, one shape of an example and one type of numbers. Batches of any size
are passed through in chunks of so many images that their arrays stay in a core's second cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np
import numpy.typing as npt

from understudy.core.flat import Layout
from understudy.core.types import Ints
from understudy.simulation.training.kernels.layers import (
    Activation,
    Convolution,
    Dropout,
    Layer,
    LinearLayer,
    PoolLayer,
    Refused,
    Reshape,
    Weighted,
)

VECTOR = 64  # bytes: what all sums are taken in, on every machine
CHUNK_BYTES = 2**20  # of arrays that a chunk of images uses
MOST_IMAGES = 64  # of a chunk
TOGETHER_BYTES = 2**18
MOST_WIDTH = 64  # of a convolution, as in kernels.c

# the values of `kind` and the fields of `op` and `plan` in kernels.c, in order
KINDS = (
    *("convolution", "linear", "max", "average"),
    *("relu", "tanh", "sigmoid", "copy", "dropout"),
)
ARRAY = ("at", "image", "channel")
OP = (
    *("kind", "channels", "rows", "columns", "outputs", "out_rows", "out_columns"),
    *(f"{array}_{entry}" for array in ("x", "dx", "y", "dy") for entry in ARRAY),
    *("first", "wanted", "weight", "bias", "height", "width", "down", "right"),
    *("patches", "patches_image", "together", "spread", "spread_channel"),
    *("forward_taps", "weight_taps", "input_taps", "dy_taps"),
    *("chosen", "relu", "layer", "p"),
)
HEAD = (
    *("n_ops", "d", "weights", "gradient", "velocity", "inputs", "classes", "chunk"),
    *(f"{array}_{entry}" for array in ("logits", "dlogits") for entry in ARRAY),
)

Shape = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Plan:
    """A net as tables of whole numbers."""

    dtype: np.dtype[np.floating]
    head: Ints
    ops: Ints  # (ops, fields)
    offsets: Ints
    taps: Ints  # (taps, 2)
    size: int  # numbers in the arena
    spans: tuple[tuple[int, int], ...]  # what of the arena is used; between them lies nothing
    n_inputs: int  # numbers of one example
    n_classes: int
    d: int
    chunk: int  # images passed through at once
    per_image: int  # bytes
    multiply_adds: int  # of one example's forward pass
    linear_multiply_adds: int  # those of them in linear layers
    n_dropouts: int

    def arena(self) -> npt.NDArray[np.floating]:
        """Memory for one client at a time; zero, which is what pads."""
        raw = np.zeros(self.size * self.dtype.itemsize + VECTOR, dtype=np.uint8)
        skip = -raw.ctypes.data % VECTOR
        return raw[skip : skip + self.size * self.dtype.itemsize].view(self.dtype)


def plan_of(
    layers: Sequence[Layer], layout: Layout, shape: Shape, dtype: np.dtype[np.floating]
) -> Plan:
    """Lay a chain out for examples of a shape.

    `Refused` where a layer does not fit the shape it gets.
    """
    at, d = {}, 0
    for name, entry in zip(layout.names, layout.shapes, strict=True):
        at[name], d = d, d + entry.numel()
    _check_sizes(layers, layout, d)
    per_image = _Builder(at, d, dtype, chunk=1).build(layers, shape).per_image
    # each chunk reads all weights once more, so it may be as large as they are
    chunk = (CHUNK_BYTES + d * dtype.itemsize) // per_image
    chunk = max(1, min(MOST_IMAGES, chunk))
    return _Builder(at, d, dtype, chunk).build(layers, shape)


def _check_sizes(layers: Sequence[Layer], layout: Layout, d: int) -> None:
    """The kernels count by layers, the model by parameters: the two must not come apart."""
    sizes = {name: shape.numel() for name, shape in zip(layout.names, layout.shapes, strict=True)}
    counted = 0
    for layer in layers:
        if not isinstance(layer, Weighted):
            continue
        for name, size in ((layer.weight, layer.n_weights), (layer.bias, layer.outputs)):
            if name is None:
                continue
            if sizes.get(name) != size:
                raise Refused(f"{name!r} is used as {size} numbers, and has {sizes.get(name)}")
            counted += size
    if counted != d:
        raise Refused(f"its layers have {counted} numbers, and the model has {d}")


@dataclass(frozen=True)
class Array:
    """Channel c of image i begins at ``at + i * image + c * channel``."""

    at: int = 0
    image: int = 0
    channel: int = 0


@dataclass(frozen=True)
class Region:
    """What one layer hands to the next: of each image some channels, each dense."""

    channels: int
    rows: int
    columns: int
    rank: int  # dimensions that the layers see: 3 of images, 1 of vectors
    x: Array | None  # None: the data
    dx: Array | None  # None: nobody asks for it
    needed: bool = False  # whoever wrote it reads it again on the way back

    @property
    def pixels(self) -> int:
        return self.rows * self.columns

    @property
    def dense(self) -> bool:
        return all(
            array is None or self.channels == 1 or array.channel == self.pixels
            for array in (self.x, self.dx)
        )


@dataclass
class _Builder:
    at: Mapping[str, int]  # of each parameter in the flat model
    d: int
    dtype: np.dtype[np.floating]
    chunk: int
    size: int = 0
    per_image: int = 0
    multiply_adds: int = 0
    linear_multiply_adds: int = 0
    n_dropouts: int = 0
    learns: bool = False  # a layer with weights came already
    ops: list[dict[str, int]] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    taps: list[tuple[int, int]] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)

    def build(self, layers: Sequence[Layer], shape: Shape) -> Plan:
        weights, gradient, velocity = (self._room(self.d) for _ in range(3))
        place = _place_of(shape)
        for layer, relu in _fused(layers):
            place = self._add(layer, relu, place)
        if place.rank != 1 or not self.learns:
            raise Refused("its output is not a vector of scores")
        place = self._densely(place)
        assert place.x is not None and place.dx is not None
        head = {
            "n_ops": len(self.ops),
            "d": self.d,
            "weights": weights,
            "gradient": gradient,
            "velocity": velocity,
            "inputs": prod(shape),
            "classes": place.columns,
            "chunk": self.chunk,
            **_entries("logits", place.x),
            **_entries("dlogits", place.dx),
        }
        return Plan(
            dtype=self.dtype,
            head=np.array([head[name] for name in HEAD], dtype=np.int64),
            ops=np.array([[op[name] for name in OP] for op in self.ops], dtype=np.int64),
            offsets=np.array(self.offsets, dtype=np.int64),
            taps=np.array(self.taps, dtype=np.int64).reshape(-1, 2),
            size=self.size,
            spans=tuple(self.spans),
            n_inputs=prod(shape),
            n_classes=place.columns,
            d=self.d,
            chunk=self.chunk,
            per_image=self.per_image,
            multiply_adds=self.multiply_adds,
            linear_multiply_adds=self.linear_multiply_adds,
            n_dropouts=self.n_dropouts,
        )

    # -- memory ----------------------------------------------------------------------------------

    @property
    def _lanes(self) -> int:
        return VECTOR // self.dtype.itemsize

    def _up(self, n: int) -> int:
        """The next multiple of a vector's length."""
        return -(-n // self._lanes) * self._lanes

    def _room(self, n: int) -> int:
        """Room for n numbers, with a vector's length of nothing behind it."""
        at = self.size
        self.spans.append((at, at + n))
        self.size = self._up(at + n) + self._lanes
        return at

    def _images(self, image: int, channel: int, before: int = 0, after: int = 0) -> Array:
        """Room for an array of each image of a chunk, and for zeros around all of them."""
        self.per_image += image * self.dtype.itemsize
        at = self._room(before + self.chunk * image + after)
        return Array(at + before, image, channel)

    def _dense(self, channels: int, rows: int, columns: int, rank: int = 3) -> Region:
        """A new place without gaps."""
        n = rows * columns
        image = self._up(channels * n)
        x = self._images(image, n)
        dx = self._images(image, n) if self.learns else None
        return Region(channels, rows, columns, rank, x, dx)

    def _table(self, entries: list[int]) -> int:
        self.offsets.extend(entries)
        return len(self.offsets) - len(entries)

    def _taps(self, entries: list[tuple[int, int]]) -> int:
        self.taps.extend(entries)
        return len(self.taps) - len(entries)

    # -- layers ----------------------------------------------------------------------------------

    def _add(self, layer: Layer, relu: bool, place: Region) -> Region:
        match layer:
            case Convolution():
                return self._convolution(layer, place)
            case LinearLayer():
                return self._linear(layer, place)
            case PoolLayer():
                return self._pool(layer, relu, place)
            case Reshape():
                return self._reshape(layer, place)
            case Activation(kind):
                # in place, unless what is there is still needed
                own = place.x is None or place.needed
                into = self._dense_like(place) if own else place
                return replace(self._elementwise(kind, place, into), needed=True)
            case Dropout(p):
                self.n_dropouts += 1
                return self._elementwise(
                    "dropout",
                    place,
                    self._dense_like(place),
                    layer=self.n_dropouts - 1,
                    p=int(np.float64(p).view(np.int64)),
                )

    def _op(self, kind: str, place: Region, into: Region, wanted: bool, **more: int) -> None:
        op = dict.fromkeys(OP, 0) | {
            "kind": KINDS.index(kind),
            "channels": place.channels,
            "rows": place.rows,
            "columns": place.columns,
            "outputs": into.columns if kind == "linear" else into.channels,
            "out_rows": into.rows,
            "out_columns": into.columns,
            "first": int(place.x is None),
            "wanted": int(wanted),
            **_entries("x", place.x or Array()),
            **_entries("dx", place.dx or Array()),
            **_entries("y", into.x or Array()),
            **_entries("dy", into.dx or Array()),
        }
        self.ops.append(op | more)

    def _elementwise(self, kind: str, place: Region, into: Region, **more: int) -> Region:
        self._op(kind, place, into, wanted=self.learns, **more)
        return into

    def _dense_like(self, place: Region) -> Region:
        return self._dense(place.channels, place.rows, place.columns, place.rank)

    def _densely(self, place: Region) -> Region:
        if place.dense:
            return place
        return self._elementwise("copy", place, self._dense_like(place))

    def _reshape(self, layer: Reshape, place: Region) -> Region:
        n = place.channels * place.pixels
        shape = (n,) if layer.shape is None else layer.shape
        if prod(shape) != n:
            raise Refused(f"an example of {n} numbers is reshaped to {shape}")
        place = self._densely(place)
        new = _place_of(shape)
        arrays = (
            None if array is None else replace(array, channel=new.pixels)
            for array in (place.x, place.dx)
        )
        x, dx = arrays
        return replace(new, x=x, dx=dx, needed=place.needed)

    def _parameters(self, layer: Weighted) -> dict[str, int]:
        bias = -1 if layer.bias is None else self.at[layer.bias]
        return {"weight": self.at[layer.weight], "bias": bias}

    def _linear(self, layer: LinearLayer, place: Region) -> Region:
        n = place.channels * place.pixels
        if place.rank != 1 or n != layer.inputs:
            raise Refused(f"{layer.weight!r} takes {layer.inputs} numbers and gets {n}")
        wanted, self.learns = self.learns, True
        self.multiply_adds += n * layer.outputs
        self.linear_multiply_adds += n * layer.outputs
        into = self._dense(1, 1, layer.outputs, rank=1)
        self._op(
            "linear",
            place,
            into,
            wanted,
            **self._parameters(layer),
            weight_taps=self._table([j * n for j in range(layer.outputs)]),
            input_taps=self._taps([(j, j * n) for j in range(layer.outputs)]) if wanted else 0,
        )
        return into

    def _convolution(self, layer: Convolution, place: Region) -> Region:
        (height, width), (down, right) = layer.window, layer.padding
        high, wide = place.rows + 2 * down, place.columns + 2 * right - width + 1
        out_rows = high - height + 1
        if place.rank != 3 or place.channels != layer.inputs or min(out_rows, wide) < 1:
            shape = (place.channels, place.rows, place.columns)
            raise Refused(f"{layer.weight!r} does not fit images of shape {shape}")
        if width > MOST_WIDTH:
            raise Refused(f"{layer.weight!r} is {width} wide, and {MOST_WIDTH} is the most")
        wanted, self.learns = self.learns, True
        pixels, window = out_rows * wide, height * width
        self.multiply_adds += pixels * layer.outputs * layer.inputs * window
        channel = self._up(pixels)
        # rows of zeros before each channel of dy, and so behind the one before it
        margin = self._up(max(0, height - 1 - down) * wide) if wanted else 0
        into = Region(
            layer.outputs,
            out_rows,
            wide,
            3,
            self._images(layer.outputs * channel, channel),
            self._images(
                layer.outputs * (margin + channel),
                margin + channel,
                before=margin,
                after=(margin + self._lanes) if wanted else 0,
            ),
        )
        assert into.dx is not None
        patch = high * wide
        patches = self._images(self._up(width * layer.inputs * patch), 0, after=self._lanes)
        in_patches = [
            (b * layer.inputs + c) * patch + a * wide
            for c in range(layer.inputs)
            for a in range(height)
            for b in range(width)
        ]
        spread = self._up(place.rows * wide)
        n_taps = layer.inputs * window
        numbers = patches.image + into.dx.image
        self._op(
            "convolution",
            place,
            into,
            wanted,
            **self._parameters(layer),
            height=height,
            width=width,
            down=down,
            right=right,
            patches=patches.at,
            patches_image=patches.image,
            together=max(1, TOGETHER_BYTES // (numbers * self.dtype.itemsize)),
            spread=self._room(width * layer.inputs * spread) if wanted else 0,
            spread_channel=spread,
            forward_taps=self._taps(list(enumerate(in_patches))),
            weight_taps=self._table(in_patches),
            dy_taps=self._table([o * into.dx.channel for o in range(layer.outputs)]),
            input_taps=self._taps(
                [
                    (o * n_taps + a * width, o * into.dx.channel + (down - a) * wide)
                    for o in range(layer.outputs)
                    for a in range(height)
                ]
            ),
        )
        return into

    def _pool(self, layer: PoolLayer, relu: bool, place: Region) -> Region:
        (height, width), (down, right) = layer.window, layer.stride
        if place.rank != 3 or place.rows < height or place.columns < width:
            raise Refused(f"a pooling of {layer.window} gets {place.rows} × {place.columns}")
        rows, columns = (place.rows - height) // down + 1, (place.columns - width) // right + 1
        into = self._dense(place.channels, rows, columns)
        n = place.channels * rows * columns
        self._op(
            layer.kind,
            place,
            into,
            wanted=self.learns,
            height=height,
            width=width,
            down=down,
            right=right,
            relu=int(relu),
            chosen=self._images(n, 0).at,
        )
        return into


def _place_of(shape: Shape) -> Region:
    """The data as a place: images, or vectors."""
    if len(shape) == 3:
        return Region(*shape, rank=3, x=None, dx=None)
    return Region(1, 1, prod(shape), rank=len(shape), x=None, dx=None)


def _entries(name: str, array: Array) -> dict[str, int]:
    return {f"{name}_{entry}": getattr(array, entry) for entry in ARRAY}


def _fused(layers: Sequence[Layer]) -> list[tuple[Layer, bool]]:
    """Layers, and whether a ReLU belongs to them: one beside a maximum may come before or after."""
    fused: list[tuple[Layer, bool]] = []
    relu = Activation("relu")
    for layer in layers:
        before, has_relu = fused[-1] if fused else (None, False)
        pools = _is_max_pool(before)
        if layer == relu and pools and before is not None:
            fused[-1] = (before, True)
        elif _is_max_pool(layer) and before == relu and not has_relu:
            fused[-1] = (layer, True)
        else:
            fused.append((layer, False))
    return fused


def _is_max_pool(layer: Layer | None) -> bool:
    return isinstance(layer, PoolLayer) and layer.kind == "max"
