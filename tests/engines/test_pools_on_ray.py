"""Pools on disk, scored by a cluster: folders and Parquet columns of every kind give the picks of one machine."""

import csv
import io
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

import jostle
from jostle import cli, datasets

pytest.importorskip("ray")
pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
from ray_nodes import SMALL, Nodes, assert_same  # noqa: E402

pytestmark = pytest.mark.ray
COUNT, SIDE, WORDS = 150, 6, "abcde"


class Reader(nn.Module):
    """Reads token ids: the mean of embeddings that are no padding, after a layer that mixes tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.mixing, self.last = nn.Embedding(12, 8), nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> Tensor:
        tokens, seen = self.table(input_ids), attention_mask[:, :, None]
        mixed = torch.tanh(self.mixing(tokens)) * seen  # (n, tokens, 8)
        return self.last(mixed.sum(1) / seen.sum(1))


def viewer(numbers: int = 3 * SIDE * SIDE) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(numbers, 16), nn.ReLU(), nn.Linear(16, 3))


def reader() -> nn.Module:
    torch.manual_seed(0)
    return Reader()


def pictures() -> list[bytes]:
    drawn = np.random.default_rng(0).integers(0, 256, (COUNT, SIDE, SIDE, 3), dtype=np.uint8)
    found = []
    for each in drawn:
        file = io.BytesIO()
        Image.fromarray(each).save(file, "PNG")
        found.append(file.getvalue())
    return found


def photos(folder: Path) -> None:
    """Images in folders of unequal size."""
    for number, content in enumerate(pictures()):
        place = folder / "photos" / ("cats" if number % 3 else "dogs")
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number:03}.png").write_bytes(content)


def parquet(folder: Path, values: list) -> None:
    """A column over three files, in row groups that no micro-batch fills."""
    (folder / "pool").mkdir()
    for number, part in enumerate(np.array_split(np.arange(COUNT), 3)):
        column = pa.table({"x": [values[i] for i in part]})
        pq.write_table(column, folder / "pool" / f"{number}.parquet", row_group_size=30)


def encoder(folder: Path) -> str:
    """A tokenizer that knows five words."""
    (folder / "encoder").mkdir()
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    (folder / "encoder" / "vocab.txt").write_text("\n".join(words))
    (folder / "encoder" / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    return "encoder"


def sentences() -> list[str]:
    draws = np.random.default_rng(0)
    return [" ".join(draws.choice(list(WORDS), draws.integers(1, 9))) for _ in range(COUNT)]


@pytest.mark.parametrize("kind", ["folder", "images", "texts", "tokens", "numbers"])
def test_a_pool_on_disk_gives_the_picks_of_one_machine(
    nodes: Nodes, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # not where the nodes started: paths that are given may be relative
    settings, model = {}, reader() if kind in ("texts", "tokens") else viewer()
    if kind == "folder":
        photos(tmp_path)
    elif kind == "images":
        parquet(tmp_path, pictures())
    elif kind == "texts":
        pytest.importorskip("transformers")
        parquet(tmp_path, sentences())
        settings = {"encoder": encoder(tmp_path)}
    elif kind == "tokens":
        parquet(tmp_path, [[5 + WORDS.index(word) for word in each.split()] for each in sentences()])
    else:
        model = viewer(4)
        parquet(tmp_path, np.random.default_rng(0).normal(size=(COUNT, 4)).tolist())
    held = datasets.pool("folder:photos" if kind == "folder" else "parquet:pool", **settings).train.inputs
    options = {
        "seed": 3,
        "batch_size": 16,
        "task": "classification",
        "num_perturbations": 3,
        "exclude": [0, 77],
    }
    whole = jostle.select("noise-stability", model, held, 20, **options)
    found = jostle.select("noise-stability", model, held, 20, engine=SMALL, **options)
    assert_same(found, whole)
    assert len(whole) == 20


MINE = """
import numpy as np
import torch
from torch import nn

class Mine(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(108, 16), nn.ReLU(), nn.Linear(16, 3))
    def forward(self, x):
        return self.layers(x)

def load():
    torch.manual_seed(0)
    return Mine()

def halved(image):
    return torch.from_numpy(np.array(image, dtype=np.float32)) / 510
"""


def test_a_folder_and_functions_of_a_users_own_file(
    nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    photos(tmp_path)
    Path("mine.py").write_text(MINE)

    def picked(out: str, *more: str) -> list[list[str]]:
        words = ["--model", "mine.py:load", "--pool", "folder:photos", "--transform", "mine.py:halved"]
        with pytest.raises(SystemExit) as end:
            cli.main(["pick", *words, "-n", "5", "--batch-size", "16", "--out", out, *more])
        assert end.value.code == 0
        with open(out, newline="", encoding="utf-8") as file:
            return list(csv.reader(file))

    assert picked("there.csv", "--engine", "ray(workers=2, portion=64)") == picked("here.csv")
