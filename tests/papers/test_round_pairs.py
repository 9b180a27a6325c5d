"""Tests over rounds, held against SciPy."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from understudy.papers.round_pairs import paired_by_rounds


def frame(n_rounds=20, seeds=(0, 1)) -> pd.DataFrame:
    """`full` has no availability of its own: it stands in both groups."""
    rng = np.random.default_rng(0)
    rows = [
        {
            "strategy": strategy,
            "availability": availability,
            "seed": seed,
            "t": t,
            "test_accuracy": 0.5 + 0.01 * t + lift + 0.02 * rng.standard_normal(),
        }
        for strategy, availability, lift in [
            ("full", None, 0.1),
            ("a", "often", 0.0),
            ("b", "often", 0.01),
            ("a", "rarely", 0.0),
            ("b", "rarely", -0.05),
        ]
        for seed in seeds
        for t in range(n_rounds)
    ]
    table = pd.DataFrame(rows)
    table.attrs |= {"labels": ["strategy", "availability"], "baseline": "a"}
    return table


def curve(table: pd.DataFrame, strategy: str, availability: str | None) -> np.ndarray:
    there = (
        table["availability"].isna()
        if availability is None
        else table["availability"] == availability
    )
    chosen = table[(table["strategy"] == strategy) & there]
    return chosen.groupby("t")["test_accuracy"].mean().to_numpy()


def test_against_scipy():
    table = frame()
    found = paired_by_rounds(table)
    assert found[["availability", "strategy", "rounds"]].values.tolist() == [
        ["often", "full", 20],
        ["often", "b", 20],
        ["rarely", "full", 20],
        ["rarely", "b", 20],
    ]
    for row in found.itertuples():
        ours = curve(table, row.strategy, None if row.strategy == "full" else row.availability)
        theirs = curve(table, "a", row.availability)
        assert row.difference == pytest.approx((ours - theirs).mean(), rel=1e-12)
        assert row.p_rounds == pytest.approx(stats.ttest_rel(ours, theirs).pvalue, rel=1e-9)


def test_rounds_that_were_not_evaluated_and_seeds_that_only_one_played_do_not_count():
    table = frame()
    table.loc[table["t"] % 2 == 1, "test_accuracy"] = np.nan
    fewer = table[~((table["strategy"] == "b") & (table["seed"] == 1))].copy()
    fewer.attrs = table.attrs
    row = paired_by_rounds(fewer).query("strategy == 'b' and availability == 'often'").iloc[0]
    ours = curve(fewer[fewer["seed"] == 0].dropna(subset="test_accuracy"), "b", "often")
    theirs = curve(fewer[fewer["seed"] == 0].dropna(subset="test_accuracy"), "a", "often")
    assert row["rounds"] == 10
    assert row["p_rounds"] == pytest.approx(stats.ttest_rel(ours, theirs).pvalue, rel=1e-9)


def test_it_shrinks_with_more_rounds_alone():
    """What is wrong with it: the same two methods, no further seed."""
    few, many = (paired_by_rounds(frame(n)).query("availability == 'rarely'") for n in (10, 1000))
    assert many["p_rounds"].max() < 1e-100 < few["p_rounds"].min()


def test_too_few_rounds_and_bad_names():
    assert paired_by_rounds(frame(4))["p_rounds"].isna().all()
    with pytest.raises(ValueError, match="baseline: expected one of full, a, b, got 'c'"):
        paired_by_rounds(frame(5), baseline="c")
    with pytest.raises(ValueError, match=r"metric: .* got 'test_loss'"):
        paired_by_rounds(frame(5), metric="test_loss")
