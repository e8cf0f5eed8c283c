from __future__ import annotations

import inspect
import textwrap
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from jostle import datasets, models
from jostle.experiments import protocol
from jostle.inference.runner import ModelRunner
from jostle.strategies import CoreSet, LearningLoss
from jostle.strategies.learning_loss import LearningLossJoined, layers_over_depth, pair_loss
from jostle.tasks import TASKS
from jostle.training.train import train

TOKENS = {"input_ids": torch.ones(2, 7, dtype=torch.long)}


def small() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 7), nn.ReLU(), nn.Linear(7, 3))


def numbers(*values: float) -> Tensor:
    return torch.tensor(values)


@pytest.mark.parametrize(
    ("predicted", "true", "expected"),
    [
        ((0, 0), (2, 1), 1),
        ((3, 1), (2, 1), 0),
        ((3, 1), (1, 2), 3),
        ((3, 1), (1, 1), 3),  # of equal losses the second counts as the larger
        ((0, 9, 5, 0), (2, 1, 2, 1), (1 + 5) / 2),  # pairs 0 with 3, 1 with 2
        ((0, 99, 0), (2, 7, 1), 1),  # the one in the middle has no partner
        ((5,), (2,), 0),
    ],
)
def test_pair_loss_by_hand(predicted: tuple[float, ...], true: tuple[float, ...], expected: float) -> None:
    assert pair_loss(numbers(*predicted), numbers(*true)).item() == pytest.approx(expected)


def joined_step(fraction: float) -> tuple[LearningLossJoined, nn.Module]:
    model, x = small(), torch.randn(9, 6)
    joined = LearningLoss().join(model, x[:2], seed=0)
    losses = F.cross_entropy(joined.model(x), torch.arange(9) % 3, reduction="none")
    joined.loss(losses, fraction).backward()
    return joined, model


def test_the_pair_loss_moves_the_model_until_the_detach() -> None:
    for fraction, moves in ((0.0, True), (0.59, True), (0.6, False), (1.0, False)):
        joined, model = joined_step(fraction)
        reached = [p.grad is not None and bool(p.grad.any()) for p in model[:3].parameters()]
        assert any(reached) == moves, fraction
        assert joined.model.predictor.last.weight.grad.any()


def test_added_optimizer_is_sgd_over_the_predictor_alone() -> None:
    joined = LearningLoss().join(small(), torch.randn(2, 6), seed=0)
    (optimizer,) = joined.optimizers(lr=0.05)
    (group,) = optimizer.param_groups
    assert isinstance(optimizer, torch.optim.SGD)
    assert (group["lr"], group["momentum"], group["weight_decay"]) == (0.05, 0.9, 5e-4)
    assert {id(p) for p in group["params"]} == {id(p) for p in joined.model.predictor.parameters()}
    (own,) = LearningLoss(lr=0.2).join(small(), torch.randn(2, 6), seed=0).optimizers(lr=0.05)
    assert own.param_groups[0]["lr"] == 0.2


def test_wrapper_gives_the_models_own_outputs_and_features() -> None:
    model = models.build("resnet18-cifar", width=0.1, seed=0).eval()
    x = torch.randn(5, 3, 16, 16)
    joined = LearningLoss().join(model, x[:2], seed=0)
    assert torch.equal(joined.model(x), model(x))
    assert ModelRunner(joined.model, x).head == "model.head"
    rows = [CoreSet().embed(m, x, labeled=TensorDataset(x, torch.arange(5))) for m in (model, joined.model)]
    assert torch.equal(rows[0], rows[1])


def test_join_leaves_the_model_alone_and_follows_the_seed(unchanged: Callable[..., Any]) -> None:
    model, x = small(), torch.randn(2, 6)
    check = unchanged(model)
    a, b, c = (LearningLoss().join(model, x, seed).model.predictor.state_dict() for seed in (0, 0, 1))
    check()
    assert all(torch.equal(a[key], b[key]) for key in a)
    assert not all(torch.equal(a[key], c[key]) for key in a)


@pytest.mark.parametrize(
    ("name", "settings", "example", "layers"),
    [
        ("mnist-cnn", {}, (2, 1, 28, 28), "layer1 layer2"),
        ("resnet18-cifar", {"width": 0.1}, (2, 3, 32, 32), "layer1 layer2 layer3 layer4"),
        ("vgg16", {"width": 0.1}, (2, 3, 32, 32), "layer2 layer3 layer4 layer5"),
        ("drn-d-22", {"width": 0.1}, (2, 3, 16, 16), "trunk.layer2 trunk.layer4 trunk.layer6 trunk.layer8"),
        ("mlp", {}, (2, 215), "layer1 layer2 feature"),
    ],
)
def test_layers_are_spread_over_the_depth(
    name: str, settings: dict[str, Any], example: tuple[int, ...], layers: str
) -> None:
    runner = ModelRunner(models.build(name, seed=0, **settings), torch.randn(example))
    assert layers_over_depth(runner) == layers.split()


def test_encoder_layers_of_bert_are_read_at_their_first_token() -> None:
    pytest.importorskip("transformers")
    model = models.build("bert-tiny", layers=8, seed=0).eval()
    joined = LearningLoss().join(model, TOKENS, seed=0)
    assert joined.model.layers == tuple(f"bert.encoder.layer.{i}" for i in (1, 3, 5, 7))
    joined.model(**TOKENS)
    states = model(**TOKENS, output_hidden_states=True).hidden_states
    torch.testing.assert_close(joined.model.seen[-1], states[8][:, 0])
    assert joined.model.predicted_losses().shape == (2,)


class Encoding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(17, 4)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 1)
        self.head = nn.Linear(4, 3)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        encoded = self.encoder(self.embed(input_ids), src_key_padding_mask=attention_mask == 0)
        return self.head(encoded[:, 0])


def test_layers_inside_a_transformer_are_read_in_spite_of_its_fast_path() -> None:
    torch.manual_seed(0)
    lengths = torch.tensor([5, 2, 3, 1, 5, 4])
    mask = (torch.arange(5) < lengths[:, None]).long()  # (6, 5)
    pool = {"input_ids": torch.randint(1, 17, (6, 5)), "attention_mask": mask}
    joined = LearningLoss(layers=["encoder.layers.0.norm1"]).join(
        Encoding(), {key: x[:2] for key, x in pool.items()}, seed=0
    )
    query = LearningLoss().select(joined.model, pool, n=6)
    joined.model.eval()(**pool)  # with gradients there is no fast path
    expected = joined.model.predicted_losses().detach()
    np.testing.assert_allclose(query.scores, expected[query.indices], rtol=1e-5)
    assert torch.backends.mha.get_fastpath_enabled()


def hard_on_the_right(n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Points whose label is plain left of zero and a coin toss right of it."""
    rng = torch.Generator().manual_seed(seed)
    x = 2 * torch.rand(n, 2, generator=rng) - 1
    toss = torch.rand(n, generator=rng) < 0.5
    return x, torch.where(x[:, 0] > 0, toss, x[:, 1] > 0).long()


def test_it_learns_where_losses_are_large() -> None:
    inputs, targets = hard_on_the_right(400, seed=0)
    model = models.build("mlp", inputs=2, outputs=2, seed=0)
    strategy = LearningLoss()
    joined = strategy.join(model, inputs[:2], seed=0)
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9), *joined.optimizers(lr=0.05)]
    rng = torch.Generator().manual_seed(0)
    for epoch in range(15):
        for part in torch.randperm(400, generator=rng).split(50):
            losses = F.cross_entropy(joined.model(inputs[part]), targets[part], reduction="none")
            loss = losses.mean() + joined.loss(losses, epoch / 15)
            for optimizer in optimizers:
                optimizer.zero_grad()
            loss.backward()
            for optimizer in optimizers:
                optimizer.step()
    pool, _ = hard_on_the_right(200, seed=1)
    query = strategy.select(joined.model, pool, n=60, seed=0)
    assert (pool[query.indices, 0] > 0).float().mean() > 0.9
    assert query.scores.tolist() == sorted(query.scores, reverse=True)


def test_the_loop_of_the_docstring_runs() -> None:
    model, images, pool = (
        models.build("digits-cnn", seed=0),
        torch.randn(20, 1, 8, 8),
        torch.randn(120, 1, 8, 8),
    )
    loader = DataLoader(TensorDataset(images, torch.arange(20) % 10), batch_size=7)
    names = {"LearningLoss": LearningLoss, "model": model, "images": images, "pool": pool, "loader": loader}
    lines = inspect.getdoc(LearningLoss).partition("Settings:")[0].splitlines()
    code = textwrap.dedent("\n".join(line for line in lines if line.startswith("    ") or not line))
    exec(code, names | {"torch": torch, "F": F, "epochs": 2}, found := {})
    assert len(found["query"]) == 100


def test_errors_say_what_to_do() -> None:
    pool = torch.randn(5, 6)
    with pytest.raises(ValueError, match=r"trained with its loss predictor; got a plain Sequential.*join"):
        LearningLoss().select(small(), pool, n=2)
    with pytest.raises(ValueError, match=r"unknown layer '7'"):
        LearningLoss(layers=["7"]).join(small(), pool, seed=0)
    with pytest.raises(ValueError, match="list of at least one name"):
        LearningLoss(layers="0").join(small(), pool, seed=0)
    idle = small()
    idle[1].aux = nn.Linear(2, 2)
    with pytest.raises(ValueError, match=r"'1\.aux' is never called"):
        LearningLoss(layers=["1.aux"]).join(idle, pool, seed=0)
    with pytest.raises(ValueError, match="no layer of Linear stands between"):
        LearningLoss().join(nn.Linear(6, 3), pool, seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scripting is deprecated, and still met
        scripted = torch.jit.trace(small(), pool)
    with pytest.raises(ValueError, match="before scripting"):
        LearningLoss().join(scripted, pool, seed=0)
    with pytest.raises(ValueError, match="reading of tokens 'last'"):
        LearningLoss(tokens="last")
    with pytest.raises(ValueError, match=r"call joined\.model"):
        LearningLoss().join(small(), pool, seed=0).loss(torch.zeros(5), 0.0)


def test_on_mnist_few_labels_teach_it_little_and_many_teach_it_more(
    real_data: Callable[..., Path],
) -> None:
    """Why it does poorly in the MNIST experiment: rank correlations of predicted and true losses, three trials."""
    data, recipe = datasets.load("mnist", real_data("mnist").parent), protocol.load("mnist").training

    def correlations(labels: int, seed: int) -> tuple[float, float]:
        order = torch.randperm(60_000, generator=torch.Generator().manual_seed(seed))
        known, others = order[:labels], order[-1000:]
        inputs, targets = data.train.inputs, data.train.targets
        joined = LearningLoss().join(
            models.build("mnist-cnn", classes=10, seed=seed), inputs[known[:2]], seed
        )
        train(joined, inputs[known], targets[known], recipe, TASKS["classification"], seed=seed)
        with torch.no_grad():
            outputs = joined.model(inputs[others])
            predicted, p = joined.model.predicted_losses(), outputs.softmax(1)
        losses = F.cross_entropy(outputs, targets[others], reduction="none")
        unsure = torch.special.entr(p).sum(1)
        return tuple(float(spearmanr(score, losses).statistic) for score in (predicted, unsure))

    few, many = (np.mean([correlations(n, seed) for seed in range(3)], axis=0) for n in (60, 2000))
    assert few[0] < 0.4 < 0.5 < many[0]
    assert few[1] > 0.8  # entropy knows better
