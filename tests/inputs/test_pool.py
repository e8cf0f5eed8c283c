"""Anything that holds inputs is a pool, and no strategy can see a target through it."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset, get_worker_info

import jostle
from jostle.inputs import Labeled, Pool

X = torch.arange(14, dtype=torch.float32).view(7, 2)
Y = torch.arange(7)


class Pairs(Dataset[Any]):
    def __len__(self) -> int:
        return 7

    def __getitem__(self, position: int) -> tuple[Tensor, int]:
        return X[position], int(Y[position])


class Dicts(Pairs):
    def __getitem__(self, position: int) -> dict[str, Any]:  # type: ignore[override]
        return {"x": X[position], "ids": [1, 2, position], "text": "words", "labels": int(Y[position])}


class Stream(IterableDataset[Tensor]):
    def __iter__(self) -> Any:
        return iter(X)


HOLDERS = {
    "tensor": X,
    "array": X.numpy(),
    "tensor dataset": TensorDataset(X, Y),
    "dataset": Pairs(),
    "subset": Subset(Pairs(), range(7)),
    "loader": DataLoader(Pairs(), batch_size=3),
    "list of tensors": list(X),
    "list of arrays": list(X.numpy()),
    "list of pairs": list(zip(X, Y, strict=True)),
    "list of lists": X.tolist(),
}


@pytest.mark.parametrize("kind", HOLDERS)
def test_every_holder_gives_the_same_inputs_in_batches_of_any_size(kind: str) -> None:
    for gone, left in ((None, X), ([0, 3], X[[1, 2, 4, 5, 6]])):
        for size in (1, 2, 100):
            batches = [torch.as_tensor(b) for b in Pool.of(HOLDERS[kind]).without(gone).batches(size)]
            assert all(len(batch) <= size and batch.shape[1:] == X.shape[1:] for batch in batches)
            assert torch.equal(torch.cat(batches).float(), left)


def test_dicts_lose_their_labels_and_words_and_keep_lists_of_numbers() -> None:
    batch = next(Pool.of(Dicts()).batches(7))
    assert batch.keys() == {"x", "ids"}
    assert torch.equal(batch["x"], X)
    assert batch["ids"].shape == (7, 3)


def test_a_dict_of_columns_is_a_pool() -> None:
    pool = Pool.of({"image": X, "meta": X.numpy(), "labels": Y})
    batch = next(pool.without([0, 3]).batches(10))
    assert batch.keys() == {"image", "meta"}
    assert torch.equal(batch["image"], X[[1, 2, 4, 5, 6]])
    with pytest.raises(ValueError, match="different lengths"):
        Pool.of({"a": X, "b": X[:3]})


def test_a_memory_mapped_array_is_read_in_slices(tmp_path: Any) -> None:
    np.save(tmp_path / "x.npy", X.numpy())
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert torch.equal(torch.cat(list(Pool.of(mapped).batches(2))), X)


def test_workers_are_processes_of_their_own() -> None:
    class Asking(Pairs):
        def __getitem__(self, position: int) -> tuple[Tensor, int]:
            return torch.tensor([float(get_worker_info() is not None)]), 0

    assert torch.cat(list(Pool.of(Asking(), num_workers=1).batches(3))).all()
    assert not torch.cat(list(Pool.of(Asking()).batches(3))).any()


def test_a_users_collate_function_sees_whole_items_and_its_targets_are_dropped() -> None:
    def collate(items: list[Any]) -> Any:
        return torch.stack([x for x, _ in items]) + 1, [y for _, y in items]

    assert torch.equal(next(Pool.of(Pairs(), collate).batches(7)), X + 1)
    assert torch.equal(next(Pool.of(DataLoader(Pairs(), collate_fn=collate)).batches(7)), X + 1)


@pytest.mark.parametrize(
    ("holder", "error", "message"),
    [
        (DataLoader(Pairs(), shuffle=True), ValueError, "RandomSampler.*shuffle=False"),
        (DataLoader(Stream()), ValueError, "Stream, an IterableDataset without positions"),
        (DataLoader(Pairs(), batch_size=None), ValueError, "batch_size=None"),
        (Stream(), TypeError, "by position.*Stream"),
        (iter(X), TypeError, "by position"),
        ((X, Y), TypeError, "a tuple could be examples or"),
        (torch.tensor(3.0), TypeError, "array"),
        (None, TypeError, "NoneType"),
    ],
)
def test_what_is_no_pool_is_an_error(holder: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Pool.of(holder)


def test_unequal_shapes_are_an_error_that_shows_them() -> None:
    with pytest.raises(ValueError, match=r"\(2,\), \(3,\).*collate_fn="):
        list(Pool.of([torch.zeros(2), torch.zeros(3)]).batches(2))


RAGGED = [[1, 2], [1, 2, 3]]
OBJECTS = np.empty(2, dtype=object)
OBJECTS[:] = RAGGED


@pytest.mark.parametrize("ids", [RAGGED, OBJECTS, [torch.zeros(2), torch.zeros(3)]])
def test_a_column_of_unequal_examples_is_an_error_that_names_it(ids: Any) -> None:
    message = r"column 'ids' holds examples of unequal length: pad them, or .* collate_fn="
    with pytest.raises(ValueError, match=message):
        Pool.of({"ids": ids, "mask": X[:2]})


@pytest.mark.parametrize(
    "text",
    [["words"] * 7, np.array(["words"] * 7), np.array([None, *["words"] * 6]), [["some", "words"]] * 7],
)
def test_words_are_left_out_in_whatever_they_come(text: Any) -> None:
    assert next(Pool.of({"x": X, "text": text}).batches(7)).keys() == {"x"}


def test_a_pool_of_words_and_labels_alone_is_an_error_that_names_them() -> None:
    with pytest.raises(
        ValueError, match=r"no column of numbers; left out as words or labels: 'text', 'label'"
    ):
        Pool.of({"text": ["words"] * 7, "label": Y})
    with pytest.raises(ValueError, match=r"no column of numbers.*: none"):
        Pool.of({})
    with pytest.raises(ValueError, match=r"no column of numbers; left out as words or labels: 'text'"):
        next(Pool.of([{"text": "words"}] * 7).batches(7))


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([None] * 7, "NoneType"),
        ([1, {}, *[2] * 5], "dict, int"),
        ([1, *["words"] * 6], "str"),
        ({"a": X}, "dict"),
    ],
)
def test_a_column_that_no_model_takes_is_an_error_that_names_it(values: Any, kind: str) -> None:
    with pytest.raises(ValueError, match=f"column 'meta' holds {kind}, which no model takes: leave it out"):
        Pool.of({"x": X, "meta": values})


def test_exclusion_keeps_the_users_numbering() -> None:
    pool = Pool.of(Pairs()).without(np.array([1, 5]))
    assert pool.positions.tolist() == [0, 2, 3, 4, 6]
    assert torch.equal(torch.cat(list(pool.batches(2))), X[[0, 2, 3, 4, 6]])
    assert pool.without(None) is pool
    with pytest.raises(ValueError, match=r"exclude holds positions 1 to 7.*0 to 6"):
        Pool.of(Pairs()).without([1, 7])


@pytest.mark.parametrize(
    "dataset",
    [
        TensorDataset(X, Y),
        Pairs(),
        Dicts(),
        list(zip(X, Y, strict=True)),
        DataLoader(Pairs()),
        {"x": X, "labels": Y},
    ],
)
def test_labeled_sets_give_inputs_and_targets(dataset: Any) -> None:
    labeled = Labeled.of(dataset)
    assert len(labeled) == 7
    assert torch.equal(labeled.targets(), Y)


@pytest.mark.parametrize(
    "dataset",
    [
        [(X[0], "cat")],
        [{"x": X[0], "label": "cat"}],
        {"x": X, "labels": ["cat"] * 7},
        {"x": X, "labels": np.array(["cat"] * 7)},
        {"x": X, "labels": np.array(["cat"] * 7, dtype=object)},
        (X, ["cat"] * 7),
    ],
)
def test_words_are_no_labels(dataset: Any) -> None:
    with pytest.raises(TypeError, match="'cat': give each class a number"):
        Labeled.of(dataset).targets()


def test_a_labeled_set_without_targets_is_an_error() -> None:
    with pytest.raises(TypeError, match="got Tensor"):
        Labeled.of(X).targets()


def test_a_holder_that_gives_batches_is_asked_for_batches() -> None:
    class Trimmed:
        by_batch = True

        def __len__(self) -> int:
            return 7

        def __getitem__(self, index: Tensor) -> dict[str, Tensor]:
            return {"x": X[index], "labels": Y[index]}

    batches = list(Pool.of(Trimmed()).without([2]).batches(4))
    assert [batch.keys() for batch in batches] == [{"x"}, {"x"}]
    assert torch.equal(torch.cat([batch["x"] for batch in batches]), X[[0, 1, 3, 4, 5, 6]])


class Detector(nn.Module):
    """Takes a list of images of any size."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, images: list[Tensor]) -> Tensor:
        assert type(images) is list
        return torch.stack([self.layer(image.mean((1, 2))) for image in images])


IMAGES = [torch.rand(3, 4 + i, 5, generator=torch.Generator().manual_seed(i)) for i in range(9)]


@pytest.mark.parametrize(
    ("pool", "collate"),
    [
        (IMAGES, list),
        ([(image, {"boxes": torch.zeros(1, 4)}) for image in IMAGES], list),
        ([(image, 1) for image in IMAGES], lambda items: tuple(zip(*items, strict=True))),
        (IMAGES, lambda items: [image * 1 for image in items]),
    ],
    ids=["list", "list of pairs", "zipped", "listed"],
)
def test_images_of_unequal_size_reach_a_model_that_takes_a_list(pool: list[Any], collate: Any) -> None:
    torch.manual_seed(0)
    model = Detector()
    expected = jostle.select("entropy", model.layer, torch.stack([x.mean((1, 2)) for x in IMAGES]), 4)
    found = jostle.select("entropy", model, pool, 4, collate_fn=collate, batch_size=2)
    assert found.indices.tolist() == expected.indices.tolist()
    assert jostle.select("noise-stability", model, pool, 4, collate_fn=collate).indices.shape == (4,)
