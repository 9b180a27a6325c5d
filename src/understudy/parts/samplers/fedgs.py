"""`FedGS` (Wang et al., 2023): clients whose data are far apart, none picked too often."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from understudy.core import checks
from understudy.core.describe import added
from understudy.core.types import Arrivals, Floats, Ints, Population, RoundEnd, RoundStart, Setup
from understudy.graph.dependency_graph import (
    MAX_CLIENTS,
    cosine_similarity,
    graph_distances,
    update_similarity,
)
from understudy.graph.dispersion import pick_dispersed
from understudy.graph.noise_answers import NoiseAnswers
from understudy.graph.similarity import cosine_rows
from understudy.graph.sparse_graph import MAX_SPARSE_CLIENTS, rows_of, sparse_distances
from understudy.memory.rows import RowStore
from understudy.parts.samplers.uniform import check_m, count_of

SOURCES = ("auto", "similarity", "features", "labels", "updates", "functional")
LEARNT = ("updates", "functional")  # made of what clients train
# Distances that the search reads on a sparse graph: a pick then stays under a second.
SEARCHED = 40_000_000


@dataclass
class FedGSState:
    counts: Floats  # (N,) v: how often each was picked
    first: RowStore | None  # first update or answer of each, where the graph is made of these
    _distance: npt.NDArray[np.floating] | None = None  # (N, N) H
    _made_of: Floats | None = None  # what H was made of


@dataclass(frozen=True)
class FedGS:
    """Graph-based sampling: maximise α·distance among the picked − imbalance of the counts.

    Of the reachable, M are picked that maximise s'(cH − diag(z))s (eq. 16), where H holds the
    shortest paths of the graph of clients (3DG), z_k = 2(v_k − v̄ − M/N) + 1, and v counts how
    often each was picked, whether it then came or not.

    Parameters
    ----------
    m : int, float or None
        M, as in `Uniform`.
    alpha : float
        α ≥ 0, weight of the distance; 0 picks those least picked so far.
    scale : {"pairs", "paper"}
        What the distance is divided by: M(M−1), as in the authors' code (c = α(N−1)/(M(M−1))),
        or N(N−1), as in eq. 13 (c = α/N). α_paper = α_code·N(N−1)/(M(M−1)).
    edges : {"code", "paper"}
        Form of the edge lengths, see `understudy.graph.dependency_graph.edge_lengths`.
    graph : {"auto", "similarity", "features", "labels", "updates", "functional"}
        What the graph is made of: the population's similarity matrix, the cosine of its features
        or of its label histograms, or of the clients' first updates (eq. 11), which come in as
        they are first seen, or of what their first models answer to noise (eq. 12). "auto" takes
        the first of these that the population has, never the last.
    restarts : int
        Starts of the search, where there are too many subsets to try all (5,000).
    answers : NoiseAnswers, optional
        With ``graph="functional"``: what a model is shown, `NoiseAnswers.like(module, inputs)`.
        `simulate`, and so a study, makes one from the clients' validation examples where there is
        none; a live federation needs one.
    everybody_first : bool
        With ``graph="updates"`` or ``"functional"``: every client is trained once from the first
        model before round 0, and the graph is made of that, as the paper assumes for its
        constructed graphs. `simulate` does it; those who join later come in as they are first seen.
    exact_up_to : int
        Largest number of clients for which all edges and all shortest paths are computed exactly,
        at most 3,000. With more of them a sparse graph is used, up to 30,000 clients, and the note
        ``sparse_neighbours`` is in the log.
    neighbours : int
        How many of its most alike each client keeps in a sparse graph.

    Notes
    -----
    The paper stops its solver after a wall-clock time τ_max. Here the work is counted, so that
    the same seed picks the same clients on a busy machine. A pair of clients of which nothing is
    known yet is as far apart as the mean of the others. Clients that join in round t start with a
    count of tM/N: from 0 they would be picked again and again.

    On a sparse graph the search reads about 40 million distances at most: where M·N is large, it
    has fewer restarts and fewer swaps (`understudy.graph.dispersion.counted_search`).

    References
    ----------
    Wang et al., FedGS: Federated Graph-Based Sampling with Arbitrary Client Availability, 2023.
    """

    m: int | float | None = None
    alpha: float = 1.0
    scale: str = "pairs"
    edges: str = "code"
    graph: str = "auto"
    restarts: int = 20
    answers: NoiseAnswers | None = added("0.2", None)  # noqa: RUF009 (it makes a field)
    everybody_first: bool = added("0.2", False)
    exact_up_to: int = added("0.2", MAX_CLIENTS)
    neighbours: int = added("0.2", 32)

    def __post_init__(self) -> None:
        check_m("m", self.m)
        checks.number("alpha", self.alpha, low=0)
        checks.choice("scale", self.scale, ("pairs", "paper"))
        checks.choice("edges", self.edges, ("code", "paper"))
        checks.choice("graph", self.graph, SOURCES)
        checks.integer("restarts", self.restarts, low=1)
        if self.answers is not None and not isinstance(self.answers, NoiseAnswers):
            raise TypeError(f"answers: expected NoiseAnswers or None, got {self.answers!r}")
        if self.answers is not None and self.graph != "functional":
            raise ValueError(
                "answers: expected NoiseAnswers.like(module, inputs) only with "
                f"graph='functional', got {self.answers!r} with graph={self.graph!r}"
            )
        checks.choice("everybody_first", self.everybody_first, (False, True))
        checks.integer("exact_up_to", self.exact_up_to, low=0, high=MAX_CLIENTS)
        checks.integer("neighbours", self.neighbours, low=1)
        if self.everybody_first and self.graph not in LEARNT:
            raise ValueError(
                "everybody_first: expected graph='updates' or graph='functional', which are made "
                f"of what clients train, got graph={self.graph!r}"
            )

    def count(self, n_active: int) -> int:
        return count_of(self.m, n_active)

    def init(self, setup: Setup) -> FedGSState:
        n = setup.population.n_clients
        source = self._source(setup.population)
        if self.alpha > 0 and n > MAX_SPARSE_CLIENTS:
            raise ValueError(
                f"FedGS: expected at most {MAX_SPARSE_CLIENTS} clients, whose shortest paths can "
                f"be computed in reasonable time, got {n}; alpha=0 needs no graph"
            )
        counts = np.full(n, setup.t * self.count(n) / n)
        if self.alpha > 0 and source == "updates":
            return FedGSState(counts, setup.rows(width=setup.n_parameters))
        if self.alpha > 0 and source == "functional":
            # without answers no round begins; before it the room that is needed is asked for
            width = 1 if self.answers is None else self.answers.width
            return FedGSState(counts, setup.rows(width=width, dtype=torch.float64))
        return FedGSState(counts, None)

    def _source(self, population: Population) -> str:
        has = {"labels": population.label_counts, "updates": True, "functional": True}
        has |= {"similarity": population.similarity, "features": population.features}
        if self.graph == "auto":
            return next(source for source in SOURCES[1:] if has[source] is not None)
        if has[self.graph] is None:
            field = "label_counts" if self.graph == "labels" else self.graph
            raise ValueError(f"graph={self.graph!r}: needs Population({field}=...), got none")
        return self.graph

    def pick(self, state: FedGSState, start: RoundStart) -> tuple[Ints, Floats]:
        n_active = int(start.active.sum())
        reachable = np.flatnonzero(start.available)
        m = min(self.count(n_active), len(reachable))
        if m == 0:
            return reachable, np.ones(0)
        self._check_started(state, start.t)
        z = 2 * (state.counts - state.counts[start.active].mean() - m / n_active) + 1
        if self.scale == "pairs":
            coefficient = self.alpha * (n_active - 1) / (m * (m - 1)) if m > 1 else 0.0
        else:
            coefficient = self.alpha / n_active
        distance = self._distances(state, start.population)
        work = SEARCHED if self._is_sparse(start.population.n_clients) else None
        ids = pick_dispersed(
            distance, z, m, reachable, coefficient, start.rng, self.restarts, work=work
        )
        return ids, np.ones(len(ids))

    def _is_sparse(self, n_clients: int) -> bool:
        return self.alpha > 0 and n_clients > self.exact_up_to

    def _distances(self, state: FedGSState, population: Population) -> npt.NDArray[np.floating]:
        """H, made anew only when something more is known than when it was made."""
        if self.alpha == 0:
            n = population.n_clients
            return np.broadcast_to(np.float64(0), (n, n))  # never read
        made_of = self._made_of(state, population)
        same = state._made_of is not None and state._made_of.shape == made_of.shape
        if not same or not np.array_equal(state._made_of, made_of, equal_nan=True):  # type: ignore[arg-type]
            if self._is_sparse(population.n_clients):
                state._distance = self._sparse_distances(state, population)
            else:
                state._distance = graph_distances(self._similarity(state, population), self.edges)
            state._made_of = made_of.copy()
        assert state._distance is not None
        return state._distance

    def _made_of(self, state: FedGSState, population: Population) -> Floats:
        if state.first is not None:
            return state.first.known.astype(np.float64)  # a first update never changes
        field = {"labels": "label_counts"}.get(source := self._source(population), source)
        return np.asarray(getattr(population, field), dtype=np.float64)

    def _similarity(self, state: FedGSState, population: Population) -> Floats:
        source = self._source(population)
        if state.first is not None:
            n = population.n_clients
            known = np.flatnonzero(state.first.known)
            similarity = np.full((n, n), np.nan)
            if len(known):
                rows = [state.first.get(int(client)) for client in known]
                similarity[np.ix_(known, known)] = update_similarity(rows)
            np.fill_diagonal(similarity, 1.0)
            return similarity
        if source == "similarity":
            return np.asarray(population.similarity)
        described = population.features if source == "features" else population.label_counts
        return cosine_similarity(np.asarray(described))

    def _sparse_distances(
        self, state: FedGSState, population: Population
    ) -> npt.NDArray[np.float32]:
        n, source = population.n_clients, self._source(population)
        if state.first is not None:
            first = state.first
            known = np.flatnonzero(first.known)
            rows = cosine_rows([first.get(int(i)) for i in known], known, n, least=0.0)
        elif source == "similarity":
            assert population.similarity is not None
            rows = rows_of(population.similarity)
        else:
            described = population.features if source == "features" else population.label_counts
            rows = cosine_rows(np.asarray(described, dtype=np.float64), np.arange(n), n)
        return sparse_distances(rows, n, self.edges, self.neighbours)

    def learn(self, state: FedGSState, end: RoundEnd) -> Mapping[str, float]:
        state.counts[end.cohort.wanted] += 1
        if state.first is not None:
            self._remember(state, end)
        if not self._is_sparse(end.population.n_clients):
            return {}
        return {"sparse_neighbours": float(self.neighbours)}

    def _remember(self, state: FedGSState, end: RoundEnd) -> None:
        if self.graph != "functional":  # the model that a late update started from is gone
            self._take(state, end.late, end.params, end.n_parameters)
        self._take(state, end.arrivals, end.params, end.n_parameters)

    def meet(
        self, state: FedGSState, arrivals: Arrivals, params: torch.Tensor, n_parameters: int
    ) -> None:
        """Take in what clients trained before round 0; it counts as no pick.

        Parameters
        ----------
        state : FedGSState
            Before round 0.
        arrivals : Arrivals
            What the clients made of `params`.
        params : (d,) tensor
            The first model.
        n_parameters : int
            How many of its entries are parameters.
        """
        if state.first is not None:
            self._take(state, arrivals, params, n_parameters)

    def _take(
        self, state: FedGSState, arrivals: Arrivals, params: torch.Tensor, n_parameters: int
    ) -> None:
        """Keep the first update, or answer, of those of whom there is none."""
        assert state.first is not None
        for client, delta in arrivals:
            if state.first.known[client]:
                continue
            if self.graph != "functional":
                state.first.put(client, delta[:n_parameters])
            elif self.answers is not None:
                answer = self.answers((params + delta)[:n_parameters])
                state.first.put(client, torch.from_numpy(answer))

    def _check_started(self, state: FedGSState, t: int) -> None:
        """Refuse a round that lacks what the graph is to be made of."""
        if state.first is None:
            return
        if self.graph == "functional" and self.answers is None:
            raise ValueError(
                "graph='functional': needs answers=NoiseAnswers.like(module, inputs), with inputs "
                "of a small validation set of the server's; only a simulation makes one itself"
            )
        if self.everybody_first and t == 0 and not state.first.known.any():
            raise ValueError(
                "everybody_first: nobody was trained before round 0; simulate does it, elsewhere "
                "give FedGS.meet everybody's first update, or leave it out: clients then come in "
                "as they are first seen"
            )
