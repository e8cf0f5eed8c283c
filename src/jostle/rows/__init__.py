"""Rows: dense or as factors, in memory or in a file, and their arithmetic."""

from jostle.rows.geometry import Outer, Reduction, Rows

__all__ = ["Outer", "Reduction", "Rows"]
