"""What the papers claim, read from ``claims.toml``: contrasts that runs can decide.

Everything is checked on reading: a key that means nothing, a kind without its sides, a claim
without contrasts are errors that name the claim and the key.
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from understudy.core.suggestions import suggestion

Value = str | float | bool
QUANTIFIERS = ("all", "most", "best")
BETTER = ("higher", "lower")
POINTS = 0.02  # tolerance of a value: two points
RELATIVE = 0.10  # of the paper's own value, for losses and F1
CURVE_METRIC = "rounds_to_target"  # told from the curve, with the claim's own target
# kind: keys that it needs, keys that it may have
KINDS = {
    "order": (("A", "B"), ("factor", "margin", "of_paper")),
    "trend": (("A", "B", "to", "from"), ()),
    "near": (("A", "B"), ("within",)),
    "value": (("A", "paper"), ("B", "as", "tolerance")),
}
AS = ("difference", "ratio")
NUMBERS = ("factor", "margin", "within", "paper", "tolerance")
NEEDED = ("id", "place", "words", "study", "metric", "quantifier", "contrasts")
OPTIONAL = (
    "block",
    "better",
    "over",
    "target",
    "fixed",
    "readings",
    "withdrawn",
    "ruled_out",
    "changed",
    "reading",
    "rounds",
    "at_end",
    "all_rounds",
)
MEAN, END = "accuracy_mean", "accuracy_last10"  # over the rounds, and at their end


class ClaimError(ValueError):
    """A claim that cannot be read."""


@dataclass(frozen=True)
class Pick:
    """Cells by their labels; those with no value for a label are of every group."""

    labels: Mapping[str, Value] = field(default_factory=dict)
    study: str = ""
    metric: str = ""

    def __str__(self) -> str:
        words = [str(value) if name == "strategy" else f"{name} {value}" for name, value in
                 self.labels.items()]  # fmt: skip
        return ", ".join(words)


Side = Pick | float


@dataclass(frozen=True)
class Contrast:
    """One number per seed, positive = the claim; `verdicts` has the formulas of the kinds.

    The sides of a trend are A and B at `to`, then A and B at `from`.
    """

    kind: str
    sides: tuple[Side, ...]  # A, B, …
    factor: float = 1.0
    margin: float = 0.0
    within: float = POINTS  # of near
    paper: float = 0.0
    tolerance: float = 0.0
    told_as: str = ""  # of a value with B: "difference" or "ratio"
    of_paper: bool = False  # ours are to meet a number of the paper: always so of a value

    @property
    def picks(self) -> tuple[Pick, ...]:
        return tuple(side for side in self.sides if isinstance(side, Pick))


@dataclass(frozen=True)
class Claim:
    """A claim of a paper."""

    id: str
    place: str
    words: str
    study: str
    metric: str
    quantifier: str
    contrasts: tuple[Contrast, ...]
    block: str | None = None
    better: str = "higher"
    target: float | None = None
    fixed: str = ""
    readings: tuple[str, ...] = ()
    withdrawn: str = ""  # why it is not judged
    ruled_out: str = ""  # what is not the reason, where it was not reproduced
    changed: str = ""  # after its runs had been seen
    rounds: int | None = None  # levels over the first so many
    at_end: bool = False  # judged at the end of the rounds, though the mean is shown too
    all_rounds: str = ""  # why shorter runs cannot decide it
    reading: bool = False  # one of ours, beside the paper's: judged and shown, not counted

    @property
    def sign(self) -> float:
        return -1.0 if self.better == "lower" else 1.0

    @property
    def studies(self) -> tuple[str, ...]:
        """The studies whose cells decide it."""
        picks = (pick for contrast in self.contrasts for pick in contrast.picks)
        return tuple(dict.fromkeys(pick.study for pick in picks))

    def at_the_end(self) -> Claim | None:
        """The same of the end of the rounds, where it is on their mean; None: it is not."""
        compared = [side for contrast in self.contrasts for side in contrast.sides]
        picks = [side for side in compared if isinstance(side, Pick) and side.metric == MEAN]
        if self.metric != MEAN or len(picks) < len(compared):
            return None
        if any(contrast.margin for contrast in self.contrasts):
            return None
        contrasts = [
            replace(one, sides=tuple(replace(pick, metric=END) for pick in one.picks))
            for one in self.contrasts
        ]
        return replace(self, metric=END, contrasts=tuple(contrasts))


def read_claims(path: str | Path) -> tuple[Claim, ...]:
    """The claims of a file, in its order."""
    with open(path, "rb") as file:
        try:
            table = tomllib.load(file)
        except tomllib.TOMLDecodeError as error:
            raise ClaimError(f"{path}: {error}") from error
    _known(f"{path}", table, ("claim",))
    claims = tuple(claim_of(entry) for entry in table.get("claim", []))
    seen: set[str] = set()
    for claim in claims:
        if claim.id in seen:
            raise ClaimError(f"{claim.id}: there are two claims of this id")
        seen.add(claim.id)
    return claims


def claim_of(entry: Mapping[str, Any]) -> Claim:
    """A claim from its table."""
    name = str(entry.get("id", "a claim without id"))
    _known(name, entry, (*NEEDED, *OPTIONAL))
    for key in NEEDED:
        if key not in entry:
            raise ClaimError(f"{name}: {key}: expected a value, got none")
    for key in (
        "id",
        "place",
        "words",
        "study",
        "metric",
        "quantifier",
        "block",
        "better",
        "fixed",
        "withdrawn",
        "ruled_out",
        "changed",
        "all_rounds",
    ):
        if key in entry and not isinstance(entry[key], str):
            raise ClaimError(f"{name}: {key}: expected a text, got {entry[key]!r}")
    for key in ("reading", "at_end"):
        if not isinstance(entry.get(key, False), bool):
            raise ClaimError(f"{name}: {key}: expected true or false, got {entry[key]!r}")
    _one_of(name, "quantifier", entry["quantifier"], QUANTIFIERS)
    _one_of(name, "better", entry.get("better", "higher"), BETTER)
    target = entry.get("target")
    if (entry["metric"] == CURVE_METRIC) != (target is not None):
        raise ClaimError(f"{name}: target: expected exactly with the metric {CURVE_METRIC!r}")
    if not entry["contrasts"]:
        raise ClaimError(f"{name}: contrasts: expected at least one, got none")
    shared: dict[str, Value] = {"block": entry["block"]} if "block" in entry else {}
    contrasts = [
        contrast
        for labels in _combinations(name, entry.get("over", {}))
        for table in entry["contrasts"]
        for contrast in _contrasts(name, table, shared | labels, entry["study"], entry["metric"])
    ]
    return Claim(
        id=entry["id"],
        place=entry["place"],
        words=entry["words"],
        study=entry["study"],
        metric=entry["metric"],
        quantifier=entry["quantifier"],
        contrasts=tuple(contrasts),
        block=entry.get("block"),
        better=entry.get("better", "higher"),
        target=None if target is None else _number(name, "target", target),
        fixed=entry.get("fixed", ""),
        readings=tuple(entry.get("readings", ())),
        withdrawn=entry.get("withdrawn", ""),
        ruled_out=entry.get("ruled_out", ""),
        changed=entry.get("changed", ""),
        reading=entry.get("reading", False),
        at_end=entry.get("at_end", False),
        all_rounds=entry.get("all_rounds", ""),
        rounds=None if "rounds" not in entry else int(_number(name, "rounds", entry["rounds"])),
    )


def _combinations(name: str, over: Any) -> Iterator[dict[str, Value]]:
    if not isinstance(over, Mapping) or not all(isinstance(v, list) and v for v in over.values()):
        raise ClaimError(f"{name}: over: expected labels with lists of values, got {over!r}")
    for values in itertools.product(*over.values()):
        yield dict(zip(over, values, strict=True))


def _contrasts(
    name: str, table: Mapping[str, Any], shared: dict[str, Value], study: str, metric: str
) -> Iterator[Contrast]:
    """One contrast for each combination of sides."""
    kind = table.get("kind")
    _one_of(name, "kind", kind, tuple(KINDS))
    needed, optional = KINDS[str(kind)]
    _known(f"{name}: {kind}", table, ("kind", *needed, *optional))
    for key in needed:
        if key not in table:
            raise ClaimError(f"{name}: {kind}: {key}: expected a value, got none")
    if kind == "value" and ("B" in table) != ("as" in table):
        raise ClaimError(f"{name}: value: as: expected exactly where there is a B")
    names = [key for key in ("A", "B") if key in table]
    listed = [table[key] if isinstance(table[key], list) else [table[key]] for key in names]
    settings = _settings(name, str(kind), table, metric)
    for chosen in itertools.product(*listed):
        sides = tuple(_side(name, side, shared, study, metric) for side in chosen)
        if kind == "trend":
            ends = [_side(name, table[end], {}, study, metric) for end in ("to", "from")]
            moved = [_at(name, side, end, shared) for end in ends for side in chosen_picks(sides)]
            sides = tuple(moved)
        yield replace(settings, sides=sides)


def chosen_picks(sides: Sequence[Side]) -> list[Pick]:
    """The sides that pick cells; a trend has no others."""
    return [side for side in sides if isinstance(side, Pick)]


def _settings(name: str, kind: str, table: Mapping[str, Any], metric: str) -> Contrast:
    numbers = {key: _number(name, key, table[key]) for key in NUMBERS if key in table}
    if kind == "value":
        _one_of(name, "as", table.get("as", AS[0]), AS)
        numbers.setdefault("tolerance", tolerance_of(metric, numbers["paper"]))
        if numbers["tolerance"] <= 0:
            raise ClaimError(
                f"{name}: tolerance: expected a number > 0, got {numbers['tolerance']}"
            )
    of_paper = table.get("of_paper", kind == "value")
    if not isinstance(of_paper, bool):
        raise ClaimError(f"{name}: of_paper: expected true or false, got {of_paper!r}")
    return Contrast(kind=kind, sides=(), told_as=table.get("as", ""), of_paper=of_paper, **numbers)


def tolerance_of(metric: str, paper: float) -> float:
    """Two points; a tenth of the paper's value for losses and F1."""
    words = metric.split("_")
    return RELATIVE * abs(paper) if "loss" in words or "f1" in words else POINTS


def _side(name: str, given: Any, shared: dict[str, Value], study: str, metric: str) -> Side:
    if isinstance(given, int | float) and not isinstance(given, bool):
        return float(given)
    if not isinstance(given, Mapping):
        raise ClaimError(f"{name}: expected labels or a number, got {given!r}")
    for key, value in given.items():
        if not isinstance(value, str | int | float | bool):
            raise ClaimError(f"{name}: {key}: expected one value, got {value!r}")
    own = dict(given)
    chosen = Pick(study=own.pop("study", study), metric=own.pop("metric", metric))
    return replace(chosen, labels=shared | own)


def _at(name: str, side: Pick, end: Side, shared: dict[str, Value]) -> Pick:
    """A side of a trend at one of its ends."""
    if not isinstance(end, Pick) or not end.labels.keys() | {end.study}:
        raise ClaimError(f"{name}: trend: expected labels at both ends, got {end!r}")
    return Pick({**side.labels, **end.labels}, end.study, side.metric)


def _known(name: str, table: Mapping[str, Any], known: Sequence[str]) -> None:
    for key in table:
        if key not in known:
            raise ClaimError(f"{name}: {key}: no such key; {suggestion(key, known)}")


def _one_of(name: str, key: str, value: Any, known: Sequence[str]) -> None:
    if value not in known:
        raise ClaimError(f"{name}: {key}: expected one of {', '.join(known)}, got {value!r}")


def _number(name: str, key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ClaimError(f"{name}: {key}: expected a number, got {value!r}")
    return float(value)
