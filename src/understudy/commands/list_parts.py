"""`understudy list`: all that a study can name, with its parameters."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Annotated, Any

import typer

from understudy import registry
from understudy.registry import UnknownName


def list_parts(kind: Annotated[str | None, typer.Argument()] = None) -> None:
    """What a study can name, with parameters and their defaults.

    KIND is one of strategies, samplers, compensators, races, cutoffs,
    guards, aggregators, servers, local, rules, schedules, availability,
    delays, data, partitions, models, losses, analyses: tells what each of
    them is. Without it, all are listed in short.

    understudy list
    understudy list samplers
    """
    for line in listing(kind):
        typer.echo(line)


@dataclass(frozen=True)
class Section:
    """The names of one kind."""

    name: str
    singular: str
    words: str
    entries: Callable[[], Mapping[str, Any]]  # called when shown: importing takes a while
    given: tuple[str, ...] = ()  # parameters that the simulator fills in


def _data_sets() -> Mapping[str, Any]:
    from understudy.simulation.data.sources import DATASETS

    return DATASETS


def _partitions() -> Mapping[str, Any]:
    from understudy.simulation.data.partitions import PARTITIONS

    return PARTITIONS


def _models() -> Mapping[str, Any]:
    from understudy.simulation.data.models import MODELS

    return MODELS


def _losses() -> Mapping[str, Any]:
    from understudy.studies.definition.build.data import LOSSES

    return LOSSES


def _analyses() -> Mapping[str, Any]:
    from understudy.analysis import ANALYSES

    return ANALYSES


def _local() -> Mapping[str, Any]:
    from understudy.parts.local import Local

    return {"local": Local}


def _registered(role: registry.Registry) -> Callable[[], Mapping[str, Any]]:
    return lambda: role


SECTIONS = (
    Section(
        "strategies",
        "strategy",
        "whole methods; each takes sampler, compensator, aggregator, server, local, guard and "
        "weighting besides",
        _registered(registry.STRATEGIES),
        ("fields",),
    ),
    Section("samplers", "sampler", "who is wanted", _registered(registry.SAMPLERS)),
    Section(
        "compensators",
        "compensator",
        "who speaks for the absent",
        _registered(registry.COMPENSATORS),
    ),
    Section(
        "races", "race", "which comparisons of clients fdms can spare", _registered(registry.RACES)
    ),
    Section(
        "cutoffs", "cutoff", "how old an update fedar listens to", _registered(registry.CUTOFFS)
    ),
    Section("guards", "guard", "what happens to arrivals first", _registered(registry.GUARDS)),
    Section(
        "aggregators", "aggregator", "how rows become one update", _registered(registry.AGGREGATORS)
    ),
    Section("servers", "server", "what the server does with it", _registered(registry.SERVERS)),
    Section("local", "local", "how clients train", _local),
    Section("rules", "rule", "what local training adds to the loss", _registered(registry.RULES)),
    Section(
        "schedules",
        "schedule",
        "factors on a step, round by round",
        _registered(registry.SCHEDULES),
    ),
    Section(
        "availability",
        "availability mode",
        "who can be reached",
        _registered(registry.AVAILABILITY),
    ),
    Section("delays", "delay", "what happens after being asked", _registered(registry.DELAYS)),
    Section(
        "data",
        "data set",
        "examples; `understudy doctor` tells which are here",
        _data_sets,
        ("normalise", "seed"),
    ),
    Section("partitions", "partition", "who holds what", _partitions, ("labels", "rng")),
    Section("models", "model", "what is trained", _models, ("shape", "n_classes")),
    Section("losses", "loss", "what training makes small", _losses),
    Section("analyses", "analysis", "what is asked of finished cells", _analyses, ("run", "task")),
)


def listing(kind: str | None = None, width: int = 80) -> Iterator[str]:
    """Lines: the names of one kind with what each is, or of every kind with their parameters."""
    if kind is not None:
        section = _named(kind)
        yield from textwrap.wrap(f"{section.name}: {section.words}", width)
        for name, part in section.entries().items():
            yield ""
            yield f"  {name}"
            yield from _indented(_summary(part), width, 4)
            yield from _indented(", ".join(_parameters(section, part)), width, 4)
        return
    for position, section in enumerate(SECTIONS):
        if position:
            yield ""
        yield from textwrap.wrap(f"{section.name}: {section.words}", width)
        entries = section.entries()
        column = max(len(name) for name in entries) + 4
        for name, part in entries.items():
            yield from textwrap.wrap(
                ", ".join(_parameters(section, part)) or "–",
                width,
                initial_indent=f"  {name}".ljust(column),
                subsequent_indent=" " * column,
            )


def _named(kind: str) -> Section:
    """A section by its name, in the singular or the plural, with spaces or not."""
    wanted = kind.strip().lower().replace("-", " ").replace("_", " ")
    for section in SECTIONS:
        if wanted in (section.name, section.singular, f"{section.singular}s"):
            return section
    raise UnknownName("kind of part", kind, [section.name for section in SECTIONS])


def _indented(text: str, width: int, by: int) -> list[str]:
    return textwrap.wrap(text, width, initial_indent=" " * by, subsequent_indent=" " * by)


def _summary(part: Any) -> str:
    """The first sentence of what the part says of itself, as plain text."""
    written = inspect.getdoc(part) or ""
    return " ".join(written.split("\n\n", maxsplit=1)[0].split()).replace("`", "")


def _parameters(section: Section, part: Any) -> Iterator[str]:
    if is_dataclass(part):
        for item in fields(part):
            factory = item.default_factory
            yield _shown(item.name, item.default if factory is MISSING else factory())
        return
    if section.name in ("schedules", "losses"):
        return  # functions: what they are called with is not a setting
    for name, argument in inspect.signature(part).parameters.items():
        if name not in section.given:
            yield _shown(name, argument.default)


def _shown(name: str, default: object) -> str:
    if default is MISSING or default is inspect.Parameter.empty:
        return name
    return f"{name}={_value(default)}"


def _value(default: object) -> str:
    """As it is written in a study, where it can be."""
    if inspect.isfunction(default):
        return default.__name__
    kind: Any = type(default)
    if is_dataclass(default) and default == kind():
        return _registered_name(kind)
    return repr(default)


def _registered_name(part: type[Any]) -> str:
    for role in vars(registry).values():
        if isinstance(role, registry.Registry):
            for name, registered in role.items():
                if registered is part:
                    return name
    return f"{part.__name__}()"
