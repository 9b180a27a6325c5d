"""Availability: which clients can be reached in a round."""

from understudy.parts.availability.always import Always
from understudy.parts.availability.bernoulli import Bernoulli, LabelBernoulli
from understudy.parts.availability.chances import LabelDirichlet, LabelHalves
from understudy.parts.availability.dropout import FixedDropout, fdms_dropout
from understudy.parts.availability.fluctuating import Sine, Staircase
from understudy.parts.availability.full_start import FullStart
from understudy.parts.availability.gone import Gone, leave_one_out
from understudy.parts.availability.markov import Markov
from understudy.parts.availability.periodic import Cyclic, Diurnal, OwnCycle
from understudy.parts.availability.protocols import (
    fedau_bernoulli,
    fedau_cyclic,
    fedau_markov,
    fedawe_interleaved,
    fedawe_sine,
    fedawe_staircase,
    wang_ji_groups,
)
from understudy.parts.availability.scripted import LastRoundsAway
from understudy.parts.availability.separation import MinSeparation
from understudy.parts.availability.skewed import (
    LessDataFirst,
    LogNormal,
    MoreDataFirst,
    SinLogNormal,
    YCycle,
    YMaxFirst,
)
from understudy.parts.availability.staged import Arriving, Departing, RoundRobin
from understudy.parts.availability.trace import FedScaleTrace, FlashTrace, Trace
from understudy.parts.availability.vanishing import VanishingDropout

__all__ = [
    "Always",
    "Arriving",
    "Bernoulli",
    "Cyclic",
    "Departing",
    "Diurnal",
    "FedScaleTrace",
    "FixedDropout",
    "FlashTrace",
    "FullStart",
    "Gone",
    "LabelBernoulli",
    "LabelDirichlet",
    "LabelHalves",
    "LastRoundsAway",
    "LessDataFirst",
    "LogNormal",
    "Markov",
    "MinSeparation",
    "MoreDataFirst",
    "OwnCycle",
    "RoundRobin",
    "SinLogNormal",
    "Sine",
    "Staircase",
    "Trace",
    "VanishingDropout",
    "YCycle",
    "YMaxFirst",
    "fdms_dropout",
    "fedau_bernoulli",
    "fedau_cyclic",
    "fedau_markov",
    "fedawe_interleaved",
    "fedawe_sine",
    "fedawe_staircase",
    "leave_one_out",
    "wang_ji_groups",
]
