"""What a cycle would take at a protocol's full size, from a run of a small part of it."""

from collections.abc import Mapping
from typing import Any

from jostle import strategies
from jostle.experiments import protocol
from jostle.experiments.curves import Results
from jostle.experiments.statistics import times
from jostle.strategies.autoencoders import PASSES

Settings = Mapping[str, Any]


def full_cycle(results: Results) -> dict[str, float]:
    """Seconds of a cycle, training and selection, at the size of the protocol that jostle has under this name."""
    small = results.manifest["protocol"]
    whole = protocol.load(small["name"]).written()
    training = min(run.train_seconds[0] for run in results.runs)
    longer = trained_examples(whole) / trained_examples(small)
    cycles = {}
    for each in times(results):
        used, full = small["strategies"][each.label], whole["strategies"][each.label]
        passes = max(0.0, each.best - training * members(used))  # what is not training a committee
        growth = work(whole, full) / work(small, used)
        cycles[each.label] = training * longer * (1 + members(full)) + passes * growth
    return cycles


def trained_examples(protocol: Settings) -> float:
    """Examples that a network sees in its training."""
    return float(protocol["initial"] * protocol["training"]["epochs"])


def members(strategy: Settings) -> int:
    """Networks that a selection trains like the model: a committee's others."""
    if strategy["use"] != "qbc":
        return 0
    return int(strategy.get("committee", strategies.describe("qbc").settings["committee"])) - 1


def work(protocol: Settings, strategy: Settings) -> float:
    """How much there is for a selection to see: candidates, as labelled ones and picks are taken to grow with them,
    but for VAAL, whose autoencoder takes nearly all the time, the images that it sees of each set."""
    if strategy["use"] != "vaal":
        return float(protocol["candidates"])
    batch = strategy.get("batch", 128)
    steps = strategy.get("steps") or PASSES * (protocol["initial"] + protocol["candidates"]) / batch
    return float(steps * batch)
