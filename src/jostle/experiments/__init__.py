"""Experiments: a protocol, its runs, and what came out of them.

`conduct(load_protocol("digits"), "runs/digits", seeds=range(3))` does what `jostle run digits --seeds 3` does.
"""

from jostle.experiments.experiment import Plan, conduct
from jostle.experiments.protocol import Protocol
from jostle.experiments.protocol import load as load_protocol
from jostle.experiments.protocol import names as protocols

__all__ = ["Plan", "Protocol", "conduct", "load_protocol", "protocols"]
