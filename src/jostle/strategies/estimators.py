"""scikit-learn estimators in place of a network: `predict_proba` gives probabilities, the inputs are the features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from jostle.core import Query, Strategy
from jostle.strategies.arrays import select_from_arrays


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
