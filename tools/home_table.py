"""The page on each paper's method in its own setting, beside rivals that are tuned as it is.

``python -m tools.home_table docs`` (``make home``) makes ``docs/home.md`` from the files below
``docs/results``: the exported cells and curves of the three studies, and what their trials scored.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tools.claims.results_book import SCALE, TRIALS
from tools.trials import tune_of, tuned_part
from understudy.studies.definition.builtins import built_in
from understudy.studies.definition.grid import TUNED, pick_name
from understudy.studies.definition.tune_table import Picks
from understudy.studies.statistics.comparison import compare
from understudy.studies.statistics.export import CELLS, read
from understudy.studies.statistics.paired_tests import SIGNIFICANT
from understudy.studies.statistics.text_table import number, p_word

WORDS, PAGE = "home-in-words.txt", "home.md"
STEP_1 = "sgd(lr=1.0)"
LAST = 10  # evaluations at the end
NOTHING = "–"


@dataclass(frozen=True)
class Home:
    """A study of a paper's own setting."""

    study: str
    paper: str
    method: str
    measures: tuple[str, str]
    heads: tuple[str, str]
    scale: float
    decimals: int


ACCURACY = ("accuracy_last10", "accuracy_mean"), ("last ten, %", "mean, %"), 100.0, 2
LOSS = ("loss_best", "loss_last10"), ("lowest loss", "loss, last ten"), 1.0, 4
HOMES = (
    Home("fdms-home", "FL-FDMS", "fdms", *ACCURACY),
    Home("fedgs-home", "FedGS", "fedgs", *LOSS),
    Home("fedar-home", "FedAR", "fedar", *ACCURACY),
)
TITLE = """\
# Each method at home

<!-- Made by `make home` from results/*-home and results/home-in-words.txt: not to be edited. -->

Each paper's method in its own setting, beside rivals that are [tuned as it is](comparing.md): one
local training, one objective (clients weigh by their examples), the same attendance, the first
round included. The server of every row is picked from thirteen (SGD with steps 0.5 to 8, momentum
0.5 with 1 to 8, Adam with 0.01 to 0.3) by validation data, in every setting by itself, with
another seed than those below.
"""
TABLE = """\
## The table

The rival is the one whose pick scored best in the trials, on validation data: it was not chosen by
the numbers shown. Differences are rival minus the paper's method, seed by seed, with half a 95 %
interval; p is that of the paired t-test, by Holm over all rivals and settings of the study. Last
ten: the mean of the last ten evaluations.
"""
COMMANDS = """\
## Commands

```sh
understudy run fdms-home --scale results     # and fedgs-home, fedar-home
understudy export fdms-home --to docs/results
make home                                    # this page
```
"""


# -- trials --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scores:
    """Validation scores of a study's trials, means over their seeds."""

    table: pd.DataFrame
    metric: str
    less_is_better: bool
    picks: Picks

    @classmethod
    def read(cls, home: Home, docs: Path) -> Scores:
        tune = tune_of(built_in(home.study, SCALE))
        table = pd.read_csv(docs / "results" / home.study / TRIALS)
        _, picks = tuned_part(home.study, docs)
        return cls(table, tune.metric, tune.less_is_better, picks)

    def server(self, block: str, strategy: str) -> str:
        return str(self.picks[pick_name(block, strategy)]["server"])

    def of(self, block: str, strategy: str, server: str) -> float:
        rows = self.table[
            (self.table["block"] == block)
            & (self.table["strategy"] == strategy)
            & (self.table[TUNED] == server)
        ]
        return float(rows[self.metric].mean(skipna=False))

    def picked(self, block: str, strategy: str) -> float:
        return self.of(block, strategy, self.server(block, strategy))

    def best(self, block: str, strategies: Sequence[str]) -> str:
        """The strategy whose pick scored best."""
        sign = 1 if self.less_is_better else -1
        return min(strategies, key=lambda name: sign * self.picked(block, name))


# -- cells ---------------------------------------------------------------------------------------


def frame_of(home: Home, docs: Path) -> pd.DataFrame:
    """The exported cells of a study, as `compare` takes them."""
    exported = read(docs / "results" / home.study)
    records = []
    for row in exported.rows:
        losses = [point["test_loss"] for point in exported.curves[row.key] if "test_loss" in point]
        own = {**row.measures, "loss_last10": float(np.mean(losses[-LAST:]))}
        labels = {"strategy": row.labels["strategy"], "block": row.labels["block"]}
        records.append({**labels, "seed": row.seed, "key": row.key, **own})
    order = {name: at for at, name in enumerate(built_in(home.study, SCALE).strategies)}
    records.sort(key=lambda record: order[str(record["strategy"])])
    frame = pd.DataFrame(records)
    frame.attrs.update(labels=("strategy", "block"), baseline=home.method)
    return frame


@dataclass(frozen=True)
class Result:
    """All that the page tells of one study."""

    home: Home
    scores: Scores
    rows: tuple[dict[tuple[str, str], dict[Any, Any]], ...]  # by measure: block, strategy → row
    tested: int
    seeds: int

    @classmethod
    def read(cls, home: Home, docs: Path) -> Result:
        frame = frame_of(home, docs)
        made = [compare(frame, metric) for metric in home.measures]
        rows = tuple(
            {(str(row["block"]), str(row["strategy"])): row for row in one.rows.to_dict("records")}
            for one in made
        )
        seeds = int(frame["seed"].nunique())
        return cls(home, Scores.read(home, docs), rows, made[0].tested[0], seeds)

    @property
    def blocks(self) -> list[str]:
        known = {block for block, _ in self.rows[0]}
        return [name for name in built_in(self.home.study, SCALE).blocks if name in known]

    def rivals(self, block: str) -> list[str]:
        return [name for at, name in self.rows[0] if at == block and name != self.home.method]

    def best_rival(self, block: str) -> str:
        """The rival whose pick scored best, among those that are not the paper's method again."""
        rows = self.rows[0]
        others = [name for name in self.rivals(block) if not _is_equal(rows[block, name])]
        return self.scores.best(block, others)


def _value(home: Home, row: dict[Any, Any], *, signed: bool = False) -> str:
    mean, half = ("difference", "difference_half") if signed else ("mean", "half")
    if not np.isfinite(row[mean]):
        return NOTHING
    if signed and _is_equal(row):
        return "equal"
    told = number(row[mean] * home.scale, home.decimals, signed=signed)
    return f"{told} ± {number(row[half] * home.scale, home.decimals)}"


def _is_equal(row: dict[Any, Any]) -> bool:
    """Whether a row has the numbers of the paper's method in every seed."""
    return bool(row["difference"] == 0 and row["difference_half"] == 0)


def _verdict(row: dict[Any, Any]) -> str:
    if not row["p_t_holm"] < SIGNIFICANT:
        return "no difference shown"
    return "rival better" if row["better"] else "paper's method better"


def _p(row: dict[Any, Any]) -> str:
    return p_word(row["p_t_holm"]) if np.isfinite(row["p_t_holm"]) else NOTHING


# -- the page ------------------------------------------------------------------------------------


def text(docs: Path) -> str:
    """The page, of those studies that are exported."""
    there = [home for home in HOMES if (docs / "results" / home.study / CELLS).is_file()]
    results = [Result.read(home, docs) for home in there]
    words = docs / "results" / WORDS
    lines = [TITLE, *([words.read_text("utf-8").strip(), ""] if words.is_file() else []), TABLE]
    lines += [
        "| setting | measure | paper's method | rival | difference | p | |",
        "| --- | --- | ---: | ---: | ---: | ---: | --- |",
    ]
    lines += [line for result in results for line in _in_short(result)]
    lines.append("")
    for result in results:
        lines += _in_full(result)
    return "\n".join([*lines, COMMANDS]).rstrip() + "\n"


def _in_short(result: Result) -> Iterator[str]:
    home, scores = result.home, result.scores
    for block in result.blocks:
        rival = result.best_rival(block)
        for place, (head, rows) in enumerate(zip(home.heads, result.rows, strict=True)):
            setting = f"{home.paper}, {block}" if place == 0 else ""
            own, other = rows[block, home.method], rows[block, rival]
            names = [f"`{name}`, {scores.server(block, name)}: " for name in (home.method, rival)]
            cells = [setting, head]
            for name, row in zip(names, (own, other), strict=True):
                cells.append((name if place == 0 else "") + _value(home, row))
            cells += [_value(home, other, signed=True), _p(other), _verdict(other)]
            yield f"| {' | '.join(cells)} |"


def _in_full(result: Result) -> Iterator[str]:
    home, scores = result.home, result.scores
    study = built_in(home.study, SCALE)
    tune = tune_of(study)
    yield f"## {home.paper}"
    yield ""
    yield (
        f"`{home.study}`: {study.rounds} rounds, {result.seeds} seeds; trials of "
        f"{tune.rounds or study.rounds} rounds with {len(tune.seeds)} "
        f"seed{'s' * (len(tune.seeds) > 1)}. Validation: {tune.metric.partition('_')[2]} of the "
        "trials' last round, at server step 1 and with the pick. Differences are minus "
        f"`{home.method}`, p by Holm for {result.tested} comparisons."
    )
    yield ""
    first, second = home.heads
    for block in result.blocks:
        yield (
            f"| {block} | picked | validation, step 1 | picked | {first} | difference | p | "
            f"{second} | difference | p |"
        )
        yield "| --- | --- |" + " ---: |" * 8
        for name in [home.method, *result.rivals(block)]:
            cells = [f"`{name}`", scores.server(block, name)]
            for score in (scores.of(block, name, STEP_1), scores.picked(block, name)):
                known = np.isfinite(score)
                told = number(score * home.scale, home.decimals) if known else "diverged"
                cells.append(told)
            for rows in result.rows:
                row, is_own = rows[block, name], name == home.method
                cells += [_value(home, row)]
                cells += [NOTHING] * 2 if is_own else [_value(home, row, signed=True), _p(row)]
            yield f"| {' | '.join(cells)} |"
        yield ""


def main(docs: Path) -> None:
    """``python -m tools.home_table docs``"""
    page = docs / PAGE
    page.write_text(text(docs), encoding="utf-8", newline="\n")
    print(page)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
