"""Inputs through a tokenizer or through a function of one's own."""

import numpy as np
import pytest
import torch
from official_files import picture, write_mrpc

from jostle import datasets
from jostle.datasets import Data, DataError, ImageFiles, Split, Texts
from jostle.datasets.binary_files import Stretched
from jostle.datasets.catalog import apply_transform


def made(inputs, names=()) -> Data:
    split = Split(inputs, torch.empty(0), tuple(names))
    return Data("made", None, split, Split(torch.empty(0), torch.empty(0)))


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


def test_transforms_that_go_wrong():
    uneven = apply_transform(made(torch.arange(3.0)[:, None], "abc"), lambda row: torch.zeros(int(row)), "f")
    with pytest.raises(DataError, match=r"f returned \(1,\) for b and \(0,\) for a"):
        uneven.train.inputs[torch.tensor([0, 1])]
    with pytest.raises(DataError, match="the transform returned object for example 0; expected a tensor"):
        apply_transform(made(torch.zeros(1, 1)), lambda row: object()).train.inputs[torch.tensor([0])]


@pytest.fixture
def encoder(tmp_path):
    pytest.importorskip("transformers")
    folder = tmp_path / "encoder"
    folder.mkdir()
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcde"]
    (folder / "vocab.txt").write_text("\n".join(words))
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    return folder


def test_tokenize_by_hand(tmp_path, encoder):
    write_mrpc(tmp_path / "mrpc", ["1\t1\t2\ta b\tc", "0\t3\t4\ta\tz"], ["1\t5\t6\te\te"])
    data = datasets.tokenize(datasets.load("mrpc", tmp_path), encoder)
    batch = data.train.inputs[torch.tensor([1, 0])]
    # [CLS] a [SEP] [UNK] [SEP] [PAD] and [CLS] a b [SEP] c [SEP]
    assert batch["input_ids"].tolist() == [[2, 5, 3, 1, 3, 0], [2, 5, 6, 3, 7, 3]]
    assert batch["token_type_ids"].tolist() == [[0, 0, 0, 1, 1, 0], [0, 0, 0, 0, 1, 1]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 1, 1, 0], [1] * 6]
    assert data.train.inputs[torch.tensor([1])]["input_ids"].shape == (
        1,
        5,
    )  # padding shared by all is dropped
    assert data.preview(0) == "a b\nc"
    assert (data.train.targets.tolist(), data.names(1), data.task) == ([1, 0], "3-4", "classification")


def test_tokenize_single_texts_and_cut_long_ones(tmp_path, encoder):
    (tmp_path / "t.csv").write_text("text\na b\nc\n")
    data = datasets.tokenize(datasets.load(f"csv:{tmp_path / 't.csv'}"), encoder)
    assert data.train.inputs[torch.tensor([0, 1])]["input_ids"].tolist() == [[2, 5, 6, 3], [2, 7, 3, 0]]
    assert len(data.test) == 0
    (tmp_path / "p.csv").write_text(f"text1,text2\n{'a ' * 50},b\n")
    pairs = datasets.tokenize(datasets.load(f"csv:{tmp_path / 'p.csv'}"), encoder, length=8)
    assert pairs.train.inputs[0]["input_ids"].tolist() == [2, 5, 5, 5, 5, 3, 6, 3]


def test_tokenize_refuses_what_has_no_texts_and_what_is_no_encoder(tmp_path, encoder):
    with pytest.raises(DataError, match="digits has no texts"):
        datasets.tokenize(datasets.load("digits"), encoder)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no tokenizer at"):
        datasets.tokenize(datasets.load("digits"), tmp_path / "empty")
