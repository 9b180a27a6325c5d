"""`CheckedTrainer`: a user's trainer; what it returns is checked, and its errors name it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from understudy.core import checks
from understudy.core.roles import Trainer
from understudy.core.shown import part_text, shown
from understudy.core.types import Arrivals, Cohort, Floats, Ints
from understudy.simulation.training.trainers.task import TrainingTask

FIGURES = ("n_examples", "n_steps", "losses")  # of arrivals: one number for each client


class TrainerError(RuntimeError):
    """A user's trainer raised an error, or returned something else than it was asked for."""


class CheckedTrainer:
    """Refuses results of another form; what is wrong with one update, the server refuses itself.

    Parameters
    ----------
    task : TrainingTask
        What is trained.
    make : class or function
        Makes the trainer from the task. It is called when there is something to train or to
        evaluate, after a `close` again.
    """

    def __init__(self, task: TrainingTask, make: Callable[[TrainingTask], Trainer]) -> None:
        self._task, self._make = task, make
        self._made: Trainer | None = None
        self._name = part_text(getattr(make, "func", make))  # of a partial, its function's

    def train(self, params: torch.Tensor, cohort: Cohort, *, into: str = "round") -> Arrivals:
        """Arrivals of everyone asked, in that order."""
        params = self._task.checked(params)
        if not len(cohort.asked):
            return Arrivals.none()
        with self._named(f"in round {cohort.t}"):
            arrivals = self._trainer.train(params, cohort, into=into)
        self._check(arrivals, params, cohort)
        return arrivals

    def losses(self, params: torch.Tensor, ids: Ints) -> Floats:
        """(len(ids),) mean losses."""
        with self._named("while losses were computed"):
            losses = self._trainer.losses(self._task.checked(params), ids)
        return self._numbers("losses", losses, len(ids))

    def outputs(self, params: torch.Tensor, indices: Ints) -> torch.Tensor:
        """(len(indices), …) outputs, on the CPU."""
        indices = self._task.checked_indices(indices)
        with self._named("while outputs were computed"):
            outputs: Any = self._trainer.outputs(self._task.checked(params), indices)
        if not isinstance(outputs, torch.Tensor) or outputs.shape[:1] != (len(indices),):
            self._refuse(f"outputs: expected a tensor of {len(indices)} rows", outputs)
        said: torch.Tensor = outputs.detach().cpu()
        return said

    def close(self) -> None:
        """Close the user's trainer, if it was made."""
        if self._made is not None:
            made, self._made = self._made, None
            with self._named("while it was closed"):
                made.close()

    @property
    def _trainer(self) -> Trainer:
        if self._made is None:
            made = self._make(self._task)
            checks.part("trainer", made, "train", "losses", "outputs", "close")
            self._made = made
        return self._made

    @contextmanager
    def _named(self, when: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            raise TrainerError(f"trainer {self._name} failed {when}: {what}") from error

    def _refuse(self, expected: str, found: Any) -> None:
        words = shown(found)
        if isinstance(found, torch.Tensor | np.ndarray):
            words = f"{found.dtype} of shape {tuple(found.shape)}"
        raise TrainerError(f"trainer {self._name} returned {expected}, got {words}")

    def _check(self, arrivals: Any, params: torch.Tensor, cohort: Cohort) -> None:
        if not isinstance(arrivals, Arrivals):
            self._refuse("what is no Arrivals: expected one", arrivals)
        if not np.array_equal(np.asarray(arrivals.ids), cohort.asked):
            asked, told = cohort.asked.tolist(), np.asarray(arrivals.ids).tolist()
            self._refuse(f"other ids: expected those asked, in their order, {asked}", told)
        if len(arrivals.deltas) != len(cohort.asked):
            self._refuse(f"deltas: expected {len(cohort.asked)} updates", len(arrivals.deltas))
        for delta in arrivals.deltas:
            if (
                not isinstance(delta, torch.Tensor)
                or (delta.shape, delta.dtype) != (params.shape, params.dtype)
                or delta.device != params.device
            ):
                like = f"{params.dtype} of shape {tuple(params.shape)} on {params.device}"
                self._refuse(f"deltas: expected updates like the model, {like}", delta)
        for name in FIGURES:
            self._numbers(name, getattr(arrivals, name), len(cohort.asked))

    def _numbers(self, name: str, given: Any, n: int) -> Floats:
        try:
            return checks.array(name, given, (n,), float)
        except (TypeError, ValueError) as error:
            raise TrainerError(f"trainer {self._name} returned {error}") from error
