"""Figures of runs."""

from jostle.report.figures.curves import (
    DRAWN_ONE_BY_ONE,
    band,
    gain_curves,
    learning_curves,
    setting_dots,
    side_by_side,
)
from jostle.report.figures.dots import INTERVAL_SEEDS, aubc_dots, gain_dots, time_bars
from jostle.report.figures.maps import win_map

__all__ = [
    "DRAWN_ONE_BY_ONE",
    "INTERVAL_SEEDS",
    "aubc_dots",
    "band",
    "gain_curves",
    "gain_dots",
    "learning_curves",
    "setting_dots",
    "side_by_side",
    "time_bars",
    "win_map",
]
