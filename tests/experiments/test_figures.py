import io

import numpy as np
import pytest
from PIL import Image
from scipy import stats
from synthetic_runs import write_runs

from jostle.experiments import figures
from jostle.experiments.figures import count_ticks
from jostle.experiments.page import moved_apart, png, svg
from jostle.experiments.results import load
from jostle.experiments.statistics import gains, times, win_matrix
from jostle.experiments.tables import duration

DRAWINGS = {
    "learning-curves": lambda r: figures.learning_curves(r, "accuracy"),
    "gain-curves": lambda r: figures.gain_curves(r, "accuracy", "random"),
    "side-by-side": lambda r: figures.side_by_side(
        {"a": r, "b": r, "c": r}, dict.fromkeys("abc", "accuracy"), r.labels, r.labels[:2]
    ),
    "ranks": lambda r: figures.rank_diagram(
        {"random": 3.5, "badge": 1.5, "entropy": 1.0, "noise-stability": 4.0},
        0.7,
        [("entropy", "badge")],
        r.labels,
    ),
    "gain-map": lambda r: figures.gain_map(
        r.labels, ["x", "y"], np.array([[1.0, -2], [np.nan, 0], [3, 4], [0, 0]])
    ),
    "duels": lambda r: figures.duel_map(r.labels, np.eye(4) + 2, np.ones((4, 4))),
    "aubc": lambda r: figures.aubc_dots(r, "accuracy"),
    "gains": lambda r: figures.gain_dots(gains(r, "accuracy", "random"), "random", "accuracy", r.labels),
    "wins": lambda r: figures.win_map(r.labels, win_matrix(r, "accuracy")),
    "times": lambda r: figures.time_bars(times(r)),
    "setting": lambda r: figures.setting_dots(r, "accuracy", "scale", {"badge": "1", "entropy": "10"}),
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_figures_are_the_same_bytes_every_time(four, name):
    first, second = DRAWINGS[name](four), DRAWINGS[name](four)
    text = svg(first)
    assert svg(second) == text
    assert "<dc:date>" not in text
    with Image.open(io.BytesIO(png(first))) as image:
        assert min(image.size) > 200
        assert len(image.convert("RGB").getcolors(10**6)) > 3  # something was drawn


def test_a_diagram_of_ranks_shows_names_ranks_bars_and_the_difference(four):
    text = svg(DRAWINGS["ranks"](four))
    names = ("entropy  1.00", "badge  1.50", "3.50  random", "4.00  noise-stability")
    for words in (*names, "critical difference 0.70"):
        assert f">{words}<" in text
    line = [line for line in DRAWINGS["ranks"](four).axes[0].lines if line.get_linewidth() == 3.4]
    assert len(line) == 1
    left, right = line[0].get_xdata()
    assert right - left == pytest.approx(4.0 * 0.5 / 3 + 0.08)  # half a rank of three that are four inches


def test_curves_go_through_the_means(four):
    axes = figures.learning_curves(four, "accuracy").axes[0]
    drawn = [line.get_ydata() for line in axes.lines if len(line.get_xdata()) == 5]
    np.testing.assert_allclose(drawn[0], four.mean_curve("random", "accuracy"))
    assert len(drawn) == 4


@pytest.mark.parametrize(
    ("counts", "most", "ticks"),
    [
        (range(20, 201, 20), 10, [*range(20, 201, 20)]),
        (range(20, 201, 20), 6, [20, 60, 100, 140, 180]),
        (range(20, 71), 10, [20, 26, 32, 38, 44, 50, 56, 62, 68]),
        ([10, 20, 50], 2, [10, 50]),
        ([10], 4, [10]),
        ([1, 2, 3, 4, 5, 6], 3, [1, 4, 6]),
    ],
)
def test_ticks_lie_under_points(counts, most, ticks):
    assert count_ticks(list(counts), most) == ticks


@pytest.mark.parametrize("seeds", [1, 2])
def test_few_seeds_and_one_strategy_can_be_drawn(tmp_path, seeds):
    results = load(write_runs(tmp_path / "runs", {"random": [[0.5, 0.5]] * seeds}))
    svg(figures.learning_curves(results, "accuracy"))
    svg(figures.aubc_dots(results, "accuracy"))
    svg(figures.gain_curves(results, "accuracy", "random"))
    svg(figures.time_bars(times(results)))


def test_a_wide_band_is_drawn_whole_within_what_a_share_can_be(tmp_path):
    results = load(write_runs(tmp_path / "runs", {"a": [[0.5, 0.5], [0.6, 0.95], [0.9, 0.99]]}))
    axes = figures.learning_curves(results, "accuracy").axes[0]
    (drawn,) = [part.get_paths()[0].vertices[:, 1] for part in axes.collections]
    second = [50, 95, 99]  # the wider of the two points
    low, _ = stats.t.interval(0.95, 2, loc=np.mean(second), scale=stats.sem(second))
    np.testing.assert_allclose((drawn.min(), drawn.max()), (low, 100))
    bottom, top = axes.get_ylim()
    assert bottom < low
    assert top > 100


def test_the_band_is_the_t_interval_of_the_mean():
    curves = np.random.default_rng(0).normal(size=(7, 3))
    low, high = figures.band(curves)
    for point in range(3):
        sample = curves[:, point]
        expected = stats.t.interval(0.95, 6, loc=sample.mean(), scale=stats.sem(sample))
        np.testing.assert_allclose((low[point], high[point]), expected)
    np.testing.assert_allclose(figures.band(curves[:2]), (curves[:2].min(axis=0), curves[:2].max(axis=0)))


def test_names_are_moved_apart_as_little_as_possible():
    assert moved_apart([0.0, 5.0], gap=1, low=-10, high=10) == [0.0, 5.0]
    assert moved_apart([1.0, 1.0, 1.0], gap=2, low=-10, high=10) == [-1.0, 1.0, 3.0]
    assert moved_apart([9.0, 9.5], gap=2, low=-10, high=10) == [8.0, 10.0]
    assert moved_apart([], gap=1, low=0, high=1) == []
    places = moved_apart(sorted(np.random.default_rng(0).random(14)), gap=0.05, low=0, high=1)
    assert np.diff(places).min() >= 0.05 - 1e-9
    assert places[0] >= -1e-9
    assert places[-1] <= 1 + 1e-9


def test_durations():
    texts = {0.0004: "0.4 ms", 0.025: "25 ms", 0.25: "0.25 s", 12.3: "12 s", 245: "4.1 min", 9000: "2.5 h"}
    assert {seconds: duration(seconds) for seconds in texts} == texts
    assert duration(float("nan")) == "–"
