"""Run an experiment: protocol, setup, loop, and the runners that execute runs."""
