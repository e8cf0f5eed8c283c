"""Parquet pools: rows as they were written, whatever the files, groups and batches."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from official_files import encoded
from PIL import Image
from torch import nn

import jostle
from jostle import datasets
from jostle.datasets.catalog import apply_transform
from jostle.datasets.data import as_pool
from jostle.datasets.labels import find_shared
from jostle.inputs import Pool, count

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def written(folder: Path, columns: dict[str, list], files: int = 3, group: int = 7) -> Path:
    """Columns over several files, in row groups of a few rows."""
    table = pa.table(columns)
    for number, part in enumerate(np.array_split(np.arange(len(table)), files)):
        pq.write_table(table.take(part), folder / f"part-{number:02}.parquet", row_group_size=group)
    return folder


def vectors(n: int = 50, d: int = 4) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, d)).astype(np.float32)


def test_numbers_come_back_by_position(tmp_path: Path) -> None:
    rows = vectors()
    written(tmp_path, {"name": [f"x{i}" for i in range(50)], "row": rows.tolist()})
    data = datasets.pool(f"parquet:{tmp_path}", column="row", id="name")
    index = torch.tensor([49, 0, 17, 16, 17, 3])
    torch.testing.assert_close(data.train.inputs[index], torch.from_numpy(rows)[index], rtol=0, atol=0)
    assert [data.names(i) for i in (0, 49)] == ["x0", "x49"]
    assert len(data.train) == 50
    assert datasets.pool(f"parquet:{tmp_path}/part-01.parquet", column="row").names(2) == "2"


def test_scalar_columns_stand_side_by_side_and_lists_take_a_shape(tmp_path: Path) -> None:
    written(tmp_path, {"a": [1.0, 2.0, 3.0], "b": [4.0, 5.0, 6.0], "c": [[1.0] * 4, [2.0] * 4, [3.0] * 4]})
    both = datasets.pool(f"parquet:{tmp_path}", column="a+b").train.inputs[torch.arange(3)]
    assert both.tolist() == [[1, 4], [2, 5], [3, 6]]
    shaped = datasets.pool(f"parquet:{tmp_path}", column="c", shape=(1, 2, 2)).train.inputs[torch.arange(3)]
    assert shaped.shape == (3, 1, 2, 2)


def test_no_batch_lies_in_two_row_groups(tmp_path: Path) -> None:
    written(tmp_path, {"row": vectors().tolist()})
    pool = as_pool(datasets.pool(f"parquet:{tmp_path}").train.inputs)
    sizes = [count(batch) for batch in pool.batches(5)]
    assert sizes == [5, 2, 5, 2, 3, 5, 2, 5, 2, 3, 5, 2, 5, 2, 2]
    assert sum(map(count, pool.without([0, 20]).batches(5))) == 48


def png(array: np.ndarray) -> bytes:
    return encoded(Image.fromarray(array), "PNG")


def pictures(n: int = 6) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (n, 5, 7, 3), dtype=np.uint8)


def test_hugging_faces_pictures_are_read(tmp_path: Path) -> None:
    cells = [{"bytes": png(each), "path": f"{i}.png"} for i, each in enumerate(pictures())]
    cells[3] = {"bytes": None, "path": "beside.png"}
    (tmp_path / "beside.png").write_bytes(png(pictures()[3]))
    written(tmp_path, {"image": cells, "label": [0, 1, 1, 0, 1, 0]}, group=2)
    data = datasets.pool(f"parquet:{tmp_path}", column="image", target="label")
    expected = torch.from_numpy(pictures()).permute(0, 3, 1, 2).float() / 255
    torch.testing.assert_close(data.train.inputs[torch.arange(6)], expected)
    assert (data.task, data.classes, data.train.targets.tolist()) == (
        "classification", ("0", "1"), [0, 1, 1, 0, 1, 0],
    )  # fmt: skip
    assert data.preview(2).size == (7, 5)
    written(tmp_path, {"image": [b"no image"] * 6}, group=2)
    with pytest.raises(datasets.DataError, match=r"part-00.parquet:row 0 of row group 0 is not an image"):
        datasets.pool(f"parquet:{tmp_path}").train.inputs[torch.tensor([0])]
    for path in ("../outside.png", str(tmp_path / "beside.png"), ""):
        written(tmp_path, {"image": [{"bytes": None, "path": path}]}, files=1)
        with pytest.raises(datasets.DataError, match="neither bytes nor the path of a file beside it"):
            datasets.pool(f"parquet:{tmp_path}/part-00.parquet").train.inputs[torch.tensor([0])]


def test_pictures_are_those_of_a_folder_framed_normalized_or_transformed(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for i, each in enumerate(pictures()):
        (tmp_path / "folder" / f"{i}.png").write_bytes(png(each))
    written(tmp_path, {"image": [png(each) for each in pictures()]}, group=2)
    every, seen = torch.arange(6), list[Any]()
    for settings in (
        {"mean": [0.1, 0.2, 0.3], "std": 0.5, "scale": 2},
        {"size": 3},
        {"size": 3, "short": 4},
        {"size": [2, 4], "mode": "L", "mean": 0.1},
    ):
        both = [
            datasets.pool(spec, **settings) for spec in (f"folder:{tmp_path}/folder", f"parquet:{tmp_path}")
        ]
        folder, files = (data.train.inputs[every] for data in both)
        torch.testing.assert_close(files, folder, rtol=0, atol=0)
        assert (both[0].mean, both[0].std) == (both[1].mean, both[1].std)
    for data in both:
        apply_transform(data, lambda image: seen.append(image) or torch.zeros(1)).train.inputs[every[4:5]]
    assert isinstance(seen[1], Image.Image)
    np.testing.assert_array_equal(np.asarray(seen[1]), np.asarray(seen[0]))


def test_token_ids_are_padded_and_masked(tmp_path: Path) -> None:
    written(tmp_path, {"ids": [[5, 6, 7], [8], [9, 1]]}, files=1)
    batch = datasets.pool(f"parquet:{tmp_path}", length=2).train.inputs[torch.tensor([0, 1])]
    assert batch["input_ids"].tolist() == [[5, 6], [8, 0]]
    assert batch["attention_mask"].tolist() == [[1, 1], [1, 0]]


def test_a_pool_on_disk_gives_the_picks_of_one_in_memory(tmp_path: Path) -> None:
    rows = vectors(60)
    written(tmp_path, {"row": rows.tolist()}, group=8)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    on_disk = datasets.pool(f"parquet:{tmp_path}").train.inputs
    a = jostle.select("noise-stability", model, on_disk, 5, seed=0, num_perturbations=3)
    b = jostle.select("noise-stability", model, torch.from_numpy(rows), 5, seed=0, num_perturbations=3)
    assert a.indices.tolist() == b.indices.tolist()
    assert len(Pool.of(on_disk)) == 60


@pytest.mark.parametrize(
    ("spec", "settings", "words"),
    [
        ("nothing-*.parquet", {}, "no Parquet file at"),
        ("", {}, "say which column= holds the examples: a, row"),
        ("", {"column": "b"}, r"'b' \(known: a, row\)"),
        ("", {"column": "row", "test": 0.2}, "nothing is held out"),
    ],
)
def test_what_cannot_be_read_is_said(tmp_path: Path, spec: str, settings: dict, words: str) -> None:
    written(tmp_path, {"a": [1, 2], "row": [[1.0], [2.0]]}, files=1)
    with pytest.raises(datasets.DataError, match=words.replace("*", ".")):
        datasets.pool(f"parquet:{tmp_path}/{spec}", **settings)


def test_a_damaged_or_vanished_file_is_named(tmp_path: Path) -> None:
    written(tmp_path, {"row": vectors().tolist()})
    inputs = datasets.pool(f"parquet:{tmp_path}").train.inputs
    (tmp_path / "part-01.parquet").unlink()
    with pytest.raises(datasets.DataError, match=r"part-01.parquet cannot be read"):
        inputs[torch.tensor([20])]
    (tmp_path / "part-02.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(datasets.DataError, match=r"part-02.parquet is not a Parquet file"):
        datasets.pool(f"parquet:{tmp_path}")


def test_labeled_pictures_of_a_folder_are_known_in_parquet_files(tmp_path: Path) -> None:
    (tmp_path / "labeled" / "cat").mkdir(parents=True)
    for i in (1, 4):
        (tmp_path / "labeled" / "cat" / f"{i}.png").write_bytes(png(pictures()[i]))
    written(tmp_path, {"name": [f"{i}.png" for i in range(6)], "image": [png(each) for each in pictures()]})
    folder = datasets.pool(f"folder:{tmp_path / 'labeled'}")
    for id in (None, "name"):
        files = datasets.pool(f"parquet:{tmp_path}", column="image", id=id)
        assert find_shared(files, folder).tolist() == [1, 4]
        assert find_shared(folder, files).tolist() == [0, 1]
        assert find_shared(files, files).tolist() == list(range(6))


def test_rows_and_texts_of_a_csv_are_known_in_parquet_files(tmp_path: Path) -> None:
    written(tmp_path, {"a": [1.0, 2.0, 3.0], "b": [4, 5, 6], "text": ["x", "y", "z"]}, files=2)
    (tmp_path / "rows.csv").write_text("a,b\n2,5\n3,4\n")
    (tmp_path / "texts.csv").write_text("text,label\nz,no\nw,yes\n")
    rows = datasets.pool(f"parquet:{tmp_path}", column="a+b")
    assert find_shared(rows, datasets.pool(f"csv:{tmp_path / 'rows.csv'}")).tolist() == [1]
    texts = datasets.pool(f"parquet:{tmp_path}", column="text")
    assert find_shared(texts, datasets.pool(f"csv:{tmp_path / 'texts.csv'}")).tolist() == [2]
