"""`jostle pick`: a practitioner's next batch, for a model and a pool of their own."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from jostle.cli import options
from jostle.cli.saying import say
from jostle.plumbing.specs import name_and_settings
from jostle.plumbing.user_files import from_file, is_own

if TYPE_CHECKING:
    from torch import Tensor, nn

    from jostle.cli.feeding import Known
    from jostle.core import Query, Strategy
    from jostle.datasets import Data
    from jostle.inputs import Pool
    from jostle.report.gallery import Answer
    from jostle.scoring.network import Network
    from jostle.scoring.options import Options
    from jostle.tasks import Task

FRAMING = {
    "size",
    "short",
    "mode",
    "scale",
    "mean",
    "std",
}  # settings of a folder that make tensors of images


def pick(
    model: options.Model,
    pool: options.Pool,
    n: options.Count,
    out: Annotated[
        Path, typer.Option(help="The csv to write: name, position, order, score; - is standard output.")
    ] = Path("picks.csv"),
    strategy: Annotated[
        str, typer.Option(help="A strategy, with settings in brackets: 'noise-stability(jolts=10)'.")
    ] = "default",
    labeled: options.Labeled = None,
    exclude: options.Exclude = None,
    transform: options.Transform = None,
    fit: Annotated[
        str | None, typer.Option(help="file.py:function that trains a model on (dataset, seed), for qbc.")
    ] = None,
    task: options.TaskName = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same picks.")] = 0,
    gallery: Annotated[
        Path | None,
        typer.Option(
            callback=options.named, help="Also write a page that shows the picks, such as picks.html."
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Write over files that are not jostle's own.")
    ] = False,
    encoder: options.TextEncoder = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Examples per forward pass. Default: what fits.")
    ] = None,
    work: Annotated[
        Path | None,
        typer.Option(
            callback=options.named,
            help="A folder for the rows of a long scoring: the same command goes on after an interrupt.",
        ),
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Tell passes, time and memory of these picks, and pick nothing.")
    ] = False,
    device: options.Device = "cpu",
    engine: options.Engine = None,
    data: options.DataRoot = None,
) -> None:
    """Pick the next examples to label, with your own trained model."""
    from jostle import engines, strategies
    from jostle.cli.places import Places
    from jostle.scoring.copies import device_named

    name, settings = name_and_settings(strategy)
    chosen = strategies.build(name, **settings)
    chosen = chosen if work is None else at_work(chosen, name, work)
    device_named(device)
    cluster = engines.engine(engine)
    places, told, read = Places(out, gallery, overwrite), Told(), Reader(data, encoder, transform)
    given = {"--model": model, "--pool": pool, "--labeled": labeled, "--transform": transform, "--fit": fit}
    places.check(given, exclude or ())
    with redirect_stdout(sys.stderr):  # what a user's own files print is no part of our output
        job = Job.of(model, pool, labeled, exclude or (), n, read, told, task=task, device=device)
        call: Options = {
            **job.call,
            "fit": function("--fit", fit) if fit else None,
            "seed": seed,
            "batch_size": batch_size,
            "engine": cluster,
        }
        wanted = chosen.plan(job.model, job.pool, n, **call) if plan else None
        query = None if plan else chosen.select(job.model, job.pool, n, **call)
    if query is None:
        print(wanted)
        return
    if query.notes:
        told.say("Note", "; ".join(query.notes))
    if query.passes is not None:
        told.say("Race", str(query.passes))
    places.write_picks(query, job.examples)
    where = "standard output" if str(out) == "-" else out
    if query.certificate is not None:
        told.say("Certificate", str(query.certificate))
    told.say("Picked", f"{len(query)} of {len(job.pool)} by {strategy}, seed {seed}: {where}")
    if gallery is not None:
        places.write_gallery(query, job.examples, told.facts, job.answers(query))
        told.say("Gallery", str(gallery))


@dataclass(frozen=True)
class Job:
    """All that one call needs, tried on a few examples and told about before the long work."""

    model: nn.Module
    examples: Data
    excluded: Tensor  # positions of the pool
    seen: Network  # the model, to be asked
    known: Known | None
    given_task: str | None
    device: str

    @classmethod
    def of(
        cls,
        model: str,
        pool: str,
        labeled: str | None,
        rounds: Sequence[Path],
        n: int,
        read: Reader,
        told: Told,
        *,
        task: str | None,
        device: str,
    ) -> Job:
        """Read what the options name, leave out what is known, try the model, and test it on what is labelled."""
        from jostle.cli.feeding import Known, fed, tried
        from jostle.datasets.views import pool_of
        from jostle.inputs import check_count

        network = load_model(model).to(device)
        labels = read("--labeled", labeled) if labeled else None
        examples = read("--pool", pool)
        excluded = left_out(examples, labels, rounds, told)
        everything = pool_of(examples.train.inputs)
        candidates = everything.without(excluded)
        check_count(n, candidates, everything)
        seen = tried(network, candidates, examples, device)
        told.say("Fed", fed(examples, candidates))
        known = None if labels is None else Known.of(labels, seen, task)
        if known is not None:
            told.say("Labelled", known.words(seen))
        return cls(network, examples, excluded, seen, known, task, device)

    @property
    def call(self) -> Options:
        """What every strategy is told of it."""
        return {
            "labeled": self.labelled,
            "task": self.task,
            "exclude": self.excluded,
            "device": self.device,
        }

    @property
    def pool(self) -> Pool:
        """All examples, by their positions."""
        from jostle.datasets.views import pool_of

        return pool_of(self.examples.train.inputs)

    @property
    def labelled(self) -> Any:
        """The labelled examples as a dataset of (x, y)."""
        from jostle.datasets.views import labelled_data

        return None if self.known is None else labelled_data(self.known.data)

    @property
    def task(self) -> Task | str | None:
        """What outputs mean, as far as it was told."""
        return self.given_task if self.known is None else self.known.task

    def answers(self, query: Query) -> list[tuple[Answer, ...]]:
        """What the model says of each pick."""
        import torch

        from jostle.cli.feeding import answers

        classes = self.examples.classes if self.known is None else self.known.data.classes
        return answers(self.seen, self.pool.take(torch.from_numpy(query.indices)), self.task, classes)


@dataclass(frozen=True)
class Told:
    """What is said on standard error while the picks come about; their page says it again."""

    facts: dict[str, str] = field(default_factory=dict)

    def say(self, what: str, words: str) -> None:
        """A line of it, just as it is."""
        self.facts[what] = words.partition("\n")[0]
        say(f"{what}: {words}")


def at_work(chosen: Strategy, name: str, work: Path) -> Strategy:
    """The strategy with its rows in a folder, where it has rows that a file can hold."""
    if "rows_file" not in {each.name for each in fields(chosen)}:
        raise ValueError(
            f"--work keeps the rows of noise stability, which takes long; {name} has no such rows"
        )
    placed: Strategy = replace(cast(Any, chosen), rows_file=work / "rows.npy")
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


@dataclass(frozen=True)
class Reader:
    """Reads the pool and the labelled examples alike: nothing held out, preprocessed, texts tokenised."""

    root: Path | None
    encoder: str | None
    transform: str | None

    def __call__(self, option: str, spec: str) -> Data:
        """The data that a spec names."""
        from jostle import datasets
        from jostle.datasets.transforms import transformed

        name, settings = name_and_settings(spec)
        if self.transform and (clash := sorted(FRAMING & settings.keys())):
            raise ValueError(
                f"{option} {spec}: {clash[0]} is the business of --transform; say one of the two"
            )
        if self.encoder and name.startswith("parquet:"):
            settings.setdefault("encoder", self.encoder)  # texts there are tokenised as they are read
        data = datasets.named(name, self.root, settings, read=datasets.pool)
        if option == "--labeled" and not len(data.train.targets):
            raise ValueError(f"--labeled {spec} has no labels")
        if self.transform:
            return transformed(data, function("--transform", self.transform), self.transform)
        if isinstance(data.train.inputs, datasets.Texts):
            if self.encoder is None:
                raise ValueError(
                    f"{spec} holds texts: name the model whose tokeniser reads them with --encoder"
                )
            data = datasets.tokenize(data, self.encoder)
        return data


def left_out(examples: Data, labels: Data | None, files: Sequence[Path], told: Told) -> Tensor:
    """Positions of the pool that are labelled or were picked before; says how many of each."""
    import torch

    from jostle.datasets.identity import positions_named, shared
    from jostle.results.picks import names_in

    found = {} if labels is None else {"labelled already": shared(examples, labels)}
    for path in files:
        names = set(names_in(path))
        places = positions_named(examples, names)
        absent = len(names) - len({examples.names(place) for place in places.tolist()})
        more = f" ({absent} of its {len(names)} names are not in the pool)" if absent else ""
        found[f"picked in {path}{more}"] = places
    gone: Tensor = torch.cat([torch.empty(0, dtype=torch.int64), *found.values()]).unique()
    if found:
        parts = ", ".join(f"{len(places)} {why}" for why, places in found.items())
        told.say("Excluded", f"{len(gone)} of {len(examples.train)}: {parts}")
    return gone
