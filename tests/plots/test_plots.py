"""Pictures: each cell has its outcome's colour, the legend says what was drawn, no global state."""

import io
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure

from tests.peak import peak
from understudy import plots
from understudy.core.types import Outcome, Population


def legend_of(figure):
    (legend,) = figure.legends
    return {
        text.get_text(): to_hex(patch.get_facecolor()).upper()
        for text, patch in zip(legend.get_texts(), legend.get_patches(), strict=True)
    }


def drawn(figure):
    """(clients, rounds) hex colours of the picture's cells."""
    image = figure.axes[0].images[0]
    rgba = image.to_rgba(image.get_array())
    return np.apply_along_axis(lambda colour: to_hex(colour).upper(), 2, rgba)


def png(figure):
    stream = io.BytesIO()
    figure.savefig(stream, format="png")
    return stream.getvalue()


def test_each_outcome_is_drawn_in_its_colour_and_named():
    outcomes = np.array([[0, 3, 7], [0, 4, 1]], dtype=np.int8)  # 2 rounds, 3 clients
    figure = plots.attendance(outcomes, title="two rounds")
    assert isinstance(figure, Figure)
    expected = [[plots.OUTCOME_COLOURS[Outcome(value)] for value in row] for row in outcomes.T]
    np.testing.assert_array_equal(drawn(figure), expected)
    assert legend_of(figure) == {
        "came": "#0072B2",
        "late": "#56B4E9",
        "unavailable": "#BFBFBF",
        "missing": "#E69F00",
        "not wanted": "#F2F2F2",
    }
    axes = figure.axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("round", "client")
    assert axes.get_title() == "two rounds"
    assert png(figure)[:4] == b"\x89PNG"


def test_a_picture_of_many_clients_takes_some_bytes_a_cell_and_not_their_colours():
    rng = np.random.default_rng(0)
    small, large = (rng.integers(0, 8, (200, n_clients)) for n_clients in (2000, 10_000))
    png(plots.attendance(small))  # what is imported only now is not counted

    def taken(outcomes):
        figure = plots.attendance(outcomes)
        return peak(lambda: png(figure))

    more, more_cells = taken(large) - taken(small), large.size - small.size
    assert more < 16 * more_cells


def test_presence_alone():
    here = np.array([[True, False], [False, False], [True, True]])
    figure = plots.attendance(here)
    assert legend_of(figure) == {"there": "#0072B2", "away": "#BFBFBF"}
    np.testing.assert_array_equal(drawn(figure) == "#0072B2", here.T)
    assert list(legend_of(plots.attendance(np.ones((2, 2), dtype=bool)))) == ["there"]


def test_every_outcome_has_a_colour_of_its_own_that_colour_blind_people_see():
    """Any two differ in lightness or hue even when red and green are the same to the eye."""
    assert set(plots.OUTCOME_COLOURS) == set(Outcome)
    # Viénot et al. 1999: what a protanope and a deuteranope see, in linear RGB
    protanope = np.array([[0.11238, 0.88762, 0], [0.11238, 0.88762, 0], [0.00401, -0.00401, 1]])
    deuteranope = np.array([[0.29275, 0.70725, 0], [0.29275, 0.70725, 0], [-0.02234, 0.02234, 1]])
    colours = np.array([to_rgb(colour) for colour in plots.OUTCOME_COLOURS.values()])
    for eye in (np.eye(3), protanope, deuteranope):
        seen = np.clip((colours**2.2) @ eye.T, 0, 1) ** (1 / 2.2)
        distance = np.linalg.norm(seen[:, None] - seen[None], axis=2)
        assert distance[~np.eye(len(seen), dtype=bool)].min() > 0.15


def test_clusters_are_parted_by_lines():
    figure = plots.attendance(np.ones((3, 5), dtype=bool), groups=[0, 0, 1, 1, 4])
    assert [line.get_ydata()[0] for line in figure.axes[0].lines] == [1.5, 3.5]


def test_a_partition_shows_counts_and_leaves_nothing_white():
    counts = np.array([[20, 0, 1], [0, 5, 0]])
    figure = plots.partition(counts, class_names=["cat", "dog", "owl"])
    axes = figure.axes[0]
    shown = axes.images[0].get_array()
    np.testing.assert_array_equal(shown.mask, counts == 0)
    np.testing.assert_array_equal(shown.compressed(), [20, 1, 5])
    written = {(*map(int, text.get_position()), text.get_text()) for text in axes.texts}
    assert written == {(0, 0, "20"), (2, 0, "1"), (1, 1, "5")}
    assert [text.get_text() for text in axes.get_xticklabels()] == ["cat", "dog", "owl"]
    assert figure.axes[1].get_ylabel() == "examples"
    assert png(figure)[:4] == b"\x89PNG"


def test_a_population_or_federation_can_be_given_as_it_is():
    population = Population(3, label_counts=[[1, 2], [3, 4], [0, 1]], groups=[0, 1, 1])
    figure = plots.partition(population)
    np.testing.assert_array_equal(figure.axes[0].images[0].get_array().max(), 4)
    assert [line.get_ydata()[0] for line in figure.axes[0].lines] == [0.5]
    federation = SimpleNamespace(label_counts=np.ones((4, 2)))
    assert plots.partition(federation).axes[0].images[0].get_array().shape == (4, 2)


def test_many_cells_are_drawn_without_numbers():
    assert len(plots.partition(np.ones((100, 10))).axes[0].texts) == 0
    assert len(plots.partition(np.ones((20, 10))).axes[0].texts) == 200


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (lambda: plots.attendance([1, 0]), r"outcomes: expected shape \(rounds, N\), got \(2,\)"),
        (lambda: plots.attendance(np.zeros((0, 3))), r"got \(0, 3\)"),
        (lambda: plots.attendance([[0, 9]]), r"outcomes: expected bool or Outcome \(0 .. 7\), .*9"),
        (lambda: plots.attendance([[0, 1]], groups=[1]), r"groups: expected shape \(2,\)"),
        (lambda: plots.partition([1, 2]), r"label_counts: expected shape \(N, C\), got \(2,\)"),
        (lambda: plots.partition([[1, 2]], class_names=["a"]), "class_names: expected 2 names"),
    ],
)
def test_wrong_shapes_are_errors(draw, words):
    with pytest.raises(ValueError, match=words):
        draw()


def test_pyplot_is_never_imported():
    code = (
        "import sys; from understudy import plots; plots.attendance([[0, 3]]); "
        "plots.partition([[1, 2]]); sys.exit('matplotlib.pyplot' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
