"""A strategy: the parts of a server put together, and the round they make.

``select`` says who is wanted and asked; whoever trains, trains; ``apply`` takes what arrived,
lets the compensator say which row represents which client, and takes the step. How, is in
`understudy.server.round`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from understudy.core import checks
from understudy.core.describe import added
from understudy.core.rng import generator
from understudy.core.roles import Aggregator, Compensator, Guard, Sampler, Server, check_with
from understudy.core.shown import ALWAYS_TOLD, part_lines
from understudy.core.threads import one_thread
from understudy.core.types import Applied, Arrivals, Cohort, Ints, Population, Setup
from understudy.memory.rows import RowStore
from understudy.memory.run_folder import RunFolder
from understudy.parts.aggregators.linear import Linear
from understudy.parts.compensators.ignore import Ignore
from understudy.parts.local import Local
from understudy.parts.samplers.uniform import Everyone
from understudy.parts.servers import Sgd
from understudy.server import checkpoint
from understudy.server.footprint import Footprint, measure, refuse_if_too_large
from understudy.server.part_state import part_states
from understudy.server.round import (
    Filled,
    fill_round,
    finish_round,
    refuse_unless_ready,
    select_cohort,
)
from understudy.server.state import (
    ServerState,
    erase_client,
    erase_free_rows,
    grow_part,
    grown_facts,
    resized_populations,
    row_stores,
)
from understudy.server.weights import DEFAULT_WEIGHTING, resolved_weighting

__all__ = ["Filled", "Strategy"]


@dataclass(frozen=True)
class Strategy:
    """All parts of a server. It holds hyper-parameters only: what changes is in a `ServerState`.

    Parameters
    ----------
    sampler : Sampler
        Who is wanted.
    compensator : Compensator
        What stands in for the wanted who did not come.
    aggregator : Aggregator
        From contributions to one update.
    server : Server
        The server's optimizer.
    local : Local
        How clients train.
    guard : Guard, optional
        What happens to arrivals first.
    weighting : {"examples", "clients"}, optional
        Whether clients weigh by their examples, as in FedAvg, or alike. By default by examples;
        or alike with a sampler that draws by examples already (`ByData`), which in expectation is
        the same objective. The attribute is always one of the two.
    max_norm : float, optional
        Largest Euclidean norm of an update (parameters only); a larger one is refused. Without it
        an update is refused only where one of its entries exceeds √(largest float32)/N.
    max_examples : float, optional
        Most examples that a client may report. In any case ten times what the `Population` says of
        a client are the most that are believed.
    claim_factor : float
        At least 1. A number of examples that no `Population` confirms counts at most this many
        times the median of all that are known; the note ``claims_capped`` says that it was so. A
        robust aggregator (`Median`, `TrimmedMean`) or compensator (`Capped`) gives such a client
        one vote instead, whatever it claims. Confirmed sizes, as in a simulation, are not capped.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from understudy import Arrivals, FDMS, Population, Strategy
    >>> strategy = Strategy(compensator=FDMS())
    >>> state = strategy.init(Population(3), torch.zeros(2), seed=0)
    >>> cohort = strategy.select(state, np.array([True, True, False]))
    >>> deltas = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> applied = strategy.apply(state, cohort, Arrivals([0, 1], deltas, n_examples=[10, 10]))
    >>> state.params
    tensor([0.5000, 0.5000])
    """

    sampler: Sampler = field(default_factory=Everyone)
    compensator: Compensator = field(default_factory=Ignore)
    aggregator: Aggregator = field(default_factory=Linear)
    server: Server = field(default_factory=Sgd)
    local: Local = field(default_factory=Local)
    guard: Guard | None = None
    weighting: str = field(default=DEFAULT_WEIGHTING, metadata=ALWAYS_TOLD)
    max_norm: float | None = added("0.2", None)
    max_examples: float | None = added("0.2", None)
    claim_factor: float = added("0.2", 10.0)

    def __post_init__(self) -> None:
        checks.part("sampler", self.sampler, "init", "pick", "learn")
        checks.part("compensator", self.compensator, "init", "fill", "learn")
        checks.part("aggregator", self.aggregator, "aggregate")
        checks.part("server", self.server, "init", "step")
        if not isinstance(self.local, Local):
            raise TypeError(f"local: expected a Local, got {self.local!r}")
        if self.guard is not None:
            checks.part("guard", self.guard, "init", "guard")
        object.__setattr__(self, "weighting", resolved_weighting(self.weighting, self.sampler))
        if self.max_norm is not None:
            checks.number("max_norm", self.max_norm, low=0, low_open=True)
        if self.max_examples is not None:
            checks.number("max_examples", self.max_examples, low=1)
        checks.number("claim_factor", self.claim_factor, low=1)
        parts = (self.sampler, self.compensator, self.aggregator, self.server, self.guard)
        for part in (*parts, self.local.rule):
            check_with(part, self)

    def __repr__(self) -> str:
        """The weighting, and what differs from the defaults, as one would write it."""
        return part_lines(self)

    @property
    def ignores_claims(self) -> bool:
        """Whether a part gives one vote to each client whose size no population confirms."""
        parts = (self.aggregator, self.compensator)
        return any(getattr(part, "ignores_claims", False) for part in parts)

    # -- a run's beginning ---------------------------------------------------------------------

    def footprint(
        self, population: Population, n_params: int, *, dtype: torch.dtype = torch.float32
    ) -> Footprint:
        """Bytes of memory and disk that a run will need; nothing is allocated to find out."""
        return measure(self, population, n_params, dtype)

    def init(
        self,
        population: Population,
        params: torch.Tensor,
        *,
        seed: int = 0,
        n_parameters: int | None = None,
        folder: str | Path | None = None,
        resume: bool = False,
        extra: Any = None,
        round_memory: float = inf,
    ) -> ServerState:
        """The state before round 0; or, with `resume`, that of the last commit in the folder.

        Parameters
        ----------
        population : Population
            The clients, and what is known of them.
        params : (d,) tensor
            The flat model: parameters, then floating buffers. It is copied.
        seed : int
            Address of all that the parts draw.
        n_parameters : int, optional
            How many of the leading entries are parameters (default: all). Norms and similarities
            look at these only.
        folder : path, optional
            Where the run is kept, so that it survives a crash: see `commit` and `resume`.
        resume : bool
            Take up the run that the folder holds, if it holds one; else that is an error. So the
            same program begins a run and resumes it. Model and population are then those of
            the run; seed, number of clients or size of the model that differ are refused.
        extra : dataclass, or function of a Setup that makes it, optional
            What whoever runs the rounds wants to be committed with the state: arrays, numbers, and
            rows, which `Setup.rows` makes.
        round_memory : float
            Bytes that the updates of one round take in memory at most, where whoever runs the
            rounds keeps more of them on the disk. Too little memory is refused here.
        """
        params = checks.flat_params(params)
        checks.integer("seed", seed, low=0)
        n_parameters = len(params) if n_parameters is None else n_parameters
        checks.integer("n_parameters", n_parameters, low=1, high=len(params))
        if resume and folder is not None:
            about = {"seed": seed, "n_clients": population.n_clients, "n_parameters": n_parameters}
            state = checkpoint.resume_same(folder, self, extra, {**about, "d": len(params)})
            if state is not None:
                return state
        need = measure(self, population, len(params), params.dtype, round_memory)
        refuse_if_too_large(need, None if folder is None else Path(folder))
        run_folder = None if folder is None else RunFolder.create(Path(folder))
        try:
            params = params.detach().clone()
            state = self._fresh(population, params, seed, n_parameters, run_folder, extra=extra)
            checkpoint.commit(state)
        except BaseException:
            if run_folder is not None:
                run_folder.close()  # free for another try
            raise
        return state

    def _fresh(
        self,
        population: Population,
        params: torch.Tensor,
        seed: int,
        n_parameters: int,
        run_folder: RunFolder | None,
        rows_on: torch.device | str | None = None,
        extra: Any = None,
    ) -> ServerState:
        n = population.n_clients
        setup = _setups(population, params, n_parameters, seed, 0, run_folder, rows_on)
        with one_thread():
            states = part_states(self, setup)
        unknown = np.full(n, np.nan)
        known = population.n_examples
        counts = population.label_counts
        return ServerState(
            population=population,
            params=params,
            n_parameters=n_parameters,
            seed=seed,
            t=0,
            active=np.ones(n, dtype=np.bool_),
            n_examples=unknown if known is None else known.copy(),
            label_counts=None if counts is None else counts.copy(),
            pending=np.zeros((0, 2), dtype=np.int64),
            **states,
            made_by=self,
            extra=extra(setup("extra")) if callable(extra) else extra,
            _run_folder=run_folder,
        )

    # -- a round -------------------------------------------------------------------------------

    def select(
        self,
        state: ServerState,
        available: npt.ArrayLike,
        *,
        p: npt.ArrayLike | None = None,
        losses: Callable[[Ints], npt.ArrayLike] | None = None,
    ) -> Cohort:
        """Whom the coming round is about. It changes nothing: called twice, it says the same.

        Parameters
        ----------
        state : ServerState
            Of this strategy.
        available : (N,) bool
            Who can be reached.
        p : (N,) array, optional
            This round's probabilities of being available, where known (default: the population's).
        losses : function of ids, optional
            Gives the current model's loss on these clients' data, for `PowerOfChoice`.
        """
        return select_cohort(self, state, available, p, losses)

    def apply(self, state: ServerState, cohort: Cohort, arrivals: Arrivals) -> Applied:
        """Take the round's arrivals, fresh and late, and step. The state is changed in place.

        A bad arrival is refused with a reason and its client counts as absent. Where nobody came,
        the model stays as it is (unless the compensator declares `fills_without_arrivals`) and the
        round is counted all the same.
        """
        return self.finish(state, self.fill(state, cohort, arrivals))

    def fill(self, state: ServerState, cohort: Cohort, arrivals: Arrivals) -> Filled:
        """The first half of `apply`: which row represents which client, and the update it makes.

        For whoever wants to look at the rows before the memories take in the round; `finish` must
        follow.
        """
        return fill_round(self, state, cohort, arrivals)

    def finish(self, state: ServerState, filled: Filled) -> Applied:
        """The second half of `apply`: the server's step, and what everyone learns from it."""
        return finish_round(self, state, filled)

    # -- clients that join and leave -----------------------------------------------------------

    def grow(self, state: ServerState, population: Population) -> None:
        """Take in new clients: `population` is the larger one, the old clients first.

        Where a part refuses it, such as `FedGS` beyond its largest number of clients, the state is
        as it was before.
        """
        refuse_unless_ready(self, state)
        old = state.n_clients
        population, n_examples, label_counts = grown_facts(state, population)
        slots = [(store, store.slot) for _, store in row_stores(state)]
        try:
            new = self._parts_like(state, population, state._run_folder, rows_on=None)
            grown = {name: grow_part(getattr(state, name), part) for name, part in new.items()}
        except BaseException:
            for store, slot in slots:
                store.slot = slot
            raise
        for name, part in grown.items():
            setattr(state, name, part)
        added = population.n_clients - old
        state.active = np.concatenate([state.active, np.ones(added, dtype=np.bool_)])
        state.population = population
        state.n_examples, state.label_counts = n_examples, label_counts
        checkpoint.commit(state)

    def check_grow(self, state: ServerState, population: Population) -> None:
        """Raise what `grow` would raise where a part refuses the population; change nothing."""
        refuse_unless_ready(self, state)
        self._parts_like(state, grown_facts(state, population)[0])

    def check_retire(self, state: ServerState, population: Population) -> None:
        """Raise what `retire` would raise where a part refuses the population; change nothing."""
        refuse_unless_ready(self, state)
        self._parts_to_retire(state, population)

    def retire(self, state: ServerState, id: int) -> None:
        """A client leaves for good: wanted no more, forgotten, its number never reused.

        What the parts remember of it is erased, from row files too, and what they remember of
        others together with it (its column in FDMS's tables). What it became a part of stays: the
        model, means, moments.
        """
        refuse_unless_ready(self, state)
        checks.integer("id", id, low=0, high=state.n_clients - 1)
        # a part may refuse here: nothing has changed yet
        blank, resized = self._parts_to_retire(state, state.population)
        state.active[id] = False
        state.pending = state.pending[state.pending[:, 0] != id]
        for role, part in blank.items():
            erase_client(getattr(state, role), part, resized[role], id)
        checkpoint.commit(state)
        erase_free_rows(state)  # the commit before this one needed them

    def _parts_like(
        self,
        state: ServerState,
        population: Population,
        run_folder: RunFolder | None = None,
        rows_on: str | None = "meta",
    ) -> dict[str, Any]:
        """The parts' states for a population, as they would be now; on meta, without any rows."""
        params, n_parameters, seed, t = state.params, state.n_parameters, state.seed, state.t
        with one_thread():
            return part_states(
                self, _setups(population, params, n_parameters, seed, t, run_folder, rows_on)
            )

    def _parts_to_retire(
        self, state: ServerState, population: Population
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The parts' states for a population, and for one of another size.

        That is one client more; where a part refuses that, one fewer.
        """
        blank, refused = self._parts_like(state, population), None
        for other in resized_populations(population):
            try:
                return blank, self._parts_like(state, other)
            except ValueError as error:  # such as FedGS, which has a largest number of clients
                refused = error
        assert refused is not None
        raise refused

    # -- what survives a crash -----------------------------------------------------------------

    def commit(self, state: ServerState) -> None:
        """Make the state in `folder` the one that a crash leaves; nothing without a folder."""
        checkpoint.commit(state)

    @staticmethod
    def resume(folder: str | Path, strategy: Strategy) -> ServerState:
        """The state of the last commit in `folder`, to continue from."""
        return checkpoint.resume(folder, strategy)


def _setups(
    population: Population,
    params: torch.Tensor,
    n_parameters: int,
    seed: int,
    t: int,
    run_folder: RunFolder | None,
    rows_on: torch.device | str | None,
) -> Callable[[str], Setup]:
    """What the part of each role gets at its `init`; on growing, at the round of that."""

    def setup(role: str) -> Setup:
        def rows(
            width: int | None = None, dtype: torch.dtype | None = None, slots: int | None = None
        ) -> RowStore:
            # tables over clients are looked at with NumPy: on the CPU, wherever the model is
            over_clients = width is not None and params.device.type != "meta"
            return RowStore(
                population.n_clients,
                len(params) if width is None else width,
                params.dtype if dtype is None else dtype,
                rows_on or ("cpu" if over_clients else params.device),
                None if run_folder is None else run_folder.new_rows(role),
                slots,
            )

        return Setup(population, params, n_parameters, t, generator(seed, f"init/{role}", t), rows)

    return setup
