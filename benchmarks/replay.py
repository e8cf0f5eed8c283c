"""Jolts of the last block and of the last layer, with what comes before them replayed, against computing all of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from functools import partial
from typing import Any
from unittest import mock

import torch
from torch import nn

import jostle
from benchmarks.measure import Figure, best_seconds, figure
from jostle import models
from jostle.embeddings import deviations

JOLTS = 10
LAST = {  # network -> (shape of an example, last block, last layer, further options)
    "resnet18-cifar": ((3, 32, 32), ["layer4.1.*", "head.*"], ["head.*"], {}),
    "drn-d-22": (
        (3, 64, 96),
        ["trunk.layer8.*", "seg.*"],
        ["seg.*"],
        {"task": "segmentation", "space": "logits"},
    ),
    "bert-tiny": ((), ["bert.encoder.layer.11.*", "classifier.*"], ["classifier.*"], {}),
}


def replay_ratios(quick: bool = False) -> list[Figure]:
    """Seconds with replay over those without, the rows being equal."""
    return list(each_network(quick))


def each_network(quick: bool) -> Iterator[Figure]:
    """One figure after the other."""
    for name, (shape, block, layer, options) in LAST.items():
        model, pool = built(name, shape, quick)
        call = partial(jostle.deviations, model, pool, jolts=3 if quick else JOLTS, seed=0, progress=False)
        for words, patterns in (("last block", block), ("last layer", layer)):
            what = f"{name}, {words} jolted, K={3 if quick else JOLTS}"
            yield against_computing(what, partial(call, parameters=patterns, **options))


def built(name: str, shape: tuple[int, ...], quick: bool) -> tuple[nn.Module, Any]:
    """A network and a small pool for it; BERT has twelve layers of a sixth of the published width."""
    if name == "bert-tiny":
        model = models.build(name, seed=0, layers=12, hidden=128, heads=4)
        return model.eval(), {
            "input_ids": torch.randint(5, 30_000, (32, 32)),
            "attention_mask": torch.ones(32, 32),
        }
    model = models.build(name, seed=0, width=0.125 if quick else 0.25)
    return model.eval(), torch.randn(32 if name == "resnet18-cifar" else 8, *shape)


def against_computing(what: str, call: Any) -> Figure:
    """One figure."""

    def computing() -> Any:
        with mock.patch.object(deviations, "can_replay", return_value=False):
            return call()

    assert torch.equal(call(), computing()), "replay changes no bit"
    seconds = best_seconds(2, clock=time.process_time, replayed=call, computing=computing)
    return figure(
        what, seconds["replayed"] / seconds["computing"], "computing every pass in full", at_most=1.05
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    for each in each_network("--quick" in sys.argv):
        verdict = "ok" if each["ok"] else "MISSED"
        print(f"{each['ratio']:6.3f}  {verdict:6} {each['what']} | {each['against']}", flush=True)
