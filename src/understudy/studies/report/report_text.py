"""A study's setting in words: from the resolved configurations of its cells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from understudy.studies.definition.differences import (
    RULE,
    differences,
    first_of,
    in_a_sentence,
    quoted,
)
from understudy.studies.definition.training import kept_in_words
from understudy.studies.statistics.text_table import label_word
from understudy.studies.store.store import StoredCell, StoredStudy

MISSING = object()  # in place of a key that only some descriptions have


def settings_in_words(
    study: StoredStudy, cells: Sequence[StoredCell], configured: Mapping[str, Mapping[str, Any]]
) -> list[tuple[str, str]]:
    """(subject, sentence) pairs.

    Parameters
    ----------
    study
        What the study says of itself.
    cells
        All its cells.
    configured
        Key of a cell to its configuration, for those that have begun.
    """
    about, resolved = study.about, list(configured.values())
    known = [cell for cell in cells if cell.facts]
    # a reference with all data in one place is told among the strategies
    divided = [cell for cell in known if not configured.get(cell.key, {}).get("pooled")]
    facts = [cell.facts for cell in divided or known]
    told = [
        ("Data", _data(facts, resolved)),
        ("Model", _model(facts, resolved)),
        ("Local training", _local_training(study, cells, configured)),
        ("Weighting", _weighting(cells, configured)),
        *_availability(cells, configured),
        ("Rounds", _rounds(resolved)),
        ("Seeds", _seeds(cells)),
        ("Varied", _axes(about)),
        ("Baseline", str(about.get("baseline") or "")),
        ("Target", f"test accuracy {100 * about['target']:.4g} %" if about.get("target") else ""),
        ("Scale", str(about.get("scale") or "")),
        ("Tuned", _tuned(study)),
        ("Analyses", ", ".join(_distinct(chain(*_told(resolved, "analysis"))))),
    ]
    return [(subject, sentence) for subject, sentence in told if sentence]


def sentence(words: str | None) -> str | None:
    """Words as a sentence: a capital at the beginning (not of a symbol), a full stop."""
    if not words:
        return None
    first = words[0].upper() if words[0].isascii() else words[0]
    return first + words[1:] + ("" if words[-1] in ".!?…" else ".")


def merged(descriptions: Sequence[Any]) -> Any:
    """Several descriptions as one: where they differ, all that is found there."""
    first = descriptions[0]
    if all(one == first for one in descriptions):
        return first
    if all(isinstance(one, Mapping) and one.get("class") == _class(first) for one in descriptions):
        names = dict.fromkeys(name for one in descriptions for name in one)
        return {
            name: merged([one.get(name, MISSING) for one in descriptions if one is not MISSING])
            for name in names
        }
    return _Several(_distinct(in_words(one) for one in descriptions if one is not MISSING))


def in_words(description: Any) -> str:
    """A description as `describe` makes it, short: what is None is left out."""
    if isinstance(description, Mapping):
        settings = ", ".join(
            f"{name} = {in_words(value)}"
            for name, value in description.items()
            if name != "class" and value is not None
        )
        kind = description.get("class")
        if kind == "Strategy":
            return settings
        return f"{kind}({settings})" if kind and settings else str(kind or f"{{{settings}}}")
    if isinstance(description, _Several):
        return " | ".join(description)
    if isinstance(description, list):
        return f"[{', '.join(in_words(quoted(item)) for item in description)}]"
    return label_word(description)


class _Several(tuple[str, ...]):
    """Alternatives, in words."""


def _class(description: Any) -> Any:
    return description.get("class") if isinstance(description, Mapping) else None


def _data(facts: Sequence[Mapping[str, Any]], resolved: Sequence[Mapping[str, Any]]) -> str:
    if not facts:
        return ""
    parts = [_either(one.get("data") or "own data" for one in facts)]
    divided = _distinct(
        str(one["partition"]) for one in _told(resolved, "data") if one.get("partition")
    )
    if divided:
        parts[0] += f", divided as {' or '.join(divided)}"
    left = [len(one.get("left") or ()) for one in facts]  # in live runs: numbers nobody has now
    present = [one["n_clients"] - n for one, n in zip(facts, left, strict=True)]
    parts.append(f"{_either(present)} clients")
    sizes = [n for one in facts for n in one.get("sizes") or () if n is not None]
    if sizes:
        low, high = f"{min(sizes):,.0f}", f"{max(sizes):,.0f}"
        parts[-1] += f" with {low if low == high else f'{low} to {high}'} training examples each"
    if any(left):
        parts[-1] += f" ({max(left)} numbers of clients that left or were matched are not counted)"
    clusters = _distinct(str(len(set(one["groups"]))) for one in facts if one.get("groups"))
    if clusters not in ([], ["1"]):
        parts.append(f"{' or '.join(clusters)} clusters")
    classes = _distinct(str(one["n_classes"]) for one in facts if one.get("n_classes"))
    if classes:
        parts.append(f"{' or '.join(classes)} classes")
    return "; ".join(parts)


def _model(facts: Sequence[Mapping[str, Any]], resolved: Sequence[Mapping[str, Any]]) -> str:
    if not resolved:
        return ""
    sizes = _distinct(f"{one['n_parameters']:,}" for one in facts if one.get("n_parameters"))
    named = " or ".join(_distinct(map(_model_name, _told(resolved, "model"))))
    return f"{named}; {' or '.join(sizes)} parameters" if sizes else named


def _model_name(model: Any) -> str:
    if isinstance(model, Mapping) and "name" in model:
        settings = {key: value for key, value in model.items() if key != "name"}
        return in_words({"class": model["name"], **settings})
    if isinstance(model, Mapping):
        return str(model.get("class", "own module"))
    return str(model)


def _local_training(
    study: StoredStudy, cells: Sequence[StoredCell], configured: Mapping[str, Mapping[str, Any]]
) -> str:
    """The same for all strategies, or where it differs."""
    trained = _told(_told(list(configured.values()), "strategy"), "local")
    if not trained:
        return ""
    shared = merged([{name: one[name] for name in one if name != RULE} for one in trained])
    words = in_words({name: value for name, value in shared.items() if name != "class"})
    words = words.removeprefix("{").removesuffix("}")
    pairs = [(cell.labels, configured[cell.key]) for cell in cells if cell.key in configured]
    baseline = study.about.get("baseline")
    first = first_of((labels for labels, _ in pairs), baseline) or ""
    found = [one for one in differences(pairs, first) if one.key.startswith("local.")]
    others = list(dict.fromkeys(one.strategy for one in found))
    kept = study.about.get("kept_local")
    told = [
        in_a_sentence(found, first, others, is_first=first != baseline),
        f"{kept_in_words(kept)}." if kept else None,
    ]
    return " ".join([f"{words}.", *(one for one in told if one)])


def _weighting(cells: Sequence[StoredCell], configured: Mapping[str, Mapping[str, Any]]) -> str:
    """What clients weigh, under which strategies: the objective."""
    found: dict[str, dict[str, None]] = {}
    for cell in cells:
        strategy = configured.get(cell.key, {}).get("strategy")
        told = strategy.get("weighting") if isinstance(strategy, Mapping) else None
        if told is not None:
            found.setdefault(str(told), {})[str(cell.labels["strategy"])] = None
    if len(found) == 1:
        return next(iter(found))
    return "; ".join(f"{word} ({', '.join(labels)})" for word, labels in found.items())


def _availability(
    cells: Sequence[StoredCell], configured: Mapping[str, Mapping[str, Any]]
) -> list[tuple[str, str]]:
    """What each availability mode stands for; cells without one have theirs by strategy."""
    found: dict[str, list[Any]] = {}
    for cell in cells:
        mode = cell.labels.get("availability")
        told = configured.get(cell.key, {}).get("availability")
        if mode is not None and told is not None:
            found.setdefault(f"Availability {label_word(mode)}", []).append(told)
    if found:
        return [(mode, in_words(merged(own))) for mode, own in found.items()]
    own = _told(list(configured.values()), "availability")
    return [("Availability", in_words(merged(own)))] if own else []


def _rounds(resolved: Sequence[Mapping[str, Any]]) -> str:
    if not resolved:
        return ""
    words = _either(_told(resolved, "rounds"))
    every = _distinct(map(str, _told(resolved, "evaluate_every")))
    words = words if every in ([], ["1"]) else f"{words}, evaluated every {' or '.join(every)}"
    models = _distinct(map(str, _told(resolved, "evaluate_mean_of")))
    if models:
        words += f", evaluated as the mean of the last {' or '.join(models)} models"
    return words


def _seeds(cells: Sequence[StoredCell]) -> str:
    seeds = sorted({cell.seed for cell in cells})
    if len(seeds) > 2 and seeds == list(range(seeds[0], seeds[-1] + 1)):
        words = f"{seeds[0]} to {seeds[-1]}"
    else:
        words = ", ".join(map(str, seeds))
    return f"{words}; the same absences and batches for all strategies"


def _axes(about: Mapping[str, Any]) -> str:
    axes = about.get("axes") or {}
    if not isinstance(axes, Mapping):
        return ""
    return "; ".join(
        f"{name} = {', '.join(label_word(level) for level in levels)}"
        for name, levels in axes.items()
    )


def _tuned(study: StoredStudy) -> str:
    tune = study.about.get("tune")
    if tune is None:
        return ""
    keys = " and ".join(study.tuned)
    return f"{keys} for each strategy by {tune['metric']}, with seeds {in_words(tune['seeds'])}"


def _told(resolved: Sequence[Mapping[str, Any]], name: str) -> list[Any]:
    """A part of each configuration, where it is told: not all that were stored have all parts."""
    return [one[name] for one in resolved if one.get(name) is not None]


def _either(values: Iterable[Any]) -> str:
    """Distinct values; of many numbers the smallest and the largest."""
    words = _distinct(str(value) for value in values)
    return " or ".join(words) if len(words) <= 4 else f"{words[0]} … {words[-1]}"


def _distinct(words: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(words))
