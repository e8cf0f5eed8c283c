"""Training against a bare loop, augmentation against one image at a time, metrics against scikit-learn."""

import pytest
import torch
from sklearn.metrics import accuracy_score, confusion_matrix, f1_score, jaccard_score
from torch import Tensor, nn
from torch.nn import functional as F

from jostle.core import Joined
from jostle.rng import generator
from jostle.tasks import TASKS, VOID, Classification
from jostle.tasks.metrics import confusion, mean_iou, of_classes
from jostle.training.train import Augmentation, Recipe, Schedule, class_weights, evaluate, layout, train

PLAIN = Recipe(epochs=3, batch=8, optimizer="sgd", lr=0.1, momentum=0.9, weight_decay=1e-2)


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 3))


def examples(n: int = 20) -> tuple[Tensor, Tensor]:
    rng = torch.Generator().manual_seed(1)
    return torch.randn(n, 5, generator=rng), torch.randint(3, (n,), generator=rng)


def fit(recipe: Recipe, n: int = 20, seed: int = 0, **more: object) -> nn.Module:
    return train(Joined(network()), *examples(n), recipe, TASKS["classification"], seed=seed, **more)  # type: ignore[arg-type]


def test_training_is_the_bare_loop():
    x, y = examples()
    bare = network()
    optimizer = torch.optim.SGD(bare.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-2)
    rng = generator(0, "batches")
    recipe = PLAIN.model_copy(update={"schedule": Schedule(at=(1,), factor=0.5)})
    for epoch in range(3):
        for group in optimizer.param_groups:
            group["lr"] = 0.1 if epoch == 0 else 0.05
        for index in torch.randperm(20, generator=rng).split(8):
            optimizer.zero_grad()
            F.cross_entropy(bare(x[index]), y[index]).backward()
            optimizer.step()
    trained = fit(recipe)
    assert not trained.training
    for ours, theirs in zip(trained.parameters(), bare.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_same_seed_same_weights_and_the_global_state_stays():
    before = torch.get_rng_state()
    model = nn.Sequential(nn.Linear(5, 64), nn.Dropout(0.5), nn.Linear(64, 3))
    states = []
    for _ in range(2):
        copy = nn.Sequential(nn.Linear(5, 64), nn.Dropout(0.5), nn.Linear(64, 3))
        copy.load_state_dict(model.state_dict())
        torch.set_rng_state(before)
        states.append(train(Joined(copy), *examples(), PLAIN, TASKS["classification"], seed=4).state_dict())
        assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])


def test_small_sets_weigh_classes_alike():
    targets = torch.tensor([0, 0, 0, 1, 2, 2])
    recipe = PLAIN.model_copy(update={"balance_small": True})
    weights = class_weights(targets, recipe)
    losses = torch.arange(6.0)
    assert weights is not None
    by_hand = (0 + 1 + 2) / 3 + 3 + (4 + 5) / 2
    assert float(losses @ weights) == pytest.approx(by_hand, rel=1e-4)
    assert class_weights(torch.zeros(9, dtype=torch.int64), recipe) is None  # more than one batch


def test_what_learns_losses_sees_them_without_class_weights():
    class Learning(Joined):
        learns_losses = True

    def trained(kind: type[Joined], balance: bool) -> Tensor:
        torch.manual_seed(0)
        model = nn.Linear(5, 3)
        recipe = PLAIN.model_copy(update={"balance_small": balance, "batch": 64})
        train(kind(model), *examples(), recipe, TASKS["classification"], seed=4)
        return model.weight

    assert torch.equal(trained(Learning, True), trained(Joined, False))
    assert not torch.equal(trained(Joined, True), trained(Joined, False))


def test_schedules():
    assert [Schedule(at=(2, 4), factor=0.1).rate(epoch, 0) for epoch in range(5)] == pytest.approx(
        [1, 1, 0.1, 0.1, 0.01]
    )
    assert [Schedule(every=30, factor=0.5).rate(epoch, 0) for epoch in (0, 29, 30, 60)] == [1, 1, 0.5, 0.25]
    assert Schedule(linear=True).rate(7, 0.75) == 0.25
    with pytest.raises(ValueError, match="one of"):
        Schedule(at=(1,), every=3)


@pytest.mark.parametrize(
    ("n", "drop", "sizes"),
    [(20, False, [8, 8, 4]), (17, False, [8, 9]), (20, True, [8, 8]), (5, True, [5]), (16, True, [8, 8])],
)
def test_batches(n: int, drop: bool, sizes: list[int]):
    parts = PLAIN.batches(n, torch.Generator().manual_seed(0), drop)
    assert [len(part) for part in parts] == sizes
    assert len(torch.cat(parts).unique()) == sum(sizes)


class Added(Joined):
    """A strategy's part: a module of its own beside the model, with its own optimizer."""

    def __init__(self, model: nn.Sequential) -> None:
        super().__init__(model)
        self.fractions: list[float] = []

    def optimizers(self, lr: float) -> list[torch.optim.Optimizer]:
        return [torch.optim.SGD(self.model[2].parameters(), lr=0.0)]  # type: ignore[index]

    def loss(self, losses: Tensor, fraction: float) -> Tensor:
        self.fractions.append(fraction)
        return losses.new_zeros(())


def test_what_a_strategy_adds_is_stepped_by_its_own_optimizer_alone():
    model = network()
    head = model[2].weight.detach().clone()
    joined = Added(model)
    train(joined, *examples(), PLAIN, TASKS["classification"], seed=0)
    assert torch.equal(model[2].weight, head)
    assert joined.fractions == pytest.approx([step / 9 for step in range(9)])


def test_crops_and_flips_are_those_of_single_images():
    rng = torch.Generator().manual_seed(3)
    images = torch.randn(32, 3, 6, 7, generator=rng)
    maps = torch.randint(5, (32, 6, 7), generator=rng)
    augment, black = Augmentation(flip=True, crop=5, pad=2), (1.0, 2.0, 3.0)
    out, labels = augment(images, maps, torch.Generator().manual_seed(0), black)
    rows, columns = augment.window(images, torch.Generator().manual_seed(0))
    assert {bool(c[0] > c[-1]) for c in columns} == {True, False}  # some are flipped, some not
    for i in range(32):
        canvas = torch.tensor(black).view(3, 1, 1).repeat(1, 10, 11)
        canvas[:, 2:8, 2:9] = images[i]
        void = torch.full((10, 11), VOID)
        void[2:8, 2:9] = maps[i]
        top, left, right = int(rows[i, 0]), int(columns[i].min()), int(columns[i].max())
        picture, label = canvas[:, top : top + 5, left : right + 1], void[top : top + 5, left : right + 1]
        if columns[i, 0] > columns[i, -1]:
            picture, label = picture.flip(2), label.flip(1)
        assert torch.equal(out[i], picture)
        assert torch.equal(labels[i], label)


def test_classification_metrics_are_scikit_learns():
    rng = torch.Generator().manual_seed(0)
    targets, predicted = (torch.randint(4, (200,), generator=rng) for _ in range(2))
    counts = confusion(predicted, targets, 5)  # a class that never comes up
    assert counts[:4, :4].tolist() == confusion_matrix(targets, predicted).tolist()
    found = of_classes(counts[:4, :4])
    assert found["accuracy"] == accuracy_score(targets, predicted)
    assert found["macro_f1"] == pytest.approx(f1_score(targets, predicted, average="macro"))
    two = of_classes(confusion(predicted % 2, targets % 2, 2), positive=1)
    assert two["f1"] == pytest.approx(f1_score(targets % 2, predicted % 2))


def test_mean_iou_comes_from_one_matrix_and_ignores_void():
    targets = torch.tensor([0, 0, 1, 1, 2, VOID])
    predicted = torch.tensor([0, 1, 1, 1, 0, 2])
    # class 0: 1 of 3, class 1: 2 of 3, class 2: 0 of 1; class 3 is nowhere
    assert mean_iou(confusion(predicted, targets, 4, VOID)) == pytest.approx((1 / 3 + 2 / 3 + 0) / 3)
    kept = targets != VOID
    assert mean_iou(confusion(predicted, targets, 3, VOID)) == pytest.approx(
        jaccard_score(targets[kept], predicted[kept], average="macro")
    )


def test_a_layout_that_would_crash_is_avoided():
    narrow = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Conv2d(8, 16, 1, stride=2))
    wide = nn.Sequential(nn.Conv2d(3, 16, 3), nn.Conv2d(16, 16, 1, stride=2))
    assert layout(narrow) == torch.contiguous_format
    assert layout(wide) == torch.channels_last
    images, maps = torch.randn(8, 3, 82, 82), torch.randint(16, (8, 40, 40))
    train(Joined(narrow), images, maps, PLAIN, TASKS["segmentation"], seed=0)


def test_named_columns_are_arguments_by_name():
    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(1, 2)

        def forward(self, a: Tensor) -> dict[str, Tensor]:
            return {"logits": self.head(a)}

    class Columns:
        def __len__(self) -> int:
            return 12

        def __getitem__(self, index: Tensor) -> dict[str, Tensor]:
            return {"a": index[:, None].float(), "unused": index}

    targets = torch.arange(12) % 2
    recipe = PLAIN.model_copy(update={"epochs": 1})
    model = train(Joined(Pair()), Columns(), targets, recipe, TASKS["classification"], seed=0)
    assert set(evaluate(model, Columns(), targets, Classification(positive=1))) == {"accuracy", "f1"}
