"""One batch of a model's outputs or features: the tensor among what it returned, its meaning, which tokens count."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args

import torch
from torch import Tensor, nn

from jostle.inputs import Inputs, Pool, count, mapped
from jostle.rows.geometry import Reduction
from jostle.tasks import TASKS, Task, as_logits, look_like_probabilities, task_for

if TYPE_CHECKING:
    from jostle.inference.runner import ModelRunner


Read = Callable[[Any], Tensor]  # the output tensor of what a model returned


Outputs = Read | Literal["logits", "probabilities"] | None  # the setting `outputs` of a strategy


def output_of(returned: Any) -> Tensor:
    """The output among what a model returned: a tensor, the first of several, or `logits`."""
    if isinstance(returned, Tensor):
        return returned
    if isinstance(returned, Mapping):
        for key in ("logits", "out"):
            if key in returned:
                return output_of(returned[key])
    elif getattr(returned, "logits", None) is not None:
        return output_of(returned.logits)
    elif isinstance(returned, (tuple, list)) and returned:
        return output_of(returned[0])
    fields = f" with {', '.join(map(str, returned))}" if isinstance(returned, Mapping) else ""
    raise TypeError(
        f"the model returned {type(returned).__name__}{fields}, and no output tensor in it: "
        "pass outputs= a function from what it returns to a tensor (n, ...)"
    )


def output_reader(setting: Outputs, task: str | Task | None) -> Read | None:
    """Return the function that reads logits from what a model returns, as the setting `outputs` says.

    Args:
        setting: A function, "logits", "probabilities", or None.
        task: The task of the call; None: inferred from the shape of outputs.
    """
    if setting == "probabilities":
        return partial(logits_of_probabilities, task)
    return setting if callable(setting) else None


def logits_of_probabilities(task: str | Task | None, returned: Any) -> Tensor:
    """Turn the probabilities that a model returned into logits of a `task`; one probability is that of yes."""
    output = output_of(returned)
    if not bool(((output >= 0) & (output <= 1)).all()):
        found = f"{output.min().item():.3g} to {output.max().item():.3g}"
        raise ValueError(
            f"outputs='probabilities' must be between 0 and 1; got {found}. Use outputs='logits'"
        )
    given = task or ("binary" if output[:1].numel() == 1 else None)
    batch = output.unsqueeze(-1) if output.ndim == 1 else output
    return as_logits(output.double(), task_for(given, batch)).to(output.dtype)


def batched(output: Any, size: int) -> Tensor:
    """The output with its batch dimension, which `squeeze` drops when a batch holds one example."""
    if not isinstance(output, Tensor):
        raise TypeError(
            f"expected a tensor of outputs; got {type(output).__name__}: pass outputs= a function"
        )
    if size == 1 and (output.ndim == 0 or len(output) != 1):
        output = output.unsqueeze(0)
    if output.ndim == 0 or len(output) != size:
        raise ValueError(
            f"the model returned shape {tuple(output.shape)} for {size} examples; "
            "the first dimension must be the examples (pass outputs= to rearrange)"
        )
    tensor: Tensor = output
    return tensor


AS_TRAINED = (
    "Give it examples as it was trained on, of the same shape and order of dimensions: change the pool, "
    "or pass collate_fn="
)


BYTES = (
    "Give it numbers of the type and range that it was trained on: of bytes pass pool.float() / 255 or what else "
    "training did, of class or token numbers pool.long()"
)


class ModelInputError(RuntimeError, ValueError):
    """A model cannot take what the pool holds."""


def refused(inputs: Inputs, taken: Inputs | None, error: Exception) -> ModelInputError:
    """The error of a model that cannot take inputs: the very first, or those of another form than it has taken."""
    said = f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
    if taken is None:
        advice = BYTES if "type" in said.partition(":")[2] else AS_TRAINED
        return ModelInputError(
            f"the model cannot take a first batch of {batch_in_words(inputs)}: {said}. {advice}"
        )
    return ModelInputError(
        f"the model cannot take examples such as {one_in_words(inputs)}: {said}. It took "
        f"{one_in_words(taken)} from the pool: give all examples that form, those of labeled= too"
    )


def batch_in_words(inputs: Inputs) -> str:
    """A batch in words, for errors."""
    if isinstance(inputs, Mapping):
        return "{" + ", ".join(f"{key}: {batch_in_words(value)}" for key, value in inputs.items()) + "}"
    if isinstance(inputs, (tuple, list)):
        return "[" + ", ".join(map(batch_in_words, inputs)) + "]"
    return f"{inputs.dtype} {tuple(inputs.shape)}" if isinstance(inputs, Tensor) else type(inputs).__name__


def one_in_words(inputs: Inputs) -> str:
    """The first example of a batch in words."""
    return batch_in_words(mapped(lambda array: array[:1], inputs))


Mask = (
    str | Callable[[Inputs], Tensor] | bool | None
)  # a key of the inputs, a function of them, False for none

KEY = "attention_mask"
REMEDY = "pass mask= a function of the inputs that gives (n, tokens), or mask=False if there is no padding"


def mask_of(inputs: Inputs, given: Mask) -> Tensor | None:
    """Which tokens of each example count, (n, tokens) bool; None where nothing says so."""
    named = inputs if isinstance(inputs, Mapping) else {}
    if isinstance(given, str) and given not in named:
        there = ", ".join(map(repr, named)) or "none by name"
        raise ValueError(f"mask={given!r} is not among the inputs, which are {there}: {REMEDY}")
    if given is None or given is False:
        unasked = named.get(KEY) if given is None else None
        if not isinstance(unasked, Tensor) or unasked.ndim != 2:  # it must look like a mask
            return None
        found = unasked
    else:
        found = torch.as_tensor(given(inputs) if callable(given) else named[given])
    if found.ndim != 2 or len(found) != count(inputs):
        raise ValueError(
            f"a mask says of every token whether it counts, (n, tokens); got {tuple(found.shape)} for "
            f"{count(inputs)} examples: {REMEDY}"
        )
    if not ((found == 0) | (found == 1)).all():
        low, high = found.min().item(), found.max().item()
        raise ValueError(
            f"a mask holds 1 where a token counts and 0 where it is padding; got values from {low} to {high}: {REMEDY}"
        )
    return found.bool()


def fitted_mask(mask: Tensor, tokens: int) -> Tensor | None:
    """The mask for this many tokens: what a model cuts off may only be padding; None where it does not fit."""
    if mask.shape[1] < tokens or mask[:, tokens:].any():
        return None
    return mask[:, :tokens]


def as_vectors(features: Tensor, grid: int = 1, mask: Tensor | None = None) -> Tensor:
    """Features as (n, d): maps are average-pooled to a grid, sequences averaged over the tokens that a mask lets in.

    Args:
        features: (n, d), (n, tokens, d) or (n, channels, ...).
        grid: So many by so many places.
        mask: (n, tokens), or None for all.
    """
    if features.ndim == 3:
        return mean_over(features, mask)  # (n, tokens, d)
    if features.ndim > 3:
        pool = {4: nn.functional.adaptive_avg_pool2d, 5: nn.functional.adaptive_avg_pool3d}[features.ndim]
        return pool(features, grid).flatten(1)
    return features if features.ndim == 2 else features.unsqueeze(1)


def mean_over(values: Tensor, mask: Tensor | None = None) -> Tensor:
    """The mean of `values` (n, k, ...) over k, of what a `mask` (n, k) lets in; 0 where that is none."""
    if mask is None:
        return values.mean(1)
    counted = mask.view(*mask.shape, *[1] * (values.ndim - 2))
    return torch.where(counted, values, 0).sum(1) / counted.sum(1).clamp(min=1)


def reduce_over(values: Tensor, mask: Tensor | None = None, reduction: Reduction = "mean") -> Tensor:
    """Reduce `values` (n, k, ...) over k, of what a `mask` (n, k) lets in, by their "mean", "sum" or "max".

    Args:
        values: Numbers of each site.
        mask: Which sites count; None: all. An example without any gets 0.
        reduction: How they become one.
    """
    if reduction not in get_args(Reduction):
        raise ValueError(f"reduction must be one of {', '.join(get_args(Reduction))}; got {reduction!r}")
    if reduction == "mean":
        return mean_over(values, mask)
    if mask is None:
        return values.sum(1) if reduction == "sum" else values.amax(1)
    counted = mask.view(*mask.shape, *[1] * (values.ndim - 2))
    if reduction == "sum":
        return torch.where(counted, values, 0).sum(1)
    return torch.where(counted.any(1), torch.where(counted, values, -torch.inf).amax(1), 0)


def aligned(values: Tensor, mask: Tensor | None, length: int) -> Tensor:
    """The `values` (n, k, ...) that a `mask` (n, k) lets in, in their order, then zeros: (n, `length`, ...)."""
    mask = torch.ones(values.shape[:2], dtype=torch.bool, device=values.device) if mask is None else mask
    order = (~mask).byte().sort(dim=1, stable=True).indices[:, :length]
    each = (*order.shape, *[1] * (values.ndim - 2))
    moved = values.gather(1, order.view(each).expand(*order.shape, *values.shape[2:]))
    kept = torch.where(mask.gather(1, order).view(each), moved, 0)
    missing = kept.new_zeros(len(kept), length - kept.shape[1], *kept.shape[2:])
    return torch.cat([kept, missing], dim=1)


CONVOLUTIONS = (
    *(nn.Conv1d, nn.Conv2d, nn.Conv3d),
    *(nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d),
)


def by_convention(values: Tensor, layer: nn.Module) -> Tensor:
    """Arrange the input of a `layer` as (n, d), (n, tokens, d) or (n, d, height, width, ...)."""
    if values.ndim < 3:
        return values
    last = channels_are_last(values, layer)
    if values.ndim == 3:
        return values if last else values.transpose(1, 2)
    return values.movedim(-1, 1) if last else values


def channels_are_last(values: Tensor, layer: nn.Module) -> bool:
    """Whether the last dimension holds the channels, as the first weights inside the `layer` tell by their width."""
    first = next((part for part in layer.modules() if isinstance(part, (nn.Linear, *CONVOLUTIONS))), None)
    linear = isinstance(first, nn.Linear)
    if first is layer:
        return linear
    wide = getattr(first, "in_features", None) if linear else getattr(first, "in_channels", None)
    ahead, behind = (values.shape[place] == wide for place in (1, -1))
    if ahead != behind:
        return behind
    tokens = values.ndim == 3  # where nothing tells, sequences have them last and maps first
    return tokens and (linear or first is None)


@contextmanager
def plain_attention() -> Iterator[None]:
    """PyTorch's transformer layers compute in their plain form for a while.

    Their fast path skips layers and lets nested tensors, without padding, through those that somebody watches.
    """
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


LIKE_PROBABILITIES = (
    "the model's outputs look like probabilities, but jostle takes them as logits: pass outputs='probabilities' if the "
    "model ends in a softmax or sigmoid, outputs='logits' if they are logits"
)


class BatchReader:
    """Reads batches of one model under one task.

    Args:
        runner: The model.
        task: What its outputs mean.
        mask: The option `mask` of the call.
        sure: Whether the call says what outputs are, so that nothing is warned of.
    """

    def __init__(self, runner: ModelRunner, task: Task, mask: Mask, sure: bool = False) -> None:
        self.runner, self.task, self.mask_option = runner, task, mask
        self.checked = sure
        self.longest: dict[tuple[int, ...], int] = {}  # which pools, and the most tokens of their examples
        self.measured: list[Sequence[Pool]] = []  # these pools, so that their identities stay theirs

    @property
    def padded(self) -> bool:
        """Whether examples are sequences some of whose tokens may be padding."""
        return self.task.tokens and self.mask_in(self.runner.example) is not None

    def mask_in(self, inputs: Inputs) -> Tensor | None:
        """Which tokens of a batch of `inputs` count, (n, tokens); None where nothing says so."""
        return mask_of(inputs, self.mask_option)

    def mask(self, inputs: Inputs, tokens: int) -> Tensor | None:
        """Which of this many `tokens` of a batch of `inputs` count, (n, tokens); None where all do."""
        found = self.mask_in(inputs)
        if found is None:
            return None
        fitting = fitted_mask(found, tokens)
        if fitting is None and (self.task.tokens or self.mask_option is not None):
            raise ValueError(f"the mask {tuple(found.shape)} does not fit {tokens} tokens: {REMEDY}")
        return None if fitting is None or fitting.all() else fitting

    def longest_sequence(self, pools: Sequence[Pool], batches: Callable[..., Iterator[Inputs]]) -> int | None:
        """The most tokens that count of any example of the `pools`; None where nothing is padded.

        The pools are read once for it.
        """
        if not self.padded:
            return None
        which = tuple(map(id, pools))
        if which not in self.longest:
            masks = map(self.mask_in, batches(*pools))
            self.measured.append(pools)
            self.longest[which] = max(int(mask.sum(1).max()) for mask in masks if mask is not None)
        return self.longest[which]

    def reduce_sites(self, values: Tensor, inputs: Inputs, reduction: Reduction = "mean") -> Tensor:
        """Reduce `values` (n, sites, ...) over pixels, labels, or tokens that are not padding: (n, ...).

        Args:
            values: Numbers of each site.
            inputs: The batch of these numbers, whose mask says which tokens count.
            reduction: "mean", "sum" or "max".
        """
        mask = self.mask(inputs, values.shape[1]) if self.task.tokens else None
        return reduce_over(values, mask, reduction)

    def vectors(self, features: Tensor, inputs: Inputs, grid: int = 1) -> Tensor:
        """Features as (n, d): maps averaged over space, sequences over tokens that are not padding.

        Args:
            features: The head's input, (n, d), (n, tokens, d), (n, channels, ...) or (n, ..., channels).
            inputs: The batch of these features.
            grid: Average maps over a grid of this many by this many cells.
        """
        features = self.runner.channels_first(features)
        mask = self.mask(inputs, features.shape[1]) if features.ndim == 3 else None
        return as_vectors(features, grid, mask)

    def features(self, inputs: Inputs, grid: int = 1) -> Tensor:
        """Features of a batch as vectors, (n, d)."""
        return self.vectors(self.runner.features(inputs), inputs, grid)

    def features_and_outputs(self, inputs: Inputs) -> tuple[Tensor, Tensor]:
        """Features of a batch as vectors (n, d), and its outputs, from one pass."""
        features, outputs = self.runner.features_and_outputs(inputs)
        return self.vectors(features, inputs), outputs

    def probabilities(self, outputs: Tensor) -> Tensor:
        """Probabilities in the layout of `outputs`, (n, ...)."""
        self.warn_of_probabilities(outputs)
        return self.task.probabilities(outputs)

    def distribution(self, outputs: Tensor) -> Tensor:
        """Probabilities of `outputs` as (n, sites, c)."""
        self.warn_of_probabilities(outputs)
        return self.task.distribution(outputs)

    def warn_of_probabilities(self, outputs: Tensor) -> None:
        """Warn once where the first `outputs` look like probabilities, but are taken as logits."""
        if not self.checked:
            self.checked = True
            ours = type(self.task) is type(
                TASKS.get(self.task.name)
            )  # a user's own task may take probabilities
            if ours and look_like_probabilities(outputs, self.task):
                warnings.warn(LIKE_PROBABILITIES, stacklevel=4)

    def score(
        self,
        of: Callable[[Tensor], Tensor],
        outputs: Tensor,
        inputs: Inputs,
        reduction: Reduction = "mean",
    ) -> Tensor:
        """Return one number for each example of a batch, (n,).

        Args:
            of: From distributions (n, sites, c) to numbers (n, sites).
            outputs: The model's outputs.
            inputs: The batch of these outputs.
            reduction: How the numbers of several sites become one.
        """
        exact = outputs.double()  # or examples that are very sure would tie
        return self.reduce_sites(of(self.distribution(exact)), inputs, reduction)
