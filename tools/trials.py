"""What the trials of studies that tune scored, in ``tuning.csv`` beside the exported cells."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from tools.claims.results_book import SCALE, TRIALS
from understudy.studies.definition.builtins import built_in
from understudy.studies.definition.grid import TUNED
from understudy.studies.definition.study import Study
from understudy.studies.definition.tune_table import Picks, Tune
from understudy.studies.definition.tuning import trial_results
from understudy.studies.store.store import Store


def tune_of(study: Study) -> Tune:
    if study.tune is None:
        raise ValueError(f"{study.name}: expected a study that tunes")
    return study.tune


def finished_trials(study: Study, runs: Path, known: pd.DataFrame | None = None) -> pd.DataFrame:
    """Labels, seed and score of every trial in those blocks in which all of them are done.

    What the runs do not have may be known already: rows that are new in a study are tried alone.
    """
    trials = study.tuning()
    with Store.open(runs) as store:
        done = trial_results(store, trials)
    places = ["strategy", "availability", "block", TUNED, "seed"]
    names = [*places, tune_of(study).metric]
    parts = [part[names] for part in (known, done) if part is not None and not part.empty]
    if not parts:
        return pd.DataFrame(columns=names)
    scores = pd.concat(parts).drop_duplicates(places, keep="last")
    wanted = pd.DataFrame([{**cell.labels, "seed": cell.seed} for cell in trials])[places]
    found = wanted.merge(scores, how="left", on=places, indicator=True)
    open_blocks = set(found.loc[found["_merge"] == "left_only", "block"])
    return found[~found["block"].isin(open_blocks)][names].reset_index(drop=True)


def write_trials(name: str, docs: Path, runs: Path, *, whole: bool) -> None:
    """Write ``tuning.csv`` of a study; with `whole` only once the trials of all blocks are done."""
    study = built_in(name, SCALE)
    path = docs / "results" / name / TRIALS
    known = pd.read_csv(path) if path.is_file() else None
    done = finished_trials(study, runs, known)
    blocks = {cell.labels["block"] for cell in study.tuning()}
    if done.empty or (whole and set(done["block"]) != blocks):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    done.to_csv(path, index=False, float_format="%.6g", lineterminator="\n")


def tuned_part(name: str, docs: Path, scale: str = SCALE) -> tuple[Study, Picks]:
    """The blocks of a study whose trials are exported, as a study, and what was picked in them."""
    scores = pd.read_csv(docs / "results" / name / TRIALS)
    asked = ", ".join(f'"{block}"' for block in scores["block"].unique())
    study = built_in(name, scale, [f"blocks=[{asked}]"])
    return study, study.pick(scores)
