"""Pictures of studies: what is drawn are the numbers, worked out here by hand."""

import io
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex, to_rgb
from PIL import Image

from understudy import plots
from understudy.plots.clients import density
from understudy.plots.saving import DARK
from understudy.plots.style import COLOURS, OPEN, REFERENCES, texts, wrapped


def rounds(table, metric="test_accuracy"):
    """{label: {seed: [value by round]}} as a frame of level "round"."""
    rows = [
        {"strategy": label, "seed": seed, "t": t, metric: value}
        for label, seeds in table.items()
        for seed, values in seeds.items()
        for t, value in enumerate(values)
    ]
    return pd.DataFrame(rows)


def legend_of(figure):
    (legend,) = figure.legends
    return [text.get_text() for text in legend.get_texts()]


def line(figure, place):
    drawn = figure.axes[0].lines[place]
    return np.asarray(drawn.get_xdata(), float), np.asarray(drawn.get_ydata(), float)


def band(figure, place, x):
    """Lowest and highest edge of a band at x."""
    vertices = figure.axes[0].collections[place].get_paths()[0].vertices
    at = vertices[vertices[:, 0] == x][:, 1]
    return at.min(), at.max()


# -- convergence -------------------------------------------------------------------------------


def test_convergence_draws_the_mean_over_seeds_and_its_interval():
    """Round 1 of fdms: 0.5, 0.6, 0.7 → mean 60 %, s = 10 points, t(0.975; 2) = 4.302653 →
    half width 4.302653 · 10 / √3 = 24.8414 points."""
    frame = rounds({"fdms": {0: [0.1, 0.5], 1: [0.1, 0.6], 2: [0.1, 0.7]}})
    figure = plots.convergence(frame, title="half away")
    x, y = line(figure, 0)
    np.testing.assert_array_equal(x, [0, 1])
    np.testing.assert_allclose(y, [10, 60])
    np.testing.assert_allclose(band(figure, 0, 1.0), (60 - 24.8414, 60 + 24.8414), atol=1e-3)
    np.testing.assert_allclose(band(figure, 0, 0.0), (10, 10), atol=1e-9)
    axes = figure.axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("round", "test accuracy, %")
    assert axes.get_title(loc="left") == "half away"
    assert legend_of(figure) == ["fdms"]


def test_two_seeds_have_a_mean_and_no_interval():
    figure = plots.convergence(rounds({"a": {0: [0.2, 0.4], 1: [0.4, 0.8]}}))
    np.testing.assert_allclose(line(figure, 0)[1], [30, 60])
    assert not figure.axes[0].collections


def test_rounds_that_are_not_evaluated_or_not_reached_by_all_are_left_out():
    """Seed 1 stopped after round 3; round 1 was not evaluated."""
    frame = rounds({"a": {0: [0.1, np.nan, 0.3, 0.4, 0.9], 1: [0.3, np.nan, 0.5, 0.6]}})
    x, y = line(plots.convergence(frame), 0)
    np.testing.assert_array_equal(x, [0, 2, 3])
    np.testing.assert_allclose(y, [20, 40, 50])


def test_other_measures_are_drawn_as_they_are():
    figure = plots.convergence(rounds({"a": {0: [2.5, 2.0]}}, "test_loss"), "test_loss")
    np.testing.assert_allclose(line(figure, 0)[1], [2.5, 2.0])
    assert figure.axes[0].get_ylabel() == "test loss"


def test_groups_are_not_averaged_by_mistake():
    """Two rows of one strategy, seed and round are of two groups: which mean would it be?"""
    frame = pd.concat([rounds({"a": {0: [0.1]}}), rounds({"a": {0: [0.9]}})])
    with pytest.raises(ValueError, match=r"'a' has several rows for seed 0, t 0; select one group"):
        plots.convergence(frame)


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (lambda: plots.convergence(pd.DataFrame({"t": [0]})), "expected a column 'test_accuracy'"),
        (lambda: plots.convergence(rounds({"a": {0: [np.nan]}})), "expected values of 'test_acc"),
        (lambda: plots.similarity([[1, 2]]), r"matrix: expected shape \(N, N\), got \(1, 2\)"),
        (lambda: plots.stood_in([[1]], groups=[0, 1]), r"groups: expected shape \(1,\), got \(2,"),
        (lambda: plots.levels(runs({"a": {None: [1]}}), "alpha"), "expected levels of 'alpha'"),
        (lambda: plots.client_values({}), r"values: expected arrays of shape \(seeds, N\)"),
    ],
)
def test_what_cannot_be_drawn_is_an_error(draw, words):
    with pytest.raises(ValueError, match=words):
        draw()


# -- substitution error ------------------------------------------------------------------------


def test_substitution_error_is_logarithmic_and_says_what_is_zero():
    frame = rounds(
        {"full": {0: [0.0, 1e-15]}, "fdms": {0: [0.0, 0.2], 1: [0.0, 0.4]}},
        "oracle_error_relative",
    )
    figure = plots.substitution_error(frame)
    assert figure.axes[0].get_yscale() == "log"
    assert legend_of(figure) == ["full (0 throughout)", "fdms"]
    assert np.isnan(line(figure, 0)[1]).all()
    np.testing.assert_allclose(line(figure, 1)[1], [np.nan, 0.3])


def test_a_band_that_would_reach_zero_goes_to_the_edge_of_the_picture():
    """0.1, 0.1, 0.7: half width 4.302653 · 0.34641 / √3 = 0.8605 > mean 0.3. In round 1 there is
    no spread: 0.2 ± 0. The edge is half of the smallest mean, 0.1."""
    frame = rounds(
        {"a": {0: [0.1, 0.2, 0.2], 1: [0.1, 0.2, 0.2], 2: [0.7, 0.2, 0.2]}},
        "oracle_error_relative",
    )
    axes = plots.substitution_error(frame).axes[0]
    vertices = axes.collections[0].get_paths()[0].vertices
    lowest = {t: vertices[vertices[:, 0] == t, 1].min() for t in (0.0, 1.0)}
    assert lowest == pytest.approx({0.0: 0.1, 1.0: 0.2})
    assert axes.get_ylim()[0] == pytest.approx(0.1)


# -- pairs -------------------------------------------------------------------------------------


def test_stand_ins_are_ordered_by_cluster_and_outlined():
    """Clusters {0, 2} and {1, 3}: the order is 0, 2, 1, 3."""
    counts = np.zeros((4, 4))
    counts[0, 2], counts[3, 1], counts[1, 0] = 5, 7, 1
    figure = plots.stood_in(counts, [0, 1, 0, 1])
    axes = figure.axes[0]
    drawn = axes.images[0].get_array()
    assert drawn[0, 1] == 5  # client 0, whom client 2 stood in for
    assert drawn[3, 2] == 7
    assert drawn[2, 0] == 1
    assert drawn.count() == 3  # all else is empty
    squares = [(p.get_x(), p.get_y(), p.get_width(), p.get_height()) for p in axes.patches]
    assert squares == [(-0.5, -0.5, 2, 2), (1.5, 1.5, 2, 2)]
    name = axes.xaxis.get_major_formatter()
    assert [name(place, 0) for place in range(-1, 5)] == ["", "0", "2", "1", "3", ""]
    assert axes.get_ylabel() == "absent client (ordered by cluster)"
    assert figure.axes[1].get_ylabel() == "rounds"


def test_similarity_leaves_out_the_diagonal_and_the_unknown():
    matrix = np.array([[1.0, 0.9, 0.2], [0.9, 1.0, np.nan], [0.2, np.nan, 1.0]])
    figure = plots.similarity(matrix, [0, 0, 1])
    image = figure.axes[0].images[0]
    np.testing.assert_array_equal(image.get_array().mask, np.isnan(matrix) | np.eye(3, dtype=bool))
    assert image.get_clim() == (0.2, 0.9)  # the diagonal would have taken up the colours


def test_without_clusters_those_who_are_alike_stand_side_by_side():
    group = np.array([0, 1, 2, 0, 1, 2])
    matrix = np.where(group[:, None] == group, 0.9, 0.1)
    figure = plots.similarity(matrix)
    name = figure.axes[0].xaxis.get_major_formatter()
    order = [int(name(place, 0)) for place in range(6)]
    assert sorted(order) == list(range(6))
    assert all(group[order[i]] == group[order[i + 1]] for i in (0, 2, 4))
    assert not figure.axes[0].patches


# -- clients -----------------------------------------------------------------------------------


def clients(table, column):
    rows = [
        {"strategy": label, "seed": seed, "client": client, column: value}
        for label, seeds in table.items()
        for seed, values in enumerate(seeds)
        for client, value in enumerate(values)
    ]
    return pd.DataFrame(rows)


def test_sampling_counts_are_sorted_within_each_seed():
    """Seeds (1, 5, 3) and (7, 1, 1): sorted (5, 3, 1) and (7, 1, 1), mean (6, 2, 1). Variances
    8/3 and 8, mean 16/3 = 5.33."""
    frame = clients({"uniform": [[1, 5, 3], [7, 1, 1]]}, "wanted")
    figure = plots.sampling_counts(frame)
    x, y = line(figure, 0)
    np.testing.assert_array_equal(x, [1, 2, 3])
    np.testing.assert_allclose(y, [6, 2, 1])
    assert legend_of(figure) == ["uniform (variance 5.33)"]
    axes = figure.axes[0]
    assert axes.get_xlabel() == "client, from most to least often wanted"
    assert axes.get_ylabel() == "times wanted, rounds"
    assert axes.get_ylim()[0] == 0


def test_client_accuracy_marks_mean_and_percentiles():
    """0, 10, …, 100 %: mean 50, percentiles 10 and 90 (linear)."""
    frame = clients({"fedar": [np.arange(11) / 10], "full": [np.full(11, 0.8)]}, "accuracy")
    figure = plots.client_accuracy(frame)
    axes = figure.axes[0]
    lines = [np.asarray(one.get_xdata(), float) for one in axes.lines]
    curve, bar, mean, rug = lines[:4]
    assert len(curve) == 401
    np.testing.assert_allclose(bar, [10, 90])
    np.testing.assert_allclose(mean, [50])
    np.testing.assert_allclose(rug, np.arange(11) * 10)
    np.testing.assert_allclose(lines[6], [80])
    rows = [label.get_text() for label in axes.get_yticklabels()]
    assert rows == ["full", "fedar"]  # upwards: the first strategy is the topmost
    assert axes.lines[2].get_ydata()[0] == 1


def test_a_density_is_one():
    """Reflection keeps all mass in 0 … 100 %, also where values crowd at an end; one kernel is
    the normal density: 1/√(2π) at its centre for the least width, 1."""
    x = np.linspace(0, 100, 4001)
    crowd, apart, one = [100.0] * 5 + [98.0], [0.0, 50.0, 100.0], [30.0]
    for values in map(np.array, (crowd, apart, one, np.linspace(20, 90, 9000))):
        assert np.trapezoid(density(values, x), x) == pytest.approx(1, abs=1e-6)
    assert density(np.array([30.0]), np.array([30.0]))[0] == pytest.approx(0.398942, abs=1e-6)


def test_values_of_clients_with_their_intervals():
    figure = plots.client_values({"a": [[0.0, 1.0], [0.1, 2.0], [0.2, 3.0]]}, label="worth")
    (container,) = figure.axes[0].containers
    np.testing.assert_allclose(container.lines[0].get_ydata(), [0.1, 2.0])
    (low, high), (other_low, other_high) = (
        segment[:, 1] for segment in container.lines[2][0].get_segments()
    )
    # t(0.975; 2) · s / √3 with s = 0.1 and 1
    np.testing.assert_allclose(
        [(high - low) / 2, (other_high - other_low) / 2], [0.24841, 2.4841], rtol=1e-4
    )
    assert figure.axes[0].get_ylabel() == "worth"


# -- levels ------------------------------------------------------------------------------------


def runs(table, axis="alpha", metric="accuracy_last10"):
    """{label: {level: [value by seed]}} as a frame of level "run"."""
    return pd.DataFrame(
        [
            {"strategy": label, axis: level, "seed": seed, metric: value}
            for label, levels in table.items()
            for level, values in levels.items()
            for seed, value in enumerate(values)
        ]
    )


def test_levels_stand_in_order_with_intervals_and_references_across():
    frame = runs(
        {
            "full": {None: [0.9, 0.9, 0.9]},
            "fdms": {0.7: [0.5, 0.6, 0.7], 0.3: [0.8, 0.8, 0.8]},
        }
    )
    figure = plots.levels(frame, "alpha")
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0.3", "0.7"]
    reference = axes.lines[0]
    np.testing.assert_allclose(reference.get_ydata(), [90, 90])
    (fdms,) = axes.containers
    assert [round(x) for x in fdms.lines[0].get_xdata()] == [0, 1]
    np.testing.assert_allclose(fdms.lines[0].get_ydata(), [80, 60])
    segments = fdms.lines[2][0].get_segments()
    np.testing.assert_allclose(segments[1][:, 1], [60 - 24.8414, 60 + 24.8414], atol=1e-3)
    np.testing.assert_allclose(segments[0][:, 1], [80, 80])
    assert legend_of(figure) == ["full", "fdms"]
    assert axes.get_xlabel() == "alpha"
    assert axes.get_ylabel().replace("\n", " ").startswith("test accuracy, mean of the last 10")


def test_an_axis_of_accuracies_ends_at_100_percent_whatever_the_intervals():
    """Of three seeds at 10, 50 and 99 % the interval has 110.7 points on either side."""
    frame = runs({"a": {1: [0.1, 0.5, 0.99], 2: [0.8, 0.8, 0.8]}})
    assert plots.levels(frame, "alpha").axes[0].get_ylim() == (-1, 101)
    one = frame[frame["alpha"] == 1].drop(columns="alpha")
    assert plots.intervals(one).axes[0].get_xlim() == (-1, 101)
    same = plots.intervals(one.assign(accuracy_last10=1.0)).axes[0]
    assert same.get_xlim()[1] == 101
    losses = one.rename(columns={"accuracy_last10": "loss_last"})
    assert plots.intervals(losses).axes[0].get_xlim()[1] > 1.5


def test_levels_that_are_names_keep_their_order_and_are_not_joined():
    frame = runs({"a": {"sln": [0.5], "idl": [0.6]}}, "availability")
    axes = plots.levels(frame, "availability").axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["sln", "idl"]
    assert axes.containers[0].lines[0].get_linestyle() == "None"


def test_long_names_of_levels_are_slanted_not_broken():
    names = ["eighty_percent", "server_step_0.1", "as_read", "race", "steps"]
    axes = plots.levels(runs({"a": {name: [0.5] for name in names}}), "alpha").axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == names
    assert {label.get_rotation() for label in axes.get_xticklabels()} == {30.0}


def test_intervals_show_every_seed_and_the_mean():
    frame = runs({"a": {None: [0.5, 0.7]}, "b": {None: [0.25]}})
    axes = plots.intervals(frame).axes[0]
    np.testing.assert_allclose(axes.lines[0].get_xdata(), [50, 70])
    np.testing.assert_allclose(axes.containers[0].lines[0].get_xdata(), [60])
    np.testing.assert_allclose(axes.containers[1].lines[0].get_xdata(), [25])
    assert row_names(axes) == ["b (1 of 2 seeds)", "a"]
    assert faces(axes) == ["full", OPEN]


def row_names(axes):
    """From the bottom to the top, each in one line."""
    return [" ".join(label.get_text().split()) for label in axes.get_yticklabels()]


def faces(axes):
    """Of the marks, row by row: open, or full."""
    marks = [container.lines[0] for container in axes.containers]
    return [OPEN if mark.get_markerfacecolor() == OPEN else "full" for mark in marks]


NEVER = float("nan")
FAST = {"slow": {None: [40.0] * 5}, "fast": {None: [9.0, 8.0, *[NEVER] * 3]}}


def test_intervals_over_the_seeds_that_reached_a_target_are_marked():
    """Two fast seeds of five are not five; who never got there has a row of its own."""
    frame = runs({**FAST, "never": {None: [NEVER] * 5}}, metric="rounds_to_target")
    axes = plots.intervals(frame, "rounds_to_target").axes[0]
    assert row_names(axes) == ["never (0 of 5 seeds)", "fast (2 of 5 seeds)", "slow"]
    assert faces(axes) == ["full", OPEN]


def test_levels_over_the_seeds_that_reached_a_target_are_marked():
    frame = runs(
        {
            "full": {None: [5.0, 5.0, NEVER]},
            "fdms": {0.2: [10.0, 20.0, 30.0], 0.5: [12.0, NEVER, NEVER], 0.9: [NEVER] * 3},
            "mean": {0.2: [40.0, 40.0, 40.0], 0.5: [50.0, 50.0, 50.0], 0.9: [60.0, 60.0, 60.0]},
            "never": {level: [NEVER] * 3 for level in (0.2, 0.5, 0.9)},
            "nobody": {None: [NEVER] * 3},
        },
        metric="rounds_to_target",
    )
    figure = plots.levels(frame, "alpha", "rounds_to_target")
    axes = figure.axes[0]
    assert legend_of(figure) == [
        "full (2 of 3 seeds)",
        "fdms (open: not all 3 seeds)",
        "mean",
        "never (0 of 3 seeds)",
        "nobody (0 of 3 seeds)",
    ]
    fdms, mean, never = axes.containers
    np.testing.assert_allclose(fdms.lines[0].get_ydata(), [20, 12, NEVER])
    np.testing.assert_allclose(mean.lines[0].get_ydata(), [40, 50, 60])
    assert np.isnan(never.lines[0].get_ydata()).all()
    marked = [line for line in axes.lines if line.get_markerfacecolor() == OPEN]
    drawn = [[y for y in line.get_ydata() if np.isfinite(y)] for line in marked]
    assert drawn == [[12.0], []]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0.2", "0.5", "0.9"]


def test_differences_that_leave_seeds_out_are_marked():
    frame = runs(FAST, metric="rounds_to_target")
    axes = plots.differences(frame, "slow", "rounds_to_target").axes[0]
    assert row_names(axes) == ["fast (2 of 5 seeds)"]
    assert faces(axes) == [OPEN]


def test_differences_are_paired_by_seed():
    """b − a by seed is −20, −10 and 0 points: s = 10, half the interval t(0.975; 2) · 10 / √3."""
    frame = runs({"a": {None: [0.5, 0.7, 0.6]}, "b": {None: [0.3, 0.6, 0.6]}, "c": {None: [0.8]}})
    axes = plots.differences(frame, "a").axes[0]
    assert row_names(axes) == ["c (1 of 3 seeds)", "b"]
    assert axes.get_xlabel() == "accuracy (mean of last 10) minus a, points"
    of_b, of_c = axes.containers
    np.testing.assert_allclose(of_b.lines[0].get_xdata(), [-10])
    ((left, _), (right, _)) = of_b.lines[2][0].get_segments()[0]
    np.testing.assert_allclose((right - left) / 2, 4.302653 * 10 / 3**0.5, rtol=1e-6)
    np.testing.assert_allclose(of_c.lines[0].get_xdata(), [30])  # with the only seed it has
    seeds = [line.get_xdata() for line in axes.lines if line.get_marker() == "."]
    np.testing.assert_allclose(seeds[0], [-20, -10, 0], atol=1e-9)
    assert any(list(line.get_xdata()) == [0, 0] for line in axes.lines)  # where there is none


def test_differences_need_a_baseline_with_values():
    frame = runs({"a": {None: [0.5, 0.7]}, "b": {None: [0.3, 0.6]}})
    with pytest.raises(ValueError, match=r"baseline: expected a label that has values \(a, b\)"):
        plots.differences(frame, "c")
    alone = frame[(frame["strategy"] == "a") & (frame["seed"] == 0) | (frame["seed"] == 1)]
    alone = alone[(alone["strategy"] == "a") == (alone["seed"] == 0)]
    with pytest.raises(ValueError, match="seeds that 'a' shares with others, got none"):
        plots.differences(alone, "a")


# -- what all share ----------------------------------------------------------------------------


def test_strategies_look_the_same_in_all_pictures_and_unlike_each_other():
    names = ["full", "dropout", *(f"method {i}" for i in range(20))]
    chosen = plots.styles(names)
    assert chosen["full"] == REFERENCES["full"]
    assert len(set(chosen.values())) == len(names)
    frame = rounds({"fdms": {0: [0.1, 0.2]}, "stale": {0: [0.3, 0.4]}})
    figure = plots.convergence(frame, styles=plots.styles(["stale", "x", "fdms"]))
    colours = [to_hex(one.get_color()).upper() for one in figure.axes[0].lines]
    assert colours == [COLOURS[2], COLOURS[0]]


@pytest.mark.parametrize("page", ["light", "dark"])
def test_colours_can_be_told_apart_by_colour_blind_people(page):
    """As seen by protanopes and deuteranopes (Viénot et al. 1999), in linear RGB."""
    protanope = np.array([[0.11238, 0.88762, 0], [0.11238, 0.88762, 0], [0.00401, -0.00401, 1]])
    deuteranope = np.array([[0.29275, 0.70725, 0], [0.29275, 0.70725, 0], [-0.02234, 0.02234, 1]])
    references = [style.colour for style in REFERENCES.values()]
    shown = [colour.lower() for colour in (*COLOURS, *references, "#ffffff")]
    if page == "dark":
        shown = [DARK.get(colour, colour) for colour in shown]
    colours = np.array([to_rgb(colour) for colour in shown])
    for eye in (np.eye(3), protanope, deuteranope):
        seen = np.clip((colours**2.2) @ eye.T, 0, 1) ** (1 / 2.2)
        distance = np.linalg.norm(seen[:, None] - seen[None], axis=2)
        assert distance[~np.eye(len(seen), dtype=bool)].min() > 0.14


def test_a_label_is_no_formula_and_no_secret():
    frame = rounds({"$a_b$": {0: [0.1]}, "_hidden": {0: [0.2]}, "50 % $": {0: [0.3]}})
    figure = plots.convergence(frame)
    assert legend_of(figure) == [r"\$a_b\$", " _hidden", r"50 % \$"]
    drawn = plots.svg(figure).decode()
    assert "$a_b$" in drawn  # as it was given
    assert "_hidden" in drawn


def test_long_labels_are_cut_where_they_are_alike():
    long = [f"FedGS with a graph of label distributions and α = {a}" for a in (0.5, 1, 2)]
    short = texts([*long, "full"], 30)
    assert all(len(label) <= 30 for label in short)
    assert len(set(short)) == 4
    assert short[0].startswith("FedGS w…")
    assert short[0].endswith("= 0.5")
    assert short[3] == "full"
    clients = texts([f"St. Mary's & Sons #{n}, a clinic" for n in (1, 2)], 18)
    assert clients == ["St. …1, a clinic", "St. …2, a clinic"]
    assert texts(["a" * 100], 30)[0] == "a" * 20 + "…" + "a" * 9
    assert wrapped(["graph of label distributions"], 14) == ["graph of label\ndistributions"]


def test_many_long_labels_stay_inside_the_picture():
    """Nothing is drawn over the edge: the outermost pixels are all white."""
    names = [f"FedGS with a graph of label distributions, m = 10, α = {a}" for a in range(14)]
    table = {name: {0: np.linspace(0.1, 0.9, 30)} for name in names}
    frame = clients({name: [np.linspace(0.5, 1, 9)] for name in names}, "accuracy")
    figures = [
        plots.convergence(rounds(table), title="availability of long names, " * 4),
        plots.client_accuracy(frame),
        plots.sampling_counts(frame.rename(columns={"accuracy": "wanted"})),
        plots.intervals(runs({name: {None: [0.5]} for name in names})),
        plots.levels(runs({name: {1: [0.5], 2: [0.6]} for name in names}), "alpha"),
    ]
    for figure in figures:
        pixels = np.asarray(Image.open(io.BytesIO(plots.png(figure, 80))).convert("L"))
        edges = [pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]]
        assert all((edge == 255).all() for edge in edges)


def test_files_depend_on_the_numbers_only():
    frame = rounds({"a": {0: [0.1, 0.2], 1: [0.1, 0.3], 2: [0.2, 0.2]}})
    first, second = plots.convergence(frame), plots.convergence(frame)
    assert plots.svg(first) == plots.svg(second)
    assert plots.png(first) == plots.png(second)
    assert plots.pdf(first) == plots.pdf(second)
    assert b"<dc:date>" not in plots.svg(first)
    assert plots.png(first)[:4] == b"\x89PNG"
    assert plots.svg(plots.convergence(frame.assign(test_accuracy=0.5))) != plots.svg(first)


def test_text_in_an_svg_is_text():
    drawn = plots.svg(plots.convergence(rounds({"fdms": {0: [0.1, 0.2]}}))).decode()
    assert ">fdms</text>" in drawn
    assert ">test accuracy, %</text>" in drawn


def test_pyplot_is_never_imported():
    code = (
        "import sys; import pandas as pd; from understudy import plots; "
        "plots.png(plots.convergence(pd.DataFrame("
        "{'strategy': ['a'], 'seed': [0], 't': [0], 'test_accuracy': [0.5]}))); "
        "sys.exit('matplotlib.pyplot' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
