"""Whether the strategies of a study train their clients alike; if not, a comparison is not fair."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from understudy.studies.definition.cell import Label

RULE = "rule"  # a method's own: FedProx's term, SCAFFOLD's variates

Labels = Mapping[str, Label]


def training_differences(cells: Iterable[tuple[Labels, Mapping[str, Any]]]) -> str | None:
    """In a sentence, what differs between strategies that stand in one group of a table.

    Parameters
    ----------
    cells : iterable of pairs
        A cell's labels, and its resolved configuration.

    Returns
    -------
    str or None
        None where all strategies of each group train alike.
    """
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
    """How a cell's clients train, each setting in words."""
    local = resolved.get("strategy", {}).get("local", {})
    if local:
        local = {"optimizer": "sgd", **local}  # not told where it is the default
    return {key: _word(value) for key, value in local.items() if key not in ("class", RULE)}


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
