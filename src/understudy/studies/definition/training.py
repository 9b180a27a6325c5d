"""Whether strategies given as objects train their clients as the study says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from understudy.core.describe import describe
from understudy.studies.definition.axes import settles
from understudy.studies.definition.build import methods
from understudy.studies.definition.differences import in_words
from understudy.studies.definition.identity import with_float_fields

Kept = Mapping[str, Mapping[str, Sequence[str]]]  # strategy → key → its own value, the study's


def kept_local(
    strategies: Mapping[str, Any],
    local: Any,
    varied: Iterable[str] = (),
    weighting: str = methods.PAPER,
) -> dict[str, dict[str, tuple[str, str]]]:
    """Where strategies given as objects keep a local training that is not the study's `local`.

    By label and key: its own value and the study's, in words. A weighting too, under the key of
    that name. Keys in `varied`, such as ``"local.lr"``, reach all strategies: axes, and what is
    tuned.
    """
    given = {} if local == methods.PAPER else dict(methods.local_table(local))
    if "epochs" in given:
        given.setdefault("steps", None)  # those of the object would win
    varied = set(varied)
    known = {key for key in given if f"local.{key}" not in varied}
    found: dict[str, dict[str, tuple[str, str]]] = {}
    for label, value in strategies.items():
        if not methods.given_as_object(value):
            continue
        made = methods.strategy(value)
        own = _in_words(describe(with_float_fields(made.local)))
        asked = _in_words(describe(with_float_fields(methods.study_local(made, given))))
        differing = {
            key: (own.get(key, "none"), asked.get(key, "none"))
            for key in sorted(known)
            if own.get(key) != asked.get(key) and not settles(value, key)
        }
        if weighting != methods.PAPER and "weighting" not in varied and not _weighs(value):
            alike = replace(made, weighting=methods.study_weighting(weighting))
            if alike.weighting != made.weighting:
                differing["weighting"] = (made.weighting, alike.weighting)
        if differing:
            found[label] = differing
    return found


def _weighs(value: Any) -> bool:
    """Whether a table around an object says itself what clients weigh."""
    return isinstance(value, Mapping) and "weighting" in value


def kept_in_words(kept: Kept) -> str:
    """What `kept_local` found, as a sentence without a full stop."""
    together: dict[tuple[str, str, str], list[str]] = {}
    for label, keys in kept.items():
        for key, (own, asked) in keys.items():
            together.setdefault((key, own, asked), []).append(label)
    parts = [
        f"{key} is {own} ({', '.join(labels)}), not {asked}"
        for (key, own, asked), labels in sorted(together.items())
    ]
    words = "Strategies given as objects keep their own settings instead of the study's"
    return f"{words}: {'; '.join(parts)}"


def _in_words(local: Mapping[str, Any]) -> dict[str, str]:
    """Each setting of a described `Local`."""
    if local:
        local = {"optimizer": "sgd", **local}  # not told where it is the default
    return {key: in_words(value) for key, value in local.items() if key != "class"}
