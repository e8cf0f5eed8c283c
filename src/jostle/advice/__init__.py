"""Which strategy for a task at hand, what it costs, and what the benchmark measured in similar settings."""

from jostle.advice.advice import Advice, Case, Seen, Setting, advise, nearest, record, settings

__all__ = ["Advice", "Case", "Seen", "Setting", "advise", "nearest", "record", "settings"]
