"""Rows: dense or as factors, in memory or in a file, and their arithmetic."""

from jostle.rows.geometry import Outer, Rows

__all__ = ["Outer", "Rows"]
