"""`understudy list`: all that a study can name, with its parameters."""

from __future__ import annotations

import difflib
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Annotated, Any

import typer

from understudy import registry
from understudy.commands import text


def list_parts(
    what: Annotated[str | None, typer.Argument(metavar="[KIND|NAME]", show_default=False)] = None,
) -> None:
    """List what a study can name, with parameters and their defaults.

    KIND is one of strategies, samplers, compensators, races, cutoffs,
    guards, aggregators, servers, local, rules, schedules, availability,
    chances, delays, data, partitions, models, losses, analyses, measures:
    describes each of its names. NAME is one of these names: describes it in full.
    Without either, all names are listed.

    understudy list
    understudy list samplers
    understudy list fdms
    """
    text.echo_lines(listing(what))


@dataclass(frozen=True)
class Section:
    """The names of one kind."""

    name: str
    singular: str
    words: str
    where: str  # module:NAME of the parts by name, imported when shown: that takes a while
    given: tuple[str, ...] = ()  # parameters that the simulator fills in

    def entries(self) -> Mapping[str, Any]:
        found = registry.imported(f"understudy.{self.where}")
        if self.name == "data":
            return {name: source.loader for name, source in found.items()}
        return found if isinstance(found, Mapping) else {self.name: found}


SECTIONS = (
    Section(
        "strategies",
        "strategy",
        "whole methods; each takes sampler, compensator, aggregator, server, local, guard and "
        "weighting besides",
        "registry:STRATEGIES",
        ("fields",),
    ),
    Section("samplers", "sampler", "which clients are wanted", "registry:SAMPLERS"),
    Section(
        "compensators", "compensator", "what represents absent clients", "registry:COMPENSATORS"
    ),
    Section("races", "race", "which pairs of clients fdms need not compare", "registry:RACES"),
    Section("cutoffs", "cutoff", "maximum age of an update that fedar uses", "registry:CUTOFFS"),
    Section("guards", "guard", "checks and clipping of arrivals", "registry:GUARDS"),
    Section(
        "aggregators", "aggregator", "how rows are combined into one update", "registry:AGGREGATORS"
    ),
    Section("servers", "server", "server optimizers", "registry:SERVERS"),
    Section("local", "local", "how clients train", "parts.local:Local"),
    Section("rules", "rule", "changes to local training", "registry:RULES"),
    Section("schedules", "schedule", "factor on a learning rate, by round", "registry:SCHEDULES"),
    Section(
        "availability", "availability mode", "which clients can be reached", "registry:AVAILABILITY"
    ),
    Section("chances", "chances", "each client's own p, for an availability", "registry:CHANCES"),
    Section("delays", "delay", "how long clients take, and which fail", "registry:DELAYS"),
    Section(
        "data",
        "data set",
        "data sets; `understudy doctor` shows which are installed",
        "simulation.data.sources:DATASETS",
        ("normalise", "seed"),
    ),
    Section(
        "partitions",
        "partition",
        "how examples are divided among clients",
        "simulation.data.partitions:PARTITIONS",
        ("labels", "rng"),
    ),
    Section(
        "models",
        "model",
        "the model that is trained",
        "simulation.data.models:MODELS",
        ("shape", "n_classes"),
    ),
    Section("losses", "loss", "what training minimises", "studies.definition.build.data:LOSSES"),
    Section(
        "analyses", "analysis", "computed from finished cells", "analysis:ANALYSES", ("run", "task")
    ),
    Section(
        "measures", "measure", "what a table or a plot can show, as --metric", "measures:MEASURES"
    ),
)


def listing(what: str | None = None, width: int = 80) -> Iterator[str]:
    """Lines: all about one name, the names of one kind with what each is, or all names in short."""
    if what is not None:
        section = _named(what)
        if section is None:
            yield from _found(what, width)
            return
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


def _named(kind: str) -> Section | None:
    """A section by its name, in the singular or the plural, with spaces or not."""
    wanted = kind.strip().lower().replace("-", " ").replace("_", " ")
    for section in SECTIONS:
        if wanted in (section.name, section.singular, f"{section.singular}s"):
            return section
    return None


def _found(name: str, width: int) -> Iterator[str]:
    """All about what has this name, in a study or in Python; a method and its part may share it."""
    wanted = _plain(name)
    found = [
        (section, known, part)
        for section in SECTIONS
        for known, part in section.entries().items()
        if wanted in (_plain(known), _plain(getattr(part, "__name__", "")))
    ]
    if not found:
        raise ValueError(_unknown(name))
    for position, (section, known, part) in enumerate(found):
        if position:
            yield ""
        yield f"{known}: {section.singular}"
        yield from _indented(_summary(part), width, 2)
        yield from _indented(", ".join(_parameters(section, part)), width, 2)
        yield from _explained(part, width)


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]", "", name).lower()


def _unknown(name: str) -> str:
    kinds = [section.name for section in SECTIONS]
    names = [known for section in SECTIONS for known in section.entries()]
    close = difflib.get_close_matches(name.lower(), [*kinds, *names], n=1)
    meant = f"did you mean {close[0]!r}? " if close else ""
    return f"unknown name {name!r}; {meant}kinds: {', '.join(kinds)}"


def _explained(part: Any, width: int) -> Iterator[str]:
    """The parameters in the words of the part's documentation."""
    written = "" if _is_measure(part) else inspect.getdoc(part) or ""
    found = re.search(r"^Parameters\n-+\n(.*?)(?=^\S[^\n]*\n-+\n|\Z)", written, re.M | re.S)
    if found is None:
        return
    yield ""
    for block in re.split(r"\n(?=\S)", found[1].rstrip().replace("`", "")):
        name, _, words = block.partition("\n")
        yield from _indented(name, width, 2)
        yield from _indented(" ".join(words.split()), width, 6)


def _indented(text: str, width: int, by: int) -> list[str]:
    return textwrap.wrap(text, width, initial_indent=" " * by, subsequent_indent=" " * by)


def _is_measure(part: Any) -> bool:
    from understudy.measures import Measure

    return isinstance(part, Measure)


def _summary(part: Any) -> str:
    """The first sentence of what the part says of itself, as plain text."""
    if _is_measure(part):
        return str(part.about)
    written = inspect.getdoc(part) or ""
    return " ".join(written.split("\n\n", maxsplit=1)[0].split()).replace("`", "")


def _parameters(section: Section, part: Any) -> Iterator[str]:
    if _is_measure(part):
        yield part.head
        if part.lower_is_better is not None:
            yield "lower is better" if part.lower_is_better else "higher is better"
        return
    if is_dataclass(part):
        instead = {item.metadata.get("or") for item in fields(part)}
        for item in fields(part):
            if item.name in instead:
                continue
            if "or" in item.metadata:  # one of the two has to be given
                yield f"{item.name} or {item.metadata['or']}"
                continue
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
    if is_dataclass(default) and _has_defaults(kind) and default == kind():
        return _registered_name(kind)
    return repr(default)


def _has_defaults(kind: Any) -> bool:
    """Whether a part can do without any setting: of two, one may have to be given."""
    return not any(
        "or" in item.metadata or (item.default is MISSING and item.default_factory is MISSING)
        for item in fields(kind)
    )


def _registered_name(part: type[Any]) -> str:
    for role in vars(registry).values():
        if isinstance(role, registry.Registry):
            for name, registered in role.items():
                if registered is part:
                    return name
    return f"{part.__name__}()"
