"""Image files as people and browsers see them, and whether they can be read."""

from __future__ import annotations

import io

from PIL import Image, ImageOps, UnidentifiedImageError

from jostle.labelling.contents import Content

SHOWN = {
    "JPEG": "image/jpeg",
    "PNG": "image/png",
    "GIF": "image/gif",
    "WEBP": "image/webp",
    "BMP": "image/bmp",
}
THUMB = 360  # pixels; of the longer side
PROBLEMS = (OSError, SyntaxError, ValueError, Image.DecompressionBombError)


class UnreadableError(ValueError):
    """An example that is there but cannot be shown; the message says why."""


def unreadable(content: Content, reason: Exception) -> UnreadableError:
    """The error for a file that is no picture, without the innards that the reader speaks of."""
    unknown = isinstance(reason, UnidentifiedImageError)
    words = "its content has no format that is known" if unknown else reason
    return UnreadableError(f"{content.name} is not an image that can be read: {words}")


def check(content: Content) -> None:
    """Decode a picture, small where its format allows, so that one that breaks off is found."""
    try:
        with Image.open(io.BytesIO(content.data)) as image:
            image.draft("RGB", (64, 64))
            image.load()
    except PROBLEMS as reason:
        raise unreadable(content, reason) from reason


def displayed(content: Content) -> Content:
    """A picture that browsers know: its own bytes where they do, a PNG made of them where not."""
    try:
        with Image.open(io.BytesIO(content.data)) as image:
            if mime := SHOWN.get(image.format or ""):
                return Content("image", content.name, content.data, mime)
            return Content("image", content.name, as_png(image), "image/png")
    except PROBLEMS as reason:
        raise unreadable(content, reason) from reason


def small_picture(content: Content, side: int = THUMB) -> Content:
    """A picture for a grid or a list; one that is small already is left as it is."""
    with Image.open(io.BytesIO(content.data)) as image:
        if max(image.size) <= side:
            return content
        image.draft("RGB", (side, side))  # a JPEG is decoded small
        small = ImageOps.exif_transpose(image).convert("RGB")
        small.thumbnail((side, side))
    held = io.BytesIO()
    small.save(held, "JPEG", quality=80)
    return Content("image", content.name, held.getvalue(), "image/jpeg")


def as_png(image: Image.Image) -> bytes:
    """An image's pixels as a PNG."""
    held = io.BytesIO()
    (image if image.mode in ("1", "L", "P", "RGB", "RGBA") else image.convert("RGB")).save(held, "PNG")
    return held.getvalue()
