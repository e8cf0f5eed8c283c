from collections.abc import Callable

import torch
from sklearn.datasets import load_digits
from torch import nn

from jostle import models


def count(model: nn.Module) -> int:
    return sum(each.numel() for each in model.parameters())


def test_mnist_cnn_is_the_table_of_the_paper(shapes: Callable[..., dict[str, tuple[int, ...]]]) -> None:
    model = models.build("mnist-cnn", seed=0)
    assert count(model) == 184_586
    seen = shapes(model, torch.randn(2, 1, 28, 28))
    rows = ["layer1.0", "layer1.1", "layer1.2", "layer2.0", "layer2.1", "layer2.2", "feature", "head"]
    assert [seen[row] for row in rows] == [
        (32, 24, 24), (32, 12, 12), (32, 12, 12), (64, 8, 8), (64, 4, 4), (64, 4, 4), (128,), (10,),
    ]  # fmt: skip
    kinds = [type(part) for part in model.modules() if not list(part.children())]
    stage = [nn.Conv2d, nn.MaxPool2d, nn.ReLU]
    assert kinds == [*stage, *stage, nn.Flatten, nn.Linear, nn.Linear]  # no BatchNorm, no dropout


def test_housing_mlp_by_hand() -> None:
    model = models.build("mlp", seed=0)
    linears = [part for part in model.modules() if isinstance(part, nn.Linear)]
    assert [(each.in_features, each.out_features) for each in linears] == [
        (215, 128), (128, 64), (64, 32), (32, 1),
    ]  # fmt: skip
    assert count(model) == 215 * 128 + 128 + 128 * 64 + 64 + 64 * 32 + 32 + 32 + 1
    rows = torch.randn(5, 215)
    first, second, third, last = linears
    expected = last(third(second(first(rows).relu()).relu()))  # ReLU after the first two only
    torch.testing.assert_close(model(rows), expected, rtol=0, atol=0)
    assert expected.shape == (5, 1)


def test_digits_cnn_learns_the_digits(shapes: Callable[..., dict[str, tuple[int, ...]]]) -> None:
    images, labels = load_digits(return_X_y=True)
    x = torch.tensor(images, dtype=torch.float32).view(-1, 1, 8, 8) / 16  # (n, 1, 8, 8)
    y = torch.tensor(labels)
    model = models.build("digits-cnn", seed=0)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    order = torch.Generator().manual_seed(0)
    for _ in range(15):
        for some in torch.randperm(1000, generator=order).split(100):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[some]), y[some]).backward()
            optimizer.step()
    with torch.no_grad():
        right = (model(x[1000:]).argmax(1) == y[1000:]).double().mean()
    assert right > 0.9  # 0.1 by chance
    assert shapes(model, x[:2])["layer2"] == (32, 2, 2)
