"""Experiments: run a protocol, read its results, report them.

`run_experiment(load_protocol("digits"), "runs/digits", seeds=range(3))` does what `jostle run digits --seeds 3` does,
and `load_results("runs/digits")` reads the runs back.
"""

from jostle.experiments.results.curves import Results
from jostle.experiments.results.curves import load as load_results
from jostle.experiments.runs.experiment import Experiment, Plan, open_experiment, run_experiment
from jostle.experiments.runs.protocol import Protocol
from jostle.experiments.runs.protocol import load as load_protocol
from jostle.experiments.runs.protocol import names as protocols

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
