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


DATA, COMPUTE = "Data", "Computing"  # groups of options in help texts

DataRoot = Annotated[
    Path | None,
    typer.Option(
        "--data",
        envvar="JOSTLE_DATA",
        rich_help_panel=DATA,
        metavar="DIR",
        help="Folder with local copies of data sets, used before any download. Default: the variable JOSTLE_DATA.",
    ),
]
Device = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=COMPUTE,
        metavar="NAME",
        help="Where to compute: cpu, cuda, cuda:1, mps. Default: where the model is.",
    ),
]
Engine = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=COMPUTE,
        metavar="SPEC",
        help="A Ray cluster: 'ray', with settings in brackets: 'ray(address=host:6379, workers=8)'. Default: this "
        "process.",
    ),
]

Spec = "a name, folder:PATH, csv:PATH, parquet:PATH or file.py:function, settings in brackets: 'folder:photos(size=64)'"
Model = Annotated[
    str,
    typer.Option(
        rich_help_panel=DATA,
        metavar="SPEC",
        help="Your model as file.py:function; the function returns it, trained.",
    ),
]
Pool = Annotated[
    str, typer.Option(rich_help_panel=DATA, metavar="SPEC", help=f"What to choose from: {Spec}.")
]
Count = Annotated[int, typer.Option("-n", min=1, rich_help_panel="Picks", help="How many examples to pick.")]
Labeled = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=DATA,
        metavar="SPEC",
        help="The labeled examples, given like --pool: the model is tested on them, strategies may learn "
        "from them, and none of them is picked.",
    ),
]
Exclude = Annotated[
    list[Path] | None,
    typer.Option(
        rich_help_panel=DATA,
        metavar="FILE",
        help="The csv of an earlier round, whose picks are not picked again. Repeatable.",
    ),
]
Transform = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=DATA,
        metavar="SPEC",
        help="Your preprocessing as file.py:function: an image of a folder (PIL), or a text, or a tensor, in; "
        "a tensor out.",
    ),
]
TaskName = Annotated[
    str | None,
    typer.Option(
        "--task",
        rich_help_panel=DATA,
        metavar="NAME",
        help="classification, binary, regression, segmentation, multi-label or sequence. Default: inferred from the "
        "outputs.",
    ),
]
TextEncoder = Annotated[
    str | None,
    typer.Option(
        "--encoder",
        rich_help_panel=DATA,
        metavar="NAME",
        help="For texts: the model whose tokenizer reads them.",
    ),
]
