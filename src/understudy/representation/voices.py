"""By whose row each client is represented in a round: its own, another's, nobody's."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import numpy.typing as npt

from understudy.core.types import Outcome, RoundLog


class Voice(IntEnum):
    """By what a client is represented in a round's update; the strongest that holds."""

    FRESH = 0  # it came, and its own update counts
    REMEMBERED = 1  # it did not come; its own row counts: an earlier update, or its last model
    OTHERS = 2  # another client's row speaks for it
    MIXTURE = 3  # a mean of others, or a model
    NOBODY = 4  # not at all; all are so in a round without a step


def voices(log: RoundLog) -> npt.NDArray[np.int8]:
    """(N,) of `Voice`; rows with a coefficient of 0 do not speak."""
    heard = log.coef != 0
    ids, source = log.ids[heard], log.source[heard]
    voice = np.full(len(log.outcome), Voice.NOBODY, dtype=np.int8)
    # what is written later is stronger
    voice[ids[source < 0]] = Voice.MIXTURE
    voice[ids[(source >= 0) & (source != ids)]] = Voice.OTHERS
    own = ids[source == ids]
    voice[own] = np.where(log.outcome[own] == Outcome.CAME, Voice.FRESH, Voice.REMEMBERED)
    return voice


def took_a_step(log: RoundLog) -> bool:
    """Whether the model changed in a round, as far as its log says."""
    refused = log.notes.get("too_few_rows") is not None or log.notes.get("step_not_finite")
    return bool((log.coef != 0).any()) and not refused
