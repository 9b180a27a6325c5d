"""What a report says came out: each sentence follows from the numbers of its frame."""

import pandas as pd

from understudy.studies.report.conclusions import conclusions, verdict
from understudy.studies.report.page_tables import main_table
from understudy.studies.statistics.comparison import compare

# around each strategy's level; the same seeds are hard for all, so that differences are steady
SEEDS = (-0.02, 0.0, 0.01, 0.02, -0.01)
WOBBLE = (0.001, -0.001, 0.002, -0.002, 0.0)  # of a difference: its p stays far below 0.05
SWAY = (-0.002, 0.001, 0.0, 0.002, -0.001)  # another: differences from WOBBLE vary too
NOISE = (0.05, -0.05, 0.06, -0.06, 0.01)  # so large that nothing can be told


def frame(levels, n_seeds=5, *, metric="accuracy_last10", baseline="base", **more):
    """Rows of runs: level + the seed's own + what is given for the strategy."""
    rows = []
    for (strategy, *labels), (level, own) in levels.items():
        for seed in range(n_seeds):
            named = {"strategy": strategy, "availability": labels[0] if labels else "half"}
            value = level + SEEDS[seed] + own[seed]
            rows.append({**named, "seed": seed, "status": "done", metric: value})
    made = pd.DataFrame(rows)
    made.attrs = {"labels": ["strategy", "availability"], "baseline": baseline, **more}
    return made


STILL = (0.0,) * 5
FOUR = {
    ("base",): (0.70, STILL),
    ("good",): (0.75, WOBBLE),
    ("bad",): (0.60, SWAY),
    ("noisy",): (0.71, NOISE),
}


def only(found):
    ((heading, words),) = found.groups
    assert heading == ""
    return words


def verdicts(made, metric="accuracy_last10"):
    """Strategy → what holds of it against the baseline: a column of the report's first table."""
    comparison = compare(made, metric)
    rows = comparison.rows.to_dict("records")
    return {row["strategy"]: verdict(comparison, row) for row in rows}


def test_the_best_what_holds_and_what_does_not():
    """Means: base .70, good .75, bad .60, noisy .71 + .01/5 = .712."""
    found = conclusions(frame(FOUR), "accuracy_last10")
    assert only(found) == (
        "good has the highest accuracy, 75.00 %; noisy cannot be distinguished from it."
    )
    assert verdicts(frame(FOUR)) == {
        "base": "–",
        "good": "better",
        "bad": "worse",
        "noisy": "no difference shown",
    }
    assert found.overview == ()
    assert "p < 0.05" in found.how
    assert "Holm" in found.how


def test_the_first_table_of_a_report_has_a_column_of_verdicts():
    table = main_table(frame(FOUR), "accuracy_last10")
    heads = [head for head, _ in table.heads]
    at = heads.index("against base")
    assert heads[at - 1 :] == ["p (t-test)", "against base", "seeds"]
    ((_, rows),) = table.groups
    assert [row[at] for row in rows] == ["–", "better", "worse", "no difference shown"]
    few = main_table(frame(FOUR, 4), "accuracy_last10")
    assert "against base" not in dict(few.heads)


def test_rows_that_are_the_same_are_said_to_be_so():
    """With nobody absent most methods are one: no test that might have shown a difference."""
    rows = {**FOUR, ("stale",): FOUR[("base",)], ("fdms",): FOUR[("base",)]}
    found = verdicts(frame(rows))
    assert (found["noisy"], found["stale"], found["fdms"]) == (
        "no difference shown",
        "the same",
        "the same",
    )


def test_a_lead_over_all_others_is_said_to_hold():
    clear = {name: FOUR[name] for name in [("base",), ("good",), ("bad",)]}
    assert only(conclusions(frame(clear), "accuracy_last10")) == (
        "good has the highest accuracy, 75.00 %; the lead over every other strategy holds."
    )


def test_with_few_seeds_nothing_is_claimed():
    for n, words in ((1, "one seed"), (4, "4 seeds")):
        found = conclusions(frame(FOUR, n), "accuracy_last10")
        assert only(found).endswith(f": with {words} this may be chance (a test takes 5).")
        assert set(verdicts(frame(FOUR, n)).values()) == {"–", "not tested"}
        assert found.how == ""


def test_the_baseline_may_be_the_best():
    levels = {("base",): (0.70, STILL), ("bad",): (0.60, WOBBLE)}
    assert only(conclusions(frame(levels), "accuracy_last10")) == (
        "base has the highest accuracy, 70.00 %; the lead over every other strategy holds."
    )


def test_of_a_loss_the_lowest_is_the_best():
    found = only(conclusions(frame(FOUR, metric="loss_last"), "loss_last"))
    assert found.startswith("bad has the lowest last test loss, 0.6000")
    told = verdicts(frame(FOUR, metric="loss_last"), "loss_last")
    assert (told["bad"], told["good"]) == ("better", "worse")


def test_a_reference_is_never_called_the_best():
    levels = {**FOUR, ("full",): (0.90, WOBBLE)}
    found = only(conclusions(frame(levels), "accuracy_last10", ["full"]))
    assert found == "good has the highest accuracy, 75.00 %; noisy cannot be distinguished from it."


def test_equal_means_are_both_named():
    levels = {("base",): (0.7, STILL), ("twin",): (0.7, STILL), ("bad",): (0.6, WOBBLE)}
    found = only(conclusions(frame(levels), "accuracy_last10"))
    assert found.startswith("base and twin have the highest accuracy, 70.00 %; the lead")


def test_each_comparison_has_its_sentence():
    levels = {
        ("base", "half"): (0.70, STILL),
        ("good", "half"): (0.75, WOBBLE),
        ("base", "few"): (0.60, STILL),
        ("good", "few"): (0.55, WOBBLE),
    }
    found = conclusions(frame(levels), "accuracy_last10")
    assert [heading for heading, _ in found.groups] == ["availability half", "availability few"]
    assert [words.partition(" ")[0] for _, words in found.groups] == ["good", "base"]
    assert found.overview == ()


def test_without_a_baseline_the_best_is_compared_with_the_rest():
    found = only(conclusions(frame(FOUR, baseline=None), "accuracy_last10"))
    assert found == "good has the highest accuracy, 75.00 %; noisy cannot be distinguished from it."


def test_runs_that_never_reached_the_target_are_not_ranked():
    made = frame(FOUR, metric="rounds_to_target")
    made.loc[made["strategy"].eq("good") & made["seed"].eq(2), "rounds_to_target"] = float("nan")
    found = only(conclusions(made, "rounds_to_target"))
    assert found == (
        "Not ranked: not every run reached the target (base 5 of 5, good 4 of 5, bad 5 of 5, noisy "
        "5 of 5)."
    )
    assert verdicts(made, "rounds_to_target")["good"] == "not tested"


def test_a_measure_without_a_better_side_has_no_best():
    found = only(conclusions(frame(FOUR, metric="something"), "something"))
    assert found == "Neither way is better, so none is called the best."
    told = verdicts(frame(FOUR, metric="something"), "something")
    assert (told["good"], told["bad"]) == ("higher", "lower")


def test_unfinished_cells_and_unequal_settings_are_told_first():
    unlike = {"base": [["good", "local.lr", "0.5", "0.1"], ["bad", "weighting", "clients", "none"]]}
    made = frame(FOUR, differences=unlike)
    made.loc[0, "status"] = "failed"
    found = conclusions(made, "accuracy_last10")
    unlike = "local.lr = 0.5 (good), not 0.1; weighting = clients (bad), not none"
    assert found.overview == (
        "Preliminary: 19 of 20 cells are done.",
        f"Rows differ from base in more than the method: {unlike}.",
    )


def test_one_strategy_is_no_comparison():
    alone = {("good",): (0.75, WOBBLE)}
    words = only(conclusions(frame(alone, baseline=None), "accuracy_last10"))
    assert words == "Only good has a result."
