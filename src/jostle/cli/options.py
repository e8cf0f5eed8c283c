"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer


def named(option: typer.CallbackParam, place: Path | None) -> Path | None:
    """Refuse `-`, which is standard output and no file or folder of that name."""
    if str(place) == "-":
        raise ValueError(
            f"{option.opts[0]}: - is standard output, where only the csv of picks goes (jostle pick --out -); "
            "give it a name"
        )
    return place


DataRoot = Annotated[
    Path | None,
    typer.Option(
        "--data",
        envvar="JOSTLE_DATA",
        help="Folder with local copies of data sets, used before any download.",
    ),
]
Device = Annotated[str, typer.Option(help="Where to compute: cpu, cuda, cuda:1, mps.")]
Engine = Annotated[
    str | None,
    typer.Option(
        help="Where to compute: ray, a Ray cluster, with settings in brackets: 'ray(address=host:6379, workers=8)'. "
        "Default: this process."
    ),
]

Spec = "a name, folder:PATH, csv:PATH, parquet:PATH or file.py:function, settings in brackets: 'folder:photos(size=64)'"
Model = Annotated[str, typer.Option(help="Your model as file.py:function; the function returns it, trained.")]
Pool = Annotated[str, typer.Option(help=f"What to choose from: {Spec}.")]
Count = Annotated[int, typer.Option("-n", min=1, help="How many examples to pick.")]
Labeled = Annotated[
    str | None,
    typer.Option(
        help="The labelled examples, given like --pool: the model is tested on them, strategies may learn "
        "from them, and none of them is picked."
    ),
]
Exclude = Annotated[
    list[Path] | None,
    typer.Option(help="The csv of an earlier round, whose picks are not picked again. Repeatable."),
]
Transform = Annotated[
    str | None,
    typer.Option(
        help="Your preprocessing as file.py:function: an image of a folder (PIL), or a text, or a tensor, in; "
        "a tensor out."
    ),
]
TaskName = Annotated[
    str | None,
    typer.Option(
        "--task",
        help="classification, binary, regression, segmentation, multi-label or sequence. Default: as outputs tell.",
    ),
]
TextEncoder = Annotated[
    str | None, typer.Option("--encoder", help="For texts: the model whose tokeniser reads them.")
]
