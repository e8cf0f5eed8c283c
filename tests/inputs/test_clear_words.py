"""What newcomers pass first: taken where it can be, and otherwise answered in words of our own."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import jostle
from jostle.inputs import Labeled, Pool
from jostle.strategies import build
from jostle.tasks import Classification

N = 24
X = torch.randn(N, 6)
NET = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))


def picks(pool: Any, n: int = 5, name: str = "entropy", **options: Any) -> list[int]:
    return jostle.select(name, NET, pool, n, seed=0, **options).indices.tolist()


class TestTables:
    """A table of numbers is taken; pandas is one maker of such, whoever says `to_numpy` is another."""

    @pytest.fixture
    def frame(self) -> Any:
        pandas = pytest.importorskip("pandas")
        return pandas.DataFrame(X.numpy().astype(np.float64), columns=[f"c{i}" for i in range(6)])

    def test_numbers_are_rows_and_labels_are_left_out(self, frame: Any) -> None:
        assert picks(frame) == picks(X)
        frame.insert(2, "label", np.arange(N) % 3)
        assert picks(frame) == picks(X)
        assert picks(frame, exclude=[0, 1]) == picks(X, exclude=[0, 1])

    def test_whole_numbers_and_flags_are_numbers(self, frame: Any) -> None:
        frame["c1"] = (frame["c1"] * 10).astype(int)
        frame["c2"] = frame["c2"] > 0
        frame["c3"] = (
            (frame["c3"] * 10).astype(int).astype("Int64")
        )  # pandas' own kind, which may lack values
        assert picks(frame) == picks(frame.astype(float).to_numpy())

    def test_words_are_named(self, frame: Any) -> None:
        frame["city"] = "Rome"
        with pytest.raises(ValueError, match="column 'city' holds str, which no model takes: leave it out"):
            picks(frame)

    def test_a_labeled_table(self, frame: Any) -> None:
        labels = torch.arange(N) % 3
        expected = picks(X + 1, name="coreset", labeled=TensorDataset(X, labels))
        assert picks(X + 1, name="coreset", labeled=(frame, labels)) == expected
        frame["label"] = labels.numpy()
        assert picks(X + 1, name="coreset", labeled=frame) == expected
        assert Labeled.of(frame).targets().tolist() == labels.tolist()
        assert Labeled.of((frame[["c0"]], frame["label"])).targets().tolist() == labels.tolist()

    def test_one_column_is_a_row_of_numbers(self) -> None:
        pandas = pytest.importorskip("pandas")
        assert next(Pool.of(pandas.Series([1.0, 2.0])).batches(2)).tolist() == [1.0, 2.0]


class TestPairs:
    """labeled=(X, y)."""

    LABELS = torch.arange(N) % 3

    @pytest.mark.parametrize(
        ("inputs", "targets"),
        [(X, LABELS), (X.numpy(), LABELS.numpy()), (list(X), LABELS.tolist()), (TensorDataset(X), LABELS)],
        ids=["tensor", "array", "list", "dataset"],
    )
    def test_a_pair_is_a_dataset_of_both(self, inputs: Any, targets: Any) -> None:
        known = Labeled.of((inputs, targets))
        assert torch.equal(known.targets(), self.LABELS)
        assert torch.equal(next(known.inputs.batches(N)), X)
        assert len(known.dataset) == N
        expected = picks(X + 1, name="alfa-mix", labeled=TensorDataset(X, self.LABELS))
        assert picks(X + 1, name="alfa-mix", labeled=(inputs, targets)) == expected

    def test_named_columns(self) -> None:
        known = Labeled.of(({"a": X, "labels": torch.zeros(N)}, self.LABELS))
        assert torch.equal(known.targets(), self.LABELS)
        assert list(next(known.inputs.batches(2))) == ["a"]

    def test_what_is_no_pair(self) -> None:
        with pytest.raises(ValueError, match=r"a y for each x; got 24 inputs and y of \(3,\)"):
            Labeled.of((X, [0, 1, 2]))
        with pytest.raises(TypeError, match="a tuple could be examples or"):
            Labeled.of(((X[0], 1), (X[1], 0)))  # two examples, in a tuple


def test_an_item_of_two_numbers_is_an_input_and_its_target() -> None:
    pool = [(0.5, 1), (0.25, 0), (2.0, 1)]
    assert next(Pool.of(pool).batches(3)).tolist() == [0.5, 0.25, 2.0]
    assert Labeled.of(pool).targets().tolist() == [1, 0, 1]
    assert next(Pool.of([[0.5, 1.0], [0.25, 0.0]]).batches(2)).tolist() == [[0.5, 1.0], [0.25, 0.0]]


@pytest.mark.parametrize(
    ("pool", "error", "words"),
    [
        (["a dog"] * 9, TypeError, "the pool holds text, such as 'a dog', which no model takes: turn it into"),
        (np.array(["a", "b"]), TypeError, r"an array \(n, ...\) of numbers; got <U1"),
        ("photos", TypeError, "a pool holds examples; got 'photos': read what it names"),
        (Path("photos"), TypeError, "a pool holds examples; got"),
        (X.to_sparse(), TypeError, r"only dense arrays allow; got a tensor of torch.sparse_coo: pass pool.to_dense"),
        (TensorDataset(X.to_sparse()), TypeError, "only dense arrays allow"),
        ({"x": X.to_sparse()}, TypeError, "only dense arrays allow"),
        (torch.empty(9, 6, device="meta"), ValueError, "the pool is on the meta device, which holds no numbers"),
        (torch.zeros(9, 6).long(), ValueError, r"cannot take a first batch of torch.int64 \(2, 6\): .*pool.float"),
        (torch.zeros(9, 7), ValueError, r"first batch of torch.float32 \(2, 7\): .*mat1 and mat2.*collate_fn"),
    ],
)  # fmt: skip
def test_pools_that_cannot_be_are_answered_in_words(pool: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        picks(pool)


def test_scipys_sparse_matrices_are_dense_batch_by_batch() -> None:
    from scipy.sparse import coo_array, csr_matrix

    for matrix in (csr_matrix(X.numpy()), coo_array(X.numpy())):
        assert picks(matrix) == picks(X)
    with pytest.raises(TypeError, match=r"a sparse array must be \(n, d\); got shape \(6,\)"):
        picks(coo_array(X[0].numpy()))


def test_what_a_model_says_of_its_first_batch_is_kept() -> None:
    class Fussy(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise KeyError("mask")

    with pytest.raises(ValueError, match=r"first batch of torch.float32 \(2, 6\): KeyError: 'mask'") as told:
        jostle.select("entropy", Fussy(), X, 2)
    assert isinstance(told.value.__cause__, KeyError)


@pytest.mark.parametrize("n", [2.0, np.float64(2), "2", True, float("nan"), None, 0, -1])
def test_a_number_of_picks_is_whole(n: Any) -> None:
    with pytest.raises(ValueError, match=r"asked for n=.*; n is a whole number of at least 1"):
        build("entropy").select(NET, X, n)


@pytest.mark.parametrize(
    ("task", "error", "words"),
    [
        ("clasification", ValueError, "unknown task 'clasification'; did you mean 'classification'"),
        (3, TypeError, "a task is one of classification, binary, .* got 3"),
        (["sequence"], TypeError, "a task is one of classification, binary"),
        (Classification, TypeError, r"task=Classification is a class of tasks: pass Classification\(\)"),
    ],
)
def test_a_task_that_is_none_is_refused(task: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        picks(X, name="random", task=task)


@pytest.mark.parametrize("task", ["segmentation", "sequence", "binary"])
def test_a_task_that_the_outputs_cannot_have_is_refused(task: str) -> None:
    with pytest.raises(
        ValueError, match=rf"task='{task}' wants .* of shape \(2, 3\)\. Say task='classification'"
    ):
        picks(X, task=task)


@pytest.mark.parametrize("strategy", ["coreset", "lcmd"])  # features, and deviations
def test_a_labeled_set_that_the_model_cannot_take_is_told_from_the_pool(strategy: str) -> None:
    model = nn.Sequential(nn.Linear(7, 8), nn.ReLU(), nn.Linear(8, 3))
    with pytest.raises(
        ValueError, match=r"such as torch\.float32 \(1, 3\).*took torch\.float32 \(1, 7\) from the pool"
    ):
        jostle.select(
            strategy, model, torch.randn(20, 7), n=3, labeled=(torch.randn(5, 3), torch.arange(5) % 3)
        )


class Sheet:
    """As little of a table as is asked for: named columns that become arrays."""

    def __init__(self, **columns: Any) -> None:
        self.held, self.columns = (
            {name: np.asarray(values) for name, values in columns.items()},
            list(columns),
        )

    def __getitem__(self, name: str) -> Any:
        return SimpleNamespace(to_numpy=lambda: self.held[name])

    def to_numpy(self) -> Any:
        raise AssertionError("columns are read one by one")


def test_a_table_of_any_package_is_a_pool_and_a_labeled_set() -> None:
    sheet = Sheet(a=[1, 2, 3], b=[0.5, 0.25, 0.0], label=[0, 1, 0])
    [batch] = Pool.of(sheet).batches(3)
    torch.testing.assert_close(batch, torch.tensor([[1, 0.5], [2, 0.25], [3, 0]], dtype=torch.float64))
    assert Labeled.of(sheet).targets().tolist() == [0, 1, 0]
    with pytest.raises(ValueError, match="distinct columns of numbers beside its labels; it has 'label'"):
        Pool.of(Sheet(label=[0, 1]))
