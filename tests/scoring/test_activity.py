"""How much goes through a network, against sums over its layers' inputs made by hand."""

import torch
from torch import Tensor, nn

from jostle.scoring.activity import activity


def test_what_each_layer_with_weights_is_given_is_measured() -> None:
    torch.manual_seed(0)
    first, last = nn.Linear(6, 5), nn.Linear(5, 3)
    model, x = nn.Sequential(first, nn.ReLU(), last), torch.randn(4, 6)
    with activity(model) as seen:
        model(x)
    expected = [x.square().sum(1), first(x).relu().square().sum(1)]
    torch.testing.assert_close(torch.stack(seen), torch.stack(expected).double(), rtol=1e-5, atol=0)
    model(x)
    assert len(seen) == 2, "hooks are gone"
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_what_is_looked_up_or_not_by_examples_is_not_counted() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.shift, self.head = nn.Embedding(9, 4), nn.Linear(4, 4), nn.Linear(12, 2)

        def forward(self, tokens: Tensor) -> Tensor:
            return self.head(self.shift(self.table(tokens)).flatten(1))

    model, tokens = Model(), torch.randint(0, 9, (5, 3))
    with activity(model) as seen:
        model(tokens)
    assert [len(each) for each in seen] == [5, 5]
    scripted = torch.jit.script(nn.Linear(2, 2))  # type: ignore[no-untyped-call]
    with activity(scripted) as seen:
        scripted(torch.randn(3, 2))
    assert seen == []
