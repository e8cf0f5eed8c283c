"""Small data to label."""

import csv
import random
from pathlib import Path

import numpy as np
from PIL import Image


def picture(number: int, side: int = 16) -> Image.Image:
    """A small picture that no other number has."""
    pixels = np.random.default_rng(number).integers(0, 255, (side, side, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def scene(number: int, size: tuple[int, int] = (96, 72)) -> Image.Image:
    """A picture of soft shapes that no other number has."""
    coarse = np.random.default_rng(number).integers(0, 255, (6, 8, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC)


COLORS = ("red", "green", "blue")


def color_of(number: int) -> str:
    """The class of a colored picture."""
    return COLORS[number % 3]


def colored(number: int) -> Image.Image:
    """A noisy picture of one color."""
    rng = np.random.default_rng(number)
    pixels = rng.integers(0, 140, (16, 16, 3))
    pixels[..., number % 3] += rng.integers(20, 110)
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def colored_folder(folder: Path, count: int = 150) -> Path:
    """Pictures whose names say their colors."""
    folder.mkdir()
    for number in range(count):
        colored(number).save(folder / f"{number:03}-{color_of(number)}.png")
    return folder


WORDS = {
    "billing": ["invoice", "refund", "charged", "card", "payment", "price"],
    "bug": ["crash", "error", "freeze", "broken", "screen", "log"],
    "praise": ["love", "great", "thanks", "wonderful", "happy", "best"],
}


def tickets(path: Path, count: int = 200) -> Path:
    """Texts of three topics, with the topic beside them."""
    draw = random.Random(0)
    topics = [draw.choice(list(WORDS)) for _ in range(count)]
    fill = ["the", "my", "it", "was", "after", "today", "please", "again", "app", "account"]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "message", "topic"])
        for number, topic in enumerate(topics):
            words = [draw.choice(WORDS[topic]) for _ in range(3)] + [draw.choice(fill) for _ in range(6)]
            draw.shuffle(words)
            writer.writerow([f"t{number}", " ".join([*words, str(number)]), topic])
    return path


def houses(path: Path, count: int = 160) -> Path:
    """A price that grows with size and depends on the place."""
    draw = random.Random(0)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "size", "rooms", "place", "price"])
        for number in range(count):
            size, place = draw.uniform(30, 200), draw.choice(["north", "south", "west"])
            price = 2 * size + {"north": 0, "south": 80, "west": 30}[place] + draw.gauss(0, 5)
            writer.writerow([f"h{number}", f"{size:.1f}", draw.randrange(1, 7), place, f"{price:.2f}"])
    return path
