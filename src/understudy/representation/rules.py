"""The rules that find who is left out, one function each: from what is counted to plain words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from understudy.core.printable import one_line
from understudy.core.types import Bools, Floats, Ints, Outcome, RoundLog
from understudy.representation.answers import AnswerTimes, OneRow, RefusedUpdates
from understudy.representation.facts import ClientFacts, joined
from understudy.representation.gaps import Gaps, unlikely
from understudy.representation.representation import FAILED, Representation
from understudy.representation.thresholds import Thresholds

LONGEST_REASON = 120  # characters of a refusal in a sentence
PERFORMANCE = {"accuracy": "accuracy", "loss": "loss"}  # measures of a client, the first is told
MOST_LABELS = 5


class Found(NamedTuple):
    """What a rule found."""

    kind: str
    clients: tuple[int, ...]
    text: str
    of: str = ""  # tells warnings of one kind apart

    @property
    def key(self) -> tuple[str, str]:
        """What it is about: the same in the next round, if it still holds."""
        return self.kind, self.of


@dataclass
class Seen:
    """What the rules look at: everything that was counted up to a round."""

    facts: ClientFacts
    limits: Thresholds
    counted: Representation = field(default_factory=Representation)
    times: AnswerTimes = field(default_factory=AnswerTimes)
    refused: RefusedUpdates = field(default_factory=RefusedUpdates)
    empty: int = 0  # rounds in a row in which nobody came
    empty_before: int = 0  # other such rounds
    one_row: OneRow = field(init=False)

    def __post_init__(self) -> None:
        self.one_row = OneRow(self.limits.rounds)

    def add(self, log: RoundLog, seconds: dict[int, float] | None) -> None:
        """One more round."""
        steps = self.counted.n_steps
        self.counted.add(log)
        self.times.add(log, seconds)
        self.refused.add(log)
        if self.counted.n_steps > steps:
            self.one_row.add(log)
        if (log.outcome == Outcome.CAME).any():
            self.empty_before, self.empty = self.empty_before + self.empty, 0
        else:
            self.empty += 1

    @property
    def active(self) -> Bools:
        return self.facts.active(self.counted.n_clients)


# -- left out ------------------------------------------------------------------------------------


def left_out(seen: Seen) -> Iterator[Found]:
    """Clients that no update has represented for longer than the others make likely."""
    counted, limits, active = seen.counted, seen.limits, seen.active
    never = counted.gap >= counted.steps
    # while most have never been there, the run may just have begun
    soon = 2 * int((never & active).sum()) <= int(active.sum())
    least = np.where(never & soon, limits.rounds_never, limits.rounds)
    gaps = unlikely(Gaps.without_update(counted), least, active, limits.chance)
    # a memory represents whoever came once: what is unlikely is that a client did not come at all
    away = unlikely(Gaps.away(counted), least, active, limits.chance)
    unheard = np.flatnonzero(counted.away < counted.gap)  # it came, and that did not help
    who = np.intersect1d(gaps, np.union1d(away, unheard))
    if not len(who):
        return
    share, of = seen.facts.share(who.tolist(), counted.n_clients)
    if share < limits.examples:
        return
    clients = who.tolist()
    steps = int(counted.gap[who].min())
    if never[who].all():
        rounds = f"in none of the updates so far ({_count(int(counted.there[who].min()), 'round')})"
    else:
        rounds = f"in none of the last {steps} rounds' updates"
    who_and_when = f"{seen.facts.listed(clients)}, {_share(share, of)}, {_was(clients)} {rounds}"
    words = [f"{who_and_when}: {_causes(seen, who)}"]
    words += [*_labels(seen, clients), *_performance(seen, who)]
    yield Found("left out", tuple(clients), "; ".join(words))


def waiting(seen: Seen) -> Iterator[Found]:
    """Clients that a method waits for, and that come less than the others make likely."""
    counted, limits, active = seen.counted, seen.limits, seen.active
    if counted.n_steps or counted.n_rounds < limits.rounds:
        return
    least = np.full(counted.n_clients, limits.rounds)
    never = counted.came == 0
    gaps = Gaps.away(counted)
    gaps = gaps._replace(now=np.where(never, gaps.now, 0))
    who = unlikely(gaps, least, active, limits.chance)
    if len(who):
        clients = who.tolist()
        share, of = seen.facts.share(clients, counted.n_clients)
        yield Found(
            "waiting",
            tuple(clients),
            f"no step was taken in {_count(counted.n_rounds, 'round')}: "
            f"{seen.facts.listed(clients)}, {_share(share, of)}, "
            f"{'have' if len(clients) > 1 else 'has'} never come",
        )


def _causes(seen: Seen, who: Ints) -> str:
    """What became of them meanwhile, the most frequent outcome of each."""
    since = seen.counted.since[who]
    main = since.argmax(axis=1)
    # an update that was late was missing before, and whoever owes an answer is not asked again
    main[since[:, Outcome.LATE] > 0] = Outcome.LATE
    silent = (main == Outcome.UNAVAILABLE) & (since[:, Outcome.MISSING] > 0)
    main[silent] = Outcome.MISSING
    away = since[main == Outcome.MISSING, Outcome.UNAVAILABLE].any()
    kinds = {
        "could not be reached": [Outcome.UNAVAILABLE],
        "did not answer, or could not be reached" if away else "did not answer": [Outcome.MISSING],
        "answered too late": [Outcome.LATE],
        "failed": FAILED,
        "sent what was refused": [Outcome.REFUSED],
        "could not be reached, or were not picked": [Outcome.NOT_WANTED],
        "came, with a weight of 0": [Outcome.CAME],
    }
    counts = {words: int(np.isin(main, outcomes).sum()) for words, outcomes in kinds.items()}
    told = [(words, n) for words, n in counts.items() if n]
    if len(told) == 1:
        words = told[0][0]
        return f"it {words.replace('were', 'was')}" if len(who) == 1 else f"they {words}"
    return joined([f"{n} {words}" for words, n in told])


def _labels(seen: Seen, clients: list[int]) -> Iterator[str]:
    labels = seen.facts.labels(clients).tolist()
    if not labels:
        return
    shown, more = labels[:MOST_LABELS], len(labels) - MOST_LABELS
    words = [seen.facts.label(label) for label in sorted(shown)] + (
        [f"{more} more"] if more > 0 else []
    )
    text = f"{'its' if len(clients) == 1 else 'their'} labels: {joined(words)}"
    whole = [one for one in labels if seen.facts.share_of_label(one, clients) >= 0.995]
    if whole:
        only = [seen.facts.label(one) for one in sorted(whole)[:MOST_LABELS]]
        text += f" (nobody else has {joined(only)})"
    yield text


def _performance(seen: Seen, who: Ints) -> Iterator[str]:
    for name, words in PERFORMANCE.items():
        values: Floats | None = seen.counted.metrics.get(name)
        if values is None or len(values) <= who.max() or np.isnan(values[who]).all():
            continue
        own, mean = float(np.nanmean(values[who])), float(np.nanmean(values))
        if name == "accuracy":
            yield f"{words} there: {own:.1%}, mean of all: {mean:.1%}".replace("%", " %")
        else:
            yield f"{words} there: {own:.3g}, mean of all: {mean:.3g}"
        return


# -- late, refused, failed -----------------------------------------------------------------------


def late(seen: Seen) -> Iterator[Found]:
    """Clients whose every answer is late."""
    counted = seen.counted
    who = np.flatnonzero(seen.active & (counted.since[:, Outcome.LATE] >= seen.limits.late))
    if not len(who):
        return
    clients = who.tolist()
    always = bool((counted.came[who] == 0).all())
    n = int(seen.active.sum())
    least, most = seen.times.median(clients)
    deadline = seen.facts.deadline
    text = (
        f"{len(clients)} of {_count(n, 'client')} {_has(clients)} "
        f"{'always been late' if always else 'been late each time since an update came in time'}"
    )
    if len(clients) < n:
        text += f" ({seen.facts.listed(clients)})"
    if deadline is not None and not np.isnan(most):
        took = _seconds(most) if least == most else f"{_seconds(least)} to {_seconds(most)}"
        whose = "its" if len(clients) == 1 else "their"
        if most > deadline:
            text += f": the deadline of {deadline:g} s is below {whose} median of {took} s"
    yield Found("late", tuple(clients), text)


def refused(seen: Seen) -> Iterator[Found]:
    """Clients whose updates are refused again and again, and ids that are no client's."""
    limit, counts = seen.limits.refused, seen.refused
    for client in np.flatnonzero(seen.active & (counts.rounds >= limit)).tolist():
        reason = one_line(counts.reason.get(client, ""), LONGEST_REASON)
        text = (
            f"{seen.facts.called(client)} was refused in {counts.rounds[client]} rounds, and no "
            f"update of it was taken since: {reason}"
        )
        yield Found("refused", (client,), text, str(client))
    for name, (times, reason) in counts.strangers.items():
        if times >= limit:
            text = (
                f"{one_line(name, 80)}, which is no client, was refused {times} times: "
                f"{one_line(reason, LONGEST_REASON)}"
            )
            yield Found("refused", (), text, name)


def failed(seen: Seen) -> Iterator[Found]:
    """Clients that answer with errors, or restart while they train."""
    counted = seen.counted
    times = counted.since[:, FAILED].sum(axis=1)
    who = np.flatnonzero(seen.active & (times >= seen.limits.failed))
    if len(who):
        clients, fewest = who.tolist(), int(times[who].min())
        more = " or more" if times[who].max() > fewest else ""
        yield Found(
            "failed",
            tuple(clients),
            f"{seen.facts.listed(clients)} failed {fewest} times{more} and {_has(clients)} not "
            "come since: errors, or restarts while training",
        )


# -- the step ------------------------------------------------------------------------------------


def one_row(seen: Seen) -> Iterator[Found]:
    """A client whose row represents many others."""
    limits, largest = seen.limits, seen.one_row.largest()
    if largest is None:
        return
    client, share, others = largest
    if not seen.active[client]:
        return
    if share >= limits.one_row and others >= limits.one_row_others:
        yield Found(
            "one row",
            (client,),
            f"{seen.facts.called(client)} stood in for {others:.2g} others: {100 * share:.0f} % of "
            f"the step, on average over the last {limits.rounds}",
        )


def nobody(seen: Seen) -> Iterator[Found]:
    """Rounds in which nobody came."""
    counted, limits = seen.counted, seen.limits
    if seen.empty < limits.empty:
        return
    before = counted.n_rounds - seen.empty
    rate = (seen.empty_before + 1) / (before + 2)
    if rate**seen.empty * counted.n_rounds <= limits.chance or before == 0:
        yield Found("nobody", (), f"nobody came in the last {_count(seen.empty, 'round')}")


def old(seen: Seen) -> Iterator[Found]:
    """Clients that only an old update represents, where an age is given."""
    counted, limits = seen.counted, seen.limits
    if limits.age is None or not counted.n_clients:
        return
    remembered = counted.voice == 1
    who = np.flatnonzero(seen.active & remembered & (counted.age >= limits.age))
    if len(who):
        clients, ages = who.tolist(), counted.age[who]
        yield Found(
            "old",
            tuple(clients),
            f"{seen.facts.listed(clients)}: represented by updates of {int(ages.min())} rounds ago"
            + (f" to {int(ages.max())}" if ages.max() > ages.min() else ""),
        )


RULES = (left_out, waiting, nobody, late, refused, failed, one_row, old)


# -- words ---------------------------------------------------------------------------------------


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" + "s" * (n != 1)


def _seconds(seconds: float) -> str:
    return f"{seconds:.0f}" if seconds >= 10 else f"{seconds:.2g}"


def _was(clients: list[int]) -> str:
    return "were" if len(clients) > 1 else "was"


def _has(clients: list[int]) -> str:
    return "have" if len(clients) > 1 else "has"


def _share(share: float, of: str) -> str:
    percent = f"{100 * share:.0f}" if share >= 0.01 else f"{100 * share:.1g}"
    return f"{percent} % of the {of}"
