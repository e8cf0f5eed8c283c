"""The paraphrase corpus, and tokenizing."""

import pytest
import torch
from official_files import MSR_HEADER, write_mrpc

from jostle import datasets
from jostle.datasets import DataError

TRAIN = [
    '1\t10\t11\tHe said "yes.\tHe agreed.',
    '0\t20\t21\t"Stray quote at the start\tAnother\u2028sentence, with a comma.',
    "1\t30\t31\tcaf\u00e9 opened\tthe caf\u00e9 has opened its doors today",
]
TEST = ["0\t40\t41\ta b\tc d e"]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_reads_what_was_written(tmp_path, end):
    write_mrpc(tmp_path / "mrpc", TRAIN, TEST, end)
    data = datasets.load("mrpc", tmp_path)
    assert (data.task, len(data.train), len(data.test), data.outputs) == ("classification", 3, 1, 2)
    assert data.train.targets.tolist() == [1, 0, 1]
    assert data.train.inputs.rows[1] == ('"Stray quote at the start', "Another\u2028sentence, with a comma.")
    assert data.preview(0) == 'He said "yes.\nHe agreed.'
    assert data.names(2) == "30-31"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "expected the columns Quality"),
        (b"\xff\xfe\x00", "not UTF-8 text"),
        (b"index\tsentence1\tsentence2\tlabel\n", "begins with 'index.*expected the columns Quality"),
        (f"{MSR_HEADER}\n1\t2\t3\tonly one sentence\n".encode(), "line 2: expected 0 or 1"),
        (f"{MSR_HEADER}\n{TRAIN[0]}\n2\t2\t3\ta\tb\n".encode(), "line 3: expected 0 or 1"),
        (f"{MSR_HEADER}\n{TRAIN[0]}\n1\t2\t3\ttrunc".encode(), "line 3: expected 0 or 1"),
    ],
)
def test_bad_files_are_named(tmp_path, content, message):
    write_mrpc(tmp_path / "mrpc", TRAIN, TEST)
    path = tmp_path / "mrpc" / "msr_paraphrase_test.txt"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as error:
        datasets.load("mrpc", tmp_path)
    assert str(path) in str(error.value)


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


def test_tokenize_single_texts_and_pools(tmp_path, encoder):
    (tmp_path / "t.csv").write_text("text\na b\nc\n")
    data = datasets.tokenize(datasets.load(f"csv:{tmp_path / 't.csv'}"), encoder)
    assert data.train.inputs[torch.tensor([0, 1])]["input_ids"].tolist() == [[2, 5, 6, 3], [2, 7, 3, 0]]
    assert len(data.test) == 0


def test_tokenize_refuses_what_has_no_texts_and_what_is_no_encoder(tmp_path, encoder):
    with pytest.raises(DataError, match="digits has no texts"):
        datasets.tokenize(datasets.load("digits"), encoder)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no tokenizer at"):
        datasets.tokenize(datasets.load("digits"), tmp_path / "empty")


def test_tokenize_cuts_long_texts(tmp_path, encoder):
    write_mrpc(tmp_path / "mrpc", ["1\t1\t2\t" + "a " * 50 + "\tb"], TEST)
    data = datasets.tokenize(datasets.load("mrpc", tmp_path), encoder, length=8)
    assert data.train.inputs[0]["input_ids"].tolist() == [2, 5, 5, 5, 5, 3, 6, 3]
