"""k-means, for selectors and strategies that look at clusters of rows."""

import warnings

import torch
from torch import Tensor

from jostle.rng import derive
from jostle.rows.geometry import blocks
from jostle.rows.mapped import is_mapped, release, spilled_rows


def in_float64(rows: Tensor, *more: Tensor) -> Tensor:
    """Rows, and more below them, in float64 on the CPU, (n, d): new ones, in a file where the rows lie in one."""
    below = [part.detach().to("cpu", torch.float64) for part in more]
    if not is_mapped(rows):
        return torch.cat([rows.detach().to("cpu", torch.float64), *below])
    wide = spilled_rows((len(rows) + sum(map(len, more)), rows.shape[1]), torch.float64)
    for part in blocks(len(rows), per_row=rows.shape[1], of=rows):
        wide[part] = rows[part]
        release(wide)
    if below:
        wide[len(rows) :] = torch.cat(below)
    return wide


def k_means(rows: Tensor, k: int, seed: int) -> tuple[Tensor, Tensor]:
    """The cell of each row (n,) and the cells' centers (k, d); rows that coincide leave cells empty."""
    from sklearn.cluster import KMeans  # here, since loading it takes longer than most calls of jostle
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than cells
        fitted = KMeans(k, n_init=1, random_state=derive(seed, "k-means") % 2**32, copy_x=False).fit(
            in_float64(rows).numpy()
        )
    cells = torch.as_tensor(fitted.labels_, dtype=torch.int64, device=rows.device)
    return cells, torch.as_tensor(fitted.cluster_centers_, device=rows.device)
