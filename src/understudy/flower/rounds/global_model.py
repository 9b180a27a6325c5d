"""The global model of a live federation: arrays for Flower, one flat vector for the strategy."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from flwr.app import Array, ArrayRecord

from understudy.flower.messages.model_arrays import ModelArrays
from understudy.flower.rounds.server import LiveServer


class GlobalModel:
    """The arrays that the app gave, then those that the rounds made of them.

    The server holds the vector once the federation has begun. `buffers` are patterns of the names
    of arrays that are buffers, not parameters.
    """

    def __init__(self, server: LiveServer, buffers: Sequence[str]) -> None:
        self._server, self._buffers = server, tuple(buffers)
        self._format: ModelArrays | None = None
        self._first: torch.Tensor | None = None  # (d,) the model until the federation begins
        self._kept: dict[str, Array] = {}  # arrays that are not in the vector
        self._returned: ArrayRecord | None = None  # what the strategy returned last

    @property
    def format(self) -> ModelArrays:
        if self._format is None:
            raise RuntimeError("the model is not known yet: call start() or configure_train()")
        return self._format

    @property
    def is_known(self) -> bool:
        return self._format is not None

    @property
    def first(self) -> torch.Tensor:
        """(d,) the model before round 0."""
        assert self._first is not None
        return self._first

    def open(self, arrays: ArrayRecord) -> None:
        """Learn the format of the arrays, and resume the run in the folder if there is one."""
        self._server.refuse_if_over()
        if self._format is not None:
            return
        model = ModelArrays.of(arrays, self._buffers)
        model = self._server.resume(model) or model
        self._first = model.vector(arrays)
        in_vector = {model.names[place] for place in model.in_vector}
        self._kept = {name: arrays[name] for name in model.names if name not in in_vector}
        self._format = model

    def record(self, vector: torch.Tensor | None = None) -> ArrayRecord:
        """The arrays of a vector; by default of the model as it is now."""
        if vector is None:
            vector = self._server.state.params if self._server.has_begun else self.first
        return self.format.record(vector, self._kept)

    def returned(self) -> ArrayRecord:
        """The model as it is now, for the loop that runs the rounds."""
        self._returned = self.record()
        return self._returned

    def adopt(self, arrays: ArrayRecord) -> None:
        """Continue from these arrays, if the loop has changed what the strategy returned."""
        if self._returned is not None and arrays is not self._returned:
            state = self._server.state
            state.params = self.format.vector(arrays).to(state.params.device)
