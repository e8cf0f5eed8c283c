"""Executors of a query other than this process, loaded when they are asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from torch import nn

from jostle.core.query import Query
from jostle.inference.options import Options

if TYPE_CHECKING:
    from jostle.core.strategy import Strategy

ENGINES = "jostle.engines"  # imported by name: this package does not depend on it


class Executor(Protocol):
    """Carries out a query somewhere else, with the picks of one process."""

    def select(self, strategy: Strategy, model: nn.Module, pool: Any, n: int, options: Options) -> Query:
        """Choose n examples of the pool with a strategy.

        Args:
            strategy: The strategy.
            model: As `select` takes it.
            pool: As `select` takes it.
            n: The number of picks.
            options: The options of the call.
        """


def executor_for(engine: Any) -> Executor | None:
    """Return the executor that the option `engine` names; None: this process."""
    return None if engine is None else import_module(ENGINES).engine(engine)
