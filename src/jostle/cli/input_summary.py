"""What a user's model is given and how good it is at it: said before the long work, so that a mistake shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from jostle.datasets import Data, ImageFiles
from jostle.datasets.images import normalization_in_words
from jostle.datasets.labels import match_classes
from jostle.datasets.views import Transformed
from jostle.experiments.results.curves import main_metric
from jostle.inference.reader import ModelInputError, batch_in_words, output_reader
from jostle.inference.runner import ModelRunner
from jostle.inputs import Inputs, Pool, arrays
from jostle.tasks import CLASS_TASKS, TASKS, Task, task_for

if TYPE_CHECKING:
    from jostle.core import Strategy
    from jostle.experiments.report.gallery import Answer

IF_TRAINED = "(of the training set, if the model was trained on these)"
LOOKED_AT = 16  # examples whose range is told
ADVICE = (
    "Give what it was trained on: size=, mode=, scale=, mean= and std= in the brackets of folder:PATH(...), "
    "or a function of your own with --transform"
)


def traced(
    model: nn.Module, pool: Pool, data: Data, device: str, strategy: Strategy, task: str | None
) -> ModelRunner:
    """Copy the model as a strategy reads it and trace it on two examples; an error shows what it cannot take."""
    example = pool.first(2)
    try:
        read = output_reader(strategy.outputs, task)
        return ModelRunner(model, example, head=strategy.head, outputs=read, device=device)
    except (RuntimeError, TypeError, ValueError, IndexError, KeyError) as error:
        raise refused(error, example, data) from error


def refused(error: Exception, batch: Inputs, data: Data) -> ValueError:
    """The error of a model that cannot take what it was given."""
    said = (
        error.__cause__ if isinstance(error, ModelInputError) else error
    )  # what follows says the rest of it better
    first = str(said).partition("\n")[0]
    return ValueError(
        f"the model cannot take {data.name}: it was given a batch of {batch_in_words(batch)}, {made(data)}, and said: "
        f"{first}. {ADVICE}"
    )


def made(data: Data) -> str:
    """How the inputs came about."""
    inputs = data.train.inputs
    if isinstance(inputs, ImageFiles | Transformed):
        return str(inputs)
    if data.columns:
        more = f" and {len(data.columns) - 4} more" if len(data.columns) > 4 else ""
        return f"the columns {', '.join(data.columns[:4])}{more}"
    return normalization_in_words(data.mean, data.std) or "just as they are"


def fed(data: Data, pool: Pool) -> str:
    """Describe the inputs of the model: shape, type, range, how they were made, and an example's name."""
    batch = pool.first(LOOKED_AT)
    first = data.names(int(pool.positions[0]))
    return f"{one_of(batch)}, {made(data)}; such as {first}"


def one_of(batch: Inputs) -> str:
    """One example of a batch in words, and the range of all of them."""
    columns = batch.items() if isinstance(batch, dict) else [("", batch)]
    words = []
    for name, column in columns:
        for array in arrays(column):
            low, high = (f"{float(value):.3g}" for value in (array.min(), array.max()))
            kind = str(array.dtype).removeprefix("torch.")
            words.append(f"{name} {kind} {tuple(array.shape[1:])} from {low} to {high}".strip())
    return "; ".join(words)


@dataclass(frozen=True)
class Known:
    """The labeled examples, as the model's outputs understand their labels."""

    data: Data
    task: Task

    @classmethod
    def of(cls, data: Data, network: ModelRunner, given: str | None, pool: Data | None = None) -> Known:
        """Settle what the task is: as told, as the labels tell where outputs cannot, as outputs tell."""
        told = given or (data.task if data.task not in ("classification", "regression") else None)
        output = network.example_outputs
        task = task_for(told, output)
        if given is None and not task.has_classes and len(data.classes) == 2:
            task = TASKS["binary"]  # one output, and labels that are words: it says yes or no
        if data.task == "classification" and not task.has_classes:
            raise ValueError(
                f"{data.name} has classes ({', '.join(data.classes[:4])}), but the model's outputs of shape "
                f"{tuple(output.shape)} are numbers: say --task"
            )
        if data.task == "regression" and task.name == "classification":
            data = numbered(data)
        elif data.classes and task.name in CLASS_TASKS:
            data = match_classes(data, task.count_classes(output), pool)
        return cls(data, task)

    def passes(self, network: ModelRunner) -> Iterator[tuple[Tensor, Tensor]]:
        """Outputs and targets, batch by batch."""
        split = self.data.train
        with torch.no_grad():
            for ids in torch.arange(len(split)).split(network.micro_batch):
                inputs = split.inputs[ids]
                try:
                    outputs = network.outputs(network.prepared(inputs))
                except (RuntimeError, TypeError) as error:
                    raise refused(error, inputs, self.data) from error
                targets = split.targets[ids].to(network.device)
                self.check(targets, outputs)
                yield outputs, targets

    def check(self, targets: Tensor, outputs: Tensor) -> None:
        """Refuse labels that the outputs do not have."""
        try:
            self.task.check_targets(targets, self.task.count_classes(outputs))
        except ValueError as wrong:
            raise ValueError(f"{self.data.name} does not fit the model's outputs: {wrong}") from None

    def words(self, network: ModelRunner) -> str:
        """How good the model is on these examples; a warning where guessing would do as well."""
        metrics = self.task.metrics(self.passes(network))
        said = f"{len(self.data.train)} examples of {self.data.name}, {main_metric(metrics)} {IF_TRAINED}"
        targets = self.data.train.targets
        if (
            not self.task.has_classes
            and isinstance(targets, Tensor)
            and ((targets == 0) | (targets == 1)).all()
        ):
            return f"{said}\nWarning: all labels are 0 or 1; if the model's output is a logit of yes, say --task binary"
        if self.task.name not in CLASS_TASKS or not isinstance(targets, Tensor):
            return said
        commonest = int(targets.flatten().long().bincount().max()) / len(targets)
        if metrics["accuracy"] > commonest or commonest == 1:
            return said
        order = f"are its classes in the order {', '.join(self.data.classes)}" if self.data.classes else ""
        return (
            f"{said}\nWarning: always naming the commonest class would be right for {commonest:.1%}. Is the model "
            f"fed what it was trained on{f', and {order}' if order else ''}?"
        )


def numbered(data: Data) -> Data:
    """Labels that are numbers as classes, where the model's outputs are classes."""
    targets = data.train.targets[torch.arange(len(data.train))]
    if (targets != targets.round()).any():
        raise ValueError(
            f"{data.name} has numbers such as {targets[targets != targets.round()][0]:g} as labels, "
            "but the model's outputs are classes: say --task"
        )
    classes = tuple(map(str, range(int(targets.max()) + 1)))
    return replace(
        data, task="classification", classes=classes, train=replace(data.train, targets=targets.long())
    )


def answers(
    network: ModelRunner, pool: Pool, task: Task | str | None, classes: Sequence[str]
) -> list[tuple[Answer, ...]]:
    """Return the prediction for each example of a pool; nothing where outputs could mean several things."""
    from jostle.experiments.report.gallery import answers_of

    try:
        meaning = task_for(task, network.example_outputs)
    except ValueError:
        return []
    with torch.no_grad():
        outputs = (
            network.outputs(network.prepared(batch)).cpu() for batch in pool.batches(network.micro_batch)
        )
        return [each for batch in outputs for each in answers_of(batch, meaning, classes)]
