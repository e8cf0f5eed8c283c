"""`jostle pick`: a practitioner's next batch, for a model and a pool of their own."""

from __future__ import annotations

import csv
import inspect
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from jostle.cli import options
from jostle.plumbing.user_files import from_file, is_own

if TYPE_CHECKING:
    from torch import nn

    from jostle.core import Query
    from jostle.datasets import Data

Spec = (
    "a name, folder:PATH, csv:PATH or file.py:function, with settings in brackets: 'folder:photos(size=64)'"
)


def pick(
    model: Annotated[
        str, typer.Option(help="Your model as file.py:function; the function returns it, trained.")
    ],
    pool: Annotated[str, typer.Option(help=f"What to choose from: {Spec}.")],
    n: Annotated[int, typer.Option("-n", min=1, help="How many examples to pick.")],
    out: Annotated[
        Path, typer.Option(help="The csv to write: name, position, order, score; - is standard output.")
    ] = Path("picks.csv"),
    strategy: Annotated[
        str, typer.Option(help="A strategy, with settings in brackets: 'noise-stability(jolts=10)'.")
    ] = "noise-stability",
    labeled: Annotated[
        str | None,
        typer.Option(help="The labelled examples, for strategies that need them; given like --pool."),
    ] = None,
    fit: Annotated[
        str | None, typer.Option(help="file.py:function that trains a model on (dataset, seed), for qbc.")
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(
            help="classification, regression, segmentation, multi-label or sequence. Default: as outputs tell."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same picks.")] = 0,
    gallery: Annotated[
        Path | None, typer.Option(help="Also write a page that shows the picks, such as picks.html.")
    ] = None,
    encoder: Annotated[
        str | None, typer.Option(help="For texts: the model whose tokeniser reads them.")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Examples per forward pass. Default: what fits.")
    ] = None,
    device: options.Device = "cpu",
    data: options.DataRoot = None,
) -> None:
    """Pick the next examples to label, with your own trained model."""
    from jostle import strategies
    from jostle.datasets.views import pool_of
    from jostle.plumbing.specs import called
    from jostle.scoring.copies import device_named

    name, settings = called(strategy)
    chosen = strategies.build(name, **settings)
    device_named(device)
    network = loaded(model)
    examples = pool_data(pool, data, encoder)
    query = chosen.select(
        network.to(device),
        pool_of(examples.train.inputs),
        n,
        labeled=labelled(labeled, data, encoder),
        fit=function("--fit", fit) if fit else None,
        task=task,
        seed=seed,
        batch_size=batch_size,
        device=device,
    )
    report(query, examples, strategy, out, gallery)


def report(query: Query, examples: Data, strategy: str, out: Path, gallery: Path | None) -> None:
    """Write the picks, and their gallery if asked for, and say where they are."""
    from jostle.plumbing.files import write_whole

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    if str(out) == "-":
        print(as_csv(query, examples), end="")
    else:
        write_whole(out, as_csv(query, examples))
    place = "standard output" if str(out) == "-" else str(out)
    console.print(
        f"{len(query)} of {len(examples.train)} examples picked by {strategy}: {place}", markup=False
    )
    if gallery is not None:
        write_whole(gallery, page(query, examples, strategy))
        console.print(f"Gallery: {gallery}", markup=False)


def function(option: str, spec: str) -> Any:
    """The function of `file.py:name` that an option names."""
    if not is_own(spec):
        raise ValueError(f"{option}: expected file.py:function; got {spec!r}")
    return from_file(spec)


def loaded(spec: str) -> nn.Module:
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


def pool_data(spec: str, root: Path | None, encoder: str | None) -> Data:
    """The data that a spec names, nothing held out, texts tokenised."""
    from jostle import datasets
    from jostle.plumbing.specs import called

    name, settings = called(spec)
    data = datasets.named(name, root, settings, read=datasets.pool)
    if isinstance(data.train.inputs, datasets.Texts):
        if encoder is None:
            raise ValueError(f"{spec} holds texts: name the model whose tokeniser reads them with --encoder")
        data = datasets.tokenize(data, encoder)
    return data


def labelled(spec: str | None, root: Path | None, encoder: str | None) -> Any:
    """The labelled examples as a dataset of (x, y)."""
    if spec is None:
        return None
    import torch

    from jostle.datasets.views import labelled_part

    split = pool_data(spec, root, encoder).train
    if not len(split.targets):
        raise ValueError(f"--labeled {spec} has no labels")
    return labelled_part(split, torch.arange(len(split)))


def as_csv(query: Query, examples: Data) -> str:
    """The picks in their order: file name or row id, position in the pool, order, score."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["name", "position", "order", "score"])
    for order, (position, score) in enumerate(
        zip(query.indices.tolist(), query.scores.tolist(), strict=True)
    ):
        writer.writerow([examples.names(position), position, order, score])
    return text.getvalue()


def page(query: Query, examples: Data, strategy: str) -> str:
    """The picks as a page of pictures or texts."""
    from jostle.report.page import Page, Section, render, strip

    shown = strip("in the order of picks", query.indices.tolist(), examples.preview, examples.names)
    return render(
        Page(
            title=examples.name,
            subtitle="",
            kind="picks",
            headline=f"{len(query)} examples to label next.",
            details=f"Picked by {strategy} from {len(examples.train)}, seed {query.seed}.",
            facts=[],
            warnings=[],
            sections=[Section("gallery", "What to label", strips=(shown,))],
            colours={},
        )
    )
