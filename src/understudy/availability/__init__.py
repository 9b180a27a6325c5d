"""Who can be reached: parts that draw a round's attendance."""

from understudy.availability.always import Always
from understudy.availability.bernoulli import Bernoulli, LabelBernoulli
from understudy.availability.dropout import FixedDropout
from understudy.availability.markov import Markov
from understudy.availability.periodic import Cyclic, Diurnal
from understudy.availability.scripted import LastRoundsAway
from understudy.availability.skewed import (
    LessDataFirst,
    LogNormal,
    MoreDataFirst,
    SinLogNormal,
    YCycle,
    YMaxFirst,
)
from understudy.availability.trace import Trace

__all__ = [
    "Always",
    "Bernoulli",
    "Cyclic",
    "Diurnal",
    "FixedDropout",
    "LabelBernoulli",
    "LastRoundsAway",
    "LessDataFirst",
    "LogNormal",
    "Markov",
    "MoreDataFirst",
    "SinLogNormal",
    "Trace",
    "YCycle",
    "YMaxFirst",
]
