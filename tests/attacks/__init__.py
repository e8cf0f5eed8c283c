"""Attacks on what jostle promises: random calls, interrupts, kills, corrupt files; each repeats from its seed."""
