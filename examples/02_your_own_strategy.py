"""A strategy of your own in fifteen lines.

    jostle run digits --strategies random,examples/02_your_own_strategy.py:Ratio

takes it from this file as it is; settings go in brackets, `'...:Ratio(power=2)'`. `register` gives it a name, for the
process that imports this file: `jostle.select("ratio", ...)` then finds it. For the commands to know the name too, a
package names the class as an entry point of the group `jostle.strategies`:

    [project.entry-points."jostle.strategies"]
    ratio = "my_package:Ratio"
"""

from dataclasses import dataclass

import torch
from torch import nn

import jostle
from jostle import Embedded, Embedding, QueryContext


@jostle.strategies.register("ratio", needs=("probabilities",), tasks=("classification",))
@dataclass(frozen=True, kw_only=True)
class Ratio(Embedding):
    """The runner-up's probability over the winner's. Close calls come first."""

    selector: str = "top-k"
    power: float = 1.0
    """A setting: jostle.select("ratio", ..., power=2)."""

    def embedding(self, context: QueryContext) -> Embedded:
        best = context.probabilities().topk(2).values  # (n, 2)
        return Embedded((best[:, 1] / best[:, 0]) ** self.power)


if __name__ == "__main__":
    model, pool = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 4)), torch.randn(200, 20)
    query = jostle.select("ratio", model, pool, n=5, seed=0)
    print("close calls:", query.indices.tolist(), query.scores.round(3).tolist())
