"""Whole strategies from the words of a study: a method's name, or a table of parts."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

from understudy import registry, strategies
from understudy.core.shown import shown
from understudy.parts.local import Local, Plain
from understudy.server.strategy import Strategy
from understudy.server.weights import CLIENTS, DEFAULT_WEIGHTING, EXAMPLES, WEIGHTINGS
from understudy.studies.definition.build.parts import (
    arguments,
    field_names,
    given_fields,
    hints_of,
    looked_up,
    valued,
)
from understudy.studies.definition.errors import StudyError, told_of, unknown_key, within

STRATEGY_KEYS = tuple(item.name for item in fields(Strategy))
PAPER = strategies.PAPER
PART_KEYS = tuple(name for name in STRATEGY_KEYS if name != "local")  # of a strategy alone


def strategy(
    value: Any,
    local: Mapping[str, Any] | Local | str | None = None,
    weighting: str = EXAMPLES,
) -> Strategy:
    """A strategy from a method's name, a table or itself; the rest is the study's, for all.

    How clients train is the same for all strategies of a study, or the comparison is not one of
    methods: `Local`'s defaults, then the study's table, then the strategy's own table. A method
    keeps its rule (FedProx's term, SCAFFOLD's variates), and its paper's schedule and weight decay
    only where ``local = "paper"`` asks for them. A `Strategy` made in Python keeps its own.

    So is what clients weigh: the study's `weighting`, then the strategy's own.
    """
    if isinstance(value, Strategy):
        return value
    table = {"method": value} if isinstance(value, str) else dict(_table(value))
    table.pop("availability", None)
    own: Any = table.pop("local", {})
    method = table.pop("method", None)
    changes: dict[str, Any] = {}
    if "weighting" in table:
        check_weighting(table["weighting"])
    elif not isinstance(method, Strategy):
        if weighting == PAPER:
            table["weighting"] = PAPER
        else:
            changes["weighting"] = study_weighting(weighting)
    made = _method(method, table)
    rule = made.local.rule
    if isinstance(own, Local):
        trained = own if isinstance(rule, Plain) else replace(own, rule=rule)
    elif PAPER in (own, local) or isinstance(method, Strategy):
        trained = _layered(made.local, {}, {} if own == PAPER else own)
    else:
        trained = _layered(Local(rule=rule), local, own)
    with told_of(known=STRATEGY_KEYS):
        return replace(made, local=trained, **changes)


def study_weighting(weighting: str) -> str:
    """A study's weighting as a strategy has it: a sampler may draw by examples already."""
    return DEFAULT_WEIGHTING if weighting == EXAMPLES else weighting


def check_weighting(value: Any) -> None:
    """Refuse a weighting, of a study or of a strategy, that means nothing."""
    known = (*WEIGHTINGS, PAPER)
    if value not in known:
        words = f"expected one of {', '.join(map(repr, known))}, got {shown(value)}"
        raise StudyError(words, "weighting")


def study_local(made: Strategy, local: Any) -> Local:
    """How a strategy would train by the study's `local`, had it been given in words."""
    return _layered(Local(rule=made.local.rule), local, {})


def given_as_object(value: Any) -> bool:
    """Whether a strategy was made in Python, and so keeps how its clients train and weigh."""
    method = value.get("method") if isinstance(value, Mapping) else value
    return isinstance(method, Strategy)


def _table(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise StudyError(f"expected the name of a method, or a table of parts, got {shown(value)}")
    return value


def _method(method: Any, table: Mapping[str, Any]) -> Strategy:
    thing: Any = Strategy() if method is None else method
    if isinstance(thing, str):
        thing = looked_up("strategy", thing, registry.STRATEGIES, "method")
    if not isinstance(thing, Strategy) and not callable(thing):
        raise StudyError(f"expected the name of a method, got {shown(method)}", "method")
    hints = hints_of(Strategy)
    if table.get("weighting") == PAPER:
        table = _with_papers_weighting(thing, table, bare=method is None)
    own = {name: value for name, value in table.items() if name in _own_keys(thing)}
    extra = {name: value for name, value in table.items() if name not in own}
    known = [*_own_keys(thing), *STRATEGY_KEYS, "method", "availability"]
    for name in extra:
        if name == "name":
            raise StudyError("no such key; did you mean 'method'?", name)
        if name not in STRATEGY_KEYS:
            raise unknown_key(name, known)
    parts = {name: valued(name, value, hints[name]) for name, value in extra.items()}
    with told_of(known=known):
        if isinstance(thing, Strategy):
            return replace(thing, **parts)
        made: Any = thing(**arguments(thing, own), **(parts if _takes_all(thing) else {}))
        if not isinstance(made, Strategy):
            raise StudyError(
                f"expected a function that returns a Strategy, got {shown(made)}", "method"
            )
        return made if _takes_all(thing) else replace(made, **parts)


def _with_papers_weighting(thing: Any, table: Mapping[str, Any], *, bare: bool) -> dict[str, Any]:
    """A table whose weighting is the paper's: our methods know it, another keeps what it has."""
    if getattr(thing, "__module__", None) == strategies.__name__ and not bare:
        return dict(table)
    rest = {name: value for name, value in table.items() if name != "weighting"}
    return {**rest, "weighting": CLIENTS} if bare else rest  # most papers weigh clients alike


def _own_keys(method: Any) -> list[str]:
    if isinstance(method, Strategy):
        return []
    parameters = inspect.signature(method).parameters.items()
    return [name for name, parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD]


def _takes_all(function: Callable[..., Any]) -> bool:
    parameters = inspect.signature(function).parameters.values()
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


def _layered(base: Local, study: Any, own: Any) -> Local:
    changes: dict[str, Any] = {}
    for layer, is_own in ((local_table(study), False), (local_table(own), True)):
        with within("local"):
            values = given_fields(Local, layer)
        if "epochs" in values and "steps" not in values:
            values["steps"] = None  # steps would win
        if "optimizer" in values:
            values.setdefault("optimizer_options", {})  # those of another would not fit
        if not is_own and not isinstance(base.rule, Plain):
            values.pop("rule", None)  # FedProx without its term would not be FedProx
        changes |= values
    with told_of("local", known=field_names(Local)):
        return replace(base, **changes)


def check_local(value: Any) -> None:
    """Refuse a study's table that is wrong whatever the strategy."""
    if value != PAPER:
        with told_of("local", known=field_names(Local)):
            replace(Local(), **given_fields(Local, local_table(value)))


def local_table(value: Any) -> Mapping[str, Any]:
    """How clients train, as a table of what is given."""
    if value is None:
        return {}
    if isinstance(value, Local):
        return {item.name: getattr(value, item.name) for item in fields(Local)}
    if not isinstance(value, Mapping):
        known = ", ".join(field_names(Local))
        raise StudyError(f"expected a table of {known}, or {PAPER!r}, got {shown(value)}")
    return value
