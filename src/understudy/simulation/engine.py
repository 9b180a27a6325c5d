"""The loop: who can be reached, who is asked, what they learnt, what the server makes of it."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from time import perf_counter

from torch import nn

from understudy import checks
from understudy.availability import Always
from understudy.flat import Layout
from understudy.rng import generator
from understudy.roles import Availability
from understudy.simulation.data import Federation
from understudy.simulation.models import Model, build
from understudy.simulation.training import LoopTrainer, evaluate
from understudy.strategy import Strategy
from understudy.types import Applied, Arrivals, Cohort, RoundLog


class Run:
    """A simulation that is iterated: each turn plays one round and yields its `RoundLog`.

    Made by `simulate`. Stop early with `break`; iterating again goes on where it stopped.
    """

    def __init__(
        self,
        federation: Federation,
        strategy: Strategy,
        module: nn.Module,
        availability: Availability,
        rounds: int,
        seed: int,
        evaluate_every: int,
    ) -> None:
        self.federation, self.strategy, self.availability = federation, strategy, availability
        self.rounds, self.seed, self.evaluate_every = rounds, seed, evaluate_every
        self._module, self._layout = module, Layout.of(module)
        params = self._layout.vector(module)
        self._trainer = LoopTrainer(federation, copy.deepcopy(module), strategy.local, seed)
        self._attendance = availability.init(federation.population())
        rates = availability.rates(self._attendance, 0)
        self.state = strategy.init(
            replace(federation.population(), p=rates),
            params,
            seed=seed,
            n_parameters=self._layout.n_parameters,
        )

    def __iter__(self) -> Iterator[RoundLog]:
        while self.state.t < self.rounds:
            yield self._round()

    def _round(self) -> RoundLog:
        state, trainer, t = self.state, self._trainer, self.state.t
        clock = [perf_counter()]
        rng = generator(self.seed, "availability", t)
        available = self.availability.draw(self._attendance, t, rng)
        cohort = self.strategy.select(
            state,
            available,
            p=self.availability.rates(self._attendance, t),
            losses=lambda ids: trainer.losses(state.params, ids),
        )
        clock.append(perf_counter())
        arrivals = trainer.train(state.params, cohort, t)
        clock.append(perf_counter())
        applied = self.strategy.apply(state, cohort, arrivals)
        clock.append(perf_counter())
        metrics = self._metrics(t)
        clock.append(perf_counter())
        return self._log(cohort, arrivals, applied, metrics, clock)

    def _metrics(self, t: int) -> dict[str, float]:
        if (t + 1) % self.evaluate_every and t + 1 < self.rounds:
            return {}
        self._layout.load(self._module, self.state.params)
        loss, accuracy = evaluate(self._module, self.federation, self.federation.test)
        return {"test_loss": loss, "test_accuracy": accuracy}

    def _log(
        self,
        cohort: Cohort,
        arrivals: Arrivals,
        applied: Applied,
        metrics: dict[str, float],
        clock: list[float],
    ) -> RoundLog:
        names = ("select", "train", "apply", "evaluate")
        spent = [end - begin for begin, end in pairwise(clock)]
        megabytes = self.state.params.nbytes / 1e6
        vectors_down = 1 if cohort.correction is None else 2
        return RoundLog(
            t=applied.t,
            outcome=applied.outcome,
            refusals=applied.refusals,
            ids=applied.contributions.ids,
            source=applied.contributions.source,
            coef=applied.contributions.coef,
            notes=applied.notes,
            metrics=metrics,
            megabytes_up=megabytes * len(arrivals),
            megabytes_down=megabytes * vectors_down * len(cohort.asked),
            timings={**dict(zip(names, spent, strict=True)), **applied.timings},
        )

    def module(self) -> nn.Module:
        """A copy of the model as it is now."""
        module = copy.deepcopy(self._module)
        self._layout.load(module, self.state.params)
        return module


def simulate(
    federation: Federation,
    strategy: Strategy,
    *,
    model: Model,
    availability: Availability | None = None,
    rounds: int,
    seed: int = 0,
    evaluate_every: int = 1,
) -> Run:
    """Simulate a federation, round by round.

    Parameters
    ----------
    federation : Federation
        The data, and who holds it.
    strategy : Strategy
        The server's side, and how clients train.
    model : str, function or torch.nn.Module
        A name such as ``"mlp"``, a function that makes a module, or a module to start from.
    availability : Availability, optional
        Who can be reached; everyone by default.
    rounds : int
        T, the number of rounds.
    seed : int
        Decides first weights, attendance, batches and all that the strategy draws. Two strategies
        with the same seed face the same attendance and the same batches.
    evaluate_every : int
        The model is tested after every so many rounds, and after the last.

    Returns
    -------
    Run
        To be iterated; ``run.state`` is the server's state, ``run.module()`` the model.

    Examples
    --------
    >>> from understudy import FixedDropout, fdms
    >>> from understudy.simulation import clustered_digits, simulate
    >>> run = simulate(
    ...     clustered_digits(), fdms(), model="softmax", availability=FixedDropout(0.7), rounds=3
    ... )
    >>> [log.t for log in run]
    [0, 1, 2]
    """
    checks.integer("rounds", rounds, low=1)
    checks.integer("evaluate_every", evaluate_every, low=1)
    availability = Always() if availability is None else availability
    checks.part("availability", availability, "init", "draw", "rates")
    module = build(model, tuple(federation.x.shape[1:]), federation.n_classes, seed)
    return Run(federation, strategy, module, availability, rounds, seed, evaluate_every)
