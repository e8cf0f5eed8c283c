"""Labeled data for `jostle label simulate`: what docs/how-to/label.md measures with.

jostle label simulate benchmarks/labeled.py:digits target --out-dir runs/labeling-digits/simulation
"""

import os
import tarfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image

WHITE = 16  # of a pixel


def digits() -> tuple[list[Image.Image], list[int]]:
    """1,797 handwritten digits of 8 × 8 pixels, which come with scikit-learn."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    pixels = (bunch.images * (255 / WHITE)).astype(np.uint8)
    return [Image.fromarray(image) for image in pixels], bunch.target.tolist()


def mrpc() -> tuple[list[tuple[str, ...]], list[str]]:
    """5,801 pairs of sentences, paraphrases or not: both parts of MRPC, from the folder JOSTLE_DATA."""
    from jostle.datasets import Texts, tables
    from jostle.datasets.fetch import data_root

    data = tables.mrpc(data_root())
    pairs: list[tuple[str, ...]] = []
    targets: list[str] = []
    for part in (data.train, data.test):
        assert isinstance(part.inputs, Texts)
        pairs += part.inputs.rows
        targets += [data.classes[int(target)] for target in part.targets[torch.arange(len(part))]]
    return pairs, targets


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
