"""The tables of the default: errors saved by hand, and the confirmed finalist under the name of the default."""

from pathlib import Path

import numpy as np
import pytest
from synthetic_runs import write_runs
from tools import confirmation

from jostle.experiments.results import load


@pytest.fixture
def settings(tmp_path: Path) -> list[confirmation.Setting]:
    """Random leaves an error of 40 and of 50, the finalist 20 less and 10 more, margin 10 less in both."""
    curves = {
        "confirm-vehicle": {"random": 0.6, "finalist": 0.8, "margin": 0.7},
        "confirm-banana": {"random": 0.5, "finalist": 0.4, "margin": 0.6},
    }
    made = []
    for name, values in curves.items():
        flat = {label: [[value, value, value]] * 2 for label, value in values.items()}
        made.append(confirmation.read(load(write_runs(tmp_path / name, flat))))
    return made


def test_error_saved_is_in_percent_of_randoms(settings: list[confirmation.Setting]) -> None:
    vehicle, banana = settings
    np.testing.assert_allclose(vehicle.saved("default"), [50, 50])
    np.testing.assert_allclose(banana.saved("default"), [-20, -20])
    np.testing.assert_allclose(confirmation.over_seeds(settings, "default", "margin"), [(25 - 40) / 2] * 2)
    table = confirmation.comparison(settings, ["default", "margin"])
    rows = {row[0]: row[1:4] for row in table.plain()}
    assert rows["`default`"] == ["+15.0", "−20.0 (banana)", "1"]
    assert rows["`margin`"] == ["+22.5", "+20.0 (banana)", "0"]
    assert table.plain()[0][0] == "`margin`"  # the most error saved first


def test_passes_are_those_of_the_strategy_and_the_labels() -> None:
    assert confirmation.counted_passes(True, 1000, 0) == 1
    assert confirmation.counted_passes(False, 1000, 100) == pytest.approx(1 + 21 * 1.1, rel=1e-3)
