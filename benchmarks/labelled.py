"""Labelled data for `jostle label --simulate`: what docs/labelling.md measures with.

jostle label benchmarks/labelled.py:digits --simulate target --project runs/labelling-digits
"""

import numpy as np
from PIL import Image

WHITE = 16  # of a pixel


def digits() -> tuple[list[Image.Image], list[int]]:
    """1,797 handwritten digits of 8 × 8 pixels, which come with scikit-learn."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    pixels = (bunch.images * (255 / WHITE)).astype(np.uint8)
    return [Image.fromarray(image) for image in pixels], bunch.target.tolist()


def mrpc() -> tuple[list[tuple[str, str]], list[str]]:
    """5,801 pairs of sentences, paraphrases or not: both parts of MRPC, from the folder JOSTLE_DATA."""
    from jostle.datasets import text

    data = text.mrpc(None)
    pairs = [tuple(pair) for part in (data.train, data.test) for pair in part.inputs.rows]
    targets = [data.classes[int(target)] for part in (data.train, data.test) for target in part.targets]
    return pairs, targets
