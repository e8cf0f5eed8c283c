"""Which examples are known already, and preprocessing of one's own."""

import numpy as np
import pytest
import torch
from official_files import encoded, picture

from jostle.datasets import Data, Fields, ImageFiles, Split, Texts
from jostle.datasets.binary_files import Stretched
from jostle.datasets.fetch import DataError, Member
from jostle.datasets.labels import find_named, find_shared
from jostle.datasets.views import apply_transform


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


def test_a_transform_is_given_what_is_there(tmp_path):
    picture(6, 8).convert("L").save(tmp_path / "a.png")
    seen = []

    def keep(example):
        seen.append(example)
        return {"x": np.float32([len(seen)])}

    images = apply_transform(made(ImageFiles([tmp_path / "a.png"] * 2, Stretched((3, 3)))), keep).train.inputs
    assert images[torch.tensor([0, 1])]["x"].tolist() == [[1], [2]]
    assert (seen[0].mode, seen[0].size) == ("L", (8, 6))
    apply_transform(made(Texts((("a", "b"), ("c", "d")))), keep).train.inputs[torch.tensor([1])]
    assert seen[-1] == ("c", "d")
    apply_transform(made(Texts((("a",),))), keep).train.inputs[torch.tensor([0])]
    assert seen[-1] == "a"
    rows = torch.ones(2, 2)
    apply_transform(made(rows), lambda row: row.zero_()).train.inputs[torch.tensor([0])]
    assert rows.tolist() == [[1, 1], [1, 1]]


def test_by_name():
    assert find_named(made(torch.zeros(3, 1), ["a", "b", "a"]), {"a", "z"}).tolist() == [0, 2]
    assert find_named(made(torch.zeros(3, 1)), {"1"}).tolist() == [1]


def test_transforms_that_go_wrong():
    uneven = apply_transform(made(torch.arange(3.0)[:, None], "abc"), lambda row: torch.zeros(int(row)), "f")
    with pytest.raises(DataError, match=r"f returned \(1,\) for b and \(0,\) for a"):
        uneven.train.inputs[torch.tensor([0, 1])]
    with pytest.raises(DataError, match="the transform returned object for example 0; expected a tensor"):
        apply_transform(made(torch.zeros(1, 1)), lambda row: object()).train.inputs[torch.tensor([0])]
