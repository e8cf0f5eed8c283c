"""Options of commands: fields of a dataclass, each with the name of its value and, below it, its line of help."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

# Groups of options in help texts.
DATA, COMPUTE, PICKS, EXPERIMENT = "Data", "Computing", "Picks", "Experiment"
ANSWERS, PROJECT, LOOP, OWN, PAGE, HELP = "Answers", "Project", "Questions", "Model", "Page", "Help"


def named(option: typer.CallbackParam, place: Path | None) -> Path | None:
    """Refuse `-`, which is standard output and no file or folder of that name."""
    if str(place) == "-":
        raise ValueError(
            f"{option.opts[0]}: - is standard output, where only the csv of picks goes (jostle pick --out -); "
            "give it a name"
        )
    return place


def option(panel: str | None, value: str | None, *names: str, **more: Any) -> Any:
    """Return an option of a command.

    Args:
        panel: Group of options in the help text.
        value: Name of its value there; None for a switch or a number.
        names: How it is written; none: as the parameter.
        more: As `typer.Option` takes it; `help` may stand below a field instead.
    """
    return typer.Option(*names, rich_help_panel=panel, metavar=value, **more)


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
    expanded.groups = tuple(groups.values())  # type: ignore[attr-defined] # their help is read when it is shown
    return expanded


# Options of several commands.
DataRoot = Annotated[
    Path | None,
    option(
        DATA,
        "DIR",
        "--data",
        envvar="JOSTLE_DATA",
        help="Folder with local copies of data sets, used before any download. Default: the variable JOSTLE_DATA.",
    ),
]
Engine = Annotated[
    str | None,
    option(
        COMPUTE,
        "SPEC",
        help="A Ray cluster: 'ray', with settings in brackets: 'ray(address=host:6379, workers=8)'. Default: this "
        "process.",
    ),
]
Baseline = Annotated[
    str, option(None, "LABEL", help="Gains and saved labels are counted against this strategy.")
]
MetricName = Annotated[
    str | None,
    option(
        None,
        "NAME",
        help="Judge by this metric, such as accuracy, macro_f1, mae, rmse, published, miou. Default: the task's main "
        "metric.",
    ),
]
Data = Annotated[
    str | None,
    typer.Argument(
        help="A folder of images, a .csv or .parquet of texts or numbers, a .parquet or saved data set of images, or "
        "file.py:name."
    ),
]
Format = Annotated[
    str | None,
    option(
        None,
        "NAME",
        help="csv, parquet, json, table (your own .csv or .parquet with columns added), huggingface (.parquet or a "
        "folder), imagefolder, folders (by class), fiftyone, coco or labelstudio. Default: by the name or the content.",
    ),
]
Several = Annotated[bool, option(ANSWERS, None, "--several", help="Several classes can be right at once.")]
AddClasses = Annotated[
    bool, option(ANSWERS, None, "--add-classes", help="Add classes that the project does not have yet.")
]
Text = Annotated[
    str | None,
    option(
        DATA,
        "COLUMN",
        help="The column that holds the text, or two by comma; none: label rows. Default: text.",
    ),
]
Hide = Annotated[
    str | None, option(DATA, "LIST", help="Columns that are neither shown nor learned from, by comma.")
]
Project = Annotated[
    Path | None,
    option(
        PROJECT,
        "DIR",
        callback=named,
        help="Folder of the project. Default: beside the data, photos.labels for photos; without data, the only "
        "project in this folder.",
    ),
]
Database = Annotated[
    str | None,
    option(
        PROJECT,
        "ADDRESS",
        help="Database of the answers: postgresql://... for a team. Default: labels.db in the project.",
    ),
]
RoundSize = Annotated[
    int | None, option(LOOP, None, min=1, help="Answers between two trainings. Default: 50.")
]


@dataclass(frozen=True)
class QueryOptions:
    """Options of `jostle advise` and `jostle pick`: the model, the pool and how both are read."""

    n: Annotated[int, option(PICKS, None, "-n", min=1)]
    """How many examples to pick."""
    model: Annotated[str, option(DATA, "SPEC")]
    """Your model as file.py:function; the function returns it, trained."""
    pool: Annotated[str, option(DATA, "SPEC")]
    """What to choose from: a name, folder:PATH, csv:PATH, parquet:PATH or file.py:function, settings in brackets:
    'folder:photos(size=64)'."""
    labeled: Annotated[str | None, option(DATA, "SPEC")] = None
    """The labeled examples, given like --pool: the model is tested on them, strategies may learn from them, and none of
    them is picked."""
    exclude: Annotated[list[Path] | None, option(DATA, "FILE")] = None
    """The csv of an earlier round, whose picks are not picked again. Repeatable."""
    transform: Annotated[str | None, option(DATA, "SPEC")] = None
    """Your preprocessing as file.py:function: an image of a folder (PIL), or a text, or a tensor, in; a tensor out."""
    task: Annotated[str | None, option(DATA, "NAME", "--task")] = None
    """classification, binary, regression, segmentation, multi-label or sequence. Default: inferred from the outputs."""
    encoder: Annotated[str | None, option(DATA, "NAME", "--encoder")] = None
    """For texts: the model whose tokenizer reads them."""
    data: DataRoot = None
    device: Annotated[str | None, option(COMPUTE, "NAME")] = None
    """Where to compute: cpu, cuda, cuda:1, mps. Default: where the model is."""


@dataclass(frozen=True)
class PickOptions(QueryOptions):
    """Options of `jostle pick`."""

    out: Annotated[Path, option(PICKS, "FILE")] = Path("picks.csv")
    """The csv to write: name, position, order, score; - is standard output."""
    strategy: Annotated[str, option(PICKS, "SPEC")] = "default"
    """A strategy, with settings in brackets: 'noise-stability(num_perturbations=10)'."""
    seed: Annotated[int, option(PICKS, None)] = 0
    """The same seed gives the same picks."""
    gallery: Annotated[Path | None, option(PICKS, "FILE", callback=named)] = None
    """Also write a page that shows the picks, such as picks.html."""
    overwrite: Annotated[bool, option(PICKS, None, "--overwrite")] = False
    """Write over files that jostle did not write."""
    plan: Annotated[bool, option(PICKS, None, "--plan")] = False
    """Print passes, time and memory of these picks; pick nothing."""
    outputs: Annotated[Literal["logits", "probabilities"] | None, option(DATA, "KIND")] = None
    """What the model returns: logits, or probabilities after a softmax or sigmoid. Default: logits."""
    fit: Annotated[str | None, option(DATA, "SPEC")] = None
    """file.py:function that trains a model on (dataset, seed), for qbc."""
    engine: Engine = None
    batch_size: Annotated[int | None, option(COMPUTE, None, min=1)] = None
    """Examples per forward pass. Default: the most that fit in memory, within a limit."""
    work: Annotated[Path | None, option(COMPUTE, "DIR", callback=named)] = None
    """Folder for the rows of noise stability: after an interrupt the same command resumes."""


@dataclass(frozen=True)
class RunOptions:
    """Options of `jostle run`."""

    strategies: Annotated[str | None, option(EXPERIMENT, "LIST")] = None
    """Strategies to run, by comma: labels of the protocol, names of the registry, file.py:name, or
    label=name(setting=value, ...). Default: all of the protocol."""
    seeds: Annotated[str | None, option(EXPERIMENT, "LIST")] = None
    """10 means seeds 0 to 9; 3,5 means those two. Default: the protocol's number."""
    out: Annotated[Path | None, option(None, "DIR", "--out-dir", callback=named)] = None
    """Folder of the runs. Default: runs/NAME."""
    jobs: Annotated[int, option(COMPUTE, None, min=1)] = 1
    """Runs at the same time. Every run computes with one thread, so results stay the same."""
    engine: Engine = None
    data: DataRoot = None
    set_: Annotated[list[str] | None, option(EXPERIMENT, "FIELD=VALUE", "--set")] = None
    """Set a field of the protocol, such as rounds=5 or training.epochs=10. Repeatable."""
    dataset: Annotated[str | None, option(EXPERIMENT, "SPEC")] = None
    """A different data set: a name, folder:PATH, csv:PATH or file.py:function, with settings in brackets:
    'folder:photos(size=64)'. Default: the protocol's."""
    model: Annotated[str | None, option(EXPERIMENT, "SPEC")] = None
    """A different network: a name or file.py:function, with settings in brackets: 'resnet18(width=0.5)'. A function
    may take `classes`, `channels`, `inputs` and `outputs` of the data. Default: the protocol's."""
    fit: Annotated[str | None, option(EXPERIMENT, "SPEC")] = None
    """Your function file.py:function(dataset, seed) that returns a trained model, in place of the protocol's recipe; if
    it takes `model`, it receives a fresh network."""
    encoder: Annotated[str | None, option(EXPERIMENT, "NAME")] = None
    """For texts: the folder or hub name of a pretrained encoder like BERT."""
    device: Annotated[str, option(COMPUTE, "NAME", "--device")] = "cpu"
    """Where to train: cpu, cuda, cuda:1, mps."""
    report: Annotated[bool, option(None, None, "--report/--no-report")] = True
    """Write the report when the runs are done."""


@dataclass(frozen=True)
class DemoOptions:
    """Options of `jostle demo`."""

    out: Annotated[Path, option(None, "DIR", "--out-dir", callback=named)] = Path("runs/demo")
    """Folder of the runs."""
    jobs: Annotated[int, option(None, None, min=1)] = 2
    """Runs at the same time."""


@dataclass(frozen=True)
class ReportOptions:
    """Options of `jostle report`."""

    out: Annotated[Path | None, option(None, "DIR", "--out-dir", callback=named)] = None
    """Where to write. Default: FOLDER/report."""
    baseline: Baseline = "random"
    metric: MetricName = None
    goal: Annotated[str | None, option(None, "LIST")] = None
    """Count the labels needed to reach these values of the metric, by comma; in percent where it is a share. Default:
    levels between the first and the last point."""
    gallery: Annotated[bool, option(None, None, "--gallery/--no-gallery")] = True
    """Show what each strategy picked first."""


@dataclass(frozen=True)
class CompareOptions:
    """Options of `jostle compare`."""

    out: Annotated[Path, option(None, "DIR", "--out-dir", callback=named)] = Path("compare")
    """Folder for the page."""
    metric: MetricName = None
    baseline: Baseline = "random"


@dataclass(frozen=True)
class GoalOptions:
    """Options of `jostle label`: when it is enough."""

    goal: Annotated[str | None, option(LOOP, "VALUE")] = None
    """The accuracy that is enough, such as 95%; for numbers the mean error, with --find the share found."""
    find: Annotated[str | None, option(LOOP, "CLASS")] = None
    """Find all examples of this class: ask by its chance, stop by a bound on the share that was found."""


@dataclass(frozen=True)
class LearningOptions:
    """Options of `jostle label` and `jostle label simulate`: what is asked, and the model that learns."""

    strategy: Annotated[str | None, option(LOOP, "NAME", "--strategy")] = None
    """Strategy that picks the questions: any of `jostle list strategies`. Default: default."""
    round_size: RoundSize = None
    audit: Annotated[str | None, option(LOOP, "SHARE", "--audit")] = None
    """Share of questions drawn at random, whose answers only measure. Default: 15%."""
    encoder: Annotated[str | None, option(OWN, "NAME")] = None
    """Folder or hub name of a different encoder that transformers loads."""
    model: Annotated[str | None, option(OWN, "SPEC", "--model")] = None
    """file.py:function that builds a model of yours."""
    fit: Annotated[str | None, option(OWN, "SPEC")] = None
    """file.py:function that trains it."""


@dataclass(frozen=True)
class ServerOptions:
    """Options of commands that run a server."""

    host: Annotated[str, option(PAGE, "ADDRESS")] = "127.0.0.1"
    """Address to listen on; one that other machines reach needs --token."""
    port: Annotated[int | None, option(PAGE, None, min=0, max=65535)] = None
    """Port to listen on; 0 takes any. Default: 8321 (Label Studio: 9090), or any if that is taken."""
    token: Annotated[str | None, option(PAGE, "TEXT")] = None
    """Token that lets people in. Default: one that is made with the project."""


@dataclass(frozen=True)
class SimulationOptions:
    """Options of `jostle label simulate` alone."""

    several: Several = False
    numbers: Annotated[bool, option(ANSWERS, None, "--numbers")] = False
    """Answers are numbers."""
    text: Text = None
    hide: Hide = None
    answers: Annotated[int, option("Simulation", None, min=1)] = 400
    """Answers in each run."""
    seeds: Annotated[int, option("Simulation", None, min=1)] = 5
    """Runs with the strategy, and at random."""
    goal: Annotated[str | None, option("Simulation", "LIST")] = None
    """Count the answers needed to reach these accuracies, or mean errors of numbers, by comma. Default: four values
    that random picks reached."""
    out_dir: Annotated[Path | None, option("Simulation", "DIR", callback=named)] = None
    """Folder of the results; the same command resumes there. Default: photos.labels/simulation for photos."""
    people: Annotated[int, option("Simulated people", None, min=1)] = 1
    """People who take turns."""
    error: Annotated[str, option("Simulated people", "SHARE")] = "0%"
    """Share of wrong answers."""
    delay: Annotated[float, option("Simulated people", None, min=0)] = 0.0
    """Mean seconds that an answer takes."""


@dataclass(frozen=True)
class LabelOptions(ServerOptions):
    """Options of `jostle label`: the page, its questions, and what stands beside them."""

    audit_only: Annotated[Path | None, option(LOOP, "FILE")] = None
    """Predictions of your model (name, prediction, chance): ask only random questions, which measure it."""
    overlap: Annotated[str | None, option(LOOP, "SHARE")] = None
    """Share of questions that two people answer: half at random, half where it changes a label most. Default: 0%."""
    near_copies: Annotated[bool | None, option(LOOP, None, "--near-copies/--no-near-copies")] = None
    """Ask near-copies once: crops, re-encoded pictures, texts that differ in digits. Default: no."""
    seed: Annotated[int | None, option(LOOP, "N")] = None
    """Seed of the audit and all draws; a project keeps its own. Default: 0."""
    guide: Annotated[str | None, option(HELP, "FILE", "--guide")] = None
    """Guidelines in Markdown beside the question; `## cat` begins what is said of a class. none: no guide."""
    suggest: Annotated[str | None, option(HELP, "SPEC")] = None
    """Suggestions of another model: predictions (.csv, .parquet, .json), file.py:function, or the address of an
    OpenAI-compatible server, with its key in JOSTLE_SUGGEST_KEY. none: no suggestions."""
    suggest_model: Annotated[str | None, option(HELP, "NAME")] = None
    """The model at that address."""
    suggest_limit: Annotated[int | None, option(HELP, None, min=1)] = None
    """The most calls to that address, over all starts of the project. Default: 1000."""
    browser: Annotated[bool, option(PAGE, None, "--browser/--no-browser")] = True
    """Open the page."""


@dataclass(frozen=True)
class ExportOptions:
    """Options of `jostle label export`."""

    format: Format = None
    predictions: Annotated[bool, option(None, None, "--predictions")] = False
    """Also write the model's predictions for the rest."""
    with_audit: Annotated[bool, option(None, None, "--with-audit")] = False
    """Also write the answers of the audit, marked as such. A model that is trained on them cannot be scored by them."""
    copy: Annotated[bool, option(None, None, "--copy")] = False
    """Copy pictures into a folder. Default: links."""
    overwrite: Annotated[bool, option(None, None, "--overwrite")] = False
    """Write over a file that jostle did not write."""
    project: Project = None
    db: Database = None


@dataclass(frozen=True)
class AuditOptions:
    """Options of `jostle label audit`."""

    against: Annotated[Path | None, option(None, "FILE")] = None
    """Predictions of a second model to compare with. Default: the project's model."""
    project: Project = None
    db: Database = None


@dataclass(frozen=True)
class PersonOptions:
    """Options of `jostle label people`."""

    role: Annotated[Literal["label", "review", "manage"], option(None, "ROLE")] = "label"
    """label: answer questions; review: also see and correct everybody's answers; manage: everything."""
    db: Annotated[str | None, option(None, "ADDRESS")] = None
    """Database of the answers. Default: that of the project."""
