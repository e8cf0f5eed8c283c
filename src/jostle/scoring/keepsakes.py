"""What a model keeps from one forward pass to the next beside its weights: counters, caches, states of generators."""

from __future__ import annotations

import pickle
import random
import sys
from collections import deque
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from jostle.scoring.reach import Traced

MOST = 100_000  # things that are looked at; a model that holds more is not understood
PLUMBING = frozenset(vars(nn.Module())) - {"_parameters", "_buffers", "_modules"}  # hooks, of every module
VALUES = (bool, int, float, complex, str, bytes, torch.device, slice)  # equal ones are the same


class Keepsakes:
    """A model's memory as it is now: what has changed later, and the way back."""

    def __init__(self, model: nn.Module) -> None:
        self.kept: list[tuple[Any, Any]] = []  # a thing that can change, and its contents
        self.tensors: list[Tensor] = []
        self.known: set[int] = set()
        self.walk([vars(module) for module in model.modules()])
        self.python, self.numpy = random.getstate(), np.random.get_state()  # noqa: NPY002

    @property
    def too_many(self) -> bool:
        """Whether there is more than can be looked at."""
        return len(self.known) > MOST

    def walk(self, waiting: list[Any]) -> None:
        """Note these things, and whatever they hold."""
        while waiting and not self.too_many:
            thing = waiting.pop()
            if id(thing) in self.known:
                continue
            contents = contents_of(thing)
            if isinstance(thing, Tensor):
                self.tensors.append(thing)
            elif contents is not None:
                self.known.add(id(thing))
                self.kept.append((thing, contents))
                waiting += values_in(contents)
            elif has_attributes(thing):
                waiting.append(vars(thing))

    def changed(self, traced: Traced) -> bool:
        """Whether a traced pass went on from what the one before it left, or would not do the same again.

        A tensor that takes the place of another which nobody read (a weight that is made anew, an activation that is
        kept for later) is not such a thing: who made it is told to the trace.
        """
        if self.too_many or traced.overwritten or self.drew:
            return True
        return not all(self.is_same(thing, contents, traced) for thing, contents in self.kept)

    @property
    def drew(self) -> bool:
        """Whether Python's or NumPy's global generator was used."""
        now = np.random.get_state()  # noqa: NPY002
        same = all(np.array_equal(a, b) for a, b in zip(now, self.numpy, strict=True))
        return not same or random.getstate() != self.python

    def is_same(self, thing: Any, contents: Any, traced: Traced) -> bool:
        """Whether a thing holds what it held, but for tensors that are made anew."""
        now = contents_of(thing)
        if not isinstance(contents, dict):
            return same(now, contents)
        for key in now.keys() | contents.keys():
            old, new = contents.get(key), now.get(key)
            if same(old, new):
                continue
            if not all(value is None or isinstance(value, Tensor) for value in (old, new)):
                return False
            if isinstance(old, Tensor) and traced.places(old) & traced.older:
                return False
            if isinstance(new, Tensor):
                traced.note_kept(new)
        return True

    def restore(self, traced: Traced) -> None:
        """Everything as it was."""
        for tensor, before in reversed(traced.overwritten):
            tensor.copy_(before)
        for thing, contents in self.kept:
            if not same(contents_of(thing), contents):
                put_back(thing, contents)
        random.setstate(self.python)
        np.random.set_state(self.numpy)  # noqa: NPY002


def contents_of(thing: Any) -> Any:
    """What a thing that can change holds now; None for one that cannot, or of which nothing is known."""
    if isinstance(thing, dict):
        return dict(thing)
    if isinstance(thing, (list, deque, tuple)):
        return list(thing)
    if isinstance(thing, (set, bytearray)):
        return type(thing)(thing)
    if isinstance(thing, torch.Generator):
        return thing.get_state().numpy().tobytes()
    if isinstance(thing, random.Random):
        return thing.getstate()
    if isinstance(thing, np.random.Generator):
        return pickle.dumps(thing.bit_generator.state)
    return thing.tobytes() if isinstance(thing, np.ndarray) else None


def put_back(thing: Any, contents: Any) -> None:
    """Let a thing hold what it held."""
    if isinstance(thing, (dict, set)):
        thing.clear()
        thing.update(contents)
    elif isinstance(thing, (list, deque, bytearray)):
        thing.clear()
        thing.extend(contents)
    elif isinstance(thing, torch.Generator):
        thing.set_state(torch.frombuffer(bytearray(contents), dtype=torch.uint8))
    elif isinstance(thing, random.Random):
        thing.setstate(contents)
    elif isinstance(thing, np.random.Generator):
        thing.bit_generator.state = pickle.loads(contents)
    elif isinstance(thing, np.ndarray):
        thing[...] = np.frombuffer(contents, thing.dtype).reshape(thing.shape)


def values_in(contents: Any) -> list[Any]:
    """What is held, to be looked at in turn."""
    if isinstance(contents, dict):
        return [value for key, value in contents.items() if key not in PLUMBING]
    return contents if isinstance(contents, list) else []


def same(one: Any, other: Any) -> bool:
    """Whether two values are one, or are equal and can never change."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return isinstance(one, (*VALUES, set, bytearray)) and bool(one == other)


def has_attributes(thing: Any) -> bool:
    """Whether a thing is an object of somebody's own, which may keep something; Python's own are left alone."""
    if isinstance(thing, (Tensor, type)) or not hasattr(thing, "__dict__"):
        return False
    return type(thing).__module__.partition(".")[0] not in sys.stdlib_module_names
