"""Rows: their formats, their arithmetic, and which are not finite."""

from jostle.rows.geometry import Outer, Reduction, Rows

__all__ = ["Outer", "Reduction", "Rows"]
