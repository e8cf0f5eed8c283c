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


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2)
        self.out = nn.Linear(16, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.out(self.encoder(self.embed(tokens)).mean(1))


class Tied(nn.Module):
    """A language model whose output layer is its embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.mix = nn.Linear(8, 8)
        self.out = nn.Linear(8, 11, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.out(torch.tanh(self.mix(self.embed(tokens).mean(1))))


class TwoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right, self.out = nn.Linear(4, 6), nn.Linear(3, 6), nn.Linear(6, 3)

    def forward(self, image: Tensor, meta: Tensor | None = None) -> Tensor:
        assert meta is not None
        return self.out(torch.relu(self.left(image) + self.right(meta)))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(5, 8, batch_first=True)
        self.out = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.lstm(x)[0][:, -1])


class Auxiliary(nn.Module):
    """Returns (logits, auxiliary logits); the auxiliary head is called last."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.main, self.aux = nn.Linear(6, 7), nn.Linear(7, 4), nn.Linear(7, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.relu(self.body(x))
        return self.main(h), self.aux(h)


class Wrapped(nn.Module):
    """Returns an object or dict with logits."""

    def __init__(self, as_dict: bool) -> None:
        super().__init__()
        self.net, self.as_dict = nn.Linear(6, 3), as_dict

    def forward(self, x: Tensor) -> Any:
        logits = self.net(x)
        return {"logits": logits} if self.as_dict else SimpleNamespace(logits=logits, loss=None)


class Squeezing(nn.Module):
    """Drops the batch dimension of a batch of one."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x).squeeze()


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


class Spectral(nn.Module):
    """Complex weights, as Fourier layers have."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 5, dtype=torch.cfloat))
        self.out = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.out((torch.fft.rfft(x) @ self.weight).abs())


class WholeDict(nn.Module):
    """Takes the batch as one dict."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(6, 3)

    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        return self.net(batch["signal"])


class Bytes(nn.Module):
    """Takes images as bytes and scales them itself."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Conv2d(4, 3, 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x.to(self.net[0].weight.dtype) / 255)  # (n, 3, 1, 1): still classification


class Viewing(nn.Module):
    """Flattens with `view`, which only a contiguous memory layout allows."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.out = nn.Conv2d(1, 4, 3), nn.Linear(4 * 36, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.relu(self.conv(x)).view(len(x), -1))


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


class Monkey(nn.Module):
    """Its forward was replaced by a bound method, as wrappers do."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(6, 3)
        self.forward = self.replaced  # type: ignore[method-assign]

    def replaced(self, x: Tensor) -> Tensor:
        return self.net(x)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


def frozen() -> nn.Module:
    model = mlp()
    model[0].requires_grad_(False)  # type: ignore[index]
    return model


def half() -> nn.Module:
    return mlp().to(torch.bfloat16)


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
    "transformer": (Transformer, lambda: tokens(20)),
    "tied": (Tied, lambda: tokens(11)),
    "two inputs": (TwoInputs, lambda: [{"image": torch.randn(4), "meta": torch.randn(3)} for _ in range(N)]),
    "recurrent": (Recurrent, lambda: torch.randn(N, 4, 5)),
    "auxiliary head": (Auxiliary, vector_pool),
    "returns a dict": (lambda: Wrapped(True), vector_pool),
    "returns an object": (lambda: Wrapped(False), vector_pool),
    "squeezing regression": (Squeezing, vector_pool),
    "uncopyable parts": (Locked, vector_pool),
    "counting buffer": (Counting, vector_pool),
    "frozen layer": (frozen, vector_pool),
    "bfloat16": (half, vector_pool),
    "float64": (lambda: mlp().double(), lambda: vector_pool().numpy()),
    "weight norm": (weight_normed, vector_pool),
    "old weight norm": (old_weight_normed, vector_pool),
    "shared memory": (shared_memory, vector_pool),
    "complex": (Spectral, vector_pool),
    "whole dict": (WholeDict, lambda: {"signal": vector_pool()}),
    "bytes": (Bytes, lambda: torch.randint(0, 256, (N, 3, 6, 6), dtype=torch.uint8)),
    "view": (Viewing, lambda: torch.randn(N, 1, 8, 8)),
    "tied convolutions": (tied_convolutions, lambda: torch.randn(N, 4, 4, 4)),
    "replaced forward": (Monkey, vector_pool),
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
