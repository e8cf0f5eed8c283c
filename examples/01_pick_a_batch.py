"""Train a small network on a few digits, then choose what to label next."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import TensorDataset

import jostle


def train(x: torch.Tensor, y: torch.Tensor, steps: int = 300) -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(steps):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


def accuracy(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> float:
    return float((model(x).argmax(1) == y).float().mean())


digits = load_digits()
x, y = torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target)
order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
test, labeled, pool = order[:500], order[500:530], order[530:]

model = train(x[labeled], y[labeled])
print(f"{len(labeled)} labels: accuracy {accuracy(model, x[test], y[test]):.3f}")

known = TensorDataset(x[labeled], y[labeled])
query = jostle.select("default", model, x[pool], n=60, labeled=known, seed=0)
print("label these next:", pool[query.indices[:10]].tolist(), "...")

for name, more in (("default", pool[query.indices]), ("random order", pool[:60])):
    grown = torch.cat([labeled, more])
    print(
        f"{len(grown)} labels by {name}: accuracy {accuracy(train(x[grown], y[grown]), x[test], y[test]):.3f}"
    )
