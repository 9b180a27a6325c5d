"""What the rows of a comparison differ in, from their resolved configurations."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from typing import Any, NamedTuple

from understudy import registry
from understudy.core.describe import describe
from understudy.parts.local import Local
from understudy.parts.samplers.uniform import DEFAULT_SHARE, count_of
from understudy.server.strategy import Strategy
from understudy.server.weights import EXAMPLES
from understudy.simulation.settings import Simulation
from understudy.studies.definition.cell import Label

Labels = Mapping[str, Label]
RULE = "rule"  # a method's own: FedProx's term, SCAFFOLD's variates
ASKED = "clients asked"  # what a sampler's m comes to: rows differ in it whatever their samplers
METHOD = ("compensator", "sampler", f"local.{RULE}")  # what a method is; all else is not
# the seed is the same in a pair; three measure only; sources are told by what they define
UNTOLD = ("seed", "analysis", "oracle", "per_client_every", "sources")
LONGEST = 120  # characters of a value
MOST_VALUES = 3  # of one setting, over the groups of a study
MOST_NAMES = 3  # in brackets, where all other rows are meant
_HASH = re.compile(r"\b([0-9a-f]{8})(?:[0-9a-f]{8,}| [0-9a-f]{64})\b")


@dataclasses.dataclass(frozen=True)
class Settings:
    """A configuration as dotted keys, as in a study's file."""

    values: dict[str, str]  # key → value in words; of a part its class, beside its settings
    parts: dict[str, str]  # key of a part → its class with all settings


class Difference(NamedTuple):
    """A setting in which a strategy differs from the one that others are compared with."""

    strategy: str
    key: str
    own: str
    other: str

    @property
    def is_the_method(self) -> bool:
        """Whether it is what the strategy is, and not how it is run."""
        return _within(self.key, METHOD)


def differences(
    cells: Iterable[tuple[Labels, Mapping[str, Any]]],
    baseline: str | None = None,
    told: Collection[str] = (),
) -> list[Difference]:
    """Every setting in which strategies differ from the baseline, in groups they share.

    Parameters
    ----------
    cells : iterable of pairs
        A cell's labels, and its resolved configuration; parts of it may be missing.
    baseline : str, optional
        Label of a strategy; by default, and where it has no cell, the first.
    told : collection of str
        Keys that are told elsewhere, such as those that were tuned.
    """
    distinct: dict[tuple[Any, ...], tuple[Labels, Settings]] = {}
    for labels, resolved in cells:
        place = tuple(labels.items())
        if place not in distinct:  # seeds differ in nothing else
            distinct[place] = labels, settings_of(resolved)
    rows = list(distinct.values())
    baseline = first_of((labels for labels, _ in rows), baseline)
    found: dict[tuple[str, str], tuple[dict[str, None], dict[str, None]]] = {}
    for labels, own in rows:
        for others, other in rows:
            if others["strategy"] != baseline or not _in_one_group(labels, others):
                continue
            for key in _differing(own, other):
                if not _within(key, told):
                    mine, theirs = found.setdefault((str(labels["strategy"]), key), ({}, {}))
                    mine[str(_value(own, key))] = None
                    # of another part its class will do
                    theirs[other.values.get(key) or str(_value(other, key))] = None
    return [
        Difference(strategy, key, _either(mine), _either(theirs))
        for (strategy, key), (mine, theirs) in found.items()
    ]


def first_of(labels: Iterable[Labels], baseline: str | None) -> str | None:
    """The baseline, or the first strategy where it has no cell."""
    names = list(dict.fromkeys(str(one["strategy"]) for one in labels))
    return baseline if baseline in names else next(iter(names), None)


def in_a_sentence(
    found: Sequence[Difference], baseline: str, others: Sequence[str], *, is_first: bool = False
) -> str | None:
    """What rows differ in besides their method; None where they do not.

    `found` are differences from `baseline`, the strategy that all `others` are compared with, or
    only the first row (`is_first`); those that are the method itself are left out.
    """
    together: dict[tuple[str, str, str], list[str]] = {}
    for one in found:
        if not one.is_the_method and one.strategy in others:
            together.setdefault((one.key, one.own, one.other), []).append(one.strategy)
    if not together:
        return None
    parts: dict[str, list[str]] = {}
    for (key, own, other), names in sorted(together.items(), key=lambda item: item[0][0]):
        all_others = len(names) > MOST_NAMES and set(names) == set(others)
        who = "all other rows" if all_others else ", ".join(names)
        parts.setdefault(f"{key}\n{other}", []).append(f"{own} ({who})")
    words = []
    for place, values in parts.items():
        key, other = place.split("\n")
        words.append(f"{key} = {', '.join(values)}, not {other}")
    base = f"{baseline}, the first row," if is_first else baseline
    return f"Rows differ from {base} in more than the method: {'; '.join(words)}."


# -- a configuration as settings -------------------------------------------------------------------


def settings_of(resolved: Mapping[str, Any]) -> Settings:
    """A resolved configuration as dotted keys: ``server`` and ``server.lr``."""
    found = Settings({}, {})
    for name, value in resolved.items():
        if name == "strategy" and isinstance(value, Mapping):
            for part, given in value.items():
                if part != "class":
                    _put(found, part, given)
        elif name not in UNTOLD:
            _put(found, name, value)
    found.values.pop("data.client_tests", None)  # measures only
    data, seed = resolved.get("data"), resolved.get("seed")
    if isinstance(data, Mapping) and data.get("seed") == seed:
        found.values.pop("data.seed", None)  # divided anew in each run
    n_clients = data.get("n_clients") if isinstance(data, Mapping) else None
    strategy = resolved.get("strategy")
    sampler = strategy.get("sampler") if isinstance(strategy, Mapping) else None
    asked = _asked(sampler, n_clients if isinstance(n_clients, int) else None)
    if asked is not None:
        found.values[ASKED] = asked
    if _draws_by_examples(sampler):  # a plain mean of them has the same objective
        found.values["weighting"] = EXAMPLES
    return found


def _draws_by_examples(sampler: Any) -> bool:
    """Whether a described sampler picks clients in proportion to their examples."""
    if not isinstance(sampler, Mapping):
        return False
    by_name = sampler.get("class") == "ByData"
    if sampler.get("class") == "PowerOfChoice":
        by_name = sampler.get("candidates") is not None
    return by_name or _draws_by_examples(sampler.get("inner"))


def _put(found: Settings, key: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        found.values[key] = in_words(value)
        return
    if "class" in value:
        found.values[key], found.parts[key] = str(value["class"]), in_words(value)
    for name, inner in value.items():
        if name != "class":
            _put(found, f"{key}.{name}", inner)


def _asked(sampler: Any, n_clients: int | None) -> str | None:
    """How many clients a sampler asks, in words; None where only its class knows."""
    if not isinstance(sampler, Mapping):
        return None
    if sampler.get("class") == "Everyone":
        return "all"
    if "m" not in sampler:
        return _asked(sampler.get("inner"), n_clients)
    m = sampler["m"]
    if n_clients is not None:
        count = count_of(m, n_clients)
        return "all" if count >= n_clients else f"{count} of {n_clients}"
    return str(m) if isinstance(m, int) else f"{100 * (m or DEFAULT_SHARE):g} %"


def quoted(item: Any) -> Any:
    """An item of a list; a text with a comma, such as a client's name, would look like two."""
    return f'"{item}"' if isinstance(item, str) and "," in item else item


def in_words(value: Any) -> str:
    """A described value, short."""
    if isinstance(value, Mapping):
        settings = ", ".join(
            f"{key}={in_words(item)}"
            for key, item in value.items()
            if key != "class" and item is not None
        )
        text = f"{value.get('class', '')}({settings})" if settings else str(value.get("class", {}))
    elif isinstance(value, bool) or value is None:
        text = {True: "on", False: "off", None: "none"}[value]
    elif isinstance(value, list):
        text = f"[{', '.join(in_words(quoted(item)) for item in value)}]"
    else:
        text = f"{value:g}" if isinstance(value, float) else str(value)
    text = _HASH.sub(r"\1…", " ".join(text.split()))
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


# -- two of them -----------------------------------------------------------------------------------


def _in_one_group(labels: Labels, others: Labels) -> bool:
    """Whether two strategies are compared; a label None means "in every group"."""
    if labels["strategy"] == others["strategy"]:
        return False
    for name in labels.keys() | others.keys():
        mine, theirs = labels.get(name), others.get(name)
        if name != "strategy" and mine != theirs and None not in (mine, theirs):
            return False
    return True


def _differing(own: Settings, other: Settings) -> list[str]:
    """Keys with different values; of parts of different classes the part alone."""
    changed = {key for key, _ in own.values.items() ^ other.values.items()}
    outer = [key for key in changed if not any(_within(key, {name}) for name in changed - {key})]
    values = {key: (_value(own, key), _value(other, key)) for key in outer}
    return sorted(key for key, (a, b) in values.items() if a != b and None not in (a, b))


def _value(own: Settings, key: str) -> str | None:
    """What a key is; where a part does not tell it, its default; None: nothing is known of it."""
    if key in own.values:
        return own.parts.get(key, own.values[key])
    outer, _, name = key.rpartition(".")
    default = _default(own.values.get(outer), name)
    if default is not None or not any(_within(known, {outer}) for known in own.values):
        return default
    return in_words(None)


@cache
def _default(part: str | None, name: str) -> str | None:
    """Of a setting that is not told: it came later than what was stored, and has its default."""
    classes: list[Any] = [Strategy, Simulation] if part is None else []
    if part is not None:
        classes = [registry.public(part)] if part in registry.PUBLIC else [Local][part != "Local" :]
    for item in (item for cls in classes if dataclasses.is_dataclass(cls) for item in fields(cls)):
        if item.metadata.get("described_as", item.name) == name and "added" in item.metadata:
            default = item.default
            if item.default_factory is not dataclasses.MISSING:
                default = item.default_factory()
            return in_words(describe(item.metadata.get("before", default)))
    return None


def _within(key: str, places: Collection[str]) -> bool:
    return any(key == place or key.startswith(f"{place}.") for place in places)


def _either(values: Iterable[str]) -> str:
    """Values over groups, in words; of many, parts by their classes."""
    words = list(dict.fromkeys(values))
    if len(words) > MOST_VALUES:
        words = list(dict.fromkeys(word.partition("(")[0] for word in words))
    shown = words if len(words) <= MOST_VALUES else [words[0], "…", words[-1]]
    return " or ".join(shown) if "…" not in shown else " ".join(shown)
