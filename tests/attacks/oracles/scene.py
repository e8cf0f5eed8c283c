"""Random networks whose every pass is recorded, and plain definitions of probabilities, features and deviations.

Nothing here calls jostle: a network notes the parameters, inputs and outputs of each pass that jostle makes with its
private copy, so that an oracle knows the perturbations and the dropout that were drawn without drawing them again.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from attacks.driver import check

CLASSES = ("classification", "binary")
SCORED = (*CLASSES, "segmentation", "multi-label", "sequence")
ANY = (*SCORED, "regression")
ACTIVATIONS = (nn.Tanh, nn.ReLU, nn.GELU, nn.Softplus)


@dataclass(frozen=True)
class Pass:
    """One forward pass: parameters in a row, inputs, what the head was given, outputs."""

    theta: Tensor
    inputs: Tensor
    hidden: Tensor
    outputs: Tensor | None  # None where features were all that was asked for


@dataclass
class Tape:
    """All passes of a network and of its copies."""

    passes: list[Pass] = field(default_factory=list)
    heads: list[tuple[Tensor, Tensor]] = field(default_factory=list)  # inputs and outputs of the head alone

    def __deepcopy__(self, memo: Any) -> Tape:
        return self


class Head(nn.Linear):
    """A linear head that notes what it is given."""

    tape: Tape

    def forward(self, x: Tensor) -> Tensor:
        out = super().forward(x)
        self.tape.heads.append((x.detach().clone(), out.detach().clone()))
        return out


class Net(nn.Module):
    """A body and a head, recorded."""

    def __init__(self, body: nn.Module, head: nn.Module, tape: Tape) -> None:
        super().__init__()
        self.body, self.head, self.tape = body, head, tape

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.body(x)
        theta, passes = parameters_to_vector(self.parameters()).detach().clone(), self.tape.passes
        seen = Pass(theta, x.detach().clone(), hidden.detach().clone(), None)
        passes.append(seen)  # a pass for features ends at the head
        out: Tensor = self.head(hidden)
        passes[-1] = replace(seen, outputs=out.detach().clone())
        return out


@dataclass
class Scene:
    """A network, a pool, labeled examples, and what outputs mean."""

    net: Net
    plain: nn.Sequential  # body and head, not recorded
    pool: Tensor
    known: Tensor
    labels: Tensor
    task: str
    classes: int
    words: str

    @property
    def theta(self) -> Tensor:
        """The clean parameters in a row."""
        return parameters_to_vector(self.net.parameters()).detach()

    @property
    def labeled(self) -> tuple[Tensor, Tensor]:
        """The labeled set as `select` takes it."""
        return self.known, self.labels

    def run(self, x: Tensor, theta: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Features (n, d) and raw outputs at these parameters."""
        vector_to_parameters(self.theta if theta is None else theta, self.plain.parameters())
        with torch.no_grad():
            hidden = self.plain[0](x)
            return self.vectors(hidden), self.plain[1](hidden)

    def vectors(self, hidden: Tensor) -> Tensor:
        """What the head is given as one row for each example: the mean over pixels or tokens."""
        if hidden.ndim == 4:
            return hidden.mean((2, 3))
        return hidden.mean(1) if hidden.ndim == 3 else hidden

    def features(self, x: Tensor) -> Tensor:
        """Features (n, d)."""
        return self.run(x)[0]

    def outputs(self, x: Tensor) -> Tensor:
        """Raw outputs."""
        return self.run(x)[1]

    def logits(self, outputs: Tensor) -> Tensor:
        """Logits of exclusive classes, (n, c)."""
        return torch.cat([torch.zeros_like(outputs), outputs], 1) if self.task == "binary" else outputs

    def sites(self, outputs: Tensor) -> Tensor:
        """Distributions (n, sites, c)."""
        if self.task in CLASSES:
            return self.logits(outputs).softmax(1)[:, None]
        if self.task == "multi-label":
            return torch.stack([(-outputs).sigmoid(), outputs.sigmoid()], -1)
        if self.task == "segmentation":
            return outputs.softmax(1).flatten(2).transpose(1, 2)
        return outputs.softmax(-1)

    def probabilities(self, x: Tensor) -> Tensor:
        """Distributions of the pool or of others, (n, sites, c)."""
        return self.sites(self.outputs(x))

    def perturbed(self, count: int, scale: float = 1e-3) -> list[Tensor]:
        """The parameters of each perturbed pass: so many, each as far from the clean ones as its definition says."""
        found: list[Tensor] = []
        for each in self.net.tape.passes:
            if not any(torch.equal(each.theta, one) for one in (self.theta, *found)):
                found.append(each.theta)
        check(len(found) == count, f"{len(found)} perturbations were seen, expected {count}")
        moving = torch.stack([one != self.theta for one in found]).any(0)
        wanted = scale * self.theta[moving].norm()
        for one in found:
            length = (one - self.theta).norm()
            right = bool((length - wanted).abs() <= 1e-6 * wanted)
            check(right, f"a perturbation of length {length}, not {wanted}")
        return found

    def deviations(self, x: Tensor, thetas: list[Tensor], of: Any, scale: float = 1e-3) -> Tensor:
        """sqrt(P / K) (f(x; theta_k) - f(x; theta)) / (zeta ||theta||) over all k, (n, K, d)."""
        moving = torch.stack([one != self.theta for one in thetas]).any(0)
        size = scale * float(self.theta[moving].norm())
        clean = of(*self.run(x))
        moved = torch.stack([of(*self.run(x, one)) - clean for one in thetas], 1)
        return moved * (int(moving.sum()) / len(thetas)) ** 0.5 / size

    def dropout_passes(self, count: int) -> Tensor:
        """Distributions of each pass with dropout, (T, n, sites, c): so many."""
        clean = self.outputs(self.pool)
        seen = [each.outputs for each in self.net.tape.passes if torch.equal(each.inputs, self.pool)]
        found = [x for x in seen if x is not None and not torch.allclose(x, clean, rtol=1e-12, atol=1e-14)]
        check(0 < len(found) <= count, f"{len(found)} dropout passes were seen, expected {count}")
        found += [clean] * (count - len(found))  # a pass that dropped nothing looks like a clean one
        return torch.stack([self.sites(out) for out in found])


def scene(chance: Random, tasks: Sequence[str], *, dropout: bool = False, images: bool = False) -> Scene:
    """A random network in double precision for one of these tasks, with random examples."""
    task = chance.choice(tasks)
    torch.manual_seed(chance.randrange(2**31))
    classes = 2 if task == "binary" else chance.randint(2, 4)
    out = 1 if task in ("binary", "regression") else classes
    n, m, width = chance.randint(12, 40), chance.randint(3, 9), chance.randint(3, 6)
    images = images or task == "segmentation" or (task in CLASSES and not dropout and chance.random() < 0.2)
    body, shape = picture_body(chance, width, task) if images else vector_body(chance, width, task, dropout)
    tape = Tape()
    head = nn.Conv2d(width, out, 1) if task == "segmentation" else Head(width, out)
    head.tape = tape
    net = Net(body, head, tape).double().eval()
    with torch.no_grad():
        net.head.weight.mul_(chance.choice([0.3, 1.0, 1.0, 5.0, 200.0]))
    x = torch.randn(n + m, *shape, dtype=torch.float64)
    if chance.random() < 0.3:  # examples of unequal size
        x *= (1.5 * torch.randn(n + m, dtype=torch.float64)).exp().view(-1, *[1] * len(shape))
    plain_head = copy.deepcopy(net.head)
    plain_head.__class__ = nn.Conv2d if task == "segmentation" else nn.Linear
    plain = nn.Sequential(copy.deepcopy(body).double(), plain_head).eval()
    labels = labels_of(task, classes, m, shape)
    return Scene(
        net, plain, x[:n].clone(), x[n:].clone(), labels, task, classes, f"{task}, {body}, {n} and {m}"
    )


def vector_body(chance: Random, width: int, task: str, dropout: bool) -> tuple[nn.Module, tuple[int, ...]]:
    """Layers over vectors, or over the tokens of a sequence; dropout, where there is any, comes last."""
    d, act = chance.randint(2, 5), chance.choice(ACTIVATIONS)
    layers: list[nn.Module] = [nn.Linear(d, width), act()]
    if chance.random() < 0.5:
        layers = [nn.Linear(d, 7), act(), nn.Linear(7, width), act()]
    layers += [nn.Dropout(chance.choice([0.2, 0.5]))] if dropout else []
    return nn.Sequential(*layers), ((chance.randint(2, 4), d) if task == "sequence" else (d,))


def picture_body(chance: Random, width: int, task: str) -> tuple[nn.Module, tuple[int, ...]]:
    """A convolution, averaged over space unless every pixel has an output."""
    layers = [nn.Conv2d(1, width, 3, padding=1), chance.choice(ACTIVATIONS)()]
    ends = [] if task == "segmentation" else [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, *ends), (1, 4, 4)


def labels_of(task: str, classes: int, m: int, shape: tuple[int, ...]) -> Tensor:
    """Random labels that fit a task."""
    if task == "regression":
        return torch.randn(m, dtype=torch.float64)
    if task == "multi-label":
        return torch.randint(0, 2, (m, classes)).double()
    size = {"segmentation": shape[1:], "sequence": shape[:1]}.get(task, ())
    return torch.randint(0, classes, (m, *size))
