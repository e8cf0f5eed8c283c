"""Options of commands: a type for each, with its name, its value and its line of help."""

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer


def named(option: typer.CallbackParam, place: Path | None) -> Path | None:
    """Refuse `-`, which is standard output and no file or folder of that name."""
    if str(place) == "-":
        raise ValueError(
            f"{option.opts[0]}: - is standard output, where only the csv of picks goes (jostle pick --out -); "
            "give it a name"
        )
    return place


def option(panel: str, value: str | None, text: str, *names: str, **more: Any) -> Any:
    """Return an option of a command.

    Args:
        panel: Group of options in the help text.
        value: Name of its value there; None for a switch or a number.
        text: What it does.
        names: How it is written; none: as the parameter.
        more: As `typer.Option` takes it.
    """
    return typer.Option(*names, rich_help_panel=panel, metavar=value, help=text, **more)


def expand(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that are fields of a dataclass, in place of its parameter of that type."""
    signature = inspect.signature(command, eval_str=True)
    groups: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    for each in signature.parameters.values():
        if is_dataclass(each.annotation):
            groups[each.name] = each.annotation
            parameters += inspect.signature(groups[each.name], eval_str=True).parameters.values()
        else:
            parameters.append(each)

    @wraps(command)
    def expanded(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    ordered = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
    expanded.__signature__ = signature.replace(parameters=ordered)  # type: ignore[attr-defined]
    return expanded


class OutputKind(StrEnum):
    """Kind of a model's outputs."""

    LOGITS = "logits"
    PROBABILITIES = "probabilities"


DATA, COMPUTE, PICKS = "Data", "Computing", "Picks"  # groups of options in help texts
ANSWERS, PROJECT, LOOP, OWN, PAGE, HELP = "Answers", "Project", "Questions", "Model", "Page", "Help"

# of several commands
DataRoot = Annotated[
    Path | None,
    option(
        DATA,
        "DIR",
        "Folder with local copies of data sets, used before any download. Default: the variable JOSTLE_DATA.",
        "--data",
        envvar="JOSTLE_DATA",
    ),
]
Device = Annotated[
    str | None,
    option(COMPUTE, "NAME", "Where to compute: cpu, cuda, cuda:1, mps. Default: where the model is."),
]
Engine = Annotated[
    str | None,
    option(
        COMPUTE,
        "SPEC",
        "A Ray cluster: 'ray', with settings in brackets: 'ray(address=host:6379, workers=8)'. Default: this "
        "process.",
    ),
]

# of `jostle pick` and `jostle advise`
Spec = "a name, folder:PATH, csv:PATH, parquet:PATH or file.py:function, settings in brackets: 'folder:photos(size=64)'"
Model = Annotated[
    str, option(DATA, "SPEC", "Your model as file.py:function; the function returns it, trained.")
]
Pool = Annotated[str, option(DATA, "SPEC", f"What to choose from: {Spec}.")]
Count = Annotated[int, option(PICKS, None, "How many examples to pick.", "-n", min=1)]
Labeled = Annotated[
    str | None,
    option(
        DATA,
        "SPEC",
        "The labeled examples, given like --pool: the model is tested on them, strategies may learn "
        "from them, and none of them is picked.",
    ),
]
Exclude = Annotated[
    list[Path] | None,
    option(DATA, "FILE", "The csv of an earlier round, whose picks are not picked again. Repeatable."),
]
Transform = Annotated[
    str | None,
    option(
        DATA,
        "SPEC",
        "Your preprocessing as file.py:function: an image of a folder (PIL), or a text, or a tensor, in; "
        "a tensor out.",
    ),
]
TaskName = Annotated[
    str | None,
    option(
        DATA,
        "NAME",
        "classification, binary, regression, segmentation, multi-label or sequence. Default: inferred from the "
        "outputs.",
        "--task",
    ),
]
TextEncoder = Annotated[
    str | None, option(DATA, "NAME", "For texts: the model whose tokenizer reads them.", "--encoder")
]

PicksFile = Annotated[
    Path,
    option(PICKS, "FILE", "The csv to write: name, position, order, score; - is standard output."),
]
PickStrategy = Annotated[
    str,
    option(PICKS, "SPEC", "A strategy, with settings in brackets: 'noise-stability(num_perturbations=10)'."),
]
Seed = Annotated[int, option(PICKS, None, "The same seed gives the same picks.")]
Gallery = Annotated[
    Path | None,
    option(PICKS, "FILE", "Also write a page that shows the picks, such as picks.html.", callback=named),
]
Overwrite = Annotated[bool, option(PICKS, None, "Write over files that jostle did not write.", "--overwrite")]
PlanOnly = Annotated[
    bool,
    option(PICKS, None, "Print passes, time and memory of these picks; pick nothing.", "--plan"),
]
Outputs = Annotated[
    OutputKind | None,
    option(
        DATA,
        "KIND",
        "What the model returns: logits, or probabilities after a softmax or sigmoid. Default: logits.",
    ),
]
CommitteeFit = Annotated[
    str | None,
    option(DATA, "SPEC", "file.py:function that trains a model on (dataset, seed), for qbc."),
]
BatchSize = Annotated[
    int | None,
    option(
        COMPUTE,
        None,
        "Examples per forward pass. Default: the most that fit in memory, within a limit.",
        min=1,
    ),
]
Work = Annotated[
    Path | None,
    option(
        COMPUTE,
        "DIR",
        "Folder for the rows of noise stability: after an interrupt the same command resumes.",
        callback=named,
    ),
]

# of `jostle label` and its subcommands
Data = Annotated[
    str | None,
    typer.Argument(
        help="A folder of images, a .csv or .parquet of texts or numbers, a .parquet or saved data set of images, or "
        "file.py:name."
    ),
]
Classes = Annotated[
    str | None,
    option(
        ANSWERS,
        "LIST",
        "The classes to choose from, by comma: cat,dog,other; with keys of your own: cat=c,dog=d.",
    ),
]
Several = Annotated[bool, option(ANSWERS, None, "Several classes can be right at once.", "--several")]
Target = Annotated[
    str | None,
    option(
        ANSWERS,
        "NAME",
        "Answers are numbers of this name; a column of that name is neither shown nor learned from.",
    ),
]
AddClasses = Annotated[
    bool, option(ANSWERS, None, "Add classes that the project does not have yet.", "--add-classes")
]
Text = Annotated[
    str | None,
    option(
        DATA, "COLUMN", "The column that holds the text, or two by comma; none: label rows. Default: text."
    ),
]
Hide = Annotated[
    str | None, option(DATA, "LIST", "Columns that are neither shown nor learned from, by comma.")
]
Project = Annotated[
    Path | None,
    option(
        PROJECT,
        "DIR",
        "Folder of the project. Default: beside the data, photos.labels for photos; without data, the only "
        "project in this folder.",
        callback=named,
    ),
]
Database = Annotated[
    str | None,
    option(
        PROJECT,
        "ADDRESS",
        "Database of the answers: postgresql://... for a team. Default: labels.db in the project.",
    ),
]
StrategyName = Annotated[
    str | None,
    option(
        LOOP,
        "NAME",
        "Strategy that picks the questions: any of `jostle list strategies`. Default: default.",
        "--strategy",
    ),
]
RoundSize = Annotated[int | None, option(LOOP, None, "Answers between two trainings. Default: 50.", min=1)]
AuditShare = Annotated[
    str | None,
    option(
        LOOP,
        "SHARE",
        "Share of questions drawn at random, whose answers only measure. Default: 15%.",
        "--audit",
    ),
]
Encoder = Annotated[
    str | None, option(OWN, "NAME", "Folder or hub name of a different encoder that transformers loads.")
]
Network = Annotated[
    str | None, option(OWN, "SPEC", "file.py:function that builds a model of yours.", "--model")
]
Fit = Annotated[str | None, option(OWN, "SPEC", "file.py:function that trains it.")]
Host = Annotated[
    str, option(PAGE, "ADDRESS", "Address to listen on; one that other machines reach needs --token.")
]
Port = Annotated[
    int | None,
    option(
        PAGE,
        None,
        "Port to listen on; 0 takes any. Default: 8321 (Label Studio: 9090), or any if that is taken.",
        min=0,
        max=65535,
    ),
]
Token = Annotated[
    str | None, option(PAGE, "TEXT", "Token that lets people in. Default: one that is made with the project.")
]
Demo = Annotated[bool, option(DATA, None, "Label handwritten digits that come with jostle.", "--demo")]
Goal = Annotated[
    str | None,
    option(
        LOOP,
        "VALUE",
        "The accuracy that is enough, such as 95%; for numbers the mean error, with --find the share found.",
    ),
]
FindClass = Annotated[
    str | None,
    option(
        LOOP,
        "CLASS",
        "Find all examples of this class: ask by its chance, stop by a bound on the share that was found.",
    ),
]
AuditOnly = Annotated[
    Path | None,
    option(
        LOOP,
        "FILE",
        "Predictions of your model (name, prediction, chance): ask only random questions, which measure it.",
    ),
]
Overlap = Annotated[
    str | None,
    option(
        LOOP,
        "SHARE",
        "Share of questions that two people answer: half at random, half where it changes a label most. Default: 0%.",
    ),
]
NearCopies = Annotated[
    bool | None,
    option(
        LOOP,
        None,
        "Ask near-copies once: crops, re-encoded pictures, texts that differ in digits. Default: no.",
        "--near-copies/--no-near-copies",
    ),
]
ProjectSeed = Annotated[
    int | None,
    option(LOOP, "N", "Seed of the audit and all draws; a project keeps its own. Default: 0."),
]
Browser = Annotated[bool, option(PAGE, None, "Open the page.", "--browser/--no-browser")]
GuideFile = Annotated[
    str | None,
    option(
        HELP,
        "FILE",
        "Guidelines in Markdown beside the question; `## cat` begins what is said of a class. none: no guide.",
        "--guide",
    ),
]
Suggest = Annotated[
    str | None,
    option(
        HELP,
        "SPEC",
        "Suggestions of another model: predictions (.csv, .parquet, .json), file.py:function, or the address of "
        "an OpenAI-compatible server, with its key in JOSTLE_SUGGEST_KEY. none: no suggestions.",
    ),
]
SuggestModel = Annotated[str | None, option(HELP, "NAME", "The model at that address.")]
SuggestLimit = Annotated[
    int | None,
    option(
        HELP, None, "The most calls to that address, over all starts of the project. Default: 1000.", min=1
    ),
]
