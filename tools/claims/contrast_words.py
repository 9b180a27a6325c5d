"""A contrast in words: what is compared with what, and where."""

from __future__ import annotations

from tools.claims.page_tables import number_words
from tools.claims.paper_claims import Claim, Contrast, Side
from understudy.measures import measure


def contrast_words(contrast: Contrast, claim: Claim) -> str:
    """A contrast for people; labels that all its sides share come last."""
    shared = _shared(contrast)
    names = [_side(side, contrast, shared) for side in contrast.sides]
    if all(set(pick.labels) <= set(shared) for pick in contrast.picks):
        shared.pop("strategy", None)  # told as the side's own name
    hidden = () if _has_blocks(claim) else ("block",)
    where = ", ".join(_label(name, value) for name, value in shared.items() if name not in hidden)
    where = f" ({where})" if where else ""
    if contrast.kind == "order":
        better = "below" if claim.better == "lower" else "above"
        factor = f"{contrast.factor:g} × " if contrast.factor != 1 else ""
        return f"{names[0]} {better} {factor}{names[1]}{_margin(contrast, claim)}{where}"
    if contrast.kind == "trend":
        return _trend(contrast, where)
    if contrast.kind == "near":
        shown = measure(claim.metric)
        within = f"{contrast.within * shown.scale:g} {shown.unit_of_difference}".rstrip()
        return f"{names[0]} within {within} of {names[1]}{where}"
    joined = {"": names[0], "difference": " − ".join(names), "ratio": " over ".join(names)}
    return f"{joined[contrast.told_as]}{where}"


def _has_blocks(claim: Claim) -> bool:
    """Whether contrasts differ in their block: then it has to be told."""
    picks = (pick for contrast in claim.contrasts for pick in contrast.picks)
    return len({pick.labels.get("block") for pick in picks}) > 1


def _trend(contrast: Contrast, where: str) -> str:
    ends = contrast.picks[0], contrast.picks[2]
    differing = [
        name for name in ends[0].labels if ends[0].labels[name] != ends[1].labels.get(name)
    ]
    there, here = (
        ", ".join([_label(name, end.labels[name]) for name in differing if name in end.labels])
        or end.study
        for end in ends
    )
    first, second = (str(pick.labels["strategy"]) for pick in contrast.picks[:2])
    return f"{first} over {second}, more at {there} than at {here}{where}"


def _margin(contrast: Contrast, claim: Claim) -> str:
    if not contrast.margin:
        return ""
    shown = measure(claim.metric)
    margin = number_words(contrast.margin * shown.scale, shown)
    return f" by {margin} {shown.unit_of_difference}".rstrip()


def _shared(contrast: Contrast) -> dict[str, str | float | bool]:
    """Labels that all sides have alike."""
    first, *others = contrast.picks
    return {
        name: value
        for name, value in first.labels.items()
        if all(pick.labels.get(name) == value for pick in others)
    }


def _side(side: Side, contrast: Contrast, shared: dict[str, str | float | bool]) -> str:
    if isinstance(side, float):
        shown = measure(contrast.picks[0].metric)
        return f"{side * shown.scale:g} {shown.unit}".rstrip()
    own = {name: value for name, value in side.labels.items() if name not in shared}
    words = [_label(name, value) for name, value in own.items()]
    if len({pick.study for pick in contrast.picks}) > 1:
        words.append(side.study)
    if len({pick.metric for pick in contrast.picks}) > 1:
        words.append(measure(side.metric).words)
    return ", ".join(words) or str(side.labels.get("strategy", measure(side.metric).words))


def _label(name: str, value: str | float | bool) -> str:
    if name in ("strategy", "availability", "block"):
        return str(value)
    return f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
