"""Runs a user's model: a private copy, traced, in micro-batches; the original is only read."""
