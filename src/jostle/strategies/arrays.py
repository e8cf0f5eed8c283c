"""Strategies on arrays, for models that are no networks: what `predict_proba` gives, and features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from jostle.core import Query, Strategy
from jostle.inference.context import Options, split_options
from jostle.inference.precomputed import (
    PrecomputedModel,
    array_columns,
    common_type,
    precomputed_features,
    precomputed_task,
)
from jostle.strategies.default import Default, default_for
from jostle.strategies.registry import REGISTRY, Entry, describe
from jostle.tasks import Task
from jostle.utils.names import unknown
from jostle.utils.user_files import is_own

MODEL_OR_ARRAYS = (
    "select takes a model and a pool, or arrays in their place: probabilities=, features=, or both"
)
CANNOT = {  # what a method may need and arrays cannot give
    "weights": "looks into the model itself",
    "dropout": "runs the model many times under dropout (of several sets of probabilities take qbc, members=[...])",
    "images": "learns from the images themselves",
}
HOW = {  # what arrays can give, and how
    "probabilities": "probabilities=, an array (n, c), as predict_proba gives it",
    "features": "features=, an array (n, d)",
    "labeled set": "labeled={'features': ..., 'probabilities': ..., 'labels': ...}, what is known of the labeled",
}


def select_from_arrays(
    strategy: str | Strategy, probabilities: Any, features: Any, n: int, pool: Any = None, **options: Any
) -> Query:
    """Choose n examples as if a model had given these arrays, either of which may be None."""
    call, settings = split_options(options)
    labeled, members = call.pop("labeled", None), settings.pop("members", None)
    members = [] if members is None else list(members)  # an array (M, n, c) too
    arrays = {"probabilities": probabilities, "features": features}
    given = {name for name, values in {**arrays, "labeled set": labeled}.items() if values is not None}
    scored = {"probabilities"} if call.get("scores") is not None else set()  # in place of uncertainties
    outputs = next((values for values in (probabilities, *members) if values is not None), None)
    if (
        strategy == "default" and outputs is not None
    ):  # arrays have no layers to perturb, as a linear model has none
        name = default_for(precomputed_task(call.get("task"), outputs).name, linear=True)
        strategy, settings = Default(**settings).chosen(name), {}
    card = card_of(strategy)
    if card is not None and given:
        check_needs(card, given | scored)
    if call.get("task") is None:
        check_members(members)
    task = precomputed_task(call.pop("task", None), outputs)
    committee = {f"member{number}": values for number, values in enumerate(members)}
    held = array_columns(task, **arrays, **committee)
    if not held and pool is None and scored:
        raise TypeError(
            "scores= weigh or rank examples that have features: pass features=, or use top_k(scores, n)"
        )
    if not held or pool is not None:
        raise TypeError(MODEL_OR_ARRAYS)
    known = {} if labeled is None else labeled_columns(labeled, task)
    dtype = common_type(*held.values(), *(known[name] for name in arrays.keys() & known))
    if committee:
        settings["members"] = [PrecomputedModel(member, task, dtype) for member in committee]
    made = replace(made_of(strategy, settings), head=precomputed_features)
    model = PrecomputedModel("member0" if probabilities is None else "probabilities", task, dtype)
    return made.select(model, held, n, **call | {"task": task, "labeled": known or None})


def check_members(members: Sequence[Any]) -> None:
    """Raise an error for members of a committee that are not arrays with a row for each example."""
    if members and np.ndim(members[0]) < 2:
        raise TypeError(
            "members= must be a list of arrays (n, c), or one array (members, n, c); got members of shape "
            f"{np.shape(members[0])}"
        )


def card_of(strategy: str | Strategy) -> Entry | None:
    """Return the registry's entry of a strategy; None without one."""
    if isinstance(strategy, str):
        return None if is_own(strategy) else describe(strategy)
    return next((entry for entry in REGISTRY.entries() if entry.build is type(strategy)), None)


def made_of(strategy: str | Strategy, settings: dict[str, Any]) -> Strategy:
    """The strategy with its settings; those that read a network are refused, since there is none."""
    if settings and not isinstance(strategy, str):
        raise TypeError(f"settings belong to the strategy you built; got {', '.join(settings)}")
    made = (
        REGISTRY.build(strategy, settings, Options.__annotations__) if isinstance(strategy, str) else strategy
    )
    if made.head is not None or made.outputs is not None:
        raise ValueError("head= and outputs= read a network, and arrays are read as they are: leave them out")
    return made


def check_needs(entry: Entry, given: set[str]) -> None:
    """Refuse a strategy that needs what was not given, by name and with what will do."""
    needs = [need for need in entry.needs if need in CANNOT]
    if needs:
        able = (entry.name for entry in REGISTRY.entries() if entry.listed and works_with(entry, given))
        others = ", ".join(sorted(able))
        raise ValueError(
            f"{entry.name} cannot work on arrays: it {CANNOT[needs[0]]}; with what was given you can use {others}"
        )
    missing = [HOW[need] for need in entry.needs if need in HOW and need not in given]
    if missing:
        raise ValueError(f"{entry.name} needs more than was given: pass {' and '.join(missing)}")


def works_with(entry: Entry, given: set[str]) -> bool:
    """Whether arrays of these kinds are all that a strategy needs."""
    return not set(entry.needs) & CANNOT.keys() and set(entry.needs) & HOW.keys() <= given


def labeled_columns(labeled: Any, task: Task) -> dict[str, Any]:
    """Return the columns of labeled examples: the arrays that the pool has, and labels."""
    if not isinstance(labeled, Mapping):
        raise TypeError(
            f"beside arrays labeled= is a dict of arrays; got {type(labeled).__name__}: {HOW['labeled set']}"
        )
    for name in labeled:
        if name not in ("probabilities", "features", "labels"):
            raise TypeError(str(unknown("array", str(name), ["probabilities", "features", "labels"])))
    held = {name: labeled[name] for name in ("probabilities", "features") if name in labeled}
    return {**array_columns(task, **held), **{name: labeled[name] for name in labeled if name == "labels"}}
