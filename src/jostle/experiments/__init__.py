"""Experiments: run a protocol, read its results, report them.

`run_experiment(load_protocol("digits"), "runs/digits", seeds=range(3))` does what `jostle run digits --seeds 3` does,
and `load_results("runs/digits")` reads the runs back.
"""

from jostle.experiments.experiment import Experiment, Plan, open_experiment, run_experiment
from jostle.experiments.protocol import Protocol
from jostle.experiments.protocol import load as load_protocol
from jostle.experiments.protocol import names as protocols
from jostle.experiments.results import Results
from jostle.experiments.results import load as load_results

__all__ = [
    "Experiment",
    "Plan",
    "Protocol",
    "Results",
    "load_protocol",
    "load_results",
    "open_experiment",
    "protocols",
    "run_experiment",
]
