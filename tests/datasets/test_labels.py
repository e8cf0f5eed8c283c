"""Examples that are known already, labels by the names of examples, classes as the outputs of a model count them."""

from pathlib import Path

import pytest
import torch
from official_files import encoded, picture

from jostle import datasets
from jostle.datasets import Data, DataError, Fields, ImageFiles, Split, Texts
from jostle.datasets.binary_files import Stretched
from jostle.datasets.catalog import apply_transform
from jostle.datasets.fetch import Member
from jostle.datasets.labels import (
    align_columns,
    find_named,
    find_shared,
    has_labels_by_name,
    match_classes,
    read_labels,
)  # fmt: skip


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


def made(inputs, names=(), columns=(), numbered=False) -> Data:
    nothing = Split(torch.empty(0), torch.empty(0))
    split = Split(inputs, torch.empty(0), tuple(names), numbered)
    return Data("made", None, split, nothing, columns=tuple(columns))


def test_tensors_by_content():
    pool = torch.tensor([[1.0, 2], [3, 4], [1, 2], [5, 6]])
    assert find_shared(made(pool), made(pool[[0, 3]])).tolist() == [0, 2, 3]
    assert find_shared(made(pool), made(torch.zeros(0, 2))).tolist() == []
    assert (
        find_shared(made(pool), made(torch.tensor([[1, 2]]))).tolist() == []
    )  # whole numbers are something else


def test_ids_decide_where_both_have_them():
    pool = torch.tensor([[1.0], [2], [3]])
    assert find_shared(made(pool, "abc"), made(pool[:1], "c")).tolist() == [2]
    assert find_shared(made(pool, "abc"), made(pool[:1], "c", numbered=True)).tolist() == [0]
    assert find_shared(made(pool, "abc", numbered=True), made(pool[:1])).tolist() == [0]


def test_rows_of_tables_by_column():
    pool = made(torch.tensor([[1.0, 1, 0], [2, 0, 1]]), columns=("size", "color=blue", "color=red"))
    known = made(torch.tensor([[2.0, 1]]), columns=("size", "color=red"))  # nothing blue was labeled yet
    assert find_shared(pool, known).tolist() == [1]


def test_texts_before_and_after_tokenizing():
    pool = made(Texts((("a", "b"), ("a",), ("c",))))
    assert find_shared(pool, made(Texts((("a",),)))).tolist() == [1]
    ids = torch.tensor([[5, 6, 0], [7, 0, 0], [5, 6, 0]])
    fields = made(Fields({"ids": ids, "mask": (ids > 0).long()}, "mask"))
    narrow = made(Fields({"ids": ids[1:2, :1], "mask": torch.ones(1, 1, dtype=torch.int64)}, "mask"))
    assert find_shared(fields, narrow).tolist() == [1]  # padded to another width
    told = made(Fields({"ids": ids}, texts=("x", "y", "z")))
    assert find_shared(told, made(Fields({"ids": ids[:1, :1]}, texts=("z",)))).tolist() == [2]


def test_images_by_path_and_by_content(tmp_path):
    for i in range(4):
        picture(6, 8, seed=i).save(tmp_path / f"{i}.png")
    (tmp_path / "copy.png").write_bytes((tmp_path / "1.png").read_bytes())
    (tmp_path / "link.png").symlink_to(tmp_path / "2.png")
    pool = made(ImageFiles([tmp_path / f"{i}.png" for i in range(4)], Stretched()))
    member = Member(tmp_path / "a.zip", "x.png", encoded(picture(6, 8, seed=3), "PNG"))
    known = made(ImageFiles([tmp_path / "copy.png", tmp_path / "link.png", member], Stretched((3, 3))))
    assert find_shared(pool, known).tolist() == [1, 2, 3]
    assert find_shared(apply_transform(pool, lambda image: torch.zeros(1)), known).tolist() == [1, 2, 3]


def test_by_name():
    assert find_named(made(torch.zeros(3, 1), ["a", "b", "a"]), {"a", "z"}).tolist() == [0, 2]
    assert find_named(made(torch.zeros(3, 1)), {"1"}).tolist() == [1]
