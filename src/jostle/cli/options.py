"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

DataRoot = Annotated[
    Path | None,
    typer.Option(
        "--data",
        envvar="JOSTLE_DATA",
        help="Folder with local copies of data sets, used before any download.",
    ),
]
Device = Annotated[str, typer.Option(help="Where to compute: cpu, cuda, cuda:1, mps.")]
