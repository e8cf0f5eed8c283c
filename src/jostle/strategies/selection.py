"""`select`: any strategy with a model and a pool, with a fitted scikit-learn estimator, or with arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from jostle.core import Query, Strategy
from jostle.inference.context import DEFAULTS, Options, split_options
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
from jostle.utils.registry import with_options
from jostle.utils.user_files import is_own


@overload
def select(strategy: str | Strategy, model: Any, pool: Any, n: int, **options: Any) -> Query: ...


@overload
def select(
    strategy: str | Strategy, *, n: int, probabilities: Any = None, features: Any = None, **options: Any
) -> Query: ...


@with_options(Options, DEFAULTS)
def select(
    strategy: str | Strategy,
    model: Any = None,
    pool: Any = None,
    n: int | None = None,
    *,
    probabilities: Any = None,
    features: Any = None,
    **settings: Any,
) -> Query:
    """Choose n examples with any strategy by name, its settings being further keywords.

    In place of a model and a pool, arrays will do where a strategy needs no more than these.

    Args:
        strategy: Its name, or the strategy itself.
        model: Any `nn.Module` that gives logits; a private copy of it is scored, in eval mode. Or a fitted scikit-learn
            estimator or pipeline, whose `predict_proba` jostle calls.
        pool: What to choose from: a tensor or array (n, ...), a dict of these, a dataset, list or data loader.
        n: How many to pick, at most the pool less the excluded.
        probabilities: An array (n, c), as `predict_proba` gives it, in place of a model.
        features: An array (n, d), in place of a model, or beside an estimator.

    Returns:
        The picks: `query.indices` are positions into the pool, in the order they were picked.

    Raises:
        ValueError: The call cannot be answered: n is too large, labels do not fit the outputs, rows are not finite, or
            memory does not suffice. The message says what was received and what to do.
        TypeError: An argument has the wrong kind, or a setting does not exist.

    Example:
        >>> import jostle, torch
        >>> from torch import nn
        >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
        >>> pool = torch.randn(50, 4)
        >>> query = jostle.select("default", model, pool, n=5, seed=0)
        >>> len(set(query.indices))
        5
    """
    if n is None:
        raise TypeError("say how many to pick: n=")
    check_strategy(strategy)
    if model is None:
        return select_from_arrays(strategy, probabilities, features, n, pool=pool, **settings)
    if probabilities is not None or (features is not None and isinstance(model, nn.Module)):
        raise TypeError(MODEL_OR_ARRAYS)
    if is_estimator(model):
        return select_with_estimator(strategy, model, pool, n, features, **settings)
    call, own = split_options(settings)
    if isinstance(strategy, str):
        return REGISTRY.build(strategy, own, Options.__annotations__).select(model, pool, n, **call)
    if own:
        raise TypeError(f"settings belong to the strategy you built; got {', '.join(own)}")
    return strategy.select(model, pool, n, **call)


def check_strategy(strategy: Any) -> None:
    """Raise an error that helps where a class or a function was passed for a strategy."""
    if isinstance(strategy, (str, Strategy)):
        return
    found = repr(strategy)
    if isinstance(strategy, type):
        found = f"the class {strategy.__name__}: pass {strategy.__name__}()"
    elif callable(strategy):
        found = (
            "a function: of rows use compose('features', selector=function), of a model and a pool define a class "
            "with query(context, n)"
        )
    raise TypeError(f"strategy must be a name or a strategy; got {found}")


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


def is_estimator(model: Any) -> bool:
    """Return whether a model is no network but predicts as scikit-learn's do."""
    return not isinstance(model, nn.Module | type) and hasattr(model, "predict") and hasattr(model, "fit")


def select_with_estimator(
    strategy: str | Strategy, model: Any, pool: Any, n: int, features: Any = None, **options: Any
) -> Query:
    """Choose n examples by the predictions of a fitted estimator or pipeline.

    Args:
        strategy: A strategy that needs no more than probabilities and features.
        model: The estimator; a regressor's numbers are taken as outputs of the task "regression".
        pool: Examples as `model.predict` takes them.
        n: The number of picks.
        features: An array (n, d); None: what the last step of a pipeline is given, or the pool if it holds numbers.
        options: Options of `select`; `labeled` is a pair (X, y), and `members` of a committee may be estimators.
    """
    held = as_held(pool)
    labeled, members = options.pop("labeled", None), options.pop("members", None)
    own = features_of(model, held) if features is None else features
    if labeled is not None:
        options["labeled"] = labeled_arrays(model, labeled, features is None and own is not None)
    if members is not None:
        options["members"] = [predict(one, held) if is_estimator(one) else one for one in members]
    if not hasattr(model, "predict_proba"):
        options.setdefault("task", "regression")
    return select_from_arrays(strategy, predict(model, held), own, n, **options)


def predict(model: Any, examples: Any) -> NDArray[np.float64]:
    """Return probabilities (n, c) of a classifier, or the numbers of a regressor."""
    name = type(model).__name__
    if hasattr(model, "predict_proba"):
        found = model.predict_proba(examples)
        if isinstance(found, list):
            raise TypeError(
                f"{name} gives probabilities of {len(found)} targets; pass those of one as probabilities="
            )
        return np.asarray(found)
    if hasattr(model, "classes_") or hasattr(model, "decision_function"):
        raise TypeError(
            f"{name} has no predict_proba: wrap it in sklearn.calibration.CalibratedClassifierCV, or pass "
            "probabilities= in place of model and pool"
        )
    return np.asarray(model.predict(examples), dtype=np.float64)


def features_of(model: Any, examples: Any) -> Any:
    """Return what the last step of a pipeline is given, or the examples; None where these are no numbers (n, d)."""
    if hasattr(model, "steps") and len(model.steps) > 1:
        examples = model[:-1].transform(examples)
    if hasattr(examples, "toarray"):  # scipy's
        return examples.astype(np.float64) if examples.dtype.kind in "biu" else examples
    array = np.asarray(examples)
    if array.ndim < 2 or array.dtype.kind not in "biuf":
        return None
    return (
        array.reshape(len(array), -1)
        if array.dtype.kind == "f"
        else array.reshape(len(array), -1).astype(np.float64)
    )


def labeled_arrays(model: Any, labeled: Any, with_features: bool) -> Mapping[str, Any]:
    """Return the arrays of labeled examples that are given as a pair (X, y); a dict of arrays is returned as it is."""
    if isinstance(labeled, Mapping):
        return labeled
    if not isinstance(labeled, tuple | list) or len(labeled) != 2:
        raise TypeError(
            f"beside an estimator labeled= is a pair (X, y) or a dict of arrays; got {type(labeled).__name__}"
        )
    examples, labels = as_held(labeled[0]), np.asarray(labeled[1])
    known = {"probabilities": predict(model, examples), "labels": class_numbers(model, labels)}
    return {**known, "features": features_of(model, examples)} if with_features else known


def class_numbers(model: Any, labels: NDArray[Any]) -> NDArray[Any]:
    """Return labels as columns of `predict_proba`; numbers of a regressor as they are."""
    if not hasattr(model, "predict_proba") or getattr(model, "classes_", None) is None:
        return labels
    column = {label: number for number, label in enumerate(model.classes_.tolist())}
    if unseen := [label for label in np.unique(labels).tolist() if label not in column]:
        raise ValueError(
            f"labels hold {unseen[0]!r}, which {type(model).__name__} was not fitted on: {list(column)[:10]}"
        )
    return np.array([column[label] for label in labels.tolist()], dtype=np.int64)


def as_held(examples: Any) -> Any:
    """Return examples as estimators take them: tensors as arrays, all else unchanged."""
    return examples.detach().cpu().numpy() if isinstance(examples, Tensor) else examples
