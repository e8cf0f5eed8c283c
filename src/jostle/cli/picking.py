"""`jostle pick` and `jostle advise`: the next batch, or the strategy for it, for a model and a pool of one's own."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from jostle.cli import options
from jostle.cli.console import PLAN_INDENT, print_table, print_wrapped, say
from jostle.utils.files import check_target, has_columns, is_image, is_same, sheet, unhidden, write_whole
from jostle.utils.names import name_and_settings
from jostle.utils.user_files import is_own

if TYPE_CHECKING:
    from jostle.advice import Setting
    from jostle.core import Query, Strategy
    from jostle.datasets import Data
    from jostle.experiments.page import Answer
    from jostle.experiments.tables import Table
    from jostle.inference.context import Options

COLUMNS = ("name", "position", "order", "score")  # of the csv of picks
MAX_SHOWN = 6  # strategies of a setting in the table of `jostle advise`


def pick(asked: options.PickOptions) -> None:
    """Pick the next examples to label, with your own trained model.

    Examples:
        jostle pick --model mine.py:load --pool folder:photos -n 100
        jostle pick --model mine.py:load --pool csv:rows.csv -n 20 --out next.csv
        jostle pick --model mine.py:load --pool folder:photos -n 100 --plan
    """
    from jostle import engines, strategies
    from jostle.cli.inputs import QueryInputs, own_function
    from jostle.inference.isolation import device_named

    name, settings = name_and_settings(asked.strategy)
    if asked.outputs is not None:
        settings = {**settings, "outputs": asked.outputs}
    chosen = strategies.build(name, **settings)
    chosen = chosen if asked.work is None else keep_rows(chosen, name, asked.work)
    if asked.device is not None:
        device_named(asked.device)
    cluster = engines.engine(asked.engine)
    files, messages = OutputFiles(asked.out, asked.gallery, asked.overwrite), Messages()
    read = ("model", "pool", "labeled", "transform", "fit")
    files.check({f"--{each}": getattr(asked, each) for each in read}, asked.exclude or ())
    with redirect_stdout(sys.stderr):  # what a user's own files print is no part of our output
        inputs = QueryInputs.read(asked, messages, chosen)
        call: Options = {
            **inputs.call,
            "fit": own_function("--fit", asked.fit) if asked.fit else None,
            "seed": asked.seed,
            "batch_size": asked.batch_size,
            "engine": cluster,
        }
        if cluster is not None and not asked.plan:
            query = chosen.select(inputs.model, inputs.pool, asked.n, **call)
        else:
            context = inputs.context(chosen, call)
            if asked.plan:
                wanted = context.run(lambda context: chosen.plan_in(context, asked.n))
            else:
                query = context.run(lambda context: chosen.select_in(context, asked.n))
    if asked.plan:
        print_wrapped(str(wanted), PLAN_INDENT)
        return
    if query.notes:
        messages.say("Note", "; ".join(query.notes))
    files.write_picks(query, inputs.examples)
    where = "standard output" if str(asked.out) == "-" else asked.out
    size = len(inputs.pool) - len(inputs.excluded)
    messages.say("Picked", f"{len(query)} of {size} by {asked.strategy}, seed {asked.seed}: {where}")
    if asked.gallery is not None:
        files.write_gallery(asked.gallery, query, inputs.examples, messages.facts, inputs.answers(query))
        messages.say("Gallery", str(asked.gallery))


@dataclass(frozen=True)
class Messages:
    """Messages on standard error during a query, repeated on the page of picks."""

    facts: dict[str, str] = field(default_factory=dict)

    def say(self, what: str, words: str) -> None:
        """Print a message; the page repeats its first line."""
        self.facts[what] = words.partition("\n")[0]
        say(f"{what}: {words}")


def keep_rows(chosen: Strategy, name: str, work: Path) -> Strategy:
    """Return the strategy with its rows in a folder, if it has rows that a file can hold."""
    if "cache_path" not in {each.name for each in fields(chosen)}:
        raise ValueError(
            f"--work keeps the rows of noise stability, which takes long; {name} has no such rows"
        )
    placed: Strategy = replace(cast(Any, chosen), cache_path=work / "rows.npy")
    return placed


def is_picks(head: bytes) -> bool:
    """Return whether a file begins as a csv of picks does."""
    return has_columns(head, COLUMNS)


def read_picked_names(path: Path) -> list[str]:
    """Read the names of earlier picks, or their positions where the csv has no names."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file, strict=True))
    except (OSError, UnicodeDecodeError, csv.Error) as reason:
        raise ValueError(f"{path} cannot be read, expected the csv of earlier picks: {reason}") from None
    column = next((name for name in COLUMNS[:2] if rows and name in rows[0]), None)
    if rows and column is None:
        raise ValueError(f"{path} has no column name or position, expected the csv of earlier picks")
    return [unhidden(row[column] or "") for row in rows if column is not None]


@dataclass(frozen=True)
class OutputFiles:
    """Files that one call of `jostle pick` writes; it does not overwrite files of others."""

    out: Path  # - is standard output
    gallery: Path | None
    overwrite: bool

    def check(self, specs: Mapping[str, str | None], files: Sequence[Path]) -> None:
        """Raise ValueError for a file that is not ours, that this very command reads, or that is named twice."""
        sources = [(option, path) for option, spec in specs.items() if spec and (path := source_of(spec))]
        sources += [("--exclude", path) for path in files]
        for option, path, is_ours in self.targets():
            for other, source in sources:
                if is_read(path, source):
                    raise ValueError(f"{option} {path} is what {other} reads: name another file")
            check_target(path, is_ours, self.overwrite)
        if self.gallery is not None and self.out.resolve() == self.gallery.resolve():
            raise ValueError(f"--out and --gallery are one file, {self.out}: name two")

    def targets(self) -> Iterator[tuple[str, Path, Callable[[bytes], bool]]]:
        """Yield each file that is to be written: its option, its path, and how one of ours is known."""
        if str(self.out) != "-":
            yield "--out", self.out, is_picks
        if self.gallery is not None:
            from jostle.experiments.page import is_gallery  # here, because it takes its time

            yield "--gallery", self.gallery, is_gallery

    def write_picks(self, query: Query, data: Data) -> None:
        """Write the picks in their order, to a file or to standard output."""
        pairs = zip(query.indices.tolist(), query.scores.tolist(), strict=True)
        rows = [(data.names(place), place, order, score) for order, (place, score) in enumerate(pairs)]
        text = sheet([COLUMNS, *rows])
        if str(self.out) == "-":
            print(text, end="")
            return
        try:
            check_target(self.out, is_picks, self.overwrite)  # somebody may have written there meanwhile
            write_whole(self.out, text)
        except OSError as reason:
            print(text, end="")
            raise OSError(f"{reason}; the picks went to standard output, so that none is lost") from reason

    def write_gallery(
        self,
        path: Path,
        query: Query,
        data: Data,
        facts: Mapping[str, str],
        answers: list[tuple[Answer, ...]],
    ) -> None:
        """Write the page that shows the picks."""
        from jostle.experiments.page import cards, is_gallery, render_gallery

        page = render_gallery(data.name, facts, cards(query, data, answers))
        check_target(path, is_gallery, self.overwrite)
        write_whole(path, page)


def is_read(path: Path, source: Path) -> bool:
    """Return whether a file is a source, or one of the examples in a folder that is."""
    inside = path.exists() and source.resolve() in path.resolve().parents
    return is_same(path, source) or (inside and (is_image(path) or path.suffix.lower() == ".parquet"))


def source_of(spec: str) -> Path | None:
    """Return the file or folder that a spec reads; None for a name of the registry."""
    name, _ = name_and_settings(spec)
    if is_own(name):
        return Path(name.rpartition(":")[0]).expanduser()
    scheme, colon, path = name.partition(":")
    return Path(path).expanduser() if colon and scheme in ("folder", "csv", "parquet") else None


def advise(asked: options.QueryOptions) -> None:
    """Say which strategy to pick with, why, what it costs, and what the benchmark measured in similar settings.

    Examples:
        jostle advise --model mine.py:load --pool folder:photos -n 100
        jostle advise --model mine.py:load --pool csv:rows.csv -n 20 --task regression
        jostle advise --model mine.py:load --pool folder:a --labeled folder:b -n 50
    """
    from jostle import strategies
    from jostle.advice import advise as advice_for
    from jostle.cli.inputs import QueryInputs
    from jostle.strategies.default import is_linear

    with redirect_stdout(sys.stderr):  # what a user's own files print is no part of our output
        default = strategies.build("default")
        inputs = QueryInputs.read(asked, Messages(), default)
        context = inputs.context(default, inputs.call)
        advice = advice_for(inputs.case(asked.n, is_linear(context)))
        strategy = strategies.build(advice.strategy)
        plan = context.run(lambda context: strategy.plan_in(context, asked.n))
    print(f"Use: --strategy {advice.strategy}")
    for sentence in advice.why:
        print_wrapped(f"Why: {sentence}", 5)
    print_wrapped(str(plan), PLAN_INDENT)
    for setting in advice.seen:
        print_table(setting_table(setting, advice.strategy))


def setting_table(setting: Setting, advised: str) -> Table:
    """Return the table of one setting of the benchmark: the best strategies there, and the advised one."""
    from jostle.experiments.tables import Cell, Table

    labels = setting.best_first[:MAX_SHOWN]
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
