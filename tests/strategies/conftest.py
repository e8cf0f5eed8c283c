"""What tests of several strategies look at."""

import pytest
from torch import Tensor

from jostle.embeddings.deviations import Deviations
from jostle.inference.context import QueryContext
from jostle.inputs import Pool


@pytest.fixture
def jolted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many examples were jolted, call by call."""
    sizes: list[int] = []
    rows = Deviations.rows

    def watched(self: Deviations, context: QueryContext, *pools: Pool) -> Tensor:
        sizes.append(sum(map(len, pools)))
        return rows(self, context, *pools)

    monkeypatch.setattr(Deviations, "rows", watched)
    return sizes
