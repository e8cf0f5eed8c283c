"""What strategies cost in computing."""

from dataclasses import dataclass

import numpy as np

from jostle.results.curves import Results


@dataclass(frozen=True)
class Times:
    """What a strategy costs, means over its seeds."""

    label: str
    select: float  # a selection
    best: float  # a selection of the quickest seed: what else a machine does only adds
    middle: float  # the selection of the middle cycle, as the paper's timing table has it
    train: float  # a training
    total: float  # a whole run
    passes: float  # of the candidates through networks for a selection; nan if not counted
    memory: float  # bytes at the highest point of any run; nan if not recorded


def times(results: Results) -> list[Times]:
    """Selection and training time of every strategy."""
    return [_times(results, label) for label in results.labels]


def _times(results: Results, label: str) -> Times:
    runs = results.of(label)
    select = np.stack([run.select_seconds for run in runs])  # (seeds, points)
    train = np.stack([run.train_seconds for run in runs])
    memory = np.stack([run.peak_memory for run in runs])
    passes = np.concatenate([run.passes[1:] for run in runs])
    after = select[:, 1:] if select.shape[1] > 1 else select
    return Times(
        label,
        select=float(after.mean()),
        best=float(after.mean(axis=1).min()),
        middle=float(after[:, after.shape[1] // 2].mean()),
        train=float(train.mean()),
        total=float((np.nan_to_num(select) + train).sum(axis=1).mean()),
        passes=float("nan") if np.isnan(passes).all() else float(np.nanmean(passes)),
        memory=float("nan") if np.isnan(memory).all() else float(np.nanmax(memory)),
    )
