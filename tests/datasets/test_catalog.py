"""The registry: names, descriptions, the offline default, the page about it."""

from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits

from jostle import datasets

PROJECT = Path(__file__).parents[2]


def test_every_name_is_described_and_documented():
    page = (PROJECT / "docs" / "reference" / "data.md").read_text(encoding="utf-8")
    for name in datasets.names():
        assert len(datasets.describe(name)) > 20
        assert "\n" not in datasets.describe(name)
        assert f"`{name}`" in page, f"docs/reference/data.md does not mention {name}"
        for setting in datasets.settings(name):
            assert f"`{setting}`" in page or f"`{setting}=" in page, (
                f"docs/reference/data.md: {name}, {setting}"
            )


def test_settings_of_paths_are_documented():
    page = (PROJECT / "docs" / "reference" / "data.md").read_text(encoding="utf-8")
    for name in ("folder:x", "csv:x"):
        assert "your own" in datasets.describe(name)
        for setting in datasets.settings(name):
            assert f"`{setting}`" in page, f"docs/reference/data.md: {name}, {setting}"


def test_digits():
    data = datasets.load("digits")
    bunch = load_digits()
    assert (len(data.train), len(data.test), data.shape, data.outputs) == (1297, 500, (1, 8, 8), 10)
    assert data.train.targets.tolist() + data.test.targets.tolist() == bunch.target.tolist()
    torch.testing.assert_close(data.train.inputs.mean(), torch.tensor(0.0), atol=1e-3, rtol=0)
    torch.testing.assert_close(data.train.inputs.std(), torch.tensor(1.0), atol=1e-3, rtol=0)
    shown = np.asarray(data.preview(7)).astype(float)
    np.testing.assert_allclose(shown, bunch.images[7] * 255 / 16, atol=0.5001)
    assert min(np.bincount(data.test.targets)) >= 46  # every digit is tested
