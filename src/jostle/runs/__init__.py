"""Experiments: a protocol, its runs, and what came out of them.

`conduct(load_protocol("digits"), "runs/digits", seeds=range(3))` does what `jostle run digits --seeds 3` does.
"""

from jostle.runs.experiment import Plan, conduct
from jostle.runs.protocol import Protocol
from jostle.runs.protocol import load as load_protocol
from jostle.runs.protocol import names as protocols

__all__ = ["Plan", "Protocol", "conduct", "load_protocol", "protocols"]
