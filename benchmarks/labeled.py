"""Labeled data for `jostle label simulate`: what docs/how-to/label.md measures with.

jostle label simulate benchmarks/labeled.py:digits target --out-dir runs/labeling-digits/simulation
"""

import os
import tarfile
from pathlib import Path

import numpy as np
from PIL import Image

WHITE = 16  # of a pixel


def digits() -> tuple[list[Image.Image], list[int]]:
    """1,797 handwritten digits of 8 × 8 pixels, which come with scikit-learn."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    pixels = (bunch.images * (255 / WHITE)).astype(np.uint8)
    return [Image.fromarray(image) for image in pixels], bunch.target.tolist()


KINDS = {
    "tweets": "tweet",
    "amazonReviewSnippets": "product",
    "movieReviewSnippets": "film",
    "nytEditorialSnippets": "news",
}
EACH = 1000  # texts of a kind


def snippets() -> tuple[list[str], list[str]]:
    """4,000 short texts from tweets, product reviews, film reviews and editorials: which is it?

    Hutto and Gilbert, ICWSM 2014. Put their archive into JOSTLE_DATA as vader/hutto_ICWSM_2014.tar.gz; the source
    distribution of the PyPI package vaderSentiment holds it.
    """
    texts: list[str] = []
    targets: list[str] = []
    with tarfile.open(Path(os.environ["JOSTLE_DATA"]) / "vader" / "hutto_ICWSM_2014.tar.gz") as archive:
        for name, kind in KINDS.items():
            file = archive.extractfile(f"hutto_ICWSM_2014/{name}_GroundTruth.txt")
            assert file is not None
            lines = file.read().decode("utf-8", errors="replace").splitlines()[:EACH]
            texts += [line.split("\t")[2].strip() for line in lines]
            targets += [kind] * len(lines)
    return texts, targets
