"""Counts the optimizer steps that are really made, in the warm-up rounds only."""

from __future__ import annotations

from typing import Any

from torch.optim import optimizer as optim


class StepCounter:
    """Counts steps of every torch optimizer but `ignored` until it is removed."""

    def __init__(self, ignored: object = None) -> None:
        self.ignored = ignored
        self.steps = 0
        self._handle = optim.register_optimizer_step_post_hook(self._count)

    def _count(self, optimizer: object, *_: Any) -> None:
        if optimizer is not self.ignored:
            self.steps += 1

    def remove(self) -> None:
        self._handle.remove()
