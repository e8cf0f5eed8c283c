"""`jostle pick` and `jostle advise`: the next batch, or the strategy for it, for a model and a pool of one's own."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from jostle.cli import options
from jostle.cli.console import PLAN_INDENT, print_table, print_wrapped, say
from jostle.utils.settings import name_and_settings
from jostle.utils.user_files import from_file, is_own

if TYPE_CHECKING:
    from torch import Tensor, nn

    from jostle.advice import Case, Setting
    from jostle.cli.input_summary import Known
    from jostle.core import Query, Strategy
    from jostle.datasets import Data
    from jostle.experiments.report.gallery import Answer
    from jostle.experiments.results.tables import Table
    from jostle.inference.context import Options
    from jostle.inference.runner import ModelRunner
    from jostle.inputs import Inputs, Pool
    from jostle.tasks import Task


FRAMING = {
    "size",
    "short",
    "mode",
    "scale",
    "mean",
    "std",
}  # settings of a folder that make tensors of images


@dataclass(frozen=True)
class QueryOptions:
    """Options of `jostle pick` and `jostle advise`: the model, the pool and how both are read."""

    n: options.Count
    model: options.Model
    pool: options.Pool
    labeled: options.Labeled = None
    exclude: options.Exclude = None
    transform: options.Transform = None
    task: options.TaskName = None
    encoder: options.TextEncoder = None
    data: options.DataRoot = None
    device: options.Device = None

    def read(self, option: str, spec: str) -> Data:
        """Read the data that a spec names: nothing held out, preprocessed, texts tokenized."""
        from jostle import datasets
        from jostle.datasets.views import apply_transform

        name, settings = name_and_settings(spec)
        if self.transform and (clash := sorted(FRAMING & settings.keys())):
            raise ValueError(
                f"{option} {spec}: {clash[0]} is the business of --transform; say one of the two"
            )
        if self.encoder and name.startswith("parquet:"):
            settings.setdefault("encoder", self.encoder)  # texts there are tokenized as they are read
        data = datasets.named(name, self.data, settings, read=datasets.pool)
        if option == "--labeled" and not len(data.train.targets):
            raise ValueError(f"--labeled {spec} has no labels")
        if self.transform:
            return apply_transform(data, function("--transform", self.transform), self.transform)
        if isinstance(data.train.inputs, datasets.Texts):
            if self.encoder is None:
                raise ValueError(
                    f"{spec} holds texts: name the model whose tokenizer reads them with --encoder"
                )
            data = datasets.tokenize(data, self.encoder)
        return data

    def read_labeled(self, pool: Data) -> Data | None:
        """Read the labeled examples; a csv of names and labels is about examples of the pool."""
        from jostle.datasets.labels import has_labels_by_name, read_labels

        if self.labeled is None:
            return None
        name, settings = name_and_settings(self.labeled)
        scheme, _, place = name.partition(":")
        path = Path(place).expanduser()
        if scheme == "csv" and path.is_file() and has_labels_by_name(pool, path, settings):
            return read_labels(pool, path, **settings)
        return self.read("--labeled", self.labeled)


def pick(
    asked: QueryOptions,
    out: options.PicksFile = Path("picks.csv"),
    strategy: options.PickStrategy = "default",
    seed: options.Seed = 0,
    gallery: options.Gallery = None,
    overwrite: options.Overwrite = False,
    plan: options.PlanOnly = False,
    outputs: options.Outputs = None,
    fit: options.CommitteeFit = None,
    engine: options.Engine = None,
    batch_size: options.BatchSize = None,
    work: options.Work = None,
) -> None:
    """Pick the next examples to label, with your own trained model.

    Examples:
        jostle pick --model mine.py:load --pool folder:photos -n 100
        jostle pick --model mine.py:load --pool csv:rows.csv -n 20 --out next.csv
        jostle pick --model mine.py:load --pool folder:photos -n 100 --plan
    """
    from jostle import engines, strategies
    from jostle.cli.output_files import Places
    from jostle.inference.isolation import device_named

    name, settings = name_and_settings(strategy)
    if outputs is not None:
        settings = {**settings, "outputs": outputs.value}
    chosen = strategies.build(name, **settings)
    chosen = chosen if work is None else at_work(chosen, name, work)
    if asked.device is not None:
        device_named(asked.device)
    cluster = engines.engine(engine)
    places, told = Places(out, gallery, overwrite), Told()
    given = {
        option: getattr(asked, option[2:]) for option in ("--model", "--pool", "--labeled", "--transform")
    }
    places.check({**given, "--fit": fit}, asked.exclude or ())
    with redirect_stdout(sys.stderr):  # what a user's own files print is no part of our output
        job = Job.of(asked, told, chosen)
        call: Options = {
            **job.call,
            "fit": function("--fit", fit) if fit else None,
            "seed": seed,
            "batch_size": batch_size,
            "engine": cluster,
        }
        if cluster is not None and not plan:
            query = chosen.select(job.model, job.pool, asked.n, **call)
        else:
            context = chosen.create_context(job.model, job.pool, call)
            context.runner = job.runner  # copied and traced once for the whole command
            if plan:
                wanted = context.run(lambda context: chosen.plan_in(context, asked.n))
            else:
                query = context.run(lambda context: chosen.select_in(context, asked.n))
    if plan:
        print_wrapped(str(wanted), PLAN_INDENT)
        return
    if query.notes:
        told.say("Note", "; ".join(query.notes))
    places.write_picks(query, job.examples)
    where = "standard output" if str(out) == "-" else out
    told.say(
        "Picked", f"{len(query)} of {len(job.pool) - len(job.excluded)} by {strategy}, seed {seed}: {where}"
    )
    if gallery is not None:
        places.write_gallery(query, job.examples, told.facts, job.answers(query))
        told.say("Gallery", str(gallery))


@dataclass(frozen=True)
class Job:
    """All that one call needs, tried on a few examples and told about before the long work."""

    model: nn.Module
    examples: Data
    excluded: Tensor  # positions of the pool
    runner: ModelRunner
    known: Known | None
    given_task: str | None
    device: str

    @classmethod
    def of(cls, asked: QueryOptions, told: Told, strategy: Strategy) -> Job:
        """Read what the options name, leave out what is known, try the model, and test it on what is labeled."""
        from jostle.cli.input_summary import Known, fed, traced
        from jostle.datasets.labels import align_columns
        from jostle.datasets.views import as_pool
        from jostle.inference.isolation import device_of
        from jostle.inputs import check_count

        network = load_model(asked.model)
        device = asked.device or str(device_of(network))
        network = network.to(device)
        examples = asked.read("--pool", asked.pool)
        labels = asked.read_labeled(examples)
        if labels is not None:
            examples, labels = align_columns(examples, labels)
        excluded = left_out(examples, labels, asked.exclude or (), told)
        everything = as_pool(examples.train.inputs)
        candidates = everything.without(excluded)
        check_count(asked.n, candidates, everything)
        runner = traced(network, candidates, examples, device, strategy, asked.task)
        told.say("Fed", fed(examples, candidates))
        known = None if labels is None else Known.of(labels, runner, asked.task, examples)
        if known is not None:
            told.say("Labeled", known.words(runner))
        return cls(network, examples, excluded, runner, known, asked.task, device)

    @property
    def call(self) -> Options:
        """Return the options of the call, for every strategy."""
        return {
            "labeled": self.labeled,
            "task": self.task,
            "exclude": self.excluded,
            "device": self.device,
        }

    @property
    def pool(self) -> Pool:
        """All examples, by their positions."""
        from jostle.datasets.views import as_pool

        return as_pool(self.examples.train.inputs)

    @property
    def labeled(self) -> Any:
        """The labeled examples as a dataset of (x, y)."""
        from jostle.datasets.views import as_dataset

        known = None if self.known is None else self.known.data.train
        return None if known is None else as_dataset(known.inputs, known.targets)

    @property
    def task(self) -> Task | str | None:
        """Return the task, if the command names it."""
        return self.given_task if self.known is None else self.known.task

    def answers(self, query: Query) -> list[tuple[Answer, ...]]:
        """Return the prediction for each pick."""
        import torch

        from jostle.cli.input_summary import answers

        classes = self.examples.classes if self.known is None else self.known.data.classes
        return answers(self.runner, self.pool.take(torch.from_numpy(query.indices)), self.task, classes)


@dataclass(frozen=True)
class Told:
    """Messages on standard error during a query, repeated on the page of picks."""

    facts: dict[str, str] = field(default_factory=dict)

    def say(self, what: str, words: str) -> None:
        """A line of it, just as it is."""
        self.facts[what] = words.partition("\n")[0]
        say(f"{what}: {words}")


def at_work(chosen: Strategy, name: str, work: Path) -> Strategy:
    """The strategy with its rows in a folder, where it has rows that a file can hold."""
    if "cache_path" not in {each.name for each in fields(chosen)}:
        raise ValueError(
            f"--work keeps the rows of noise stability, which takes long; {name} has no such rows"
        )
    placed: Strategy = replace(cast(Any, chosen), cache_path=work / "rows.npy")
    return placed


def function(option: str, spec: str) -> Any:
    """The function of `file.py:name` that an option names."""
    if not is_own(spec):
        raise ValueError(f"{option}: expected file.py:function; got {spec!r}")
    return from_file(spec)


def load_model(spec: str) -> nn.Module:
    """The user's model."""
    from torch import nn

    make = function("--model", spec)
    try:
        inspect.signature(make).bind()
    except TypeError as wrong:
        raise TypeError(f"--model {spec} is called without arguments: {wrong}") from None
    made = make()
    if not isinstance(made, nn.Module):
        raise TypeError(f"--model {spec} returned {type(made).__name__}; expected a torch.nn.Module")
    return made


def left_out(examples: Data, labels: Data | None, files: Sequence[Path], told: Told) -> Tensor:
    """Positions of the pool that are labeled or were picked before; says how many of each."""
    import torch

    from jostle.cli.output_files import names_in
    from jostle.datasets.labels import find_named, find_shared

    found = {} if labels is None else {"labeled already": find_shared(examples, labels)}
    for path in files:
        names = set(names_in(path))
        places = find_named(examples, names)
        absent = len(names) - len({examples.names(place) for place in places.tolist()})
        more = f" ({absent} of its {len(names)} names are not in the pool)" if absent else ""
        found[f"picked in {path}{more}"] = places
    gone: Tensor = torch.cat([torch.empty(0, dtype=torch.int64), *found.values()]).unique()
    if found:
        parts = ", ".join(f"{len(places)} {why}" for why, places in found.items())
        told.say("Excluded", f"{len(gone)} of {len(examples.train)}: {parts}")
    return gone


SHOWN = 6  # strategies of a setting in the table of `jostle advise`


def advise(asked: QueryOptions) -> None:
    """Say which strategy to pick with, why, what it costs, and what the benchmark measured in similar settings.

    Examples:
        jostle advise --model mine.py:load --pool folder:photos -n 100
        jostle advise --model mine.py:load --pool csv:rows.csv -n 20 --task regression
        jostle advise --model mine.py:load --pool folder:a --labeled folder:b -n 50
    """
    from jostle import strategies
    from jostle.advice import advise as advice_for
    from jostle.strategies.default import is_linear

    with redirect_stdout(sys.stderr):  # what a user's own files print is no part of our output
        job = Job.of(asked, Told(), strategies.build("default"))
        context = strategies.build("default").create_context(job.model, job.pool, job.call)
        context.runner = job.runner  # copied and traced once for the whole command
        advice = advice_for(case_of(job, asked.n, is_linear(context)))
        strategy = strategies.build(advice.strategy)
        plan = context.run(lambda context: strategy.plan_in(context, asked.n))
    print(f"Use: --strategy {advice.strategy}")
    for sentence in advice.why:
        print_wrapped(f"Why: {sentence}", 5)
    print_wrapped(str(plan), PLAN_INDENT)
    for setting in advice.seen:
        print_table(table_of(setting, advice.strategy))


def case_of(job: Job, n: int, linear: bool) -> Case:
    """Return the query to be advised on, in the terms of the benchmark's settings."""
    from jostle.advice import Case
    from jostle.tasks import task_for

    outputs = job.runner.example_outputs
    kind = task_for(job.task, outputs)
    labels = 0 if job.known is None else len(job.known.data.train)
    size = len(job.pool) - len(job.excluded)
    data = kind_of_data(kind.name, linear, job.runner.example)
    return Case(kind.name, kind.count_classes(outputs), size, n, labels, linear, data)


def kind_of_data(task: str, linear: bool, example: Inputs) -> str:
    """The kind of data as the guide of the benchmark names it, by the task, the model and the form of inputs."""
    from torch import Tensor

    if task == "regression":
        return "regressions"
    if linear:
        return "embeddings, linear probe"
    images = isinstance(example, Tensor) and example.ndim > 2
    return "images, small network" if images else "tables"


def table_of(setting: Setting, advised: str) -> Table:
    """Describe one setting of the benchmark: the best strategy there, and the advised one."""
    from jostle.experiments.results.tables import Cell, Table

    labels = setting.best_first[:SHOWN]
    if advised in setting.seen and advised not in labels:
        labels = [*labels[:-1], advised]
    seen = [setting.seen[label] for label in labels]
    return Table.of(
        f"{setting.title} ({setting.pool} examples, from {setting.labels} labels, {setting.pick} at a time)",
        {
            "strategy": [Cell(label) for label in labels],
            "less of random's error, %": [Cell(100 * each.gain, digits=1, signed=True) for each in seen],
            "labels saved, %": [Cell(100 * each.saved, digits=0, signed=True) for each in seen],
            "passes": [Cell(each.passes, digits=1) for each in seen],
            "seeds": [Cell(each.seeds, digits=0) for each in seen],
        },
    )
