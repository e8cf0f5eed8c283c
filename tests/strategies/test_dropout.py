"""Dropout at scoring: every kind acts with one mask per pass for all examples, own or inserted."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from zoo import N, bert, bert_pool

import jostle
from jostle import models
from jostle.inference.context import QueryContext
from jostle.strategies import Bald


def passes(model: nn.Module, pool: Any, numbers: int = 3, batch: int = N, **settings: Any) -> Tensor:
    """Outputs of some passes over a pool, (passes, n, ...)."""
    strategy = Bald(passes=max(numbers, 2), **settings)
    with (
        strategy.context(model, pool, seed=0, task="multi-label") as context,
        strategy.sampling(context) as s,
    ):
        return torch.stack([
            torch.cat([s.outputs(context.runner.prepared(x), t) for x in context.pool.batches(batch)])
            for t in range(numbers)
        ])  # fmt: skip


class Calls(nn.Module):
    """A function as a model, with a parameter so that it has a device."""

    def __init__(self, function: Callable[[nn.Module, Tensor], Tensor]) -> None:
        super().__init__()
        self.function, self.unused = function, nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self, x)


KINDS: dict[str, tuple[nn.Module, tuple[int, ...], bool]] = {  # a layer, its inputs' shape, whole channels?
    "Dropout": (nn.Dropout(0.4), (30,), False),
    "in place": (nn.Dropout(0.4, inplace=True), (30,), False),
    "Dropout of maps": (nn.Dropout(0.4), (3, 4, 4), False),
    "Dropout1d": (nn.Dropout1d(0.4), (20, 4), True),
    "Dropout2d": (nn.Dropout2d(0.4), (20, 3, 3), True),
    "Dropout3d": (nn.Dropout3d(0.4), (20, 2, 2, 2), True),
    "function": (Calls(lambda m, x: F.dropout(x, 0.4, training=m.training)), (30,), False),
    "torch.dropout": (Calls(lambda m, x: torch.dropout(x, 0.4, m.training)), (30,), False),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_drops_the_same_places_of_all_examples_and_scales_the_rest(kind: str) -> None:
    layer, shape, channels = KINDS[kind]
    pool = torch.rand(N, *shape) + 1
    out = passes(layer, pool, 40)
    kept = out != 0
    torch.testing.assert_close(out, torch.where(kept, pool / 0.6, 0.0))
    assert (kept == kept[:, :1]).all()  # one mask for all examples
    if channels:
        flat = kept.flatten(3)
        assert (flat == flat[..., :1]).all()
    elif len(shape) > 1:
        assert not (kept[:, 0].flatten(2) == kept[:, 0].flatten(2)[..., :1]).all()
    assert 0.5 < kept[:, 0].float().mean() < 0.7
    assert not (kept[0] == kept[1]).all()
    torch.testing.assert_close(out, passes(layer, pool, 40, batch=2))


@pytest.mark.parametrize(
    ("layer", "shape"), [(nn.AlphaDropout(0.3), (30,)), (nn.FeatureAlphaDropout(0.3), (20, 2, 2))]
)
def test_alpha_dropout_gives_the_values_that_torch_gives(layer: nn.Module, shape: tuple[int, ...]) -> None:
    pool = torch.randn(N, *shape)
    trained = layer.train()(pool)
    gone = trained.flatten().mode().values  # the one value that repeats
    kept_scale, kept_shift = two_point_fit(pool[trained != gone], trained[trained != gone])
    out = passes(layer, pool, 20)
    dropped = (out - gone).abs() < 1e-5
    torch.testing.assert_close(out, torch.where(dropped, gone, kept_scale * pool + kept_shift))
    assert 0.15 < dropped.float().mean() < 0.45
    assert (dropped == dropped[:, :1]).all()


def two_point_fit(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    low, high = x.argmin(), x.argmax()
    scale = (y[high] - y[low]) / (x[high] - x[low])
    return scale, y[low] - scale * x[low]


class Attention(nn.Module):
    def __init__(self, rate: float, batch_first: bool, need_weights: bool) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, dropout=rate, batch_first=batch_first)
        self.batch_first, self.need_weights = batch_first, need_weights

    def forward(self, x: Tensor) -> Tensor:
        x = x if self.batch_first else x.transpose(0, 1)
        out = self.attention(x, x, x, need_weights=self.need_weights)[0]
        return out if self.batch_first else out.transpose(0, 1)


class OwnAttention(nn.Module):
    def __init__(self, rate: float, **options: Any) -> None:
        super().__init__()
        self.project, self.rate, self.options = nn.Linear(8, 24), rate, options

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.project(x).view(*x.shape[:2], 3, 4, 2).permute(2, 0, 3, 1, 4)
        if self.options.get("enable_gqa"):
            k, v = k[:, :2], v[:, :2]
        rate = self.rate if self.training else 0.0
        return F.scaled_dot_product_attention(q, k, v, dropout_p=rate, **self.options).flatten(1)


class Packed(nn.Module):
    def __init__(self, rnn: nn.Module) -> None:
        super().__init__()
        self.rnn = rnn

    def forward(self, x: Tensor) -> Tensor:
        lengths = (x[:, :, 0] > 0).sum(1).clamp(min=1)
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return pad_packed_sequence(self.rnn(packed)[0], batch_first=True, total_length=x.shape[1])[0]


class First(nn.Module):
    """The outputs of a recurrent layer, and its last states; the first states differ from layer to layer."""

    def __init__(self, rnn: nn.RNNBase) -> None:
        super().__init__()
        self.rnn = rnn

    def start(self, examples: int) -> Any:
        rnn = self.rnn
        layers = torch.arange(1.0, 1 + rnn.num_layers * (1 + rnn.bidirectional)) / 5
        state = layers[:, None, None].expand(-1, examples, rnn.hidden_size)
        if not isinstance(rnn, nn.LSTM):
            return state.contiguous()
        return state[..., : rnn.proj_size or None].contiguous(), -state.contiguous()

    def forward(self, x: Tensor) -> Tensor:
        if self.rnn.batch_first:
            out, state = self.rnn(x, self.start(len(x)))
        else:
            out, state = self.rnn(x.transpose(0, 1), self.start(len(x)))
            out = out.transpose(0, 1)
        states = state if isinstance(state, tuple) else (state,)
        return torch.cat([out.flatten(1), *[part.transpose(0, 1).flatten(1) for part in states]], 1)


BLIND = torch.ones(5, 5, dtype=torch.bool).tril(-1)  # the first query may look nowhere
INSIDE: dict[str, Callable[[float], nn.Module]] = {
    "attention": lambda p: Attention(p, True, False),
    "attention, time first": lambda p: Attention(p, False, False),
    "attention with weights": lambda p: Attention(p, True, True),
    "own attention": lambda p: OwnAttention(p),
    "causal": lambda p: OwnAttention(p, is_causal=True, scale=0.3),
    "masked": lambda p: OwnAttention(p, attn_mask=BLIND),
    "biased": lambda p: OwnAttention(p, attn_mask=torch.randn(5, 5)),
    "grouped": lambda p: OwnAttention(p, enable_gqa=True),
    "transformer": lambda p: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, p, batch_first=True), 2),
    "lstm": lambda p: First(nn.LSTM(8, 6, 3, dropout=p, batch_first=True)),
    "lstm both ways": lambda p: First(nn.LSTM(8, 6, 2, dropout=p, bidirectional=True, proj_size=3)),
    "gru": lambda p: First(nn.GRU(8, 6, 2, dropout=p, bias=False)),
    "plain rnn": lambda p: First(nn.RNN(8, 6, 2, dropout=p, nonlinearity="relu")),
    "packed": lambda p: Packed(nn.LSTM(8, 6, 2, dropout=p, batch_first=True)),
}  # fmt: skip


@pytest.mark.parametrize("kind", INSIDE)
@pytest.mark.filterwarnings("ignore:enable_nested_tensor", "ignore:LSTM with projections")
def test_dropout_inside_attention_and_recurrent_layers_acts(kind: str, unchanged: Any) -> None:
    pool = torch.rand(N, 5, 8) + 0.1
    if kind == "packed":
        lengths = torch.tensor([4, 4, 3, 2, 5, 3, 4, 2, 3, 5, 4, 2, 3])
        pool = pool * (torch.arange(5) < lengths[:, None])[..., None]
    pool[4] = pool[9]
    model = INSIDE[kind](0.5)
    check = unchanged(model)
    out = passes(model, pool, 4)
    check()
    assert (out[0] - out[1]).abs().max() > 1e-3
    torch.testing.assert_close(out[:, 4], out[:, 9])  # one mask for all examples
    torch.testing.assert_close(out, passes(model, pool, 4, batch=5))
    # a rate that drops nothing: what was written out anew computes what torch computes
    gentle = INSIDE[kind](1e-9)
    gentle.load_state_dict(model.state_dict())
    if "attn_mask" in getattr(model, "options", {}):
        gentle.options = model.options
    with torch.no_grad():
        torch.testing.assert_close(passes(gentle, pool, 2)[1], gentle.eval()(pool), atol=1e-5, rtol=1e-4)


class Flagged(nn.Module):
    """Returns something else in training mode, which must not be switched on."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.drop, self.out = nn.BatchNorm1d(6), nn.Dropout(0.5), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        assert not self.training
        assert not self.norm.training
        return self.out(self.drop(self.norm(x)))


def test_the_model_stays_in_eval_mode() -> None:
    model = Flagged()
    model.norm.running_mean = torch.full((6,), 2.0)
    pool = torch.randn(N, 6)
    out = passes(model, pool, 600)
    eval_mean = model.eval()(
        pool
    ).detach()  # a linear layer after dropout: the mean over passes is eval's output
    torch.testing.assert_close(out.mean(0), eval_mean, atol=0.35, rtol=0)
    assert (pool - model.norm(pool)).abs().min() > 1  # statistics of the batch would have been far off


SITES = {
    "mnist-cnn": ((1, 28, 28), ["layer1", "layer2", "feature"], {}),
    "digits-cnn": ((1, 8, 8), ["layer1", "layer2", "feature"], {}),
    "resnet18-cifar": (
        (3, 8, 8), [f"layer{s}.{b}.conv{c}" for s in range(1, 5) for b in (0, 1) for c in (1, 2)], {"width": 0.05},
    ),
    "vgg16": ((3, 32, 32), [*[f"layer{s}" for s in range(1, 6)], "classifier.1", "classifier.4"], {"width": 0.05}),
}  # fmt: skip


def chosen(model: nn.Module, pool: Any, **settings: Any) -> list[str]:
    """Names of the modules that carry a hook while dropout is inserted."""
    strategy = Bald(insert_dropout=0.3, **settings)
    with strategy.context(model, pool, seed=0) as context:
        with strategy.sampling(context):
            names = [name for name, part in context.runner.module.named_modules() if part._forward_hooks]
        assert quiet(context)
    return names


def quiet(context: QueryContext) -> bool:
    """Whether the network is as it was before dropout was switched on."""
    return not any(part._forward_hooks or part.training for part in context.runner.module.modules())


@pytest.mark.parametrize("name", SITES)
def test_dropout_is_inserted_after_stages_and_after_the_convolutions_of_blocks(name: str) -> None:
    shape, expected, settings = SITES[name]
    assert chosen(models.build(name, seed=0, **settings), torch.randn(2, *shape)) == expected


class Plain(nn.Module):
    """A network as tutorials write it, here inside another module."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 4, 3), nn.Conv2d(4, 4, 3)
        self.fc1, self.fc2 = nn.Linear(64, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.conv2(F.relu(self.conv1(x))))
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


def test_sites_of_a_network_of_the_users_own() -> None:
    pool = torch.randn(N, 1, 8, 8)
    assert chosen(Plain(), pool) == ["conv1", "conv2", "fc1"]
    assert chosen(nn.Sequential(Plain()), pool) == ["0.conv1", "0.conv2", "0.fc1"]
    assert chosen(Plain(), pool, dropout_after=["fc1"]) == ["fc1"]
    assert chosen(Plain(), pool, dropout_after=["conv?"]) == ["conv1", "conv2"]
    assert chosen(bert(), bert_pool())[0].startswith("bert.")


def test_inserted_dropout_has_the_rate_that_was_asked_for() -> None:
    model = nn.Sequential(nn.Linear(50, 50), nn.Linear(50, 50, bias=False))
    model[0].weight.data = model[1].weight.data = torch.eye(50)
    model[0].bias.data.fill_(1)
    out = passes(model, torch.rand(N, 50), 40, insert_dropout=0.3)
    assert 0.25 < (out == 0).float().mean() < 0.35
    torch.testing.assert_close(out.max(), (model(torch.ones(1, 50)) / 0.7).max(), atol=0.1, rtol=0)


class Useless(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.drop, self.out = nn.Dropout(0.5), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        self.drop(x)
        return self.out(x)


def test_dropout_that_is_not_there_or_makes_no_difference_is_an_error() -> None:
    pool = torch.randn(N, 6)
    still = nn.Sequential(nn.Linear(6, 4), nn.Dropout(0.0), nn.Linear(4, 3))
    for name in ("bald", "entropy-dropout", "batch-bald"):
        for model in (nn.Sequential(nn.Linear(6, 3)), still):
            with pytest.raises(ValueError, match=r"has no dropout that acts.*insert_dropout=0\.3"):
                jostle.select(name, model, pool, n=2)
        with pytest.raises(
            ValueError, match=r"made no difference to any output in 4 passes.*insert_dropout=0\.3"
        ):
            jostle.select(name, Useless(), pool, n=2, passes=4)
        assert len(jostle.select(name, still, pool, n=2, seed=0, passes=4, insert_dropout=0.3)) == 2


class OfVectors(nn.Module):
    """A network of vectors (n, d), or of a list of sequences, each of which it averages."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 3))

    def forward(self, x: Tensor | list[Tensor]) -> Tensor:
        return self.net(torch.stack([each.mean(0) for each in x]) if isinstance(x, list) else x)


def test_lists_of_examples_meet_the_masks_of_arrays() -> None:
    sequences = [torch.randn(2 + place % 5, 6) for place in range(30)]
    vectors = torch.stack([each.mean(0) for each in sequences])
    lists = jostle.select("bald", OfVectors(), sequences, n=8, seed=0, passes=5, collate_fn=list)
    arrays = jostle.select("bald", OfVectors(), vectors, n=8, seed=0, passes=5)
    assert lists.indices.tolist() == arrays.indices.tolist()
