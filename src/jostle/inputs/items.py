"""Single items of a pool or a labeled set: what of them is input, and what is target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Number
from typing import Any

import torch
from torch import Tensor

from jostle.inputs.batches import Inputs

LABEL_KEYS = frozenset({"label", "labels", "label_ids", "target", "targets"})


def inputs_of(item: Any) -> Inputs:
    """What the model is given of one item or batch: never its targets."""
    if isinstance(item, Mapping):
        kept = {key: value for key, value in item.items() if key not in LABEL_KEYS}
        kept = {key: numeric(value) for key, value in kept.items() if not isinstance(value, (str, bytes))}
        check_kept(kept, item)
        return kept
    several = isinstance(item, tuple) or (isinstance(item, list) and not is_numbers(item))
    if several and item:  # a list of numbers is an input; a tuple is (x, y), also where x is a number
        return inputs_of(item[0]) if isinstance(item[0], Mapping) else numeric(item[0])
    return numeric(item)


def target_of(item: Any) -> Any:
    """The target of one labeled item."""
    if isinstance(item, Mapping):
        found = [item[key] for key in item if key in LABEL_KEYS]
    else:
        found = list(item[1:2]) if isinstance(item, (tuple, list)) else []
    if found:
        refuse_words(found[0])
        return found[0]
    raise TypeError(f"a labeled set holds (x, y) items or dicts with a label; got {type(item).__name__}")


def refuse_words(targets: Any) -> None:
    """An error where targets are words."""
    if is_words(targets):
        word = str(first_entry(targets))
        raise TypeError(f"labels are numbers here; got {word!r}: give each class a number from 0 on")


def check_kept(kept: Mapping[str, Any], holder: Mapping[str, Any]) -> None:
    """Something is left for the model, or an error that says what was not."""
    if not kept:
        gone = ", ".join(map(repr, holder)) or "none"
        raise ValueError(f"the pool has no column of numbers; left out as words or labels: {gone}")


def is_words(values: Any) -> bool:
    """Whether a column or a target is text, judged by its first entry that is there."""
    return isinstance(first_entry(values), (str, bytes))


def first_entry(values: Any) -> Any:
    """The first entry of nested lists or arrays that is not None."""
    whole = (str, bytes, Tensor, Mapping)
    while isinstance(values, Iterable) and not isinstance(values, whole) and getattr(values, "ndim", 1) > 0:
        values = next((value for value in values if value is not None), None)
    return values


def numeric(value: Any) -> Any:
    """Lists of numbers as tensors, since collating would transpose them."""
    return torch.tensor(value) if isinstance(value, list) and value and is_numbers(value) else value


def is_numbers(value: Sequence[Any]) -> bool:
    """Whether a list holds numbers only, nested ones included."""
    return all(
        isinstance(entry, Number) or (isinstance(entry, list) and is_numbers(entry)) for entry in value
    )
