"""k-means, for selectors and strategies that look at clusters of rows."""

import warnings

import torch
from torch import Tensor

from jostle.rng import derive


def k_means(rows: Tensor, k: int, seed: int) -> tuple[Tensor, Tensor]:
    """The cell of each row (n,) and the cells' centers (k, d); rows that coincide leave cells empty."""
    from sklearn.cluster import KMeans  # here, since loading it takes longer than most calls of jostle
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than cells
        fitted = KMeans(k, n_init=1, random_state=derive(seed, "k-means") % 2**32).fit(
            rows.detach().to("cpu", torch.float64).numpy()
        )
    cells = torch.as_tensor(fitted.labels_, dtype=torch.int64, device=rows.device)
    return cells, torch.as_tensor(fitted.cluster_centers_, device=rows.device)
