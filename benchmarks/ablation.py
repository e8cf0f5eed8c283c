"""Ablations of the default: noise herding with one of them left out or replaced, as strategies to run.

    jostle run benchmarks/protocols/arena-splice-cold.toml --seeds 10 --strategies "random,default,\
    fixed=noise-herding(width=1.0),blind=benchmarks/ablation.py:Blind(width=1.0),features=benchmarks/ablation.py:OnFeatures"
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from jostle.inference.context import QueryContext
from jostle.inputs import Pool
from jostle.selectors import Picks
from jostle.strategies import NoiseHerding
from jostle.strategies.candidates import Shortlist


@dataclass(frozen=True, kw_only=True)
class Blind(NoiseHerding):
    """Covers what is unsure as if nothing were labeled; with a `width`, which is otherwise found from labels."""

    def among(self, context: QueryContext, short: Shortlist, n: int) -> Picks:
        """Choose without looking at the labeled set."""
        return super().among(replace(context, labeled=None), short, n)


@dataclass(frozen=True, kw_only=True)
class OnFeatures(NoiseHerding):
    """Two examples are alike if their features are."""

    def rows(self, context: QueryContext, *pools: Pool) -> Tensor:
        """Features, (n, d)."""
        return context.features(*pools)
