import math

import numpy as np
import pytest
from scipy import stats
from synthetic_runs import lines, write_run, write_runs

from jostle.experiments.results import load
from jostle.experiments.statistics import (
    average_ranks,
    best_first,
    bootstrap,
    gains,
    holm,
    labels_to_reach,
    needs_of,
    paired_areas,
    penalties,
    shared_seeds,
    targets,
    times,
    wilcoxon,
    win_matrix,
)


def results_of(tmp_path, curves, metric="accuracy"):
    return load(write_runs(tmp_path / "runs", curves, metric))


def test_average_ranks_by_hand(tmp_path):
    curves = {"a": [[0.1, 0.3, 0.4, 0.9]], "b": [[0.1, 0.2, 0.5, 0.8]], "c": [[0.1, 0.1, 0.3, 0.9]]}
    # ranks after the first point: a 1, 2, 1.5; b 2, 1, 3; c 3, 3, 1.5
    ranks = average_ranks(results_of(tmp_path, curves), "accuracy")
    assert ranks == pytest.approx({"a": 4.5 / 3, "b": 6 / 3, "c": 7.5 / 3})
    everything = average_ranks(results_of(tmp_path, curves), "accuracy", first=True)
    assert everything == pytest.approx({"a": 6.5 / 4, "b": 8 / 4, "c": 9.5 / 4})


def test_strategies_are_ranked_by_the_seeds_that_both_have(tmp_path):
    # seed 0 is the easy one: b has it alone, and is worse there than a
    curves = {"a": [[0.5, 0.9], [0.1, 0.2]], "b": [[0.5, 0.8]], "c": [[0.5, 0.6], [0.1, 0.3]]}
    results = results_of(tmp_path, curves)
    assert results.mean_curve("b", "accuracy")[1] > results.mean_curve("a", "accuracy")[1]
    assert average_ranks(results, "accuracy") == {"a": 1, "b": 2, "c": 3}
    assert average_ranks(results, "accuracy", first=True) == {"a": 1.5, "b": 2, "c": 2.5}  # one start for all
    assert best_first(results, "accuracy") == ["a", "b", "c"]


def test_ranks_of_equal_seeds_are_scipys(tmp_path):
    rng = np.random.default_rng(5)
    curves = {name: rng.integers(0, 4, (3, 6)) / 4 for name in "abcde"}  # with ties
    results = results_of(tmp_path, {name: values.tolist() for name, values in curves.items()})
    expected = stats.rankdata([-values.mean(axis=0) for values in curves.values()], axis=0)[:, 1:].mean(
        axis=1
    )
    np.testing.assert_allclose(list(average_ranks(results, "accuracy").values()), expected)


def test_strategies_without_a_common_seed_are_beside_each_other(tmp_path):
    folder = write_runs(tmp_path / "runs", {"a": [[0.1, 0.2]]})
    write_run(folder, "b", 7, lines([0.1, 0.5]))
    assert average_ranks(load(folder), "accuracy") == {"a": 1.5, "b": 1.5}
    assert best_first(load(folder), "accuracy") == ["b", "a"]


def test_small_is_better_for_errors(tmp_path):
    results = results_of(tmp_path, {"a": [[9.0, 5.0]], "b": [[9.0, 4.0]], "c": [[9.0, math.nan]]}, "mae")
    assert average_ranks(results, "mae") == {"a": 2, "b": 1, "c": 3}
    assert paired_areas(results, "mae", "b", "a").tolist() == [0.5]


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.7]) == pytest.approx([1.0, 1.0])
    assert holm([]) == []


def test_wilcoxon_is_exact_for_few_seeds():
    assert wilcoxon([1, 2, 3, 4, 5]) == pytest.approx(2 / 2**5)
    assert wilcoxon([0.1, -0.2, 0.3, 0.4, 0.5, 0.6]) == pytest.approx(
        6 / 2**6
    )  # a rank sum of 2 or less: 3 ways
    sample = np.random.default_rng(1).normal(0.4, 1, 20)
    assert wilcoxon(sample) == pytest.approx(stats.wilcoxon(sample, method="exact").pvalue)


def test_wilcoxon_without_a_difference_or_without_seeds():
    assert wilcoxon([0, 0, 0]) == 1
    assert math.isnan(wilcoxon([1.0]))
    assert math.isnan(wilcoxon([]))


def test_bootstrap_agrees_with_the_normal_interval_and_with_scipy():
    sample = np.random.default_rng(2).normal(5, 2, 400)
    low, high = bootstrap(sample, seed=3)
    error = sample.std(ddof=1) / 20
    assert low == pytest.approx(sample.mean() - 1.96 * error, abs=0.2 * error)
    assert high == pytest.approx(sample.mean() + 1.96 * error, abs=0.2 * error)
    other = stats.bootstrap((sample,), np.mean, method="percentile", rng=0).confidence_interval
    np.testing.assert_allclose((low, high), (other.low, other.high), atol=0.2 * error)
    assert bootstrap(sample, seed=3) == (low, high)


def test_gains_are_paired_by_seed(four):
    (best, *_), reference = gains(four, "accuracy", "random"), four.aubc("random", "accuracy")
    assert best.label == "noise-stability"
    np.testing.assert_allclose(best.differences, four.aubc("noise-stability", "accuracy") - reference)
    assert best.wins == 3
    assert best.interval[0] <= best.mean <= best.interval[1]
    assert best.p == pytest.approx(0.25)
    assert best.p_holm == pytest.approx(0.75)


def test_gains_use_only_seeds_that_both_have(tmp_path):
    folder = write_runs(tmp_path / "runs", {"random": [[0.1, 0.2], [0.1, 0.3]]})
    write_run(folder, "vaal", 1, lines([0.1, 0.5]))
    write_run(folder, "late", 7, lines([0.1, 0.5]))
    results = load(folder)
    assert shared_seeds(results, "random", "vaal") == [1]
    found = {gain.label: gain for gain in gains(results, "accuracy", "random")}
    np.testing.assert_allclose(found["vaal"].differences, [10.0])
    assert found["late"].differences.size == 0
    assert math.isnan(found["late"].mean)
    assert math.isnan(found["vaal"].p_holm)


def test_win_matrix_agrees_with_scipy_on_noise(tmp_path):
    rng = np.random.default_rng(4)
    curves = {name: rng.normal(0.5 + 0.02 * i, 0.03, (6, 8)) for i, name in enumerate("abc")}
    results = results_of(tmp_path, {name: values.tolist() for name, values in curves.items()})
    wins = win_matrix(results, "accuracy")
    for i, row in enumerate("abc"):
        for j, column in enumerate("abc"):
            test = stats.ttest_rel(curves[row][:, 1:], curves[column][:, 1:])
            expected = np.mean((test.pvalue < 0.05) & (test.statistic > 0))
            assert i == j or wins[i, j] == pytest.approx(expected)
    np.testing.assert_allclose(penalties(wins), [np.nanmean(wins[:, j]) for j in range(3)])


@pytest.mark.parametrize(
    ("target", "labels"), [(50, 10), (40, 10), (55, 15), (60, 20), (65, 40), (70, 50), (71, math.nan)]
)
def test_labels_to_reach_by_hand(target, labels):
    assert labels_to_reach([10, 20, 30, 50], [50, 60, 60, 70], target) == pytest.approx(labels, nan_ok=True)


def test_labels_to_reach_takes_the_first_crossing_and_falling_curves():
    assert labels_to_reach([10, 20, 30, 40], [50, 60, 40, 80], 55) == 15
    assert labels_to_reach([10, 20, 30], [900, 700, 600], 650, higher=False) == 25
    assert math.isnan(labels_to_reach([10, 20], [900, 700], 650, higher=False))


def test_targets_are_round_and_between_start_and_best(four, tmp_path):
    assert targets(four, "accuracy") == [55, 60, 65, 70, 75, 80]
    assert targets(results_of(tmp_path, {"a": [[1180.0, 742.0]]}, "mae"), "mae") == [1100, 1000, 900, 800]
    assert targets(results_of(tmp_path / "flat", {"a": [[0.55, 0.55]]}), "accuracy") == []


def test_needs_are_of_the_mean_curve(four):
    needs = needs_of(four, "accuracy", "random", [60.0, 81.0])
    assert needs.shape == (2,)
    assert needs[0] == pytest.approx(20 + 20 * (1 + (60 - 179 / 3) / (200 / 3 - 179 / 3)))
    assert np.isnan(needs[1])
    assert needs_of(four, "accuracy", "random", [60.0], [0])[0] == 40


def test_times_by_hand(four):
    first = times(four)[0]
    assert (first.select, first.middle, first.train, first.total) == (1.25, 1.5, 2.0, 15.0)
    assert first.memory == 2**20


def test_areas_that_differ_by_rounding_share_a_rank_and_have_no_lead(tmp_path):
    a, b = [0.1 + 0.2, 0.5, 0.7], [0.3, 0.5, 0.7]  # equal but for the last bit
    results = load(write_runs(tmp_path / "x", {"a": [a, a], "b": [b, b], "c": [[0.0] * 3] * 2}))
    assert a[0] != b[0]
    assert average_ranks(results, "accuracy", first=True) == {"a": 1.5, "b": 1.5, "c": 3.0}
    assert paired_areas(results, "accuracy", "a", "b").tolist() == [0.0, 0.0]


def test_signed_ranks_of_sizes_that_differ_by_rounding_tie():
    exact = [0.3, -0.3, 0.6, 0.9, 1.2]
    assert wilcoxon([0.1 + 0.2, -0.3, 0.2 * 3, 0.3 * 3, 1.2]) == wilcoxon(exact)
