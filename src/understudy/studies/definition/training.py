"""Whether the strategies of a study train their clients alike; if not, a comparison is not fair."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from understudy.core.describe import describe
from understudy.studies.definition.axes import settles
from understudy.studies.definition.build import methods
from understudy.studies.definition.cell import Label
from understudy.studies.definition.identity import settled

RULE = "rule"  # a method's own: FedProx's term, SCAFFOLD's variates

Labels = Mapping[str, Label]
Kept = Mapping[str, Mapping[str, Sequence[str]]]  # strategy → key → its own value, the study's


def training_differences(
    cells: Iterable[tuple[Labels, Mapping[str, Any]]], kept: Kept | None = None
) -> str | None:
    """In words, what differs between strategies that stand in one group of a table.

    Parameters
    ----------
    cells : iterable of pairs
        A cell's labels, and its resolved configuration.
    kept : mapping, optional
        What `kept_local` found: the study's own `local` is then not how these train.

    Returns
    -------
    str or None
        None where all strategies of each group train alike, as the study says.
    """
    sentences = [_between_strategies(cells), f"{kept_in_words(kept)}." if kept else None]
    return " ".join(one for one in sentences if one) or None


def kept_local(
    strategies: Mapping[str, Any], local: Any, varied: Iterable[str] = ()
) -> dict[str, dict[str, tuple[str, str]]]:
    """Where strategies given as objects keep a local training that is not the study's.

    Parameters
    ----------
    strategies : mapping
        Label → what the study says of a strategy.
    local : mapping or str
        The study's own.
    varied : iterable of str
        Keys such as ``"local.lr"`` that reach all strategies: axes, and what is tuned.

    Returns
    -------
    dict
        Label → key → its own value and the study's, in words.
    """
    if local == methods.PAPER:
        return {}
    given = dict(methods.local_table(local))
    if "epochs" in given:
        given.setdefault("steps", None)  # those of the object would win
    known = {key for key in given if f"local.{key}" not in set(varied)}
    found: dict[str, dict[str, tuple[str, str]]] = {}
    for label, value in strategies.items():
        if not methods.given_as_object(value):
            continue
        made = methods.strategy(value)
        own = _in_words(describe(settled(made.local)))
        asked = _in_words(describe(settled(methods.study_local(made, local))))
        differing = {
            key: (own.get(key, "none"), asked.get(key, "none"))
            for key in sorted(known)
            if own.get(key) != asked.get(key) and not settles(value, key)
        }
        if differing:
            found[label] = differing
    return found


def kept_in_words(kept: Kept) -> str:
    """What `kept_local` found, without a full stop."""
    together: dict[tuple[str, str, str], list[str]] = {}
    for label, keys in kept.items():
        for key, (own, asked) in keys.items():
            together.setdefault((key, own, asked), []).append(label)
    parts = [
        f"{key} is {own} ({', '.join(labels)}), not {asked}"
        for (key, own, asked), labels in sorted(together.items())
    ]
    words = "Strategies given as objects keep their own local training instead of the study's"
    return f"{words}: {'; '.join(parts)}"


def _between_strategies(cells: Iterable[tuple[Labels, Mapping[str, Any]]]) -> str | None:
    distinct = {tuple(labels.items()): (labels, resolved) for labels, resolved in cells}
    trained = [(labels, _trained(resolved)) for labels, resolved in distinct.values()]
    found: dict[str, dict[str, dict[str, None]]] = {}  # key → value → strategies
    for labels, local in trained:
        for others, other in trained:
            if not _in_one_group(labels, others):
                continue
            for key in local.keys() | other.keys():
                if local.get(key) != other.get(key):
                    by_value = found.setdefault(key, {})
                    by_value.setdefault(local.get(key, "none"), {})[str(labels["strategy"])] = None
    if not found:
        return None
    parts = []
    for key in sorted(found):
        values = [f"{value} ({', '.join(names)})" for value, names in found[key].items()]
        parts.append(f"{key} is {', '.join(values[:-1])} and {values[-1]}")
    return f"Local training differs: {'; '.join(parts)}."


def _trained(resolved: Mapping[str, Any]) -> dict[str, str]:
    """How a cell's clients train, each setting in words, but for the method's own."""
    words = _in_words(resolved.get("strategy", {}).get("local", {}))
    return {key: word for key, word in words.items() if key != RULE}


def _in_words(local: Mapping[str, Any]) -> dict[str, str]:
    """Each setting of a described `Local`."""
    if local:
        local = {"optimizer": "sgd", **local}  # not told where it is the default
    return {key: _word(value) for key, value in local.items() if key != "class"}


def _in_one_group(labels: Labels, others: Labels) -> bool:
    """Whether two strategies are compared; a label None means "in every group"."""
    if labels["strategy"] == others["strategy"]:
        return False
    for name in labels.keys() | others.keys():
        mine, theirs = labels.get(name), others.get(name)
        if name != "strategy" and mine != theirs and None not in (mine, theirs):
            return False
    return True


def _word(value: Any) -> str:
    if isinstance(value, Mapping):
        settings = [f"{key}={_word(item)}" for key, item in value.items() if key != "class"]
        return f"{value.get('class', '')}({', '.join(settings)})"
    return f"{value:g}" if isinstance(value, float) else str(value)
