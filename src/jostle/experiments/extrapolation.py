"""What a cycle would take at a protocol's full size, from a run of a small part of it."""

from collections.abc import Callable, Mapping
from typing import Any

from jostle.experiments import protocol
from jostle.experiments.curves import Results
from jostle.experiments.statistics import times
from jostle.strategies.autoencoders import PASSES

Settings = Mapping[str, Any]


def full_cycle(results: Results) -> dict[str, float]:
    """Seconds of a cycle, training and selection, at the size of the protocol that jostle has under this name."""
    small = results.manifest["protocol"]
    whole = protocol.load(small["name"]).written()
    training = min(run.train_seconds[0] for run in results.runs) * trained(whole, {}) / trained(small, {})
    return {
        each.label: training + each.best * work(whole, each.label) / work(small, each.label)
        for each in times(results)
    }


def work(protocol: Settings, label: str) -> float:
    """How much work a selection is: candidates, but training where that takes nearly all the time."""
    strategy = protocol["strategies"][label]
    return WORK.get(strategy["use"], candidates)(protocol, strategy)


def candidates(protocol: Settings, strategy: Settings) -> float:
    """Examples that pass the network; labelled ones and picks are taken to grow with them."""
    return float(protocol["candidates"])


def trained(protocol: Settings, strategy: Settings) -> float:
    """Examples that a network sees in its training, a committee's member like the model."""
    return float(protocol["initial"] * protocol["training"]["epochs"])


def autoencoder_steps(protocol: Settings, strategy: Settings) -> float:
    """Images that an autoencoder sees of each set."""
    batch = strategy.get("batch", 128)
    steps = strategy.get("steps") or PASSES * (protocol["initial"] + protocol["candidates"]) / batch
    return float(steps * batch)


WORK: dict[str, Callable[[Settings, Settings], float]] = {"qbc": trained, "vaal": autoencoder_steps}
