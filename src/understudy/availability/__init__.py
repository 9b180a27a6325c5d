"""Who can be reached: parts that draw a round's attendance."""

from understudy.availability.always import Always
from understudy.availability.bernoulli import Bernoulli
from understudy.availability.dropout import FixedDropout

__all__ = ["Always", "Bernoulli", "FixedDropout"]
