"""The report of a benchmark: one page, and every table and figure in a file of its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from sight.atomic import write_atomic
from sight.bench import figures, findings, findings_features, result_rows, tables
from sight.bench.aggregate import CASES, MethodSummary, by_pair, grids, summarise
from sight.bench.coverage import left_out
from sight.bench.evidence import OURS
from sight.bench.html_report import page, written_by
from sight.bench.report_section import Section
from sight.bench.suites import leaderboard, suites

#: How a reader meets the experiments; whatever is not named here comes last.
ORDER = (
    "table-main",
    "table-detailed",
    "ablation",
    "design",
    "sensitivity",
    "backbones",
    "order",
    "stress",
    "geometry",
    "prototypes",
    "motivation",
    "beyond",
)
#: Tables in which the paper claims that every variant is below the full method.
CLAIMED = ("ablation", "design")


def write_report(places: Sequence[Path], out: Path, *, only_across: bool = False) -> Path:
    """Write page, tables and figures of all results, and return the page.

    Parameters
    ----------
    places
        Result files, or folders that hold them.
    out
        Folder: ``index.html``, ``report.md``, ``tables/*.{md,tex}``, ``figures/*.svg``.
    only_across
        Only what lies over several settings.
    """
    table = result_rows.read([Path(place) for place in places])
    sections = list(compose(table, only_across=only_across))
    for section in sections:
        for entry in section.tables:
            _write(out / "tables" / f"{entry.name}.md", entry.markdown())
            _write(out / "tables" / f"{entry.name}.tex", entry.latex())
        for name, text in section.figures.items():
            _write(out / "figures" / f"{name}.svg", text)
    parts = ["# Benchmark", written_by(table), *left_out(table), *(section.markdown() for section in sections)]
    _write(out / "report.md", "\n\n".join(parts) + "\n")
    return _write(out / "index.html", page(table, sections))


def compose(table: Any, *, only_across: bool = False) -> Iterator[Section]:
    """Make the sections: tables over several settings, then each experiment on each."""
    yield from suites(table)
    yield from leaderboard(table)
    if only_across:
        return
    first = {name: at for at, name in enumerate(ORDER)}
    groups = sorted(table.groupby(["experiment", "setting"], sort=False), key=lambda g: first.get(g[0][0], len(first)))
    for (experiment, setting), own in groups:
        section = Section(name=f"{experiment}_{setting}", title=f"{own['title'].iloc[0]} on {setting}")
        KINDS[own["kind"].iloc[0]](section, own, str(setting))
        yield section


def _compare(section: Section, own: Any, setting: str) -> None:
    for column in ("order", "encoder"):
        # A claim about orders is not judged on one alone: its section says which are missing.
        if own[column].nunique() > 1 or own["paper_table"].iloc[0] == column:
            _conditions(section, own, column)
            return
    summary = summarise(own)
    name, title = section.name, section.title
    section.tables += [
        tables.scores(summary, name, title),
        tables.segment_table(summary, f"{name}_segments", f"{title}: errors as segments, delay, calibration"),
    ]
    if own["ranked"].iloc[0]:
        section.said += findings.comparison(summary, setting)
        pairs = own.assign(pair=own["sources"] + own["target"])["pair"].nunique()
        if 1 < pairs <= tables.MOST_PAIRS:
            section.tables.append(tables.pair_table(by_pair(own), f"{name}_pairs", f"{title}: by pair"))
    elif grids(summary.table):
        section.said += findings.sensitivity(summary)
    elif own["paper_table"].iloc[0] in CLAIMED:
        section.said += findings.variants(summary)
    else:
        section.said += findings.parts(summary)
    if summary.table["delta"].notna().any():
        section.figures[name] = _drawn(summary)


def _alone(section: Section, own: Any, setting: str) -> None:  # noqa: ARG001 - all kinds are called alike
    summary = summarise(own)
    section.said += findings.alone(summary)
    section.tables.append(tables.alone(summary, section.name, section.title))
    section.figures[section.name] = figures.forest(summary, "Accuracy")


def _drawn(summary: MethodSummary) -> str:
    if not grids(summary.table):
        return figures.forest(summary)
    usual = summary.table["params"].get(OURS)
    return figures.sensitivity(summary, {} if usual is None else json.loads(usual))


def _conditions(section: Section, own: Any, column: str) -> None:
    found = {_called(str(case)): summarise(part) for case, part in own.groupby(column, sort=False)}
    if column == "order":
        found = {case: found[case] for case in findings.ORDER_NAMES.values() if case in found}
    section.said += findings.conditions(found, ordered=column == "order")
    section.tables.append(tables.cross_table(found, section.name, section.title))
    section.figures[section.name] = figures.conditions(found)


def _called(case: str) -> str:
    return findings.ORDER_NAMES.get(case, CASES.get(case, case))


def _analysis(
    say: Callable[[Any], Iterator[str]], draw: Callable[..., str], *, classes: bool
) -> Callable[[Section, Any, str], None]:
    def fill(section: Section, own: Any, setting: str) -> None:  # noqa: ARG001 - all kinds are called alike
        section.said += say(own)
        drawn = draw(own, list(own["classes"].iloc[0])) if classes else draw(own)
        section.figures |= {section.name: drawn} if drawn else {}

    return fill


KINDS: dict[str, Callable[[Section, Any, str], None]] = {
    "compare": _compare,
    "classes": _alone,
    "geometry": _analysis(findings_features.geometry, figures.geometry, classes=False),
    "prototypes": _analysis(findings_features.prototypes, figures.prototypes, classes=True),
    "motivation": _analysis(findings_features.motivation, figures.motivation, classes=True),
}


def _write(path: Path, text: str) -> Path:
    return write_atomic(path, text.encode())
