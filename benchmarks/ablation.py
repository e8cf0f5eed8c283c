"""What the steps of the default are worth: jolt herding with one of them left out or replaced, as strategies to run.

    jostle run arena-splice-cold --seeds 10 --out results/ablation-splice-cold --strategies "random,default,\
    fixed=jolt-herding(width=1.0),blind=benchmarks/ablation.py:Blind(width=1.0),features=benchmarks/ablation.py:OnFeatures"
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from jostle.inputs import Pool
from jostle.scoring.request import Request
from jostle.selectors import Picks
from jostle.strategies import JoltHerding
from jostle.strategies.candidates import Shortlist


@dataclass(frozen=True, kw_only=True)
class Blind(JoltHerding):
    """Covers what is unsure as if nothing were labelled; with a `width`, which is otherwise found from labels."""

    def among(self, request: Request, short: Shortlist, n: int) -> Picks:
        """Choose without looking at the labelled set."""
        return super().among(replace(request, labeled=None), short, n)


@dataclass(frozen=True, kw_only=True)
class OnFeatures(JoltHerding):
    """Two examples are alike if their features are."""

    def rows(self, request: Request, *pools: Pool) -> Tensor:
        """Features, (n, d)."""
        return request.features(*pools)
