"""Who is missing: at random, as recorded, or a client gone for good; as a study writes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from understudy.core import checks
from understudy.core.printable import one_line
from understudy.core.shown import shown
from understudy.core.suggestions import closest
from understudy.parts.recordings.kinds import read_recording
from understudy.simulation.data.table_file import found
from understudy.tryout.look import Look
from understudy.tryout.trouble import CannotTry

HALF = 0.5
TWO_STATES = "trace"  # the availability of a CSV file
EXPECTED = "recorded attendance: a CSV file device,t_s,state, FLASH's JSON or FedScale's pickle"
LARGEST, EACH = "largest", "each"
LONGEST = 24  # letters of a client's name in a label
Modes = dict[str, dict[str, Any]]  # label → availability


@dataclass(frozen=True)
class Absence:
    """What was asked for.

    Parameters
    ----------
    missing : float, optional
        The share of clients that is missing in each round, drawn for each.
    trace : path, optional
        Recorded attendance: a CSV file ``device,t_s,state`` as `Trace` reads it, FLASH's JSON or
        FedScale's pickle. Where every client has a device of its own name in a CSV file, it
        follows that one; else devices are dealt at random.
    leave : sequence of str
        Clients that are gone, each in a comparison of its own; ``"largest"``: the one with most
        rows; ``"each"``: all, one after another.
    since : int
        The first round without them.
    """

    missing: float | None = None
    trace: str | Path | None = None
    leave: Sequence[str] = ()
    since: int = 0

    @classmethod
    def asked(
        cls, missing: float | None, trace: Any, leave: str | Sequence[str], since: int
    ) -> Absence:
        """As given; where nothing is: half are missing, and the largest is gone."""
        leave = (leave,) if isinstance(leave, str) else tuple(leave)
        if missing is None and trace is None and not leave:
            return cls(HALF, None, (LARGEST,), since)
        return cls(missing, trace, leave, since)


@dataclass
class Situations:
    """The situations that are compared.

    Parameters
    ----------
    at_times : dict
        Clients miss some rounds: what methods for absent clients are for.
    for_good : dict
        A client takes part in no round: nothing is known of it that could stand in.
    gone : dict
        Label → the client that is gone.
    told : list of str
        How they were understood.
    """

    at_times: Modes = field(default_factory=dict)
    for_good: Modes = field(default_factory=dict)
    gone: dict[str, str] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)

    @property
    def labels(self) -> tuple[str, ...]:
        return (*self.at_times, *self.for_good)


def situations(asked: Absence, look: Look, rounds: int) -> Situations:
    """What was asked for, for the clients of a table."""
    made = Situations()
    if asked.missing is not None:
        _missing(made, asked.missing, len(look.sizes))
    if asked.trace is not None:
        _traced(made, str(asked.trace), look, rounds)
    checks.integer("since", asked.since, low=0, high=rounds - 1)
    if asked.since and not asked.leave:
        raise CannotTry(f"since: nobody leaves in round {asked.since}; --leave says who")
    largest = next(iter(look.sizes))
    for word in asked.leave:
        known = word in look.sizes
        names = look.clients if word == EACH and not known else (word,)
        for name in [largest if name == LARGEST and not known else name for name in names]:
            _gone(made, name, asked.since, look)
    if len(look.sizes) == 2 and made.for_good:
        made.told.append("with one of two clients gone, the other trains alone")
    return made


def _missing(made: Situations, share: float, n: int) -> None:
    checks.number("missing", share, low=0, high=1, low_open=True, high_open=True)
    n_missing = round(share * n)
    if not 0 < n_missing < n:
        what = "nobody" if n_missing == 0 else "everybody"
        raise CannotTry(
            f"missing: {share:g} of {n} clients is {what}; from {1 / n:.2g} to {1 - 1 / n:.2g} "
            "some are missing, and some are there"
        )
    made.at_times[f"{n_missing} of {n} missing"] = {"name": "fixed_dropout", "alpha": share}
    made.told.append(f"{n_missing} of {n} clients miss each round, drawn for each round")


def _traced(made: Situations, file: str, look: Look, rounds: int) -> None:
    kind, recording = read_recording(found(file, EXPECTED))
    if recording.end <= 0:
        raise CannotTry(f"trace: {file} covers no time")
    by_name = kind == TWO_STATES and set(look.clients) <= set(recording.devices)
    # the whole recording once, whatever its unit of time is
    seconds = recording.end / rounds
    table = {"name": kind, "file": file, "seconds_per_round": seconds}
    if kind == TWO_STATES:
        table |= {"drop_first_seconds": 0, "by_name": by_name}
    made.at_times[f"as in {one_line(Path(file).name, LONGEST)}"] = table
    if by_name:
        words = "each client comes and goes as the device of its name"
    else:
        words = "devices are dealt to clients at random"
        absent = [name for name in look.clients if name not in recording.devices]
        if kind == TWO_STATES:
            words += f" (none is called {shown(absent[0])})"
    made.told.append(f"{file}: {words}; {rounds} rounds of {seconds:.3g} s span the recording")


def _gone(made: Situations, name: str, since: int, look: Look) -> None:
    if name not in look.sizes:
        meant = closest(name, look.clients)
        words = "" if meant is None else f"did you mean {shown(meant)}? "
        names = ", ".join(look.clients[:10]) + (", …" if len(look.clients) > 10 else "")
        raise CannotTry(f"leave: no client {shown(name)}; {words}known: {names}, largest, each")
    label = f"without {one_line(name, LONGEST)}"
    if label in made.gone and made.gone[label] != name:
        label = f"{label} ({len(made.gone)})"
    if label in made.gone:
        return
    made.gone[label] = name
    if since:
        label_of, where = {"since": since}, made.at_times
        made.told.append(f"{name} takes part in {since} rounds, and then never again")
    else:
        label_of, where = {}, made.for_good
        made.told.append(
            f"{name} ({look.sizes[name]:,} rows) never takes part: no method can stand in for it"
        )
    where[label] = {"name": "gone", "clients": [name], **label_of}
