"""What the trials of studies that tune scored, from ``tuning.csv`` beside the exported cells."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from tools.claims.results_book import SCALE, TRIALS
from understudy.studies.definition.builtins import built_in
from understudy.studies.definition.study import Study
from understudy.studies.definition.tune_table import Picks, Tune


def tune_of(study: Study) -> Tune:
    if study.tune is None:
        raise ValueError(f"{study.name}: expected a study that tunes")
    return study.tune


def tuned_part(name: str, docs: Path, scale: str = SCALE) -> tuple[Study, Picks]:
    """The blocks of a study whose trials are exported, as a study, and what was picked in them."""
    scores = pd.read_csv(docs / "results" / name / TRIALS)
    asked = ", ".join(f'"{block}"' for block in scores["block"].unique())
    study = built_in(name, scale, [f"blocks=[{asked}]"])
    return study, study.pick(scores)
