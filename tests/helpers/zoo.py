"""Models of the kinds that users bring, each with a small pool that fits it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations

N = 13  # not a multiple of any batch size


class Net(nn.Module):
    """Layers by name, and a function of them and the inputs."""

    def __init__(self, run: Callable[[Any, Any], Any], **layers: nn.Module | nn.Parameter) -> None:
        super().__init__()
        self.run = run
        for name, layer in layers.items():
            setattr(self, name, layer)

    def forward(self, x: Any) -> Any:
        return self.run(self, x)


class ConvNet(nn.Module):
    def __init__(self, classes: int = 4) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 6, 3, padding=1),
            nn.BatchNorm2d(6),
            nn.ReLU(),
            nn.Dropout2d(0.2),
            nn.Conv2d(6, 8, 3, stride=2),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
        )
        self.drop = nn.Dropout(0.5)
        self.classifier = nn.Linear(32, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.drop(self.body(x)))


class SegNet(nn.Module):
    """Ends in a 1x1 convolution and a frozen upsampling, as DRN does."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.1))
        self.seg = nn.Conv2d(8, 5, 1)
        self.up = nn.ConvTranspose2d(5, 5, 4, 2, 1, groups=5, bias=False).requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.up(self.seg(self.body(x)))


class TwoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right, self.out = nn.Linear(4, 6), nn.Linear(3, 6), nn.Linear(6, 3)

    def forward(self, image: Tensor, meta: Tensor | None = None) -> Tensor:
        assert meta is not None
        return self.out(torch.relu(self.left(image) + self.right(meta)))


class Locked(nn.Module):
    """Holds what cannot be copied, a cached activation, and a parameter of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(6, 3)
        self.offset = nn.Parameter(torch.zeros(3))
        self.lock = threading.Lock()
        self.last: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        with self.lock:
            self.last = self.net(x) + self.offset
        return self.last


class Counting(nn.Module):
    """Has a buffer that every forward pass changes, in eval mode too."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(6, 3)
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.net(x)


class Functional(nn.Module):
    """No layers: bare parameters and functional calls."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Parameter(torch.randn(6, 5) / 2), nn.Parameter(torch.randn(3, 5) / 2)
        self.table = nn.Parameter(torch.arange(3), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(torch.tanh(x @ self.a), self.b)


def transformer() -> nn.Module:
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2)
    layers = {"embed": nn.Embedding(20, 16), "encoder": encoder, "out": nn.Linear(16, 3)}
    return Net(lambda net, x: net.out(net.encoder(net.embed(x)).mean(1)), **layers)


def tied() -> nn.Module:
    """A language model whose output layer is its embedding."""
    layers = {"embed": nn.Embedding(11, 8), "mix": nn.Linear(8, 8), "out": nn.Linear(8, 11, bias=False)}
    model = Net(lambda net, x: net.out(torch.tanh(net.mix(net.embed(x).mean(1)))), **layers)
    model.out.weight = model.embed.weight  # type: ignore[union-attr, assignment]
    return model


def recurrent() -> nn.Module:
    layers = {"lstm": nn.LSTM(5, 8, batch_first=True), "out": nn.Linear(8, 3)}
    return Net(lambda net, x: net.out(net.lstm(x)[0][:, -1]), **layers)


def auxiliary() -> nn.Module:
    """Returns (logits, auxiliary logits); the auxiliary head is called last."""

    def run(net: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.relu(net.body(x))
        return net.main(h), net.aux(h)

    return Net(run, body=nn.Linear(6, 7), main=nn.Linear(7, 4), aux=nn.Linear(7, 2))


def wrapped(wrap: Callable[[Tensor], Any]) -> nn.Module:
    return Net(lambda net, x: wrap(net.layers(x)), layers=nn.Linear(6, 3))


def squeezing() -> nn.Module:
    """Drops the batch dimension of a batch of one."""
    layers = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 1))
    return Net(lambda net, x: net.layers(x).squeeze(), layers=layers)


def spectral() -> nn.Module:
    """Complex weights, as Fourier layers have."""
    layers = {"weight": nn.Parameter(torch.randn(4, 5, dtype=torch.cfloat)), "out": nn.Linear(5, 3)}
    return Net(lambda net, x: net.out((torch.fft.rfft(x) @ net.weight).abs()), **layers)


def whole_dict() -> nn.Module:
    """Takes the batch as one dict."""
    return Net(lambda net, batch: net.layers(batch["signal"]), layers=nn.Linear(6, 3))


def of_bytes() -> nn.Module:
    """Takes images as bytes, scales them itself, and returns (n, 3, 1, 1): still classification."""
    layers = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Conv2d(4, 3, 1))
    return Net(lambda net, x: net.layers(x.to(net.layers[0].weight.dtype) / 255), layers=layers)


def viewing() -> nn.Module:
    """Flattens with `view`, which only a contiguous memory layout allows."""
    layers = {"conv": nn.Conv2d(1, 4, 3), "out": nn.Linear(4 * 36, 3)}
    return Net(lambda net, x: net.out(torch.relu(net.conv(x)).view(len(x), -1)), **layers)


def monkey() -> nn.Module:
    """Its forward was replaced by a bound method, as wrappers do."""
    model = wrapped(lambda logits: logits)
    model.forward = model.forward  # type: ignore[method-assign]
    return model


def tied_convolutions() -> nn.Module:
    model = nn.Sequential(
        nn.Conv2d(4, 4, 3, padding=1),
        nn.Tanh(),
        nn.Conv2d(4, 4, 3, padding=1),
        nn.Flatten(),
        nn.Linear(64, 3),
    )
    model[2].weight.data = model[0].weight.data  # type: ignore[union-attr]
    return model


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


def frozen() -> nn.Module:
    model = mlp()
    model[0].requires_grad_(False)  # type: ignore[index]
    return model


def weight_normed() -> nn.Module:
    model = nn.Sequential(parametrizations.weight_norm(nn.Linear(6, 8)), nn.ReLU(), nn.Linear(8, 3))
    model(torch.zeros(1, 6))
    return model


def old_weight_normed() -> nn.Module:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = nn.Sequential(nn.utils.weight_norm(nn.Linear(6, 8)), nn.ReLU(), nn.Linear(8, 3))
    model(torch.zeros(1, 6))  # leaves a weight that is not a leaf of the graph
    return model


def shared_memory() -> nn.Module:
    model = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 3))
    model[2].weight.data = model[0].weight.data  # type: ignore[union-attr]
    return model


def scripted() -> nn.Module:
    return torch.jit.trace(mlp(), torch.zeros(2, 6))  # type: ignore[no-any-return, no-untyped-call]


def bert(attention: str = "sdpa") -> nn.Module:
    transformers = __import__("transformers")
    config = transformers.BertConfig(
        vocab_size=30, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=16, num_labels=2,
    )  # fmt: skip
    make = transformers.AutoModelForSequenceClassification.from_config
    return make(config, attn_implementation=attention)  # type: ignore[no-any-return]


def vector_pool() -> Tensor:
    return torch.randn(N, 6)


def tokens(most: int) -> Tensor:
    return torch.randint(0, most, (N, 7))


def bert_pool() -> list[dict[str, Any]]:
    mask = torch.ones(7, dtype=torch.long)
    return [
        {"input_ids": row, "attention_mask": mask, "labels": 1, "idx": i} for i, row in enumerate(tokens(30))
    ]


ZOO: dict[str, tuple[Callable[[], nn.Module], Callable[[], Any]]] = {
    "mlp": (mlp, vector_pool),
    "cnn with batch norm and dropout": (ConvNet, lambda: torch.randn(N, 1, 8, 8)),
    "segmentation": (SegNet, lambda: torch.randn(N, 3, 8, 8)),
    "transformer": (transformer, lambda: tokens(20)),
    "tied": (tied, lambda: tokens(11)),
    "two inputs": (TwoInputs, lambda: [{"image": torch.randn(4), "meta": torch.randn(3)} for _ in range(N)]),
    "recurrent": (recurrent, lambda: torch.randn(N, 4, 5)),
    "auxiliary head": (auxiliary, vector_pool),
    "returns a dict": (lambda: wrapped(lambda logits: {"logits": logits}), vector_pool),
    "returns an object": (
        lambda: wrapped(lambda logits: SimpleNamespace(logits=logits, loss=None)),
        vector_pool,
    ),
    "squeezing regression": (squeezing, vector_pool),
    "uncopyable parts": (Locked, vector_pool),
    "counting buffer": (Counting, vector_pool),
    "frozen layer": (frozen, vector_pool),
    "bfloat16": (lambda: mlp().to(torch.bfloat16), vector_pool),
    "float64": (lambda: mlp().double(), lambda: vector_pool().numpy()),
    "weight norm": (weight_normed, vector_pool),
    "old weight norm": (old_weight_normed, vector_pool),
    "shared memory": (shared_memory, vector_pool),
    "complex": (spectral, vector_pool),
    "whole dict": (whole_dict, lambda: {"signal": vector_pool()}),
    "bytes": (of_bytes, lambda: torch.randint(0, 256, (N, 3, 6, 6), dtype=torch.uint8)),
    "view": (viewing, lambda: torch.randn(N, 1, 8, 8)),
    "tied convolutions": (tied_convolutions, lambda: torch.randn(N, 4, 4, 4)),
    "replaced forward": (monkey, vector_pool),
    "several positional inputs": (
        TwoInputs,
        lambda: [((torch.randn(4), torch.randn(3)), 0) for _ in range(N)],
    ),
    "spectral norm": (lambda: parametrizations.spectral_norm(nn.Linear(6, 3)), vector_pool),
    "traced": (scripted, vector_pool),
    "compiled": (lambda: torch.compile(mlp()), vector_pool),
    "data parallel": (lambda: nn.DataParallel(mlp()), vector_pool),
    "bert": (bert, bert_pool),
}
