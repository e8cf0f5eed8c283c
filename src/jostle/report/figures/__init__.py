"""Figures of runs."""

from jostle.report.figures.curves import (
    DRAWN_ONE_BY_ONE,
    band,
    gain_curves,
    learning_curves,
    setting_dots,
    side_by_side,
)
from jostle.report.figures.diagram import rank_diagram
from jostle.report.figures.dots import INTERVAL_SEEDS, aubc_dots, gain_dots, time_bars
from jostle.report.figures.maps import duel_map, gain_map, win_map

__all__ = [
    "DRAWN_ONE_BY_ONE",
    "INTERVAL_SEEDS",
    "aubc_dots",
    "band",
    "duel_map",
    "gain_curves",
    "gain_dots",
    "gain_map",
    "learning_curves",
    "rank_diagram",
    "setting_dots",
    "side_by_side",
    "time_bars",
    "win_map",
]
