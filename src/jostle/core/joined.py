"""A model in training together with what a strategy adds to it."""

import torch
from torch import Tensor, nn


class Joined:
    """A model in training, and what a strategy adds to it: by default nothing.

    The task's own optimiser holds the weights of the model that was joined, `optimizers` those that were added.

    Args:
        model: What is trained, and later given to select.
    """

    learns_losses = False  # then training weighs no classes: the many of a class would look hard to learn

    def __init__(self, model: nn.Module) -> None:
        self.model = model  # what is trained, and later given to select

    def optimizers(self, lr: float) -> list[torch.optim.Optimizer]:
        """Optimisers of added parts at the learning rate `lr`, stepped with the task's own and under its schedule."""
        return []

    def loss(self, losses: Tensor, fraction: float) -> Tensor:
        """What is added to the task's loss.

        Args:
            losses: Those of the batch that `model` saw last, (n,).
            fraction: How much of the training is done, 0 to 1.
        """
        return losses.new_zeros(())
