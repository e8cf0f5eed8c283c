"""The options of a call, written once: `select`, `embed` and a context all take these."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from jostle.inference.padding import Mask
from jostle.inputs import Collate
from jostle.tasks import Task, task_named
from jostle.utils.names import unknown

__all__ = ["Options"]

Fit = Callable[[Any, int], nn.Module]  # (dataset, seed) -> a freshly trained model


class Options(TypedDict, total=False):
    """What a call may be given beside the model and the pool."""

    labeled: Any
    """The labeled examples, a dataset or data loader of (x, y), for methods that need them."""
    fit: Fit | None
    """Trains a fresh model, `fit(dataset, seed) -> nn.Module`, for methods that need several."""
    task: str | Task | None
    """What outputs mean: "classification", "binary", "regression", "segmentation", "multi-label", "sequence" or a
    `Task`; None: as their shape tells."""
    mask: Mask
    """Which tokens of a sequence count: a key of the inputs, a function of them that gives (n, tokens), or False for
    all; None: `attention_mask` where the inputs have it."""
    exclude: Sequence[int] | NDArray[np.int64] | Tensor | None
    """Positions of the pool that may not be picked: whole numbers, not a mask."""
    scores: Any
    """Your own score of each example of the pool, an array (n,), larger where a label is worth more. top-k ranks by it,
    herding and explained-variance weigh by it; None: the scores of the strategy."""
    seed: int | None
    """Repeats the query; None draws a fresh one and records it."""
    batch_size: int | None
    """Examples per forward pass; None: a rule on the sizes of activations."""
    device: torch.device | str | None
    """Where to compute; None: where the model is."""
    num_workers: int
    """Worker processes that read the pool, as a `DataLoader` has them."""
    collate_fn: Collate | None
    """Puts examples of the pool together to a batch, as a `DataLoader` takes it."""
    engine: Any
    """Where to compute: "ray" or a `jostle.engines.Ray`, a cluster that scores shards of the pool; None: here."""
    progress: bool | None
    """A bar on standard error: True always, False never; None: on a terminal."""


DEFAULTS: Mapping[str, Any] = {"num_workers": 0}  # all others are None unless given


def split_options(options: Mapping[str, Any]) -> tuple[Options, dict[str, Any]]:
    """Keywords of one call as (options of the call, settings of the strategy)."""
    call = {key: value for key, value in options.items() if key in Options.__annotations__}
    return cast(Options, call), {key: value for key, value in options.items() if key not in call}


def check_options(options: Options) -> None:
    """Refuse options that there are not, and sizes that cannot be."""
    for name in options:
        if name not in Options.__annotations__:
            raise TypeError(str(unknown("option", name, Options.__annotations__)))
    task_named(options.get("task"))
    mask = options.get("mask")
    if not (mask is None or mask is False or isinstance(mask, str) or callable(mask)):
        raise TypeError(f"mask is a key of the inputs, a function of them, or False for none; got {mask!r}")
    batch_size = options.get("batch_size")
    if batch_size is not None and batch_size < 1:
        raise ValueError(f"batch_size must be at least 1; got {batch_size}")
