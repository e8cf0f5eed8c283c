"""Labels by the names of examples, and classes as the outputs of a model count them."""

from pathlib import Path

import pytest
import torch
from official_files import picture

from jostle import datasets
from jostle.datasets import Data, DataError, Split
from jostle.datasets.labels import align_columns, find_shared, has_labels_by_name, match_classes, read_labels
from jostle.datasets.views import apply_transform


def photos(folder: Path) -> Data:
    for i in range(4):
        picture(6, 8, seed=i).save(folder / f"{i}.png")
    return datasets.pool(f"folder:{folder}")


def labeled(classes: tuple[str, ...], targets: list[int]) -> Data:
    train = Split(torch.zeros(len(targets), 1), torch.tensor(targets))
    return Data("mine", "classification", train, Split(torch.empty(0), torch.empty(0)), classes)


def test_examples_are_labeled_by_name(tmp_path: Path) -> None:
    pool, path = photos(tmp_path), tmp_path / "labels.csv"
    path.write_text("name,label\n2.png,owl\n0.png,cat\n")
    found = read_labels(pool, path)
    assert (found.task, found.classes, found.train.targets.tolist()) == (
        "classification", ("cat", "owl"), [0, 1],
    )  # fmt: skip
    every = torch.arange(2)
    torch.testing.assert_close(found.train.inputs[every], pool.train.inputs[torch.tensor([0, 2])])
    (tmp_path / "copy.png").write_bytes((tmp_path / "2.png").read_bytes())
    assert find_shared(datasets.pool(f"folder:{tmp_path}"), found).tolist() == [0, 2, 4]  # by content
    seen = apply_transform(pool, lambda image: torch.tensor(image.getpixel((0, 0))))
    torch.testing.assert_close(
        read_labels(seen, path).train.inputs[every], seen.train.inputs[torch.tensor([0, 2])]
    )


def test_only_the_answers_of_people_in_an_export_are_labels(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("name,answer,by\n2.png,owl,people\n0.png,cat,model\n")
    assert read_labels(photos(tmp_path), path).train.names == ["2.png"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name,label\n9.png,cat\n8.png,cat\n", r"names 8.png, which is not in .* \(and 1 more\)"),
        ("name,label\n1.png,cat\n1.png,dog\n", "two labels for 1.png: cat and dog"),
        ("name,label\n1.png,\n", "has no label"),
        ("name,kind\n1.png,cat\n", "must have a column name and a column of labels; it has name, kind"),
    ],
)
def test_labels_that_cannot_be_used_are_refused(tmp_path: Path, text: str, words: str) -> None:
    pool, path = photos(tmp_path), tmp_path / "labels.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=words):
        read_labels(pool, path)


@pytest.mark.parametrize(
    ("header", "columns", "by_name"),
    [
        ("name,label", (), True),
        ("name,position,score,label", (), True),
        ("name,answer", (), True),
        ("name,label", ("x", "color=red"), True),
        ("name,x,label", ("x",), False),
        ("name,color,label", ("x", "color=red"), False),
        ("name,text,label", (), False),
        ("x,label", (), False),
        ("name,kind", (), False),
    ],
)
def test_a_csv_with_inputs_of_its_own_is_not_read_by_name(
    tmp_path: Path, header: str, columns: tuple[str, ...], by_name: bool
) -> None:
    path = tmp_path / "labels.csv"
    path.write_text(header + "\n")
    nothing = Split(torch.empty(0), torch.empty(0))
    assert has_labels_by_name(Data("pool", None, nothing, nothing, columns=columns), path, {}) == by_name


def test_classes_are_those_of_the_model() -> None:
    whole = labeled(("a", "b", "c"), [0, 2])
    assert match_classes(whole, 3) is whole
    numbers = match_classes(labeled(("0", "2"), [0, 1, 1]), 3)
    assert (numbers.train.targets.tolist(), numbers.classes) == ([0, 2, 2], ("0", "1", "2"))
    for classes in (("a", "c"), ("a", "b", "c", "d"), ("1", "5")):
        with pytest.raises(DataError, match=f"has {len(classes)} classes .*but the model has 3"):
            match_classes(labeled(classes, [0, 1]), 3)


def test_classes_of_the_pool_are_not_forgotten() -> None:
    pool = labeled(("a", "b", "c"), [0])
    with pytest.raises(DataError, match="has the classes a, c, d, but not b, which the pool has"):
        match_classes(labeled(("a", "c", "d"), [0, 1]), 3, pool)
    cameras = labeled(("camera1", "camera2"), [0])
    assert match_classes(labeled(("a", "b"), [0, 1]), 2, cameras).classes == ("a", "b")


def test_two_tables_have_the_categories_of_both(tmp_path: Path) -> None:
    (tmp_path / "pool.csv").write_text("size,roof\n1,flat\n2,gable\n")
    (tmp_path / "known.csv").write_text("size,roof,target\n3,round,1.5\n4,flat,2.5\n")
    pool, known = (datasets.pool(f"csv:{tmp_path / name}.csv") for name in ("pool", "known"))
    one, other = align_columns(pool, known)
    assert one.columns == other.columns == ("size", "roof=flat", "roof=gable", "roof=round")
    assert one.train.inputs.tolist() == [[1, 1, 0, 0], [2, 0, 1, 0]]
    assert other.train.inputs.tolist() == [[3, 0, 0, 1], [4, 1, 0, 0]]
    (tmp_path / "known.csv").write_text("size,target\n3,1.5\n4,2.5\n")
    with pytest.raises(DataError, match=r"known.csv has no column roof.*drop=\[roof\]"):
        align_columns(pool, datasets.pool(f"csv:{tmp_path}/known.csv"))
