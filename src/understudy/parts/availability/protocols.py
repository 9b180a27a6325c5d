"""Protocols of published experiments, by the name of their source: parts with the paper's settings.

Each is a function of what one may want to change; the part it returns is an ordinary one.
"""

from __future__ import annotations

from understudy.parts.availability.bernoulli import Bernoulli
from understudy.parts.availability.chances import LabelDirichlet, LabelHalves
from understudy.parts.availability.fluctuating import Sine, Staircase
from understudy.parts.availability.markov import Markov
from understudy.parts.availability.periodic import Cyclic, OwnCycle


def fedau_bernoulli(
    mean: float = 0.1, concentration: float = 0.1, p_min: float = 0.02, seed: int = 0
) -> Bernoulli:
    """Independent draws, each client's probability by its labels, as in FedAU's experiments.

    Parameters
    ----------
    mean, concentration, p_min, seed
        As of `LabelDirichlet`.
    """
    return Bernoulli(LabelDirichlet(mean, concentration, p_min, seed))


def fedau_markov(
    mean: float = 0.1,
    concentration: float = 0.1,
    p_min: float = 0.02,
    seed: int = 0,
    comes_back: float = 0.05,
) -> Markov:
    """`fedau_bernoulli`'s probabilities in the long run, in visits, as in FedAU's experiments.

    Parameters
    ----------
    mean, concentration, p_min, seed
        As of `LabelDirichlet`.
    comes_back : float
        As of `Markov`: probability that a client that is away is back in the next round.
    """
    return Markov(LabelDirichlet(mean, concentration, p_min, seed), comes_back=comes_back)


def fedau_cyclic(
    mean: float = 0.1,
    concentration: float = 0.1,
    p_min: float = 0.02,
    seed: int = 0,
    cycle: int = 100,
) -> OwnCycle:
    """`fedau_bernoulli`'s probabilities as shares of cycles, as in FedAU's experiments.

    Parameters
    ----------
    mean, concentration, p_min, seed
        As of `LabelDirichlet`; `seed` also says where in its cycle each client starts.
    cycle : int
        As of `OwnCycle`.
    """
    return OwnCycle(LabelDirichlet(mean, concentration, p_min, seed), cycle, seed)


def fedawe_sine(
    first: float = 1.0, second: float = 0.5, amplitude: float = 0.3, seed: int = 0
) -> Sine:
    """Probabilities by labels that rise and fall over 20 rounds, as in FedAWE's experiments.

    Parameters
    ----------
    first, second, seed
        As of `LabelHalves`.
    amplitude : float
        As of `Sine`.
    """
    return Sine(LabelHalves(first, second, seed), amplitude)


def fedawe_interleaved(
    first: float = 1.0,
    second: float = 0.5,
    amplitude: float = 0.3,
    cut: float = 0.1,
    seed: int = 0,
) -> Sine:
    """`fedawe_sine`, where whoever is below 0.1 does not come at all (FedAWE).

    Parameters
    ----------
    first, second, seed
        As of `LabelHalves`.
    amplitude, cut : float
        As of `Sine`.
    """
    return Sine(LabelHalves(first, second, seed), amplitude, cut=cut)


def fedawe_staircase(
    first: float = 1.0, second: float = 0.5, low: float = 0.4, seed: int = 0
) -> Staircase:
    """Probabilities by labels, lower in every second block of ten rounds (FedAWE).

    Parameters
    ----------
    first, second, seed
        As of `LabelHalves`.
    low : float
        As of `Staircase`.
    """
    return Staircase(LabelHalves(first, second, seed), low)


def wang_ji_groups(n_groups: int = 5, rounds_each: int = 100) -> Cyclic:
    """Groups with different labels in turn, a fifth of all clients for 100 rounds (Wang & Ji).

    Generalized FedAvg (NeurIPS 2022) amplifies once in such a cycle.

    Parameters
    ----------
    n_groups, rounds_each : int
        As of `Cyclic`; groups are made of clients whose commonest labels are neighbours.
    """
    return Cyclic(n_groups, rounds_each, by="labels")
