"""A row of one's own in anybody's study: ``module:name``, and what it is by what it can do."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from understudy import registry
from understudy.core.roles import (
    Aggregator,
    Availability,
    Chances,
    Compensator,
    Guard,
    LocalRule,
    Sampler,
    Server,
    Trainer,
)
from understudy.core.shown import shown
from understudy.core.suggestions import closest
from understudy.parts.delay import Delay
from understudy.server.strategy import Strategy
from understudy.studies.definition.errors import StudyError
from understudy.studies.definition.plugins import imported

WITH = "--with"
METHOD = "method"
ROLES: Mapping[str, Any] = MappingProxyType(
    {
        "sampler": Sampler,
        "compensator": Compensator,
        "aggregator": Aggregator,
        "server": Server,
        "guard": Guard,
        "rule": LocalRule,
    }
)
# the verb of each role: who has it meant to write such a part
VERBS = {
    "pick": "sampler",
    "fill": "compensator",
    "aggregate": "aggregator",
    "step": "server",
    "guard": "guard",
    "correction": "rule",
}
REGISTRIES: Mapping[str, registry.Registry] = MappingProxyType(
    {
        METHOD: registry.STRATEGIES,  # first: some parts are called like the method they make
        "sampler": registry.SAMPLERS,
        "compensator": registry.COMPENSATORS,
        "aggregator": registry.AGGREGATORS,
        "server": registry.SERVERS,
        "guard": registry.GUARDS,
        "rule": registry.RULES,
    }
)
NO_ROWS = {  # the same for all rows of a study, so that a row cannot bring them
    "availability": Availability,
    "delay": Delay,
    "trainer": Trainer,
    "chances": Chances,
}
EXPECTED = (
    "a method, or a sampler, compensator, aggregator, server, guard or rule of local training"
)


@dataclass(frozen=True)
class UserRow:
    """A strategy that is added to a study.

    Parameters
    ----------
    text : str
        As it was asked for: ``mine:Fading``, ``fading=mine:Fading``, ``fedfv``.
    label, place : str
        What the row is called, and the name that it stands for.
    role : str
        What its part is: ``method``, ``compensator``, ….
    table : dict
        The row as a study's ``[strategies]`` has it.
    made : Strategy or part
        What its name stands for, with the defaults it has.
    """

    text: str
    label: str
    place: str
    role: str
    table: Mapping[str, Any]
    made: Any


def user_row(text: str) -> UserRow:
    """The row that ``[LABEL=]MODULE:NAME``, or a name of the registry, stands for."""
    label, is_labelled, place = text.rpartition("=")
    label, place = label.strip(), place.strip()
    module, colon, name = place.partition(":")
    if not module or (colon and not name) or (is_labelled and not label):
        raise _refused(text, f"expected [LABEL=]MODULE:NAME, got {shown(text)}")
    try:
        role, made = _of_ours(place) if ":" not in place else _of_theirs(place)
    except StudyError as error:
        raise _refused(text, error.message) from error
    table = {"local": {"rule": place}} if role == "rule" else {role: place}
    return UserRow(text, label or place.rpartition(":")[2], place, role, table, made)


def _refused(text: str, message: str) -> StudyError:
    error = StudyError(message)
    error.source = f"{WITH} {text}"
    return error


def _of_ours(name: str) -> tuple[str, Any]:
    """A registered name."""
    for role, known in REGISTRIES.items():
        if name in known:
            return role, _made(known[name])
    for names in (registry.AVAILABILITY, registry.DELAYS):
        if name in names:
            raise _no_row(names.role)
    close = closest(name, [other for known in REGISTRIES.values() for other in known])
    meant = "" if close is None else f"; did you mean {close!r}?"
    raise StudyError(f"expected MODULE:NAME, or {EXPECTED} by name, got {name!r}{meant}")


def _of_theirs(place: str) -> tuple[str, Any]:
    try:
        thing = imported(place)
    except ImportError as error:
        where = ""
        if "no module named" in str(error):
            where = " (neither in this folder nor installed)"
        raise StudyError(str(error).removeprefix(f"{place}: ") + where) from error
    made = _made(thing)
    return _role_of(made), made


def _made(thing: Any) -> Any:
    """What a class or function makes of its defaults; an object as it is."""
    if not isinstance(thing, type) and not inspect.isfunction(thing):
        return thing
    parameters: Mapping[str, inspect.Parameter]
    try:
        parameters = inspect.signature(thing).parameters
    except (TypeError, ValueError):  # of C, which does not say
        parameters = {}
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [
        one.name
        for one in parameters.values()
        if one.default is one.empty and one.kind not in several
    ]
    if needed:
        raise StudyError(
            f"expected defaults for all parameters, got none for {', '.join(needed)}; or name an "
            "object that is made already"
        )
    try:
        return thing()
    except Exception as error:  # somebody's own class may fail in any way
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        raise StudyError(f"cannot be made: {kind}{error}") from error


def _role_of(made: Any) -> str:
    if isinstance(made, Strategy):
        return METHOD
    found = [role for role, protocol in ROLES.items() if isinstance(made, protocol)]
    if len(found) == 1:
        return found[0]
    if found:
        words = " and ".join(found)
        raise StudyError(
            f"expected one role, got {words} in one; write a function that returns a Strategy"
        )
    for role, protocol in NO_ROWS.items():
        if isinstance(made, protocol):
            raise _no_row(role)
    for verb, role in VERBS.items():
        if callable(getattr(made, verb, None)):
            lacking = [name for name in _promised(ROLES[role]) if not hasattr(made, name)]
            promised = ", ".join(_promised(ROLES[role]))
            raise StudyError(
                f"expected a {role} with {promised}, got one without {', '.join(lacking)}"
            )
    raise StudyError(f"expected {EXPECTED}, got {shown(made)}")


def _no_row(role: str) -> StudyError:
    article = "an" if role == "availability" else "a"
    words = f"{article} {role}, which is the same for all rows of a study: write it in its file"
    return StudyError(f"expected {EXPECTED}, got {words}")


def _promised(protocol: Any) -> list[str]:
    """What a protocol asks for, in the order in which it is written."""
    return [name for name in vars(protocol) if not name.startswith("_")]
