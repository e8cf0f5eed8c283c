import pytest
from synthetic_runs import FOUR, write_runs

from jostle.experiments.report import details, headline
from jostle.experiments.results import load
from jostle.experiments.statistics import best_first, gains
from jostle.experiments.tables import aubc_table, needs_table
from jostle.experiments.tables import gain_table as table_of_gains


def gain_table(results, metric, reference):
    return table_of_gains(results, metric, reference, gains(results, metric, reference))


@pytest.fixture
def four(tmp_path):
    return load(write_runs(tmp_path / "digits", FOUR))


def texts(table):
    return {row[0]: row[1:] for row in table.plain()}


def test_aubc_table(four):
    table = aubc_table(four, "accuracy")
    assert table.columns == (
        "strategy",
        "AUBC, accuracy, %",
        "last accuracy, %",
        "rank",
        "rank, all points",
        "seeds",
    )
    assert list(texts(table)) == ["noise-stability", "badge", "random", "entropy"]
    # AUBC by hand: random 64.75, 66.125, 63.75; noise-stability 71.25, 72.625, 70.5; badge 70.375, 72, 68.75
    assert texts(table)["random"] == ["64.88 ± 1.19", "74.33 ± 0.58", "3.00", "2.90", "3"]
    assert [cell.best for cell in table.rows[0]] == [False, True, True, True, True, False]


def test_gain_table(four):
    table = gain_table(four, "accuracy", "random")
    gain, low, high, ahead, p, holm = texts(table)["noise-stability"]
    assert (gain, ahead, p, holm) == ("+6.58", "3 of 3", "0.250", "0.750")
    assert (low, high) == ("+6.50", "+6.75")  # the means of all 27 resamples, three times 6.75 among them
    assert "With 3 seeds no p can be below 0.25" in table.note


def test_needs_table_shows_the_saving(four):
    table = needs_table(four, "accuracy", [50, 70, 82], "random")
    assert table.columns == ("strategy", "50 %", "70 %", "82 %")
    assert texts(table)["random"] == ["≤ 20", "75", "–"]
    assert texts(table)["noise-stability"] == ["≤ 20", "50 (−34 %)", "98"]
    assert "against random" in table.note
    assert "against" not in needs_table(four, "accuracy", [50], None).note


def test_what_was_run_on_fewer_seeds_is_compared_on_those(tmp_path):
    # random needs 30 labels for 60 % in seed 0, and 40 in the mean of both
    curves = {"random": [[0.50, 0.70], [0.40, 0.50]], "vaal": [[0.50, 0.75]]}
    results = load(write_runs(tmp_path / "runs", curves))
    table = needs_table(results, "accuracy", [60], "random")
    assert texts(table) == {"random": ["40", "2"], "vaal": ["28 (−7 %)", "1"]}
    assert table.columns == ("strategy", "60 %", "seeds")
    assert not table.rows[list(texts(table)).index("vaal")][1].best
    assert "on the seeds that both have" in table.note
    assert "ranked, and put in order, by the seeds that both have" in aubc_table(results, "accuracy").note


@pytest.mark.parametrize(
    ("curves", "first"),
    [
        ({"random": [[0.1, 0.5]], "badge": [[0.1, 0.6]]}, "One seed decides nothing yet; badge has the best"),
        (
            {"random": [[0.1, 0.5]] * 2, "badge": [[0.1, 0.6]] * 2},
            "Two seeds decide nothing yet; badge has the",
        ),
        (
            {"random": [[0.1, 0.5]] * 3, "badge": [[0.1, 0.8], [0.1, 0.8], [0.1, 0.4]]},
            "No strategy is clearly better than random; badge has the best result, an area",
        ),
        (
            {
                "random": [[0.1, 0.3]] * 3,
                "badge": [[0.1, 0.5]] * 3,
                "qbc": [[0.1, 0.45], [0.1, 0.4], [0.1, 0.6]],
            },
            "badge has the best result, but no clear lead: an area under the accuracy curve of 30.00 ± 0.00 %, 10.00",
        ),
        ({"random": [[0.1, 0.5]] * 3, "badge": [[0.1, 0.6]] * 3}, "badge comes out ahead, with an area"),
        ({"badge": [[0.1, 0.6]] * 3}, "badge has an area under the accuracy curve of 35.00"),
    ],
)
def test_the_headline_claims_what_the_seeds_carry(tmp_path, curves, first):
    results = load(write_runs(tmp_path / "runs", curves))
    assert headline(results, "accuracy", "random").replace("\u00a0", " ").startswith(first)


def test_many_seeds_are_judged_by_the_interval(tmp_path):
    base = [[0.1, 0.5 + 0.01 * i] for i in range(8)]
    close = [[0.1, 0.5 + 0.01 * i + (0.02 if i % 2 else -0.015)] for i in range(8)]
    results = load(write_runs(tmp_path / "runs", {"random": base, "badge": close}))
    said = details(results, "accuracy", "random")
    assert "ahead in 4 of 8 seeds, 95 % interval −" in said
    assert "may be chance" in said
    assert "few" not in said


def test_one_seed_has_no_spread_and_errors_are_best_when_small(tmp_path):
    curves = {"random": [[30000.0, 21000.0]], "coreset": [[30000.0, 20000.0]]}
    results = load(write_runs(tmp_path / "ames", curves, metric="mae"))
    assert best_first(results, "mae") == ["coreset", "random"]
    assert texts(aubc_table(results, "mae"))["coreset"][:2] == ["25000", "20000"]
    assert texts(gain_table(results, "mae", "random"))["coreset"] == ["+500", "–", "–", "1 of 1", "–", "–"]
    assert "A smaller MAE is better" in aubc_table(results, "mae").note
    assert "500 better than random" in headline(results, "mae", "random")
