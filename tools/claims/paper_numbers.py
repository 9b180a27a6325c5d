"""What the papers themselves report, as numbers: to check claims on, and to draw behind ours.

``docs/paper-numbers/fdms-curves.csv`` has points of the curves in figs. 5 to 9 of FL-FDMS (Wang &
Xu, Combating Client Dropout in Federated Learning via Friend Model Substitution, 2022, with its
supplement), means of ten repeats, read from the figures. The other files are named after the study
that repeats a table: Tables 2 and 3 of FedGS (Wang et al., Federated Graph-Based Sampling with
Arbitrary Client Availability, 2023), Table 3 of FedAR. Their columns are labels, then measures.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tools.claims.paper_claims import Claim, Contrast, Pick
from tools.claims.verdicts import compared_value, number

LAST = 10
CURVES = "fdms-curves"
LABELS = ("block", "availability", "strategy")
# panel of a figure → the studies, and labels there, that repeat it
PANELS: dict[str, tuple[tuple[str, Mapping[str, object]], ...]] = {
    "cifar10 e2": (
        ("fdms-fig1", {"block": "cifar10", "alpha": 0.5}),
        ("fdms-fig1", {"block": "cifar10_as_published", "alpha": 0.5}),
        ("fdms-readings", {"block": "cifar10_server_step"}),
        ("fdms-readings", {"block": "cifar10_local_step"}),
        ("fdms-readings", {"block": "cifar10_batch"}),
    ),
    "cifar10 e1": (
        ("fdms-e", {"block": "cifar10", "epochs": 1}),
        ("fdms-e", {"block": "cifar10_as_published", "epochs": 1}),
    ),
    "cifar10 e5": (
        ("fdms-e", {"block": "cifar10", "epochs": 5}),
        ("fdms-e", {"block": "cifar10_as_published", "epochs": 5}),
    ),
    "mnist e5": (("fdms-e", {"block": "mnist", "epochs": 5}),),
    "cifar10 k40": (
        ("fdms-k40", {"block": "cifar10"}),
        ("fdms-k40", {"block": "cifar10_as_published"}),
    ),
    "mnist k40": (("fdms-k40", {"block": "mnist"}),),
    "cifar10 fedprox": (("fdms-fedprox", {}),),
    "cifar10 shards high": (("fdms-fig5", {"block": "high"}),),
    "cifar10 shards medium": (("fdms-fig5", {"block": "medium"}), ("fdms-fig2", {"alpha": 0.5})),
    "cifar10 shards low": (("fdms-fig5", {"block": "low"}),),
    "fmnist a0.3": (("fdms-fmnist", {"alpha": 0.3}),),
    "fmnist a0.5": (
        ("fdms-fmnist", {"alpha": 0.5}),
        ("fdms-readings", {"block": "fmnist_batch"}),
    ),
    "fmnist a0.7": (("fdms-fmnist", {"alpha": 0.7}),),
}
Curve = Mapping[int, float]  # accuracy by round
TableRow = Mapping[str, str]  # labels and measures


@dataclass(frozen=True)
class PaperNumbers:
    """Curves by panel and strategy, and tables by the study that repeats them."""

    curves: Mapping[tuple[str, str], Curve] = field(default_factory=dict)
    tables: Mapping[str, Sequence[TableRow]] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: str | Path) -> PaperNumbers:
        """From the files of a folder; none where there is no folder."""
        curves: dict[tuple[str, str], dict[int, float]] = {}
        for row in _rows(Path(folder) / f"{CURVES}.csv"):
            curve = curves.setdefault((row["panel"], row["strategy"]), {})
            curve[int(row["round"])] = float(row["accuracy"])
        paths = [path for path in sorted(Path(folder).glob("*.csv")) if path.stem != CURVES]
        return cls(curves, {path.stem: _rows(path) for path in paths})

    def measure(self, pick: Pick, rounds: int | None = None) -> float | None:
        """What the paper has for cells, of its first rounds only where asked; None: nothing."""
        for row in self.tables.get(pick.study, ()):
            same = all(row[name] == str(pick.labels.get(name)) for name in LABELS if name in row)
            if same and pick.metric in row:
                return float(row[pick.metric])
        curve = self.curve(pick.study, pick.labels)
        if curve is None or pick.metric not in ("accuracy_mean", "accuracy_last10"):
            return None
        known = np.array(sorted(curve))
        every = np.arange(1, known[-1] + 1)[:rounds]
        accuracy = np.interp(every, known, [curve[int(at)] for at in known])
        return float(
            accuracy[-LAST:].mean() if pick.metric == "accuracy_last10" else accuracy.mean()
        )

    def curve(self, study: str, labels: Mapping[str, object]) -> Curve | None:
        """The paper's curve of a strategy in a study."""
        for panel, places in PANELS.items():
            for name, where in places:
                same = all(labels.get(label, value) == value for label, value in where.items())
                told = labels.keys() >= {label for label in where if label != "alpha"}
                if name == study and same and told and _alpha_told(labels, where):
                    return self.curves.get((panel, str(labels.get("strategy"))))
        return None

    def has_curves(self, study: str) -> bool:
        """Whether curves of the paper belong to a study."""
        panels = {panel for panel, _ in self.curves}
        return any(name == study for panel in panels for name, _ in PANELS.get(panel, ()))

    def contrast(self, claim: Claim, contrast: Contrast, rounds: int | None = None) -> float | None:
        """A contrast on the paper's own numbers, positive = the claim; None: it has them not."""
        rounds = rounds if claim.rounds is None else claim.rounds
        sides = [
            side if isinstance(side, float) else self.measure(side, rounds)
            for side in contrast.sides
        ]
        if any(side is None for side in sides) or not contrast.picks:
            return None
        known = [side for side in sides if side is not None]
        if contrast.kind == "value" and not contrast.told_as:
            return contrast.tolerance - abs(compared_value(contrast, known) - contrast.paper)
        return number(contrast, known, claim.sign)


def _alpha_told(labels: Mapping[str, object], where: Mapping[str, object]) -> bool:
    """Everybody present is of every α."""
    return "alpha" not in where or "alpha" in labels or labels.get("strategy") == "full"


def _rows(path: Path) -> list[dict[str, str]]:
    if not path.is_file():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
