"""Experiments: protocols, the loop that runs them, and what comes out."""
