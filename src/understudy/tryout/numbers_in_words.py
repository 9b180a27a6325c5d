"""Numbers of a measure as people read them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from understudy.tryout.effects import Effect
from understudy.tryout.target import Target

WORDS = {
    "accuracy": "accuracy",
    "auc": "AUC",
    "balanced_accuracy": "balanced accuracy",
    "r2": "R²",
    "rmse": "typical error (RMSE)",
}
PERCENT = ("accuracy", "balanced_accuracy")


@dataclass(frozen=True)
class Scale:
    """A measure: its name, which way is better, and in which unit it is told."""

    metric: str
    factor: float = 1.0
    decimals: int = 3

    @property
    def name(self) -> str:
        return WORDS[self.metric]

    @property
    def lower(self) -> bool:
        """Whether less is better."""
        return self.metric == "rmse"

    def value(self, number: float) -> str:
        if not math.isfinite(number):
            return "–"
        sign = "\u00a0%" if self.metric in PERCENT else ""  # not at the beginning of a line
        return f"{self._plain(number)}{sign}"

    def is_zero(self, number: float) -> bool:
        """Whether a difference is told as none."""
        return not math.isfinite(number) or float(f"{self.factor * number:.{self.decimals}f}") == 0

    def size(self, number: float) -> str:
        """Of a difference, without its sign."""
        unit = "\u00a0points" if self.metric in PERCENT else ""
        return f"{abs(self.factor * number):.{self.decimals}f}{unit}"

    def signed(self, number: float) -> str:
        """A difference in a table."""
        if not math.isfinite(number):
            return "–"
        return f"{'+' if number > 0 and not self.is_zero(number) else ''}{self._plain(number)}"

    def range(self, effect: Effect, sign: float = 1.0) -> str:
        """The 95 % interval of an effect in brackets, of a loss with `sign` −1; else nothing."""
        if effect.half is None:
            return ""
        ends = sorted(sign * (effect.mean + side * effect.half) for side in (-1, 1))
        low, high = map(self._plain, ends)
        return f" ({low} to {high})"

    def _plain(self, number: float) -> str:
        """With a minus sign, and without one before nothing."""
        words = f"{self.factor * number:.{self.decimals}f}"
        return words.replace("-", "") if self.is_zero(number) else words.replace("-", "−")


def scale_of(target: Target) -> Scale:
    """Of what methods are judged by."""
    return Scale(target.metric, 100.0, 1) if target.metric in PERCENT else Scale(target.metric)


def scale_of_clients(target: Target) -> Scale:
    """Of what each client's own model quality is told in."""
    if target.metric != "r2":
        return scale_of(target)
    # of one client's few rows R² says little: its errors, in the target's own unit
    digits = max(0, 2 - math.floor(math.log10(target.scale)))
    return Scale("rmse", target.scale, min(digits, 8))
