import math

import numpy as np
import pytest
from scipy import stats
from synthetic_runs import write_runs

from jostle.experiments.across import (
    Across,
    clear_sign,
    cliques,
    critical_difference,
    labels_saved,
    overview_table,
)
from jostle.experiments.results import load


@pytest.fixture
def folder(tmp_path):
    def write(name, curves, metric="accuracy"):
        return load(write_runs(tmp_path / name, curves, metric))

    return write


def flat(*heights, seeds=3):
    """Curves without slope, whose area is their height; seeds differ a little, and the same for all."""
    return [[height + 0.01 * seed] * 3 for seed in range(seeds) for height in heights]


@pytest.fixture
def three(folder):
    """Ranks by hand: a 1, 1, 2; b 2, 2, 1; random 3, 3, 3; c only in the first."""
    return {
        "x": folder("x", {"random": flat(0.4), "a": flat(0.6), "b": flat(0.5), "c": flat(0.3)}),
        "y": folder("y", {"random": flat(0.7), "a": flat(0.9), "b": flat(0.8)}),
        "z": folder("z", {"random": flat(4.0), "a": flat(3.0), "b": flat(2.0)}, metric="mae"),
    }


def test_ranks_by_hand(three):
    across = Across.of(three)
    assert across.metrics == {"x": "accuracy", "y": "accuracy", "z": "mae"}
    assert across.everywhere == ["random", "a", "b"]
    np.testing.assert_array_equal(across.ranks, [[3, 1, 2], [3, 1, 2], [3, 2, 1]])
    assert across.average_ranks == pytest.approx({"random": 3, "a": 4 / 3, "b": 5 / 3})
    assert across.labels == ["a", "b", "random", "c"]
    assert {metric: list(part.runs) for metric, part in across.parts().items()} == {"accuracy": ["x", "y"]}
    assert Across.of({name: three[name] for name in "xy"}).parts() == {}


def test_friedmans_test_is_scipys(folder):
    rng = np.random.default_rng(0)
    heights = rng.random((8, 4))
    heights[0, 1] = heights[0, 0]  # a tie
    runs = {
        str(i): folder(str(i), {n: flat(h) for n, h in zip("abcd", row, strict=True)})
        for i, row in enumerate(heights)
    }
    across = Across.of(runs)
    assert across.friedman == pytest.approx(stats.friedmanchisquare(*heights.T).pvalue)
    same = {name: folder(f"same{name}", dict.fromkeys("abc", flat(0.5))) for name in "xy"}
    assert Across.of(same).friedman == 1
    assert math.isnan(Across.of({name: each.only(["a", "b"]) for name, each in runs.items()}).friedman)


def test_the_critical_difference_is_the_published_one():
    # Demšar 2006: q at 0.05 in table 5a, and the example of 4 classifiers on 14 data sets
    published = {2: 1.960, 3: 2.343, 4: 2.569, 5: 2.728, 6: 2.850, 7: 2.949, 8: 3.031, 9: 3.102, 10: 3.164}
    for k, q in published.items():
        assert critical_difference(k, 1) == pytest.approx(q * math.sqrt(k * (k + 1) / 6), rel=4e-4)
    assert critical_difference(4, 14) == pytest.approx(1.25, abs=0.005)
    assert math.isnan(critical_difference(1, 5))


def test_cliques_are_the_largest_groups_within_the_difference():
    rng = np.random.default_rng(1)
    for _ in range(50):
        values = rng.uniform(1, 6, 7).round(1)
        ranks, difference = dict(zip("abcdefg", values, strict=True)), 1.2
        order = sorted(ranks, key=ranks.get)
        groups = [
            tuple(order[i : j + 1])
            for i in range(7)
            for j in range(i + 1, 7)
            if ranks[order[j]] - ranks[order[i]] <= difference
        ]
        largest = [group for group in groups if not any({*group} < {*other} for other in groups)]
        assert cliques(ranks, difference) == largest


def test_gains_are_shares_of_the_baselines_error(three):
    across = Across.of(three)
    # x: random lacks 59 points to 100 and a is 20 ahead; y: 29 and 20; z: errors of 4.01 and 3.01
    assert across.gains("a") == pytest.approx({"x": 20 / 59, "y": 20 / 29, "z": 1 / 4.01})
    assert across.points("a") == pytest.approx({"x": 20, "y": 20})
    assert across.gains("c") == pytest.approx({"x": -10 / 59})
    assert across.gains("random") == {"x": 0, "y": 0, "z": 0}
    assert Across.of(three, baseline="c").gains("a") == pytest.approx({"x": 30 / 69})


def test_labels_saved_by_hand(folder):
    rise = {"random": [[0.5, 0.6, 0.7]], "fast": [[0.5, 0.7, 0.9]], "slow": [[0.5, 0.55, 0.6]]}
    results = folder("rise", rise)  # 20, 40 and 60 labels
    assert labels_saved(results, "accuracy", "fast", "random") == pytest.approx(1 - 40 / 60)
    assert labels_saved(results, "accuracy", "slow", "random") == pytest.approx(40 / 60 - 1)
    assert labels_saved(results, "accuracy", "random", "random") == 0
    wavy = folder("wavy", {"random": [[0.5, 0.8, 0.7]], "same": [[0.5, 0.8, 0.7]]})
    assert labels_saved(wavy, "accuracy", "same", "random") == 0


def test_duels_are_paired_t_tests(folder):
    rng = np.random.default_rng(2)
    runs, expected = {}, [0, 0]
    for i in range(12):
        shift = (-1) ** i * 0.02
        a, b = rng.normal(0.5, 0.02, (2, 6))
        runs[str(i)] = folder(str(i), {"a": [[h] * 2 for h in a], "b": [[h + shift] * 2 for h in b]})
        test = stats.ttest_rel(a, b + shift)
        expected[0] += int(test.pvalue < 0.05 and test.statistic > 0)
        expected[1] += int(test.pvalue < 0.05 and test.statistic < 0)
    assert Across.of(runs).duel("a", "b") == tuple(expected)
    assert Across.of(runs).duel("b", "a") == tuple(reversed(expected))
    assert min(expected) > 0
    assert clear_sign(np.array([1.0])) == 0
    assert clear_sign(np.array([1.0, 1.0])) == 1


def test_tests_over_folders_are_signed_rank_tests_with_holms_correction(folder):
    rng = np.random.default_rng(3)
    heights = rng.uniform(0.4, 0.6, (9, 3)) + np.array([0, 0.15, 0.03])
    runs = {str(i): folder(str(i), {n: flat(h) for n, h in zip(("random", "a", "b"), row, strict=True)})
            for i, row in enumerate(heights)}  # fmt: skip
    across = Across.of(runs)
    plain = {name: stats.wilcoxon([*across.gains(name).values()]).pvalue for name in "ab"}
    assert plain["a"] < plain["b"]
    assert across.tests(["a", "b"]) == pytest.approx(
        {"a": 2 * plain["a"], "b": max(2 * plain["a"], plain["b"])}
    )


def test_tests_over_runs_take_every_seed_as_a_share_of_its_sets_error(folder):
    rng = np.random.default_rng(4)
    runs, shares = {}, []
    for i in range(4):
        base, mine = rng.uniform(0.4, 0.6, (2, 3)) + np.array([[0], [0.06]])
        runs[str(i)] = folder(str(i), {"random": [[h] * 2 for h in base], "a": [[h] * 2 for h in mine]})
        shares += [(a - b) / (1 - base.mean()) for a, b in zip(mine, base, strict=True)]
    assert Across.of(runs).seed_tests(["a"]) == pytest.approx({"a": stats.wilcoxon(shares).pvalue})
    assert math.isnan(Across.of(runs).seed_tests(["missing"])["missing"])


def rows(table):
    return {row[0]: dict(zip(table.columns[1:], row[1:], strict=True)) for row in table.plain()}


def test_the_overview_has_a_row_for_each_strategy(three):
    table = overview_table(Across.of(three))
    found = rows(table)
    assert list(found) == ["a", "b", "random", "c"]
    assert (found["a"]["rank"], found["a"]["rank, accuracy"]) == ("1.33", "1.00")
    assert found["a"]["error less, %"] == "+42.6"  # the mean of 33.9, 69.0 and 24.9
    assert (found["a"]["points"], found["a"]["worst, %"], found["a"]["where"]) == ("+20.00", "+24.9", "z")
    assert (found["c"]["rank"], found["c"]["worst, %"], found["c"]["sets"]) == ("–", "−16.9", "1")
    assert (found["a"]["ahead : behind"], found["a"]["p, sets"]) == ("3 : 0", "0.500")
    assert "3 sets cannot give less than 0.25" in table.note
    assert [row[0].text for row in table.rows if row[1].best] == ["a"]
