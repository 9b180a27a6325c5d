"""The answer in words: four questions, each with its sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from understudy.server.footprint import readable
from understudy.tryout.cautions import cautions
from understudy.tryout.effects import Effect, mean
from understudy.tryout.findings import ClientFinding, MethodFinding, Situation, TableFindings
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
        Answer("What to bear in mind", tuple(cautions(found))),
    )


def in_short(found: TableFindings) -> str:
    """One sentence; a second where training was cut short."""
    told, gone = list(found.situations), []
    if len(told) > MOST_CLIENTS:
        gone = [one for one in told if one.gone is not None]
        told = [one for one in told if one.gone is None]
    parts = [f"{one.label}: {_short(found, one)}" for one in told]
    if gone:
        parts.append(_short_of_many(found, gone))
    early = f" Training was not over after {found.rounds} rounds." if found.unfinished else ""
    return f"{'; '.join(parts)}.{early}"


def _short_of_many(found: TableFindings, gone: Sequence[Situation]) -> str:
    """Of clients that are gone one after another."""
    worst = min(gone, key=lambda one: one.loss.mean)
    sure = sum(one.loss.holds and one.loss.mean < 0 for one in gone)
    words = f"of {len(gone)} clients, {sure} {'is' if sure == 1 else 'are'} shown to be missed"
    if worst.loss.p is None:
        words = f"of {len(gone)} clients"
    return f"{words}; the largest loss is {worst.label}: {_short(found, worst)}"


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
        return (
            f"{found.scale.name} is {found.scale.size(one.loss.mean)} higher where the absent are "
            "left out"
        )
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
    if found.unfinished:
        yield (
            f"Training was not over: with everybody, {scale.name} rose by "
            f"{scale.size(found.rise)} in the last quarter of the {found.rounds} rounds. More "
            f"rounds (--rounds {2 * found.rounds}) may change all that follows."
        )
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
    if scale.is_zero(change.mean):
        return f"a difference of {scale.size(change.mean)}{scale.range(change)}"
    if change.mean > 0:
        return f"{scale.size(change.mean)} higher{scale.range(change)}"
    return f"{scale.size(change.mean)} lower{scale.range(change, -1)}"


def _digits(value: float) -> str:
    return f"{value:.3g}"


# -- who loses -------------------------------------------------------------------------------------


def _losers(found: TableFindings) -> Iterator[str]:
    scale, nobody = found.client_scale, []
    many = len(found.situations) > MOST_CLIENTS
    for one in found.situations:
        if not one.clients:
            continue
        losers = _losers_of(found, one)
        if losers:
            yield f"{one.label}: {losers}."
        else:
            nobody.append(one.label)
        gains = [who for who in one.clients if who.change.holds and who.change.mean > 0]
        if gains:
            told = [_client(found, who) for who in reversed(gains)]
            yield f"{one.label}, better off: {'; '.join(told[:MOST_CLIENTS])}."
        others = [who for who in one.clients if who.name != one.gone]
        if one.gone is not None and others and not (many and not losers):
            lost = sum(who.change.mean * who.rows for who in others) / sum(w.rows for w in others)
            words = f"{scale.size(lost)} {'worse' if lost < 0 else 'better'}"
            if scale.is_zero(lost):
                words = "neither better nor worse"
            yield f"{one.label}, the others: {words} on average, by rows."
    if nobody:
        yield f"{listed(nobody, len(nobody))}: no client loses on average."
    first = next((one.clients for one in found.situations if one.clients), ())
    if first:
        least, most = (end(who.tested_on for who in first) for end in (min, max))
        yield (
            f"Measured as {scale.name} on each client's own held-out rows: {least:.0f} to "
            f"{most:.0f} of them in each run."
        )


def _losers_of(found: TableFindings, one: Situation) -> str:
    """Who loses most, those that surely do before others; empty: nobody."""
    sure = [who for who in one.clients if who.change.holds and who.change.mean < 0]
    lose = [who for who in one.clients if who.change.mean < 0]
    shown = sure or [who for who in lose if not found.client_scale.is_zero(who.change.mean)]
    if not shown:
        return ""
    words = "; ".join(_client(found, who) for who in shown[:MOST_CLIENTS])
    if not sure:
        return words + _why_unsure(one)
    return words + (f"; {len(sure) - MOST_CLIENTS} more" if len(sure) > MOST_CLIENTS else "")


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
        value = scale.value(best.mean)
        if best.change.mean <= 0:
            yield (
                f"{one.label}: none; {best.name} comes closest to leaving the absent out, {value}, "
                f"{_change(found, best.change)}: {best.change.verdict}."
            )
        else:
            words = f"{best.name} is best, {value}, {scale.size(best.change.mean)} above leaving "
            words += f"the absent out{scale.range(best.change)}"
            if one.loss.holds and one.loss.mean < 0:
                words += f", {_share(best)}"
            if not one.loss.holds and not best.change.holds and one.loss.p is not None:
                words = f"that there is a loss is not shown; {words}"
            yield f"{one.label}: {words}: {best.change.verdict}."
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
