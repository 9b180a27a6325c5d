"""What to bear in mind: how sure the answer is, and what it rests on."""

from __future__ import annotations

import math
from collections.abc import Iterator

from understudy.tryout.effects import mean
from understudy.tryout.findings import TableFindings
from understudy.tryout.plan import POOLED, STEPS
from understudy.tryout.trouble import listed


def cautions(found: TableFindings) -> Iterator[str]:
    """What limits the answer, a sentence or a few each."""
    n = found.seeds
    yield (
        f"{n} run{'s' * (n != 1)} of each kind differ in the rows that are held out, the first "
        "weights and who is missing. In brackets: 95 % intervals over these runs, each for itself. "
        "“More than noise”: p < 0.05 in a paired t-test, raised by Holm for all that is compared "
        "in one table. “May be noise” does not mean that there is no difference."
    )
    yield _measured_when(found)
    if found.steps:
        yield _steps(found)
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
        "replaces: as many gradient steps in a round as all clients make together, but one after "
        "another, so that it needs fewer rounds."
    )


def _measured_when(found: TableFindings) -> str:
    last = f"of the model after round {found.rounds}"
    if found.tail > 1:
        last = f"the mean over the last {found.tail} of {found.rounds} rounds"
        return f"{_capital(found.scale.name)} is {last}; each client's own is of the last round."
    return f"All numbers are those {last}."


def _steps(found: TableFindings) -> str:
    """The server's steps that tuning picked."""
    told = []
    for where, steps in found.steps.items():
        names: dict[str, list[str]] = {}
        for name, step in sorted(steps.items(), key=lambda one: float(one[1])):
            names.setdefault(step, []).append(name)
        words = "; ".join(f"{step} of {listed(own, 9)}" for step, own in names.items())
        told.append(f"{where}: {words}" if where else words)
    words = (
        f"Server steps picked on validation data, of {listed([f'{step:g}' for step in STEPS], 9)}: "
        f"{'. '.join(told)}."
    )
    ends = [f"{end:g}" for end in (STEPS[0], STEPS[-1])]
    picked = {step for steps in found.steps.values() for step in steps.values()}
    beyond = [end for end in ends if end in picked]
    if beyond:
        words += f" Beyond {' and '.join(beyond)} there may be a better one."
    return words


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]
