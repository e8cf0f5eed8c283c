"""Runs read back from disk: curves, statistics, tables."""
