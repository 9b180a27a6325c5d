"""Availability: which clients can be reached in a round."""

from understudy.parts.availability.always import Always
from understudy.parts.availability.bernoulli import Bernoulli, LabelBernoulli
from understudy.parts.availability.dropout import FixedDropout, fdms_dropout
from understudy.parts.availability.full_start import FullStart
from understudy.parts.availability.gone import Gone, leave_one_out
from understudy.parts.availability.markov import Markov
from understudy.parts.availability.periodic import Cyclic, Diurnal
from understudy.parts.availability.scripted import LastRoundsAway
from understudy.parts.availability.skewed import (
    LessDataFirst,
    LogNormal,
    MoreDataFirst,
    SinLogNormal,
    YCycle,
    YMaxFirst,
)
from understudy.parts.availability.trace import Trace
from understudy.parts.availability.vanishing import VanishingDropout

__all__ = [
    "Always",
    "Bernoulli",
    "Cyclic",
    "Diurnal",
    "FixedDropout",
    "FullStart",
    "Gone",
    "LabelBernoulli",
    "LastRoundsAway",
    "LessDataFirst",
    "LogNormal",
    "Markov",
    "MoreDataFirst",
    "SinLogNormal",
    "Trace",
    "VanishingDropout",
    "YCycle",
    "YMaxFirst",
    "fdms_dropout",
    "leave_one_out",
]
