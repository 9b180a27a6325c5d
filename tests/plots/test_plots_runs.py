"""Pictures take a run, a dict of runs, or the frames of a study; a notebook shows them."""

import base64
import pickle

import nbformat
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from nbclient import NotebookClient
from PIL import Image

from understudy import Strategy, Uniform, fdms_dropout, plots
from understudy.core.types import Outcome
from understudy.plots import runs as of_runs
from understudy.representation import Representation
from understudy.simulation import clustered_digits, simulate
from understudy.studies.statistics.summary import summarise


def played(strategy, seed=0, rounds=12, **settings):
    run = simulate(
        clustered_digits(), strategy, model="softmax", availability=fdms_dropout(0.7),
        rounds=rounds, seed=seed, workers=1, evaluate_every=2, **settings,
    )  # fmt: skip
    list(run)
    return run


@pytest.fixture(scope="module")
def runs():
    return {
        "mean": [played("fedavg", seed, per_client_every=6) for seed in (0, 1, 2)],
        "friends": [played("fdms", seed, per_client_every=6) for seed in (0, 1, 2)],
    }


def legend_of(figure):
    (legend,) = figure.legends
    return [text.get_text() for text in legend.get_texts()]


def heights(figure, place):
    return np.asarray(figure.axes[0].lines[place].get_ydata(), float)


def test_convergence_of_one_run(runs):
    run = runs["friends"][0]
    figure = plots.convergence(run)
    assert legend_of(figure) == ["run"]
    accuracies = [log.metrics["test_accuracy"] for log in run.logs if log.metrics]
    np.testing.assert_allclose(heights(figure, 0), 100 * np.array(accuracies))


def test_convergence_of_runs_by_label_and_seed(runs):
    figure = plots.convergence({"a": runs["mean"][0], "b": runs["friends"]}, "test_loss")
    assert legend_of(figure) == ["a", "b"]
    losses = [[log.metrics["test_loss"] for log in r.logs if log.metrics] for r in runs["friends"]]
    np.testing.assert_allclose(heights(figure, 1), np.mean(losses, axis=0))
    assert len(figure.axes[0].collections) == 1  # three seeds have a band, one has none


def test_runs_and_their_frame_give_the_same_picture(runs):
    frame = pd.concat(
        run.frame().assign(method=label, seed=run.state.seed)
        for label, several in runs.items()
        for run in several
    )
    expected = plots.svg(plots.convergence(frame, by="method"))
    assert plots.svg(plots.convergence(runs, by="method")) == expected


def test_substitution_error_of_a_run():
    run = played("fdms", rounds=3, oracle=True)
    drawn = heights(plots.substitution_error(run), 0)
    errors = np.array([log.notes["oracle_error_relative"] for log in run.logs])
    assert errors[0] < 1e-9  # nobody is missing in the first round: a gap
    np.testing.assert_allclose(drawn[1:], errors[1:])


def test_measures_of_runs_are_those_of_studies(runs):
    run = runs["friends"][1]
    expected = summarise(run.frame(), None, {}, None)
    for name in expected:
        frame = of_runs.by_run(run, "strategy", name)
        assert frame[name].tolist() == [pytest.approx(expected[name], rel=1e-12)], name
        assert frame["seed"].tolist() == [1]
    last = of_runs.by_run(run, "strategy", "came")["came"].tolist()
    assert last == [(run.last.outcome == Outcome.CAME).sum()]


def test_intervals_of_runs(runs):
    figure = plots.intervals(runs, "accuracy_last")
    means = [container.lines[0].get_xdata()[0] for container in figure.axes[0].containers]
    expected = [
        np.mean([100 * run.last.metrics["test_accuracy"] for run in several])
        for several in runs.values()
    ]
    np.testing.assert_allclose(means, expected)


def test_counts_of_clients_are_those_of_studies():
    run = played(Strategy(sampler=Uniform(0.5)), per_client_every=5)
    counted = Representation()
    for log in run.logs:
        counted.add(log)
    frame = of_runs.by_client(run, "strategy")
    for name in ("wanted", "asked", "came"):
        np.testing.assert_array_equal(frame[name], counted.counts()[name])
    np.testing.assert_array_equal(frame["accuracy"], run.last.client_metrics["accuracy"])
    np.testing.assert_allclose(
        heights(plots.sampling_counts(run), 0), np.sort(frame["wanted"])[::-1]
    )


def test_client_accuracy_of_runs(runs):
    figure = plots.client_accuracy(runs)
    means = [line.get_xdata()[0] for line in figure.axes[0].lines if line.get_marker() == "o"]
    expected = [
        100 * np.mean([run.last.client_metrics["accuracy"] for run in several])
        for several in runs.values()
    ]
    np.testing.assert_allclose(means, expected)
    with pytest.raises(ValueError, match=r"frame: expected a column 'accuracy', got client, want"):
        plots.client_accuracy(played("fedavg", rounds=1))


def test_attendance_of_a_run_has_its_clusters(runs):
    run = runs["friends"][0]
    axes = plots.attendance(run, title="away").axes[0]
    np.testing.assert_array_equal(
        axes.images[0].get_array(), np.array([log.outcome for log in run.logs]).T
    )
    assert len(axes.lines) == 4  # between five clusters
    assert axes.get_title() == "away"


def test_attendance_of_several_runs_has_a_panel_for_each(runs):
    figure = plots.attendance(runs | {"short": played("fedavg", rounds=2)}, title="all")
    assert [axes.get_title() for axes in figure.axes] == ["mean"] * 3 + ["friends"] * 3 + ["short"]
    assert figure.axes[-1].images[0].get_array().shape == (20, 2)
    assert figure.get_suptitle() == "all"
    assert legend_of(figure) == ["came", "unavailable"]


def test_stood_in_of_a_run(runs):
    run = runs["friends"][0]
    expected = np.zeros((20, 20))
    for log in run.logs:
        for absent, source in {(absent, source) for absent, source, _ in log.stand_ins}:
            expected[absent, source] += 1
    assert expected.sum() > 20
    np.testing.assert_array_equal(of_runs.stood_in_counts(run), expected)
    axes = plots.stood_in(run).axes[0]
    assert np.ma.filled(axes.images[0].get_array(), 0).sum() == expected.sum()
    assert len(axes.patches) == 5  # the federation's clusters


def test_partition_of_a_run_is_its_federation():
    run = simulate(clustered_digits(), "fedavg", model="softmax", rounds=1)  # not played
    assert plots.svg(plots.partition(run)) == plots.svg(plots.partition(run.federation))


@pytest.mark.parametrize(
    ("draw", "error", "words"),
    [
        (plots.convergence, ValueError, r"expected a run with rounds, got <Run of .*: list\(run\)"),
        (plots.attendance, ValueError, r"expected a run with rounds, got <Run of .*: list\(run\)"),
        (lambda run: plots.convergence([run]), TypeError, r"frame: expected a DataFrame, a run or"),
        (lambda run: plots.convergence({}), ValueError, r"expected at least one run, got none"),
        (lambda run: plots.attendance({}), ValueError, r"expected at least one run, got none"),
        (lambda run: plots.convergence({"a": [3]}), TypeError, r"runs\['a'\]: expected a run or a"),
        (lambda run: plots.levels(run, "p"), TypeError, r"frame: expected a DataFrame, got <Run"),
        (lambda run: plots.stood_in({"a": run}), TypeError, r"got a dict of 1: take one, runs\['a"),
    ],
)
def test_what_cannot_be_drawn_is_told(draw, error, words):
    run = simulate(clustered_digits(), "fedavg", model="softmax", rounds=1)
    with pytest.raises(error, match=words):
        draw(run)


# -- in notebooks ----------------------------------------------------------------------------------


def test_a_picture_is_a_figure_like_any_other(runs, tmp_path):
    figure = plots.attendance(runs["mean"][0])
    assert isinstance(figure, Figure)
    figure.savefig(tmp_path / "picture.png", dpi=50)
    figure.savefig(tmp_path / "picture.pdf")
    with Image.open(tmp_path / "picture.png") as picture:
        assert picture.size == tuple(int(50 * inches) for inches in figure.get_size_inches())
    again = pickle.loads(pickle.dumps(figure))
    assert plots.png(again) == plots.png(figure)


BEGIN = """
from understudy import plots
from understudy.representation import Representation
from understudy.simulation import clustered_digits, simulate
federation = clustered_digits()
run = simulate(federation, "fdms", model="softmax", rounds=2, workers=1)
logs = list(run)
"""
SHOWN = ("plots.convergence(run)", "plots.partition(federation)", "plots.stood_in(run)", "run")


@pytest.mark.process
def test_pictures_show_themselves_in_a_notebook(tmp_path):
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(cell) for cell in (BEGIN, *SHOWN)]
    )
    client = NotebookClient(notebook, timeout=200, kernel_name="python3")
    client.execute(cwd=str(tmp_path))
    for cell in notebook.cells[1:4]:
        (output,) = cell.outputs
        png = base64.b64decode(output.data["image/png"])
        assert png.startswith(b"\x89PNG")
        width = int.from_bytes(png[16:20], "big")
        shown = output.metadata["image/png"]["width"]
        assert abs(width - shown * 160 / 96) < 2  # sharper than it is large
    (output,) = notebook.cells[4].outputs
    assert output.data["text/plain"].startswith("<Run of Strategy(compensator=FDMS(), local=")
