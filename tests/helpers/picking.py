"""A folder to pick from on the command line: networks of a user's own file, and the words of a call."""

import csv

import numpy as np

MINE = """
import torch
from torch import nn
from jostle import models

def load():
    return models.build("mnist-cnn", classes=3, seed=0)

class Sizeable(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(28 * 28, 3)
    def forward(self, x):
        return self.layer(x.flatten(1))

def linear():
    torch.manual_seed(0)
    return Sizeable()

def by_rows():
    torch.manual_seed(0)
    return nn.Linear(2, 2)

def by_brightness():  # class 1 if bright
    model = Sizeable()
    with torch.no_grad():
        model.layer.weight.copy_(torch.stack([-torch.ones(784), torch.ones(784), torch.zeros(784)]))
        model.layer.bias.copy_(torch.tensor([784 / 2, -784 / 2, -1000]))
    return model

def house():
    model = nn.Linear(2, 1)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[2.0, 0.0]]))
        model.bias.zero_()
    return model

def never():
    raise AssertionError("the model was asked for")

def fit(dataset, seed):
    torch.manual_seed(seed)
    return Sizeable()

def nothing():
    return 3

def unknown():
    return {}["weights"]

def leaving():
    raise SystemExit(0)

number = 3

def halved(image):
    import numpy as np
    assert image.mode == "L" and image.size == (28, 28)
    return torch.from_numpy(np.array(image, dtype=np.float32))[None] / 510

def doubled(row):
    return row * 2

def wrong(image):
    return "no tensor"

def uneven(image):
    return torch.zeros(1, 28, image.getpixel((0, 0)))
"""


def images() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (12, 28, 28), dtype=np.uint8)


def names(path: str = "picks.csv") -> list[str]:
    with open(path, newline="", encoding="utf-8") as file:
        return [row["name"] for row in csv.DictReader(file)]


SPEC = "folder:photos(mode=L)"


def ask(**changes: object) -> list[object]:
    words = {"--model": "mine.py:linear", "--pool": SPEC, "-n": 4}
    words |= {f"--{key}": value for key, value in changes.items()}
    return [part for pair in words.items() for part in pair]
