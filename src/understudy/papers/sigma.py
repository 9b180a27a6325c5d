"""How far apart friends and strangers are, and what FL-FDMS's bounds make of it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from understudy.analysis.findings import Findings
from understudy.analysis.part_state import state_of
from understudy.analysis.similarity import similarity_of, smallest_gap
from understudy.core.types import Bools, Floats
from understudy.papers import bounds
from understudy.papers.presence import presence
from understudy.parts.compensators.fdms import FDMSState

if TYPE_CHECKING:
    import pandas

    from understudy.simulation.run import Run
    from understudy.studies.definition.cell import Task


def sigma(run: Run, task: Task) -> Findings:
    """σ_F², σ_P² over the rounds (fig. 1 of the short version), and the bounds that follow.

    Needs a run with ``oracle=True``. All squares are divided by the square of the round's local
    step, which makes them the paper's.

    Returns
    -------
    Findings
        ``sigma_f`` and ``sigma_p``, means over rounds of σ_F² and σ_P²; ``sigma_ratio`` and
        ``sigma_ratio_max``, mean and largest of σ_F²/σ_P²; ``measured_alpha``, the largest share of
        clients missing in a round; ``psi``, the mean ‖e_t‖² (eq. 8), beside its bounds ``psi_bar``
        (eq. 10) and ``psi_star`` (eq. 12). With FL-FDMS and clusters also ``measured_beta`` =
        min N_ij/T, ``measured_delta_min``, ``misidentification`` at the end (lemma 2),
        ``psi_fdms`` (eq. 17), and ``psi_relaxed`` (eq. 74). With clusters ``friend_absence``, the
        rate r of that equation: the share of absent clients of whose own cluster nobody came;
        ``stand_ins_from_elsewhere``, the share of stand-ins that are of another cluster (lemma 2's
        event); ``friends_apart`` and ``strangers_apart``, mean squared distances of two clients of
        one cluster and of two, and ``apart_ratio``, mean of the first over the second, and
        ``apart_ratio_last``, that of the last fifth of the rounds. Arrays over rounds
        ``sigma_t``, ``sigma_f``, ``sigma_p``, ``sigma_ratio``.

    Notes
    -----
    Assumption 4 bounds differences at any w: the bounds take the largest σ² of any round. It bounds
    *expectations*, while σ_F² and σ_P² are maxima over pairs of single draws, in which the noise of
    batches dominates: the mean distances are the fairer picture. All Ψ are
    up to the unknown factor of eq. 8. β is that of the last round, and with a race it looks only at
    pairs that are still compared. δ_min takes the scores R for their expectations.
    """
    frame = run.frame()
    if "sigma_p" not in frame:
        raise ValueError(
            "sigma: expected a run with oracle = true and at least two clients, got one without "
            "the oracle's notes"
        )
    step = np.array(
        [task.strategy.local.lr_at(run.state.updates_before(int(t))) for t in frame["t"]]
    )
    apart = _paper_units(frame, "sigma_p", step)
    friends = _paper_units(frame, "sigma_f", step)
    ratio = np.divide(friends, apart, out=np.full(len(apart), np.nan), where=apart > 0)
    arrays = {"sigma_t": frame["t"].to_numpy(dtype=np.int64)}
    arrays |= {"sigma_f": friends, "sigma_p": apart, "sigma_ratio": ratio}
    alpha = 1 - float(frame["came"].min()) / run.state.n_clients
    bar = bounds.psi_bar(alpha, float(apart.max()))
    metrics = {
        "sigma_p": float(apart.mean()),
        "measured_alpha": alpha,
        "psi": bounds.psi(_paper_units(frame, "oracle_error", step)),
        "psi_bar": bar,
    }
    if not np.isnan(friends).any():  # every client has a friend
        star = bounds.psi_star(alpha, float(friends.max()))
        metrics |= {"sigma_f": float(friends.mean()), "psi_star": star}
        if (apart > 0).all():
            metrics |= {"sigma_ratio": float(ratio.mean()), "sigma_ratio_max": float(ratio.max())}
        metrics |= _learning(run, bar, star)
    return Findings(metrics | _apart(frame, step) | _presence(run), arrays)


def _apart(frame: pandas.DataFrame, step: Floats) -> dict[str, float]:
    """Mean squared distances of friends and of strangers, over pairs and rounds."""
    friends = _paper_units(frame, "friends_apart", step)
    strangers = _paper_units(frame, "strangers_apart", step)
    if np.isnan(friends).any() or np.isnan(strangers).any():
        return {}
    metrics = {"friends_apart": float(friends.mean()), "strangers_apart": float(strangers.mean())}
    if (strangers > 0).all():
        ratio = friends / strangers
        metrics |= {"apart_ratio": float(ratio.mean())}
        metrics |= {"apart_ratio_last": float(ratio[-math.ceil(len(ratio) / 5) :].mean())}
    return metrics


def _presence(run: Run) -> dict[str, float]:
    groups = run.federation.groups
    return {} if groups is None else presence(run.logs, groups)


def _paper_units(frame: pandas.DataFrame, name: str, step: Floats) -> Floats:
    """(T,) a note of squared differences, divided by η_L²; NaN where there is none."""
    if name not in frame:
        return np.full(len(step), np.nan)
    return np.asarray(frame[name].to_numpy(dtype=np.float64) / step**2)


def _learning(run: Run, bar: float, star: float) -> dict[str, float]:
    """What the learning of friends adds: only where friends are learnt, and known."""
    matrices, groups = similarity_of(run), run.federation.groups
    if matrices is None or groups is None:
        return {}
    score, count = matrices
    delta_min = smallest_gap(score, groups)
    compared = _compared(run)
    if delta_min is None or not compared.any():
        return {}
    n_clients, rounds = run.state.n_clients, run.state.t
    beta = float(count[compared].min()) / rounds
    learnt = bounds.learning(n_clients, beta, delta_min, rounds)
    metrics = {
        "measured_beta": beta,
        "measured_delta_min": delta_min,
        "misidentification": bounds.misidentification(n_clients, beta, delta_min, rounds),
        "psi_fdms": bounds.psi_fdms(star, bar, learnt),
    }
    absence = presence(run.logs, groups).get("friend_absence", 0.0)  # nobody was ever absent
    return metrics | {"psi_relaxed": bounds.psi_relaxed(star, bar, learnt, absence)}


def _compared(run: Run) -> Bools:
    """(N, N) the pairs whose similarity is still computed when both come."""
    state = state_of(run.state.compensator, FDMSState)
    assert state is not None
    compared = ~np.eye(run.state.n_clients, dtype=np.bool_)
    if state.removed is not None:
        removed = state.removed.gather(np.arange(run.state.n_clients)).numpy() != 0
        compared &= ~(removed & removed.T)
    return compared & np.outer(run.state.active, run.state.active)
