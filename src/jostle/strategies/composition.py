"""Any embedding with any selector, in one line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from jostle import embeddings
from jostle.core import Choice, Embedding
from jostle.strategies.registry import REGISTRY
from jostle.utils.names import name_and_settings, unknown
from jostle.utils.registry import check_settings
from jostle.utils.user_files import is_own


@REGISTRY.register("compose", listed=False)
def compose(
    embedding: str | Embedding | Mapping[str, Any], selector: Choice | None = None, **settings: Any
) -> Embedding:
    """A strategy made of an embedding and a selector: `compose("features", "k-means++")`.

    Args:
        embedding: Its name, with settings in brackets if need be: "deviations(noise=layerwise)"; a strategy that has
            rows, by name too; `file.py:name`; a value; or a table `{use = "deviations", noise = "layerwise"}`, as
            protocols write it.
        selector: A selector, its name, "typical(clusters=50)", or a function (rows, n) -> positions; None: the one
            that suits the embedding.
        settings: Settings of the embedding; `head` and `outputs` say how the model is read.

    Returns:
        A strategy with `select`, `plan` and `embed`.

    Raises:
        ValueError: No embedding has this name, or the strategy has no rows.

    Example:
        >>> import jostle
        >>> strategy = jostle.compose("features", "k-means++")
        >>> strategy.selector
        'k-means++'
    """
    given = settings if selector is None else {"selector": selector, **settings}
    if isinstance(embedding, Embedding):
        check_settings(type(embedding).__name__, type(embedding), given)
        return replace(embedding, **given)
    name, own = _spelled(embedding)
    return _named(name, own | given)


def _spelled(embedding: str | Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The name and the settings of an embedding that is given in words."""
    if isinstance(embedding, str):
        return name_and_settings(embedding)
    if not isinstance(embedding, Mapping) or not isinstance(embedding.get("use"), str):
        raise TypeError(f"an embedding is a name, a value or a table with `use`; got {embedding!r}")
    return embedding["use"], {key: value for key, value in embedding.items() if key != "use"}


def _named(name: str, settings: Mapping[str, Any]) -> Embedding:
    """An embedding of the registry or of a file, or a strategy that has rows."""
    if name in embeddings.names() or is_own(name):
        return embeddings.REGISTRY.build(name, settings)
    if name not in REGISTRY.names():
        raise unknown("embedding", name, {*embeddings.names(), *REGISTRY.names()})
    kind = REGISTRY.entry(name).made_by
    if isinstance(kind, type) and not issubclass(kind, Embedding):
        raise ValueError(f"{name} picks by itself: it has no rows among which a selector could pick")
    made = REGISTRY.build(name, settings)
    assert isinstance(made, Embedding)
    return made
