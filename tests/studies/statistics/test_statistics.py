"""Intervals, tests and comparisons: against SciPy, by hand, and by what must hold of any."""

import itertools
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from understudy.studies.statistics.comparison import (
    compare,
    holm,
    interval,
    lower_is_better,
    paired_t,
    wilcoxon,
)
from understudy.studies.statistics.comparison_table import notes_of, table_of_comparison

NAN = float("nan")
probabilities = st.lists(st.floats(0, 1), min_size=1, max_size=12)
pairs = st.lists(st.tuples(st.floats(-10, 10), st.floats(-10, 10)), min_size=8, max_size=12)


def cells(
    accuracy: dict[tuple[str, Any], list[float]], metric: str = "accuracy_last10"
) -> pd.DataFrame:
    """A frame as `results` gives it: (strategy, availability) -> one value per seed."""
    rows = [
        {"strategy": strategy, "availability": mode, "seed": seed, "status": "done", metric: value}
        for (strategy, mode), values in accuracy.items()
        for seed, value in enumerate(values)
    ]
    frame = pd.DataFrame(rows)
    frame["participants"] = [20.0 if pd.isna(mode) else 6.0 for mode in frame["availability"]]
    return frame


# -- intervals -----------------------------------------------------------------------------------


def test_interval_by_hand() -> None:
    """1, 2, 3: mean 2, s = 1, t(0.975; 2) = 4.302653 (tables), half 4.302653/√3 = 2.484138."""
    found = interval([1, 2, 3])
    assert (found.mean, found.n) == (2.0, 3)
    assert found.half == pytest.approx(2.484138, abs=1e-6)


def test_fewer_than_three_seeds_have_no_interval() -> None:
    assert interval([1.0, 3.0]).half is None
    assert interval([1.0, 3.0]).mean == 2.0
    assert math.isnan(interval([]).mean)


@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
def test_interval_against_scipy(level: float) -> None:
    values = np.random.default_rng(3).normal(size=7)
    expected = stats.t.interval(level, 6, loc=values.mean(), scale=stats.sem(values))
    found = interval(values, level)
    assert found.half is not None
    assert (found.mean - found.half, found.mean + found.half) == pytest.approx(expected)


def test_what_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="values: expected finite numbers, one per seed"):
        interval([1.0, NAN, 2.0])
    with pytest.raises(ValueError, match="b: expected 5 numbers, one for each of a's, got 4"):
        paired_t([1.0] * 5, [1.0] * 4)


# -- tests ---------------------------------------------------------------------------------------


@given(pairs)
def test_paired_t_against_scipy(drawn: list[tuple[float, float]]) -> None:
    a, b = (np.array(side) for side in zip(*drawn, strict=True))
    if np.std(a - b) < 1e-6:  # SciPy warns of lost precision
        return
    assert paired_t(a, b) == pytest.approx(stats.ttest_rel(a, b).pvalue, rel=1e-9)


def test_paired_t_by_hand() -> None:
    """Differences 1, 2, 3, 4, 5: mean 3, s = √2.5, t = 3/√(2.5/5) = √18 with 4 degrees of freedom.

    With 4 degrees, P(|T| > t) = 1 − sin θ (1 + cos² θ / 2), tan θ = t/2: here tan² θ = 4.5, so
    sin² θ = 9/11 and cos² θ = 2/11, which gives 1 − √(9/11) · 12/11.
    """
    p = paired_t([1, 2, 3, 4, 5], [0, 0, 0, 0, 0])
    assert p == pytest.approx(1 - math.sqrt(9 / 11) * 12 / 11)


def test_too_few_seeds_give_no_p_value() -> None:
    assert paired_t([1, 2, 3, 4], [0] * 4) is None
    assert wilcoxon([1, 2, 3, 4, 5, 6, 7], [0] * 7) is None


def test_differences_that_do_not_vary() -> None:
    assert paired_t([0.3] * 5, [0.3] * 5) == 1.0
    # five heads in a row, or five tails: 2 of 32 ways
    assert paired_t([40] * 5, [50] * 5) == 2 / 32
    # 0.1 in each pair, but for the last bits
    assert paired_t([0.3, 0.8, 0.7, 0.4, 0.5], [0.2, 0.7, 0.6, 0.3, 0.4]) == 2 / 32
    assert paired_t([0.3] * 10, [0.2] * 10) == 2 / 1024
    assert wilcoxon([0.3] * 8, [0.3] * 8) == 1.0


@given(st.permutations(range(1, 11)), st.lists(st.booleans(), min_size=10, max_size=10))
def test_wilcoxon_against_scipy(sizes: list[int], signs: list[bool]) -> None:
    differences = np.where(signs, sizes, -np.array(sizes)).astype(float)
    expected = stats.wilcoxon(differences, method="exact").pvalue
    assert wilcoxon(differences, np.zeros(10)) == pytest.approx(expected, rel=1e-12)


def test_wilcoxon_by_hand() -> None:
    """Eight differences of one sign: the two extremes of 2⁸ signs, 2/256."""
    assert wilcoxon(range(1, 9), [0] * 8) == pytest.approx(2 / 256)
    # all but the smallest: sums 0 and 1 on either side, 4/256
    assert wilcoxon([-1, 2, 3, 4, 5, 6, 7, 8], [0] * 8) == pytest.approx(4 / 256)


@given(st.lists(st.integers(-4, 4), min_size=8, max_size=9))
def test_wilcoxon_with_ties_and_zeros_against_all_signs(differences: list[int]) -> None:
    """The slow twin: every way to sign the mean ranks of what is not zero."""
    sizes = np.abs([d for d in differences if d])
    ranks = stats.rankdata(sizes)
    positive = sum(r for r, d in zip(ranks, [d for d in differences if d], strict=True) if d > 0)
    extreme = min(positive, ranks.sum() - positive)
    sums = [
        sum(itertools.compress(ranks, signs))
        for signs in itertools.product((0, 1), repeat=len(ranks))
    ]
    expected = min(1.0, 2 * np.mean([s <= extreme + 1e-9 for s in sums])) if len(ranks) else 1.0
    assert wilcoxon(differences, [0] * len(differences)) == pytest.approx(expected)


def test_wilcoxon_sees_ties_behind_the_last_bits() -> None:
    """0.3 − 0.2 and 0.8 − 0.7 differ in the last bits only: all eight tie, with mean rank 4.5.

    Six up, two down: P(at most two of eight) twice is 2 (1 + 8 + 28)/256.
    """
    up, down = ([0.3, 0.8, 0.7] * 2, [0.2, 0.7, 0.6] * 2), ([0.2, 0.5], [0.3, 0.6])
    p = wilcoxon(up[0] + down[0], up[1] + down[1])
    assert p == pytest.approx(2 * 37 / 256)


@given(pairs, st.randoms(use_true_random=False))
def test_the_order_of_seeds_means_nothing(drawn: list[tuple[float, float]], random: Any) -> None:
    shuffled = random.sample(drawn, len(drawn))
    (a, b), (c, d) = zip(*drawn, strict=True), zip(*shuffled, strict=True)
    assert wilcoxon(a, b) == wilcoxon(c, d)
    assert paired_t(a, b) == pytest.approx(paired_t(c, d), rel=1e-6, abs=1e-12)
    first, second = interval(a), interval(c)
    assert first.mean == pytest.approx(second.mean, abs=1e-12)
    assert first.half == pytest.approx(second.half, abs=1e-12)


@given(pairs)
def test_the_sides_may_be_exchanged(drawn: list[tuple[float, float]]) -> None:
    a, b = zip(*drawn, strict=True)
    assert wilcoxon(a, b) == wilcoxon(b, a)
    assert paired_t(a, b) == paired_t(b, a)


# -- Holm ----------------------------------------------------------------------------------------


def test_holm_by_hand() -> None:
    """0.01, 0.04, 0.03, 0.005 in ascending order: × 4, 3, 2, 1 = 0.02, 0.03, 0.06, 0.04.

    The last must not be below the third: 0.06.
    """
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.6]) == [1.0, 1.0]
    assert holm([0.2]) == [0.2]
    assert holm([]) == []


@given(probabilities)
def test_holm_is_monotone_and_never_below(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    assert all(q >= p for p, q in zip(p_values, adjusted, strict=True))
    assert min(adjusted) == min(1.0, len(p_values) * min(p_values))
    in_order = [q for _, q in sorted(zip(p_values, adjusted, strict=True))]
    assert in_order == sorted(in_order)


@given(probabilities, st.randoms(use_true_random=False))
def test_holm_does_not_look_at_the_order(p_values: list[float], random: Any) -> None:
    order = random.sample(range(len(p_values)), len(p_values))
    adjusted = holm(p_values)
    assert holm([p_values[i] for i in order]) == [adjusted[i] for i in order]


@given(probabilities, st.floats(0.001, 0.2))
def test_holm_rejects_what_the_step_down_procedure_rejects(
    p_values: list[float], level: float
) -> None:
    """The procedure as it was written: ascending, until one is above level/(m − k)."""
    rejected: set[int] = set()
    for k, i in enumerate(np.argsort(p_values, kind="stable")):
        if p_values[i] * (len(p_values) - k) > level:
            break
        rejected.add(int(i))
    assert {i for i, q in enumerate(holm(p_values)) if q <= level} == rejected


# -- comparisons ---------------------------------------------------------------------------------


def test_a_comparison_by_hand() -> None:
    """Differences of five seeds: 1, 2, 3, 4, 5 points for a, up and down for b.

    p of a is 1 − √(9/11) · 12/11 (see above), doubled by Holm; b's is 1. The half width of a's
    difference is t(0.975; 4) s/√5 = 2.776445 · √2.5/√5.
    """
    base = [0.5, 0.6, 0.7, 0.65, 0.55]
    better = [value + 0.01 * (seed + 1) for seed, value in enumerate(base)]
    noisy = [value + 0.01 * sign for value, sign in zip(base, (1, -1, 1, -1, 0), strict=True)]
    frame = cells({("base", "x"): base, ("a", "x"): better, ("b", "x"): noisy})
    rows = compare(frame, baseline="base").rows.set_index("strategy")
    assert rows.loc["a", "mean"] == pytest.approx(0.63)
    assert rows.loc["a", "difference"] == pytest.approx(0.03)
    assert rows.loc["a", "difference_half"] == pytest.approx(
        0.01 * 2.776445 * math.sqrt(0.5), rel=1e-6
    )
    p = 1 - math.sqrt(9 / 11) * 12 / 11
    assert rows.loc["a", "p_t"] == pytest.approx(p)
    assert rows.loc["a", "p_t_holm"] == pytest.approx(2 * p)
    assert rows.loc["b", "p_t_holm"] == 1.0
    assert rows.loc["a", "better"]
    assert pd.isna(rows.loc["b", "better"])
    assert rows["p_wilcoxon"].isna().all()
    assert rows.loc["base", ["difference", "p_t"]].isna().all()
    assert rows["participants"].tolist() == [6.0, 6.0, 6.0]


def test_references_join_every_group_and_are_not_tested() -> None:
    """A row with an availability of its own is no method among those that Holm counts."""
    rng = np.random.default_rng(0)
    frame = cells(
        {
            ("full", None): list(rng.uniform(size=8)),
            ("base", "x"): list(rng.uniform(size=8)),
            ("base", "y"): list(rng.uniform(size=8)),
            ("a", "x"): list(rng.uniform(size=8)),
            ("a", "y"): list(rng.uniform(size=8)),
        }
    )
    found = compare(frame, baseline="base")
    rows = found.rows
    assert list(zip(rows["availability"], rows["strategy"], strict=True)) == [
        ("x", "full"), ("x", "base"), ("x", "a"), ("y", "full"), ("y", "base"), ("y", "a"),
    ]  # fmt: skip
    assert found.labels == ("availability",)
    full = frame.loc[frame["strategy"] == "full", "accuracy_last10"].mean()
    for mode in ("x", "y"):
        here = frame[frame["availability"] == mode].groupby("strategy")["accuracy_last10"]
        row = rows[(rows["strategy"] == "full") & (rows["availability"] == mode)].iloc[0]
        assert row["difference"] == pytest.approx(full - here.mean()["base"])
        assert row[["p_t", "p_t_holm", "p_wilcoxon", "p_wilcoxon_holm"]].isna().all()
        row = rows[(rows["strategy"] == "a") & (rows["availability"] == mode)].iloc[0]
        pair = here.get_group("a"), here.get_group("base")
        assert row["p_t"] == pytest.approx(stats.ttest_rel(*pair).pvalue)
        assert row["p_wilcoxon"] == pytest.approx(stats.wilcoxon(*pair).pvalue)
    tested = rows[rows["strategy"] == "a"]
    assert found.tested == (2, 2)
    assert tested["p_t_holm"].tolist() == holm(tested["p_t"].tolist())
    assert tested["p_wilcoxon_holm"].tolist() == holm(tested["p_wilcoxon"].tolist())
    assert "For reference, and not tested: full." in notes_of(found)
    shown = [row for row in table_of_comparison(found).cells if row[1] == "full"]
    assert [row[-3:-1] for row in shown] == [("–", "–"), ("–", "–")]


def test_a_pair_that_joins_several_groups_is_one_test() -> None:
    """Both have no alpha and join x, y and z, with the same cells in each: with a's three, 4 tests.

    p of ref is 1 − √(9/11) · 12/11 ≈ 0.013 (see above): were it counted in each group, it would be
    the smallest of six.
    """
    base = [0.5, 0.6, 0.7, 0.65, 0.55]
    better = [value + 0.01 * (seed + 1) for seed, value in enumerate(base)]
    rng = np.random.default_rng(1)
    far = {("a", mode): [value + 1 + rng.uniform() for value in base] for mode in "xyz"}
    frame = cells({("base", None): base, ("ref", None): better, **far})
    found = compare(frame.rename(columns={"availability": "alpha"}), baseline="base")
    rows = found.rows
    assert found.tested == (4, 0)
    assert "by Holm for 4 comparisons" in " ".join(notes_of(found))
    ref = rows[rows["strategy"] == "ref"]
    assert len(ref) == 3
    assert len(set(ref["p_t_holm"])) == 1
    others = rows[rows["strategy"] == "a"]
    one_of_each = [ref["p_t"].iloc[0], *others["p_t"]]
    assert [ref["p_t_holm"].iloc[0], *others["p_t_holm"]] == holm(one_of_each)
    # held against what differs from group to group, it is tested in each
    frame = cells({("ref", None): better, **far}).rename(columns={"availability": "alpha"})
    assert compare(frame, baseline="a").tested == (3, 0)


def test_a_cell_of_another_block_is_no_reference_there() -> None:
    """Block two has no alpha: it is a group of its own, though its alpha is missing as well."""
    frame = pd.DataFrame(
        {
            "strategy": ["full", "a", "a", "a", "full"],
            "block": ["one", "one", "one", "two", "two"],
            "alpha": [None, 0.3, 0.7, None, None],
            "seed": 0,
            "accuracy_last10": [0.9, 0.8, 0.7, 0.6, 0.5],
        }
    )
    rows = compare(frame).rows
    found = [
        (row["block"], None if pd.isna(row["alpha"]) else row["alpha"], row["strategy"])
        for row in rows.to_dict("records")
    ]
    assert found == [
        ("one", 0.3, "full"), ("one", 0.3, "a"), ("one", 0.7, "full"), ("one", 0.7, "a"),
        ("two", None, "full"), ("two", None, "a"),
    ]  # fmt: skip
    assert rows["mean"].tolist() == [0.9, 0.8, 0.9, 0.7, 0.5, 0.6]


def test_only_shared_seeds_are_paired() -> None:
    """Seeds 0 … 5 and 3 … 8: three are shared, with differences 1, 1 and 4."""
    frame = cells({("base", "x"): [0.0] * 6, ("a", "x"): [1.0, 1.0, 4.0, 9.0, 9.0, 9.0]}, "score")
    frame.loc[frame["strategy"] == "a", "seed"] += 3
    row = compare(frame, "score", "base").rows.iloc[1]
    assert (row["seeds"], row["pairs"]) == (6, 3)
    assert row["difference"] == 2.0
    assert row["difference_half"] == pytest.approx(4.302653, abs=1e-6)  # s/√3 = √3/√3
    assert pd.isna(row["p_t"])
    assert pd.isna(row["better"])  # nobody knows whether more of a score is better


def test_unfinished_cells_and_cells_without_a_number_are_left_out_and_counted() -> None:
    frame = cells({("base", "x"): [0.1, 0.2, 0.3, 0.4], ("a", "x"): [0.2, NAN, 0.4, 0.5]})
    frame.loc[3, "status"] = "running"
    found = compare(frame, baseline="base")
    assert (found.unfinished, found.without_value) == (1, 1)
    assert found.rows["seeds"].tolist() == [3, 3]
    assert found.rows["pairs"].tolist() == [0, 2]


def test_a_target_that_not_all_reach_is_not_tested() -> None:
    reached = [10.0, 12.0, 14.0, 16.0, 18.0]
    frame = cells(
        {
            ("base", "x"): reached,
            ("a", "x"): [8.0, NAN, 10.0, NAN, 12.0],
            ("b", "x"): [value - 3 - seed for seed, value in enumerate(reached)],
            ("c", "x"): [NAN] * 5,
        },
        "rounds_to_target",
    )
    rows = compare(frame, "rounds_to_target", "base").rows.set_index("strategy")
    assert rows["seeds"].tolist() == [5] * 4
    assert rows["reached"].tolist() == [5, 3, 5, 0]
    assert rows["pairs"].tolist() == [0, 3, 5, 0]
    assert rows.loc["a", ["mean", "difference"]].tolist() == [10.0, -4.0]  # −2, −4, −6
    assert rows.loc["a", ["half", "difference_half", "p_t", "better"]].isna().all()
    assert math.isnan(rows.loc["c", "mean"])
    assert rows.loc["b", "better"]  # fewer rounds are better
    assert rows.loc["b", "p_t_holm"] == rows.loc["b", "p_t"]  # the only test


def test_why_there_is_no_cost_to_a_target() -> None:
    frame = cells({("base", "x"): [0.5, 0.6], ("a", "x"): [0.7, 0.8]}, "accuracy_last")
    with pytest.raises(ValueError, match=r"^metric: rounds_to_target needs a target; set target "):
        compare(frame, "rounds_to_target")
    frame["rounds_to_target"] = 3.0
    with pytest.raises(
        ValueError, match=r"^metric: clock_to_target needs simulated time; give the"
    ):
        compare(frame, "clock_to_target")
    # runs without a delay are not among those that never reached it
    frame["clock_to_target"] = [1.0, 2.0, NAN, NAN]
    found = compare(frame, "clock_to_target")
    assert found.rows["strategy"].tolist() == ["base"]
    assert found.unfinished == 0


def test_labels_that_make_no_group_are_averaged_within_seeds() -> None:
    frame = pd.DataFrame(
        {
            "strategy": ["a"] * 4 + ["b"] * 4,
            "data": ["m", "c"] * 4,
            "alpha": 1.0,
            "seed": [0, 0, 1, 1] * 2,
            "loss_best": [1.0, 3.0, 2.0, 6.0, 1.0, 2.0, 3.0, NAN],
        }
    )
    found = compare(frame, "loss_best", "a", by="alpha")
    assert found.rows["mean"].tolist() == [3.0, 1.5]  # a: 2 and 4; b has no number for seed 1
    assert found.rows["seeds"].tolist() == [2, 1]
    assert found.rows["difference"].tolist()[1] == -0.5
    assert found.rows["better"].tolist()[1] is True
    assert found.labels == ()


def test_the_order_of_rows_changes_no_bit() -> None:
    rng = np.random.default_rng(5)
    frame = cells({(name, "x"): list(rng.uniform(size=9)) for name in ("base", "a", "b")})
    backwards = frame.sort_values(["strategy", "seed"], ascending=[False, False])
    first = compare(frame, baseline="base").rows.set_index("strategy").sort_index()
    second = compare(backwards, baseline="base").rows.set_index("strategy").sort_index()
    pd.testing.assert_frame_equal(first, second, check_exact=True)


def test_labels_and_baseline_from_the_attributes_of_the_frame() -> None:
    frame = pd.DataFrame(
        {"seed": [0, 0], "strategy": ["a", "b"], "lr": [0.1, 0.1], "accuracy_last10": [0.5, 0.6]}
    )
    frame.attrs.update(labels=["strategy", "lr"], baseline="a", target=0.9)
    found = compare(frame)
    assert found.target is None  # accuracy has no target
    price = compare(frame.assign(rounds_to_target=[10.0, 12.0]), "rounds_to_target")
    assert "Target: an accuracy of 90 %. Lower is better." in price.to_markdown()
    assert found.baseline == "a"
    assert found.rows["difference"].tolist()[1] == pytest.approx(0.1)
    assert list(found.rows.columns[:2]) == ["lr", "strategy"]


def test_identical_rows_count_once() -> None:
    """`a` and `b` came to the same in every seed: one test. `c` is another: two in all, not three.

    `d` is the baseline once more, and no test; a row with the same accuracy, but another loss, is
    of other runs.
    """
    accuracy = {"d": 0.5, "base": 0.5, "a": 0.6, "b": 0.6, "c": 0.55}
    noise = [0.001, 0.003, -0.002, 0.004, 0.0]
    frame = pd.DataFrame(
        {"strategy": name, "seed": seed, "accuracy_tail": level + (level > 0.5) * noise[seed],
         "loss_last": level + seed}
        for name, level in accuracy.items()
        for seed in range(5)
    )  # fmt: skip
    found = compare(frame, baseline="base")
    assert found.tested == (2, 0)
    rows = found.rows.set_index("strategy")
    assert rows.loc["d", "p_t_holm"] == 1
    assert rows.loc["a", "p_t_holm"] == rows.loc["b", "p_t_holm"] == 2 * rows.loc["a", "p_t"]
    assert "p: two-sided, by Holm for 2 comparisons; identical rows count once." in " ".join(
        found.to_text().split()
    )
    frame.loc[frame["strategy"] == "b", "loss_last"] += 1e-9
    other = compare(frame, baseline="base")
    assert other.tested == (3, 0)
    alone = compare(frame[frame["strategy"] != "d"], baseline="base")
    assert (alone.tested, "identical" in alone.to_text()) == ((3, 0), False)


def test_what_one_method_alone_measures_makes_no_other_row() -> None:
    """`fdms` counts similarities that it was spared, and else came to what the baseline did.

    A loss that only a diverged model lacks is compared all the same.
    """
    levels = {"base": 0.5, "fdms": 0.5, "a": 0.6, "b": 0.6, "diverged": 0.1}
    frame = pd.DataFrame(
        {"strategy": name, "seed": seed, "accuracy_tail": level + (level > 0.5) * 0.01 * seed,
         "loss_last": {"diverged": NAN, "b": 2.0}.get(name, 1.0),
         "evaluations_spared": 0.3 if name == "fdms" else NAN}
        for name, level in levels.items()
        for seed in range(5)
    )  # fmt: skip
    found = compare(frame, baseline="base")
    assert found.tested == (3, 0)  # a, b, diverged
    assert "by Holm for 3 comparisons; identical rows count once." in " ".join(
        found.to_text().split()
    )


def test_the_same_cell_under_two_labels_counts_once() -> None:
    rows = [
        {"strategy": name, "mode": mode, "seed": seed, "key": f"{name}{seed}{mode if own else ''}",
         "accuracy_tail": level + 0.01 * seed * (name == "a")}
        for name, level, own in (("base", 0.5, False), ("a", 0.6, False), ("b", 0.7, True))
        for mode in ("x", "y")
        for seed in range(5)
    ]  # fmt: skip
    frame = pd.DataFrame(rows)
    frame.attrs["labels"] = ["strategy", "mode"]
    assert compare(frame, baseline="base").tested == (3, 0)  # a once, b in each group


def test_nothing_is_done_yet() -> None:
    frame = cells({("base", "x"): [0.1], ("a", "x"): [0.2]})
    frame["status"] = "waiting"
    found = compare(frame, baseline="base")
    assert len(found.rows) == 0
    assert found.unfinished == 2
    assert "Not included: 2 unfinished cells." in found.to_text()


def test_errors_name_what_is_allowed() -> None:
    frame = cells({("base", "x"): [0.1], ("fdms", "x"): [0.2]})
    with pytest.raises(ValueError, match=r"metric: expected one of .*'accuracy_last10'"):
        compare(frame, "accuracy_last")
    with pytest.raises(ValueError, match="baseline: expected one of base, fdms, got 'fdsm'; did"):
        compare(frame, baseline="fdsm")
    with pytest.raises(ValueError, match="by: expected one of availability, got 'alpha'"):
        compare(frame, by="alpha")
    with pytest.raises(ValueError, match="metric: expected one of accuracy_last10, participants, "):
        compare(frame, "status")
    with pytest.raises(ValueError, match="metric: expected a column of numbers, got 'remark'"):
        compare(frame.assign(remark="good"), "remark")
    with pytest.raises(ValueError, match="expected the columns strategy and seed"):
        compare(pd.DataFrame({"a": [1]}), "a")


def test_two_cells_that_no_label_tells_apart_are_refused() -> None:
    frame = cells({("base", "x"): [0.1]})
    twice = pd.concat([frame, frame], ignore_index=True)
    assert compare(twice).rows["seeds"].tolist() == [1]  # the same cell in two blocks
    twice.loc[1, "accuracy_last10"] = 0.2
    with pytest.raises(
        ValueError, match=r"expected one cell for strategy 'base' at \(x\) with seed 0"
    ):
        compare(twice)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("accuracy_last10", False),
        ("client_accuracy_worst10", False),
        ("client_accuracy_variance", True),
        ("evaluations_spared", False),
        ("loss_best", True),
        ("train_loss_last", True),
        ("validation_loss_last", True),
        ("fluctuation", True),
        ("megabytes_to_target", True),
        ("count_variance", True),
        ("oracle_error_relative", True),
        ("graph_f1", False),
        ("shapley_loss_client", False),  # what a client took off the loss
        ("participants", None),
        ("test_mae_last", True),
        ("test_own_last", None),
    ],
)
def test_which_way_is_better(name: str, expected: bool | None) -> None:
    assert lower_is_better(name) is expected
