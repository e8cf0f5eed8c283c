"""Model and data of `jostle pick` and `jostle advise`: what the model is given, and how good it is at it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from jostle import datasets
from jostle.cli.options import QueryOptions
from jostle.cli.picking import Messages, read_picked_names
from jostle.datasets import Data, ImageFiles
from jostle.datasets.catalog import Transformed, apply_transform
from jostle.datasets.data import as_dataset, as_pool
from jostle.datasets.images import normalization_in_words
from jostle.datasets.labels import (
    align_columns,
    find_named,
    find_shared,
    has_labels_by_name,
    match_classes,
    read_labels,
)
from jostle.experiments.results import main_metric
from jostle.inference.isolation import device_of
from jostle.inference.reader import ModelInputError, batch_in_words, output_reader
from jostle.inference.runner import ModelRunner
from jostle.inputs import Inputs, Pool, arrays, check_count
from jostle.tasks import CLASS_TASKS, TASKS, Task, task_for
from jostle.utils.names import name_and_settings
from jostle.utils.user_files import from_file, is_own

if TYPE_CHECKING:
    from jostle.advice import Case
    from jostle.core import Query, Strategy
    from jostle.experiments.page import Answer
    from jostle.inference.context import Options, QueryContext

FRAMING = {
    "size",
    "short",
    "mode",
    "scale",
    "mean",
    "std",
}  # settings of a folder that make tensors of images
RANGE_EXAMPLES = 16  # examples whose range is told
ADVICE = (
    "Give what it was trained on: size=, mode=, scale=, mean= and std= in the brackets of folder:PATH(...), "
    "or a function of your own with --transform"
)


@dataclass(frozen=True)
class QueryInputs:
    """Model and data of one call, tried on a few examples before the long work."""

    model: nn.Module
    examples: Data
    excluded: Tensor  # positions of the pool
    runner: ModelRunner
    known: Known | None
    task: Task | str | None  # if the command or the labels name it
    device: str

    @classmethod
    def read(cls, asked: QueryOptions, messages: Messages, strategy: Strategy) -> QueryInputs:
        """Read what the options name, leave out what is known, try the model, and test it on what is labeled."""
        model = load_model(asked.model)
        device = asked.device or str(device_of(model))
        model = model.to(device)
        examples = read_data(asked, "--pool", asked.pool)
        labels = read_labeled(asked, examples)
        if labels is not None:
            examples, labels = align_columns(examples, labels)
        excluded = find_excluded(examples, labels, asked.exclude or (), messages)
        everything = as_pool(examples.train.inputs)
        candidates = everything.without(excluded)
        check_count(asked.n, candidates, everything)
        first = candidates.first(2)
        try:
            read = output_reader(strategy.outputs, asked.task)
            runner = ModelRunner(model, first, head=strategy.head, outputs=read, device=device)
        except (RuntimeError, TypeError, ValueError, IndexError, KeyError) as error:
            raise explain_rejection(error, first, examples) from error
        messages.say("Fed", describe_inputs(examples, candidates))
        known = None if labels is None else Known.of(labels, runner, asked.task, examples)
        if known is not None:
            messages.say("Labeled", known.words(runner))
        task = asked.task if known is None else known.task
        return cls(model, examples, excluded, runner, known, task, device)

    @property
    def call(self) -> Options:
        """Return the options of the call, for every strategy."""
        known = None if self.known is None else self.known.data.train
        labeled = None if known is None else as_dataset(known.inputs, known.targets)
        return {"labeled": labeled, "task": self.task, "exclude": self.excluded, "device": self.device}

    @property
    def pool(self) -> Pool:
        """All examples, by their positions."""
        return as_pool(self.examples.train.inputs)

    def context(self, strategy: Strategy, call: Options) -> QueryContext:
        """Return the context of a query, with the copy of the model that has been traced already."""
        context = strategy.create_context(self.model, self.pool, call)
        context.runner = self.runner
        return context

    def answers(self, query: Query) -> list[tuple[Answer, ...]]:
        """Return the prediction for each pick; nothing where outputs could mean several things."""
        from jostle.experiments.page import answers_of

        classes = self.examples.classes if self.known is None else self.known.data.classes
        runner, picks = self.runner, self.pool.take(torch.from_numpy(query.indices))
        try:
            task = task_for(self.task, runner.example_outputs)
        except ValueError:
            return []
        with torch.no_grad():
            batches = picks.batches(runner.micro_batch)
            outputs = (runner.outputs(runner.prepared(batch)).cpu() for batch in batches)
            return [each for batch in outputs for each in answers_of(batch, task, classes)]

    def case(self, n: int, linear: bool) -> Case:
        """Return the query to be advised on, in the terms of the benchmark's settings."""
        from jostle.advice import Case

        outputs, example = self.runner.example_outputs, self.runner.example
        task = task_for(self.task, outputs)
        if task.name == "regression":
            data = "regressions"
        elif linear:
            data = "embeddings, linear probe"
        else:
            images = isinstance(example, Tensor) and example.ndim > 2
            data = "images, small network" if images else "tables"
        labels = 0 if self.known is None else len(self.known.data.train)
        size = len(self.pool) - len(self.excluded)
        return Case(task.name, task.count_classes(outputs), size, n, labels, linear, data)


def own_function(option: str, spec: str) -> Any:
    """Return the function of `file.py:name` that an option names."""
    if not is_own(spec):
        raise ValueError(f"{option}: expected file.py:function; got {spec!r}")
    return from_file(spec)


def load_model(spec: str) -> nn.Module:
    """Return the user's model."""
    make = own_function("--model", spec)
    try:
        inspect.signature(make).bind()
    except TypeError as wrong:
        raise TypeError(f"--model {spec} is called without arguments: {wrong}") from None
    made = make()
    if not isinstance(made, nn.Module):
        raise TypeError(f"--model {spec} returned {type(made).__name__}; expected a torch.nn.Module")
    return made


def read_data(asked: QueryOptions, option: str, spec: str) -> Data:
    """Read the data that a spec names: nothing held out, preprocessed, texts tokenized."""
    name, settings = name_and_settings(spec)
    if asked.transform and (clash := sorted(FRAMING & settings.keys())):
        raise ValueError(f"{option} {spec}: {clash[0]} is the business of --transform; say one of the two")
    if asked.encoder and name.startswith("parquet:"):
        settings.setdefault("encoder", asked.encoder)  # texts there are tokenized as they are read
    data = datasets.named(name, asked.data, settings, read=datasets.pool)
    if option == "--labeled" and not len(data.train.targets):
        raise ValueError(f"--labeled {spec} has no labels")
    if asked.transform:
        return apply_transform(data, own_function("--transform", asked.transform), asked.transform)
    if isinstance(data.train.inputs, datasets.Texts):
        if asked.encoder is None:
            raise ValueError(f"{spec} holds texts: name the model whose tokenizer reads them with --encoder")
        data = datasets.tokenize(data, asked.encoder)
    return data


def read_labeled(asked: QueryOptions, pool: Data) -> Data | None:
    """Read the labeled examples; a csv of names and labels is about examples of the pool."""
    if asked.labeled is None:
        return None
    name, settings = name_and_settings(asked.labeled)
    scheme, _, place = name.partition(":")
    path = Path(place).expanduser()
    if scheme == "csv" and path.is_file() and has_labels_by_name(pool, path, settings):
        return read_labels(pool, path, **settings)
    return read_data(asked, "--labeled", asked.labeled)


def find_excluded(examples: Data, labels: Data | None, files: Sequence[Path], messages: Messages) -> Tensor:
    """Return positions of the pool that are labeled or were picked before; say how many of each."""
    found = {} if labels is None else {"labeled already": find_shared(examples, labels)}
    for path in files:
        names = set(read_picked_names(path))
        places = find_named(examples, names)
        absent = len(names) - len({examples.names(place) for place in places.tolist()})
        more = f" ({absent} of its {len(names)} names are not in the pool)" if absent else ""
        found[f"picked in {path}{more}"] = places
    excluded: Tensor = torch.cat([torch.empty(0, dtype=torch.int64), *found.values()]).unique()
    if found:
        parts = ", ".join(f"{len(places)} {why}" for why, places in found.items())
        messages.say("Excluded", f"{len(excluded)} of {len(examples.train)}: {parts}")
    return excluded


def explain_rejection(error: Exception, batch: Inputs, data: Data) -> ValueError:
    """Return the error of a model that cannot take its inputs."""
    said = (
        error.__cause__ if isinstance(error, ModelInputError) else error
    )  # what follows says the rest better
    first = str(said).partition("\n")[0]
    return ValueError(
        f"the model cannot take {data.name}: it was given a batch of {batch_in_words(batch)}, "
        f"{describe_source(data)}, and said: {first}. {ADVICE}"
    )


def describe_source(data: Data) -> str:
    """Say how the inputs came about."""
    inputs = data.train.inputs
    if isinstance(inputs, ImageFiles | Transformed):
        return str(inputs)
    if data.columns:
        more = f" and {len(data.columns) - 4} more" if len(data.columns) > 4 else ""
        return f"the columns {', '.join(data.columns[:4])}{more}"
    return normalization_in_words(data.mean, data.std) or "just as they are"


def describe_inputs(data: Data, pool: Pool) -> str:
    """Describe the inputs of the model: shape, type, range, how they were made, and an example's name."""
    batch = pool.first(RANGE_EXAMPLES)
    words = []
    for name, column in batch.items() if isinstance(batch, dict) else [("", batch)]:
        for array in arrays(column):
            low, high = (f"{float(value):.3g}" for value in (array.min(), array.max()))
            kind = str(array.dtype).removeprefix("torch.")
            words.append(f"{name} {kind} {tuple(array.shape[1:])} from {low} to {high}".strip())
    first = data.names(int(pool.positions[0]))
    return f"{'; '.join(words)}, {describe_source(data)}; such as {first}"


@dataclass(frozen=True)
class Known:
    """Labeled examples, as the model's outputs understand their labels."""

    data: Data
    task: Task

    @classmethod
    def of(cls, data: Data, runner: ModelRunner, given: str | None, pool: Data) -> Known:
        """Settle the task: as the command says, as labels tell where outputs cannot, as outputs tell."""
        told = given or (data.task if data.task not in ("classification", "regression") else None)
        output = runner.example_outputs
        task = task_for(told, output)
        if given is None and not task.has_classes and len(data.classes) == 2:
            task = TASKS["binary"]  # one output, and labels that are words: it says yes or no
        if data.task == "classification" and not task.has_classes:
            raise ValueError(
                f"{data.name} has classes ({', '.join(data.classes[:4])}), but the model's outputs of shape "
                f"{tuple(output.shape)} are numbers: say --task"
            )
        if data.task == "regression" and task.name == "classification":
            data = numbers_as_classes(data)
        elif data.classes and task.name in CLASS_TASKS:
            data = match_classes(data, task.count_classes(output), pool)
        return cls(data, task)

    def passes(self, runner: ModelRunner) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield outputs and targets, batch by batch; raise ValueError for labels that the outputs do not have."""
        split = self.data.train
        with torch.no_grad():
            for ids in torch.arange(len(split)).split(runner.micro_batch):
                inputs = split.inputs[ids]
                try:
                    outputs = runner.outputs(runner.prepared(inputs))
                except (RuntimeError, TypeError) as error:
                    raise explain_rejection(error, inputs, self.data) from error
                targets = split.targets[ids].to(runner.device)
                try:
                    self.task.check_targets(targets, self.task.count_classes(outputs))
                except ValueError as wrong:
                    raise ValueError(f"{self.data.name} does not fit the model's outputs: {wrong}") from None
                yield outputs, targets

    def words(self, runner: ModelRunner) -> str:
        """Say how good the model is on these examples; warn where guessing would do as well."""
        metrics = self.task.metrics(self.passes(runner))
        said = (
            f"{len(self.data.train)} examples of {self.data.name}, {main_metric(metrics)} "
            "(of the training set, if the model was trained on these)"
        )
        targets, classes = self.data.train.targets, self.data.classes
        if not isinstance(targets, Tensor):
            return said
        if not self.task.has_classes and ((targets == 0) | (targets == 1)).all():
            return f"{said}\nWarning: all labels are 0 or 1; if the model's output is a logit of yes, say --task binary"
        if self.task.name not in CLASS_TASKS:
            return said
        commonest = int(targets.flatten().long().bincount().max()) / len(targets)
        if metrics["accuracy"] > commonest or commonest == 1:
            return said
        order = f", and are its classes in the order {', '.join(classes)}" if classes else ""
        return (
            f"{said}\nWarning: always naming the commonest class would be right for {commonest:.1%}. Is the model "
            f"fed what it was trained on{order}?"
        )


def numbers_as_classes(data: Data) -> Data:
    """Return labels that are numbers as classes, where the model's outputs are classes."""
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
