"""Small pictures and texts of what strategies picked first, kept with the runs: a report needs no data for them."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from jostle.utils.files import write_whole

FILE = "previews.json"
FIRST_PICKS = 12  # of each strategy that are shown
THUMB = 112  # pixels; larger pictures are made smaller
WORDS = 280  # characters; longer texts are cut
SMALL = 64  # pixels; pictures up to this size are kept as they are, pixel by pixel
PICTURE = re.compile(r"data:image/(png|jpeg);base64,[A-Za-z0-9+/]+=*")


@dataclass(frozen=True)
class Preview:
    """An example as people know it: a picture or a text."""

    picture: str = ""  # a data URI
    text: str = ""


def preview_of(shown: Image.Image | str) -> Preview:
    """A small preview of an example."""
    return (
        Preview(picture=thumbnail(shown)) if isinstance(shown, Image.Image) else Preview(text=shorten(shown))
    )


def shorten(text: str, most: int = WORDS) -> str:
    """A text of at most so many characters."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def thumbnail(image: Image.Image, height: int = THUMB) -> str:
    """A small picture as a data URI; tiny ones keep every pixel, larger ones become JPEG."""
    out = io.BytesIO()
    if max(image.size) <= SMALL:
        (image if image.mode in {"1", "L", "RGB", "RGBA", "P"} else image.convert("RGB")).save(out, "PNG")
        kind = "png"
    else:
        small = image.convert("RGB")
        small.thumbnail((height * 2, height))
        small.save(out, "JPEG", quality=82)
        kind = "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(out.getvalue()).decode('ascii')}"


def keep(folder: Path, ids: Iterable[int], show: Callable[[int], Image.Image | str]) -> None:
    """Add examples to those that are kept in a folder."""
    kept = read(folder)
    fresh = {example: preview_of(show(example)) for example in ids if example not in kept}
    if fresh:
        plain = {str(example): asdict(each) for example, each in sorted((kept | fresh).items())}
        write_whole(folder / FILE, json.dumps(plain, indent=0) + "\n")


def read(folder: Path) -> dict[int, Preview]:
    """Read the previews of a folder; entries that are neither a small picture nor a short text are left out."""
    try:
        return parse((folder / FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def parse(text: str) -> dict[int, Preview]:
    """Previews in the text of a file; anything but a small picture or a short text is left out."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    pairs = found.items() if isinstance(found, dict) else ()
    return {int(key): Preview(**each) for key, each in pairs if key.isdecimal() and _is_preview(each)}


def _is_preview(found: Any) -> bool:
    """Whether a page may show this: a folder may come from anyone."""
    if not isinstance(found, Mapping) or found.keys() != {"picture", "text"}:
        return False
    picture, text = found["picture"], found["text"]
    words = isinstance(text, str) and len(text) <= WORDS
    return words and isinstance(picture, str) and (not picture or PICTURE.fullmatch(picture) is not None)
