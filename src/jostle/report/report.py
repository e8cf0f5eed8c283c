"""The page of one folder of runs."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from jostle.report import sections
from jostle.report.page import Page, write
from jostle.report.provenance import repeat_section
from jostle.report.styles import line_styles
from jostle.results.curves import Results, Run
from jostle.results.metrics import metric_named
from jostle.results.needs import need_for_last
from jostle.results.previews import Preview
from jostle.results.previews import read as kept_previews
from jostle.results.ranks import best_first
from jostle.results.sentences import Lead, details, headline
from jostle.results.summary import decimals


def write_report(
    results: Results,
    out: str | Path | None = None,
    baseline: str = "random",
    reference: str | None = None,
    *,
    previews: Mapping[int, Preview] | None = None,
    metric: str | None = None,
    levels: Sequence[float] | None = None,
    warnings: Sequence[str] = (),
) -> Path:
    """Write `report.html` with its tables and figures into `<folder>/report`, and return the page's path.

    Labels saved are counted against `baseline`, paired differences taken to `reference` (unless named, the
    baseline; the best strategy if there is no baseline). `levels` are values of the metric to reach, in
    percent where it is a share. `previews` are those kept with the runs, unless given; `warnings` stand on the page.
    In a folder that is named, nothing is written over but an earlier report.
    """
    metric = results.metric(metric)
    known = _baseline(results, baseline)
    chapters = (
        sections.curves_section(results, metric, known),
        sections.setting_section(results, metric),
        sections.areas_section(results, metric),
        sections.gains_section(results, metric, reference or known or best_first(results, metric)[0]),
        sections.wins_section(results, metric),
        sections.needs_section(results, metric, levels, known),
        sections.times_section(results),
        sections.gallery_section(results, kept_previews(results.folder) if previews is None else previews),
        repeat_section(results),
    )
    page = Page(
        title=results.name,
        subtitle=str(results.protocol.get("title", "")),
        kind="report",
        headline=headline(results, metric, known),
        details=details(results, metric, known),
        facts=_facts(results, metric, known),
        warnings=[*_unfinished(results), *warnings],
        sections=[chapter for chapter in chapters if chapter],
        colours={label: style.colour for label, style in line_styles(results.labels).items()},
    )
    return write(page, Path(out) if out else results.folder / "report", "report.html", own=out is None)


def _baseline(results: Results, baseline: str) -> str | None:
    """The baseline if it was run; only the usual one may be missing without a word."""
    if baseline in results.labels or baseline == "random":
        return baseline if baseline in results.labels else None
    raise ValueError(f"no finished run of {baseline!r}; there are {', '.join(results.labels)}")


def _facts(results: Results, metric: str, baseline: str | None) -> list[tuple[str, str]]:
    best = best_first(results, metric)[0]
    area = float(results.aubc(best, metric).mean())
    percent = " %" if metric_named(metric).percent else ""
    facts = [(f"{area:.{min(1, decimals(results, metric))}f}{percent}", f"best AUBC, {best}")]
    if baseline and best != baseline and Lead.of(results, metric, best, baseline).clear:
        need = need_for_last(results, metric, best, baseline)
        if need < results.counts[-1]:
            facts.append((f"−{100 * (1 - need / results.counts[-1]):.0f} %", f"labels to match {baseline}"))
    facts.append((str(len(results.labels)), "strategies" if len(results.labels) > 1 else "strategy"))
    seeds = sections.seed_counts(results)
    facts.append(("–".join(map(str, {seeds[0]: 0, seeds[-1]: 0})), "seed" if seeds == [1] else "seeds each"))
    facts.append((f"{results.counts[0]} → {results.counts[-1]}", "labelled examples"))
    return facts


def _unfinished(results: Results) -> list[str]:
    runs = ", ".join(_progress(run, len(results.counts)) for run in results.incomplete)
    return [f"Unfinished runs are left out: {runs}."] if runs else []


def _progress(run: Run, points: int) -> str:
    return f"{run.label} seed {run.seed} ({len(run.counts)} of {points} points)"
