"""The answer in words: four questions, each with its sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from understudy.server.footprint import readable
from understudy.tryout.effects import Effect, mean
from understudy.tryout.findings import ClientFinding, MethodFinding, Situation, TableFindings
from understudy.tryout.plan import POOLED
from understudy.tryout.trouble import listed

MOST_CLIENTS = 3  # that are told in words
LITTLE = 4096  # bytes


class Answer(NamedTuple):
    """A question, and what came out."""

    question: str
    sentences: tuple[str, ...]


def answers(found: TableFindings) -> tuple[Answer, ...]:
    """All that is told, most important first."""
    return (
        Answer("What do I lose when clients are missing?", tuple(_losses(found))),
        Answer("Which clients lose most?", tuple(_losers(found))),
        Answer("Which method recovers it?", tuple(_recovered(found))),
        Answer("What would it cost on the server?", tuple(_costs(found))),
        Answer("What to bear in mind", tuple(_cautions(found))),
    )


def in_short(found: TableFindings) -> str:
    """One sentence."""
    parts = [f"{one.label}: {_short(found, one)}" for one in found.situations]
    if len(parts) > MOST_CLIENTS:
        worst = min(found.situations, key=lambda one: one.loss.mean)
        return f"Worst is {worst.label}: {_short(found, worst)}."
    return f"{'; '.join(parts)}."


def _short(found: TableFindings, one: Situation) -> str:
    if one.loss.p is None:
        return f"{_change(found, one.loss)}, not tested"
    if not one.loss.holds and one.loss.mean >= 0:
        return "no loss is shown"
    if not one.loss.holds:
        return (
            f"what is lost, {found.scale.size(one.loss.mean)} of {found.scale.name}, may be noise"
        )
    words = f"leaving the absent out costs {found.scale.size(one.loss.mean)} of {found.scale.name}"
    if one.loss.mean > 0:
        words = f"{found.scale.name} is higher by {found.scale.size(one.loss.mean)}"
    if not one.methods:
        return words
    helps = [method for method in one.methods if method.change.holds and method.change.mean > 0]
    if not helps:
        return f"{words}, and no method is shown to recover it"
    return f"{words}, and {helps[0].name} recovers {_share(helps[0])}"


# -- what is lost ----------------------------------------------------------------------------------


def _losses(found: TableFindings) -> Iterator[str]:
    scale = found.scale
    words = f"With everybody in every round, {scale.name} is {scale.value(mean(found.everyone))}"
    if found.pooled:
        words += f"; with all rows in one place, {scale.value(mean(found.pooled))}"
    if math.isfinite(found.constant):
        words += f"; with the same prediction for every row, {scale.value(found.constant)}"
    yield f"{words}."
    yield "Tests are on held-out rows of all clients, also of those that are missing."
    for error in found.errors.values():
        yield f"The typical error (RMSE) with everybody is {_digits(error)}, in the target's unit."
    for one in found.situations:
        yield (
            f"{one.label}: {scale.value(mean(one.left_out))} where the absent are left out, "
            f"{_change(found, one.loss)}: {one.loss.verdict}."
        )


def _change(found: TableFindings, change: Effect) -> str:
    scale = found.scale
    if not math.isfinite(change.mean):
        return "no result"
    if change.mean > 0:
        return f"{scale.size(change.mean)} higher{scale.range(change)}"
    return f"{scale.size(change.mean)} lower{scale.range(change, -1)}"


def _digits(value: float) -> str:
    return f"{value:.3g}"


# -- who loses -------------------------------------------------------------------------------------


def _losers(found: TableFindings) -> Iterator[str]:
    for one in found.situations:
        if not one.clients:
            continue
        sure = [who for who in one.clients if who.change.holds and who.change.mean < 0]
        scale = found.client_scale
        lose = [who for who in one.clients if who.change.mean < 0]
        shown = sure or [who for who in lose if not scale.is_zero(who.change.mean)]
        if not shown:
            yield f"{one.label}: none."
        told = [_client(found, who) for who in shown[:MOST_CLIENTS]]
        more = len(shown) - MOST_CLIENTS
        words = "; ".join(told) + (f"; {more} more" if more > 0 and sure else "")
        how = "" if sure else _why_unsure(one)
        if shown:
            yield f"{one.label}: {words}{how}."
        gains = [who for who in one.clients if who.change.holds and who.change.mean > 0]
        if gains:
            told = [_client(found, who) for who in reversed(gains)]
            yield f"{one.label}, better off: {'; '.join(told[:MOST_CLIENTS])}."
        others = [who for who in one.clients if who.name != one.gone]
        if one.gone is not None and others:
            lost = sum(who.change.mean * who.rows for who in others) / sum(w.rows for w in others)
            words = f"{scale.size(lost)} {'worse' if lost < 0 else 'better'}"
            if scale.is_zero(lost):
                words = "neither better nor worse"
            yield f"{one.label}, the others: {words} on average, by rows."
    first = next((one.clients for one in found.situations if one.clients), ())
    if first:
        least, most = (end(who.tested_on for who in first) for end in (min, max))
        yield (
            f"Measured as {found.client_scale.name} on each client's own held-out rows: "
            f"{least:.0f} to {most:.0f} of them in each run."
        )


def _client(found: TableFindings, who: ClientFinding) -> str:
    scale = found.client_scale
    span = f"{scale.value(who.everyone)} → {scale.value(who.left_out)}"
    return f"{who.name} by {scale.size(who.change.mean)} ({span})"


def _why_unsure(one: Situation) -> str:
    if all(who.change.p is None for who in one.clients):
        return ": not tested"
    return "; of each of them it may be noise"


# -- what helps ------------------------------------------------------------------------------------


def _recovered(found: TableFindings) -> Iterator[str]:
    if not any(one.methods for one in found.situations):
        yield (
            "None was tried: nothing is known of a client that never took part. With --since a "
            "client leaves after some rounds."
        )
    for one in found.situations:
        best = one.best
        if best is None:
            continue
        scale = found.scale
        words = f"{one.label}: {best.name} is best, {scale.value(best.mean)}"
        if best.change.mean <= 0:
            yield f"{one.label}: none; leaving the absent out is as good as {best.name}, the best."
            continue
        if not one.loss.holds and not best.change.holds and one.loss.p is not None:
            words = f"{one.label}: little can be gained, since the loss itself may be noise; "
            words += f"{best.name} is best, {scale.value(best.mean)}"
        words += f", {scale.size(best.change.mean)} above leaving the absent out"
        words += scale.range(best.change)
        if one.loss.holds and one.loss.mean < 0:
            words += f", {_share(best)}"
        yield f"{words}: {best.change.verdict}."
        also = [other.name for other in one.methods[1:] if other.change.holds
                and other.change.mean > 0]  # fmt: skip
        worse = [other.name for other in one.methods if other.change.holds
                 and other.change.mean < 0]  # fmt: skip
        if also:
            yield f"{one.label}: more than noise also with {listed(also, 6)}."
        if worse:
            yield f"{one.label}: worse than leaving the absent out: {listed(worse, 6)}."


def _share(method: MethodFinding) -> str:
    share = method.recovered
    if not math.isfinite(share):
        return "all of the loss"
    return "all of the loss" if share >= 1 else f"{100 * share:.0f} % of the loss"


# -- what it costs ---------------------------------------------------------------------------------


def _costs(found: TableFindings) -> Iterator[str]:
    head = f"The model has {found.n_parameters:,} parameters. Leaving the absent out remembers "
    yield f"{head}nothing of any client{'; beyond that:' if found.costs else '.'}"
    groups: dict[tuple[int, int], list[str]] = {}
    for one in found.costs:
        little = one.memory < LITTLE
        groups.setdefault((0, 0) if little else (one.memory, one.disk), []).append(one.name)
    for (memory, disk), names in groups.items():
        if not memory:
            yield f"{listed(names, 8)}: next to nothing."
            continue
        yield (
            f"{listed(names, 8)}: {readable(memory)} of memory, or {readable(disk)} of disk for a "
            "server that survives a crash."
        )


def _cautions(found: TableFindings) -> Iterator[str]:
    n = found.seeds
    yield (
        f"{n} run{'s' * (n != 1)} of each kind differ in the rows that are held out, the first "
        "weights and who is missing. In brackets: 95 % intervals over these runs, each for itself. "
        "“More than noise”: p < 0.05 in a paired t-test, raised by Holm for all that is compared "
        "in one table. “May be noise” does not mean that there is no difference."
    )
    unsure = [one.loss for one in found.situations]
    unsure += [method.change for one in found.situations for method in one.methods]
    if any(not one.holds and one.half is not None and abs(one.mean) > one.half for one in unsure):
        yield (
            f"More runs tell smaller differences from noise: the same with --seeds {2 * n}; what "
            "is done is not run again."
        )
    if any(one.methods for one in found.situations):
        yield "The best method is chosen and tested on the same runs, which favours it."
    if mean(found.everyone) <= found.constant and math.isfinite(found.constant):
        yield (
            "Even with everybody the model does no better than saying the same for every row: "
            "what is said of absence means little here."
        )
    yield (
        f"Everything is simulated on this machine. Rows of all clients were put together to "
        f"standardise columns and to fill gaps; {POOLED} training is what federated learning "
        "replaces."
    )
