"""`jostle advise`: which strategy for a model and a pool of one's own, why, and at what price."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

from jostle.cli.console import PLAN_INDENT, print_table, print_wrapped
from jostle.cli.picking import Job, QueryOptions, Told

if TYPE_CHECKING:
    from jostle.advice import Case, Setting
    from jostle.experiments.results.tables import Table
    from jostle.inputs import Inputs

SHOWN = 6  # strategies of a setting in the table


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
