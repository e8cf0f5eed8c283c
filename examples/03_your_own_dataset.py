"""Your own data is a function that returns four arrays: inputs, targets, test inputs, test targets.

Run this file to see what jostle makes of it. Commands take the function by its address:
--dataset examples/03_your_own_dataset.py:rings.
"""

import numpy as np

from jostle import datasets


def rings(rows=600, test_rows=200, seed=0):
    """Three noisy rings around each other; which one a point lies on is its class."""
    rng = np.random.default_rng(seed)
    ring = rng.integers(0, 3, rows + test_rows)
    angle = rng.uniform(0, 2 * np.pi, len(ring))
    radius = 1 + ring + rng.normal(0, 0.15, len(ring))
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return points[:rows], ring[:rows], points[rows:], ring[rows:]


if __name__ == "__main__":
    data = datasets.load(f"{__file__}:rings", rows=300)
    print(f"rings: {data.task}, {len(data.train)} to learn from, {len(data.test)} to test on")
    print(f"inputs {data.shape}, classes {', '.join(data.classes)}")
    print(f"the first point: {data.preview(0)}, class {data.train.targets[0]}")
