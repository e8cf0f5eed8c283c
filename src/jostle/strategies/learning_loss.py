"""Learning loss (LL4AL): a small module learns, beside the task, to predict each example's loss from a few layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn

from jostle.core import Choice, Embedded, Embedding, Joined
from jostle.inference.context import QueryContext
from jostle.inference.isolation import device_of, unwrapped
from jostle.inference.reader import CONVOLUTIONS, fitted_mask, mask_of, mean_over, plain_attention
from jostle.inference.runner import ModelRunner, known_arguments
from jostle.inputs import Inputs, arrays
from jostle.rng import derive, seeded_globals
from jostle.selectors import top_k
from jostle.strategies.registry import register
from jostle.utils.names import look_up, unknown

if TYPE_CHECKING:
    from jostle.inference.runner import ModelRunner


MOMENTUM, WEIGHT_DECAY = 0.9, 5e-4  # of the predictor's SGD, as published


@register(
    "ll4al",
    gist="the largest loss, as a module learns to tell it",
    formula="largest l(x) = w . [relu(W_j pooled map_j(x))]_j, trained so that l orders pairs as the true losses do",
    needs=("weights", "extra training"),
    cost="a small module trained beside the model, then one forward pass",
    paper="Yoo and Kweon, Learning Loss for Active Learning, CVPR 2019",
    when="you train the model yourself and want a score that costs one pass, on any loss that examples have",
)
@dataclass(frozen=True, kw_only=True)
class LearningLoss(Embedding):
    """A module that reads intermediate layers is trained with the model to tell which of two examples has the
    larger loss. The examples with the largest predicted loss are picked.

    It takes part in training, so the loop is yours to write, and `select` wants the model that it trained:

        strategy = LearningLoss()
        joined = strategy.join(model, images[:2], seed=0)
        optimizers = [torch.optim.SGD(model.parameters(), lr=0.1), *joined.optimizers(lr=0.1)]
        for epoch in range(epochs):
            for x, y in loader:
                losses = F.cross_entropy(joined.model(x), y, reduction="none")  # (n,)
                loss = losses.mean() + joined.loss(losses, fraction=epoch / epochs)
                for optimizer in optimizers:
                    optimizer.zero_grad()
                loss.backward()
                for optimizer in optimizers:
                    optimizer.step()
        query = strategy.select(joined.model, pool, n=100)
    """

    shardable = True

    selector: Choice = top_k
    layers: Sequence[str] | None = None
    """Names of the layers to read; None: up to four, over the depth."""
    hidden: int = 128
    """Width of each layer's branch."""
    lr: float | None = None
    """Learning rate of the predictor's SGD; None: the model's own, too small where that has Adam."""
    margin: float = 1.0
    """The gap by which the predictions of a pair shall differ."""
    weight: float = 1.0
    """Weight of the pair loss beside the task's."""
    detach_after: float = 0.6
    """Fraction of training after which the pair loss no longer moves the model."""
    tokens: str = "first"
    """What is read of a sequence (n, tokens, d): the "first" token, or the "mean" where none of them leads it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        vector_reader(self.tokens)  # an unknown reading is better refused here than in training

    def join(self, model: nn.Module, example: Inputs, seed: int) -> LearningLossJoined:
        """Put a loss predictor beside the model; a couple of inputs show the shapes of its layers.

        Of a compiled or parallel model the module inside is taken, since its layers are watched while it runs.
        """
        model = unwrapped(model)
        if isinstance(model, torch.jit.ScriptModule):
            raise ValueError(
                "ll4al watches a model's layers, which a scripted one hides: join it before scripting"
            )
        with seeded_globals(derive(seed, "learning loss"), device_of(model)), torch.no_grad():
            runner = ModelRunner(model, example)
            layers = layers_over_depth(runner) if self.layers is None else layers_named(runner, self.layers)
            with watching_layers(runner.module, layers, vector_reader(self.tokens)) as seen:
                runner.call(runner.example)
            vectors = [seen[layer] for layer in layers]
            with torch.device("cpu"):  # so that a seed means the same weights on every device
                predictor = LossPredictor([vector.shape[1] for vector in vectors], self.hidden)
        predictor.to(device_of(model), vectors[0].dtype)
        return LearningLossJoined(LossPredicting(model, predictor, layers, self.tokens), self)

    def embedding(self, context: QueryContext) -> Embedded:
        """The predicted loss of each example."""
        model = predicting(context.runner.module)

        def read(inputs: Inputs) -> tuple[Tensor]:
            model.mask = context.reader.mask_in(inputs)
            context.runner.call(inputs)
            return (model.predicted_losses(),)

        return Embedded(context.compute(read, what="predicted losses")[0])


class LearningLossJoined(Joined):
    """A model in training with its loss predictor; `model` gives the outputs of the model that was joined."""

    model: LossPredicting
    learns_losses = True

    def __init__(self, model: LossPredicting, settings: LearningLoss) -> None:
        super().__init__(model)
        self.settings = settings

    def optimizers(self, lr: float) -> list[torch.optim.Optimizer]:
        """SGD for the predictor, at the model's own learning rate unless set."""
        predictor, rate = self.model.predictor.parameters(), self.settings.lr or lr
        return [torch.optim.SGD(predictor, lr=rate, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY)]

    def loss(self, losses: Tensor, fraction: float) -> Tensor:
        """The pair loss of the batch that `model` was called with last."""
        predicted = self.model.predicted_losses(detach=fraction >= self.settings.detach_after)
        if losses.shape != predicted.shape:
            raise ValueError(
                f"losses of shape {tuple(losses.shape)} for a batch of {len(predicted)} examples: give one loss "
                "for each example (reduction='none'; pixels averaged) of the batch that joined.model saw last"
            )
        return self.settings.weight * pair_loss(predicted, losses, self.settings.margin)


def pair_loss(predicted: Tensor, losses: Tensor, margin: float = 1.0) -> Tensor:
    """How far predictions are from ordering example i and example n - 1 - i as their losses do.

    In an odd batch the one in the middle has no partner. Of equal losses the second counts as the larger.
    """
    pairs = len(predicted) // 2
    if not pairs:
        return predicted.new_zeros(())
    gaps = (predicted - predicted.flip(0))[:pairs]  # (pairs,)
    larger = (losses > losses.flip(0))[:pairs]
    return (margin - torch.where(larger, gaps, -gaps)).clamp(min=0).mean()


class LossPredictor(nn.Module):
    """One branch for each layer, and a number from all of them."""

    def __init__(self, widths: Sequence[int], hidden: int) -> None:
        super().__init__()
        self.branches = nn.ModuleList(nn.Sequential(nn.Linear(d, hidden), nn.ReLU()) for d in widths)
        self.last = nn.Linear(hidden * len(widths), 1)

    def forward(self, vectors: Sequence[Tensor]) -> Tensor:
        """Vectors (n, d) of each layer -> predicted losses (n,)."""
        inputs = [vector.to(self.last.weight.dtype) for vector in vectors]
        hidden = [branch(x) for branch, x in zip(self.branches, inputs, strict=True)]
        predicted: Tensor = self.last(torch.cat(hidden, dim=1))
        return predicted.squeeze(1)


class LossPredicting(nn.Module):
    """A model and its loss predictor: the outputs are the model's own, what its layers said is kept aside."""

    def __init__(
        self, model: nn.Module, predictor: LossPredictor, layers: Sequence[str], tokens: str
    ) -> None:
        super().__init__()
        self.model, self.predictor = model, predictor
        self.layers, self.tokens = tuple(layers), tokens
        self.seen: list[Tensor] = []  # (n, d) of each layer, from the last forward pass
        self.mask: Tensor | None = (
            None  # which tokens of the next batch count; None: as its attention_mask says
        )

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model; named arguments that it does not know are left out, as in `select`."""
        mask = mask_of(kwargs, None) if kwargs and self.mask is None else self.mask
        with watching_layers(self.model, self.layers, vector_reader(self.tokens, mask)) as seen:
            returned = self.model(*args, **known_arguments(self.model, kwargs))
        self.seen = [seen[layer] for layer in self.layers]
        return returned

    def predicted_losses(self, detach: bool = False) -> Tensor:
        """Predicted loss of each example of the last forward pass, (n,)."""
        if not self.seen:
            raise ValueError("there is nothing to predict losses from yet: call joined.model(x) first")
        predicted: Tensor = self.predictor([each.detach() if detach else each for each in self.seen])
        return predicted

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"seen": [], "mask": None}  # copies and files carry no activations


def predicting(model: nn.Module) -> LossPredicting:
    """The part of a model that predicts losses, or an error that says how to get one."""
    for module in model.modules():
        if isinstance(module, LossPredicting):
            return module
    raise ValueError(
        f"ll4al needs a model that was trained with its loss predictor; got a plain {type(model).__name__}: "
        "joined = strategy.join(model, example_inputs, seed=0), train joined.model with "
        "joined.loss(losses, fraction) added to the loss, and pass joined.model"
    )


def is_of_linear_layers(layer: nn.Module) -> bool:
    """Whether a `layer` multiplies with weights and never convolves: the maps that it makes have channels last."""
    parts = list(layer.modules())
    return any(isinstance(part, nn.Linear) for part in parts) and not any(
        isinstance(part, CONVOLUTIONS) for part in parts
    )


T = TypeVar("T")
MOST = 4  # layers that are chosen automatically


def first_token(sequence: Tensor, mask: Tensor | None) -> Tensor:
    """The first token that counts, such as BERT's [CLS]."""
    if mask is None:
        return sequence[:, 0].clone()
    return sequence[torch.arange(len(sequence), device=sequence.device), mask.byte().argmax(1)]


TOKENS: dict[str, Callable[[Tensor, Tensor | None], Tensor]] = {"first": first_token, "mean": mean_over}


@contextmanager
def watching_layers(
    model: nn.Module, layers: Sequence[str], read: Callable[[nn.Module, Tensor], T]
) -> Iterator[dict[str, T]]:
    """Collect `read(module, output)` of each layer during a forward pass inside."""
    seen: dict[str, T] = {}

    def watch(layer: str) -> Callable[..., None]:
        def keep(module: nn.Module, args: Any, output: Any) -> None:
            seen[layer] = read(module, next(arrays(output)))

        return keep

    hooks = [model.get_submodule(layer).register_forward_hook(watch(layer)) for layer in layers]
    try:
        with plain_attention():
            yield seen
    finally:
        for hook in hooks:
            hook.remove()


def vector_reader(tokens: str, mask: Tensor | None = None) -> Callable[[nn.Module, Tensor], Tensor]:
    """Reads a layer's output as (n, d): maps are averaged over space, of a sequence "first" or "mean" is read.

    A mask (n, tokens) says which tokens count, where it fits a layer.
    """
    of_sequence = look_up("reading of tokens", tokens, TOKENS)

    def read(module: nn.Module, output: Tensor) -> Tensor:
        signal = any(isinstance(part, nn.Conv1d) for part in module.modules())  # (n, d, length), not tokens
        if output.ndim == 3 and not signal:
            return of_sequence(output, None if mask is None else fitted_mask(mask, output.shape[1]))
        if output.ndim > 3 and is_of_linear_layers(module):
            return output.flatten(1, -2).mean(1)
        if output.ndim > 2:
            return output.flatten(2).mean(2)
        return output.reshape(len(output), -1).clone()  # the next layer may write into the output

    return read


def layers_named(runner: ModelRunner, layers: Sequence[str]) -> list[str]:
    """The layers as given, each of which exists and is called."""
    if not layers or isinstance(layers, str):
        raise ValueError(
            f"layers is a list of at least one name, or None to have them chosen; got {layers!r}"
        )
    names = dict(runner.module.named_modules())
    for layer in layers:
        if layer not in names:
            raise unknown("layer", layer, (name for name in names if name))
        if layer not in runner.order:
            raise ValueError(f"the layer {layer!r} is never called in the model's forward pass")
    return list(layers)


def layers_over_depth(runner: ModelRunner) -> list[str]:
    """Up to four layers in front of the head, each at the end of a quarter of the depth.

    Where two or more give maps or sequences, those that give vectors are left out.
    """
    in_front = (block for block in trunk(runner) if ends_before_head(runner, block))
    blocks = sorted(in_front, key=runner.order.__getitem__)
    with watching_layers(runner.module, blocks, lambda _, output: output.ndim) as dimensions:
        runner.call(runner.example)
    maps = [block for block in blocks if dimensions[block] > 2]
    blocks = maps if len(maps) > 1 else blocks
    if not blocks:
        raise ValueError(
            f"no layer of {type(runner.original).__name__} stands between its input and its head: "
            "name the layers to read with layers=[...]"
        )
    number = min(MOST, len(blocks))
    ends = [-(-(quarter * len(blocks)) // number) - 1 for quarter in range(1, number + 1)]
    return [blocks[end] for end in ends]


def trunk(runner: ModelRunner) -> list[str]:
    """The blocks that the network is made of: it is entered as long as one block is two thirds of the depth."""
    blocks = called_children(runner, "")
    while blocks:
        depths = {block: depth(runner.module.get_submodule(block)) for block in blocks}
        deepest = max(blocks, key=depths.__getitem__)
        within = called_children(runner, deepest)
        if 3 * depths[deepest] <= 2 * sum(depths.values()) or not within:
            break
        blocks = within
    return blocks


def called_children(runner: ModelRunner, parent: str) -> list[str]:
    """Modules with parameters right inside another; a list of modules is looked through."""
    found: list[str] = []
    for name, child in runner.module.get_submodule(parent).named_children():
        path = f"{parent}.{name}" if parent else name
        if path in runner.order:
            found += [path] if depth(child) else []
        else:
            found += called_children(runner, path)
    return found


def depth(module: nn.Module) -> int:
    """How many layers with parameters of their own a module holds."""
    return sum(next(part.parameters(recurse=False), None) is not None for part in module.modules())


def ends_before_head(runner: ModelRunner, block: str) -> bool:
    """Whether a block ends before the head starts."""
    order, head = runner.order, runner.likely_head
    return head is None or (order[block] < order[head] and not f"{head}.".startswith(f"{block}."))
