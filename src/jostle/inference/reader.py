"""What one batch of outputs or features means: probabilities, scores, vectors, and which tokens count."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterator, Sequence

from torch import Tensor

from jostle.inference.padding import REMEDY, Mask, fitted_mask, mask_of
from jostle.inference.runner import ModelRunner
from jostle.inputs import Inputs, Pool
from jostle.rows import Reduction, as_vectors, reduce_over
from jostle.tasks import TASKS, Task, look_like_probabilities

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
        self.longest: list[tuple[tuple[Pool, ...], int]] = []  # pools, and the most tokens of their examples

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
        for read, most in self.longest:
            if len(read) == len(pools) and all(map(operator.is_, read, pools)):
                return most
        masks = map(self.mask_in, batches(*pools))
        most = max(int(mask.sum(1).max()) for mask in masks if mask is not None)
        self.longest.append((tuple(pools), most))
        return most

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
