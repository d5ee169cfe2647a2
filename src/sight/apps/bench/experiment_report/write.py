"""Report of benchmark results: Markdown, HTML, LaTeX tables and figures."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from sight._util.atomic import write_atomic
from sight.apps.bench import result_rows
from sight.apps.bench.experiment_report import (
    analysis_tables,
    day_tables,
    figures,
    multi_setting_tables,
    page,
    protocol_tables,
    setting_tables,
)
from sight.apps.bench.experiment_report.page import Section
from sight.apps.bench.experiment_report.summary import MethodSummary, by_pair, grids, summarise
from sight.apps.bench.experiment_report.table_format import Cell, Table
from sight.apps.bench.experiments import experiments, load_experiment
from sight.apps.bench.paper_values import CONDITIONS
from sight.apps.bench.settings import count_pairs
from sight.results.score_statistics import Difference

#: Order of experiments in the report; others come last.
ORDER = (
    *("table-main", "table-detailed", "ablation", "design", "sensitivity", "backbones", "order", "stress", "days"),
    *("geometry", "prototypes", "motivation", "keel-parts"),
)
#: Stream orders, with their names in setting_tables.
ORDER_NAMES = {"chronological": "chronological", "blocks": "blocks of 32", "shuffled": "shuffled"}
FORMATS = ("all", "markdown")


def write_report(places: Sequence[Path], out: Path, *, only_across: bool = False, formats: str = "all") -> Path:
    """Write the report of result files, or folders of some, and return its main file.

    The folder contains ``report.md``, ``index.html``, ``tables/*.{md,tex}`` and ``figures/*.svg``; with the format
    "markdown" ``report.md`` alone, without figures. `only_across` leaves out the tables of single settings.
    """
    table = result_rows.read([Path(place) for place in places])
    sections = [*compose(table, only_across=only_across), _rows_section(table)]
    partial = describe_partial(table)
    text = "\n\n".join(["# Benchmark", *partial, *(section.markdown(figures=formats == "all") for section in sections)])
    markdown = write_atomic(out / "report.md", f"{text}\n".encode())
    if formats == "markdown":
        return markdown
    for section in sections:
        for entry in section.tables:
            write_atomic(out / "tables" / f"{entry.name}.md", entry.markdown().encode())
            write_atomic(out / "tables" / f"{entry.name}.tex", entry.latex().encode())
        for name, drawn in section.figures.items():
            write_atomic(out / "figures" / f"{name}.svg", drawn.encode())
    return write_atomic(out / "index.html", page.page(sections, _counts(table), partial).encode())


def compose(table: Any, *, only_across: bool = False) -> Iterator[Section]:
    """Return the sections: comparisons over several settings, then each experiment on each setting."""
    yield from multi_setting_tables.sections(table)
    if only_across:
        return
    first = {name: at for at, name in enumerate(ORDER)}
    groups = sorted(table.groupby(["experiment", "setting"], sort=False), key=lambda g: first.get(g[0][0], len(first)))
    for (experiment, setting), own in groups:
        section = Section(name=f"{experiment}_{setting}", title=f"{own['title'].iloc[0]} on {setting}")
        KINDS[own["kind"].iloc[0]](section, own)
        yield section


def _counts(table: Any) -> list[str]:
    compared = table[table["ranked"]] if table["ranked"].any() else table
    counts = {
        "settings": table["setting"].nunique(),
        "methods": compared["label"].nunique(),
        "target subjects": len(table.drop_duplicates(["dataset", "target"])),
        "rows": len(table),
    }
    return [f"{what}: {count:,}" for what, count in counts.items()]


def describe_partial(table: Any) -> list[str]:
    """Return a line for each experiment of the package and the settings on which it lacks the same pairs or seeds."""
    found: dict[tuple[str, str], list[str]] = {}
    for (name, setting), own in table.groupby(["experiment", "setting"], sort=False):
        if name not in experiments():
            continue
        plan = load_experiment(name)
        pairs, seeds = len(own.drop_duplicates(["sources", "target"])), own["seed"].nunique()
        planned = {"pairs": (pairs, count_pairs(setting, plan.pairs)), "seeds": (seeds, len(plan.seeds))}
        missing = [f"{count} of {total} {what}" for what, (count, total) in planned.items() if total and count < total]
        if missing:
            found.setdefault((", ".join(missing), str(name)), []).append(str(setting))
    return [f"Partial: {missing} ({name} on {', '.join(places)})." for (missing, name), places in found.items()]


def _rows_section(table: Any) -> Section:
    """Return the rows of each experiment on each setting, what is behind them, and remarks of methods on their runs."""
    trainings = {text: json.loads(text) for text in table["training"].unique()}
    table = table.assign(
        **{
            key: table["training"].map({text: str(training.get(key, "")) for text, training in trainings.items()})
            for key in ("device", "epochs")
        }
    )
    rows = []
    for (experiment, setting), own in table.groupby(["experiment", "setting"], sort=False):
        counts = [len(own), *(own[name].nunique() for name in ("label", "target", "seed"))]
        versions = [", ".join(sorted(own[name].unique())) for name in ("sight", "torch", "numpy", "device", "epochs")]
        rows.append([Cell(experiment), Cell(setting), *(Cell(f"{count:,}") for count in counts), *map(Cell, versions)])
    heads = ["Experiment", "Setting", "Rows", "Methods", "Target subjects", "Seeds"]
    section = Section(name="rows", title="Rows")
    heads += ["sight", "torch", "numpy", "Trained on", "Epochs"]
    section.tables.append(Table(name="rows", title="Rows of this report", heads=heads, rows=rows))
    remarks = [[Cell(note), Cell(f"{len(own):,}")] for text, own in table.groupby("notes") for note in json.loads(text)]
    if remarks:
        section.tables.append(
            Table(name="rows_remarks", title="Remarks on methods", heads=["Remark", "Rows"], rows=remarks)
        )
    if left_out := table.attrs.get("left_out"):
        cells = [[Cell(label), Cell(f"{count:,}")] for label, count in left_out.items()]
        note = "Rows with other code, parameters or versions than the rows of the same method that were computed last."
        title = "Older rows left out"
        section.tables.append(Table(name="rows_left_out", title=title, heads=["Method", "Rows"], rows=cells, note=note))
    return section


def _compare(section: Section, own: Any) -> None:
    if day_tables.has_days(own):
        day_tables.fill(section, own)
        return
    if own["protocol"].any():
        found = protocol_tables.summaries(own)
        section.tables.append(protocol_tables.gains(found, section.name, section.title))
        section.figures[section.name] = protocol_tables.figure(found)
        return
    for column in ("order", "encoder"):
        if own[column].nunique() > 1 or own["paper_table"].iloc[0] == column:
            _conditions(section, own, column)
            return
    summary = summarise(own)
    name, title = section.name, section.title
    section.tables += [
        setting_tables.scores(summary, name, title),
        setting_tables.segments(summary, f"{name}_segments", f"{title}: segment errors, delay, calibration"),
    ]
    pairs = len(own.drop_duplicates(["sources", "target"]))
    if own["ranked"].iloc[0] and 1 < pairs <= setting_tables.MAX_PAIRS:
        section.tables.append(setting_tables.pair_table(summary, by_pair(own), f"{name}_pairs", f"{title}: by pair"))
    if grids(summary.table["params"]):
        section.figures[name] = figures.sensitivity(summary)
    elif summary.table["delta"].notna().any():
        section.figures[name] = _forest(summary, "Macro-F1")


def _forest(summary: MethodSummary, metric: str) -> str:
    table = summary.table[summary.table["delta"].notna()]
    gains = {label: Difference(*own) for label, *own in table[["delta", "low", "high"]].itertuples()}
    base = summary.table.at[summary.source_only, "mean"]
    xlabel = f"{metric} against source-only ({base:.1f}), points"
    return figures.forest(gains, xlabel, table["paper_delta"].to_dict())


def _conditions(section: Section, own: Any, column: str) -> None:
    found = {str(condition): summarise(part) for condition, part in own.groupby(column, sort=False)}
    order = [name for name in ORDER_NAMES if name in found] if column == "order" else list(found)
    named = {ORDER_NAMES.get(name, CONDITIONS.get(name, name)): found[name] for name in order}
    section.tables.append(setting_tables.conditions(named, section.name, section.title))
    section.figures[section.name] = figures.conditions(named)


def _single_class_streams(section: Section, own: Any) -> None:
    summary = summarise(own)
    section.tables.append(setting_tables.single_class_streams(summary, section.name, section.title))
    section.figures[section.name] = _forest(summary, "Accuracy")


def _features(make_table: Callable[..., Table], draw: Callable[[Any], str]) -> Callable[[Section, Any], None]:
    """Return a function that adds a table of all methods, and a figure of the first one."""

    def fill(section: Section, own: Any) -> None:
        section.tables.append(make_table(own, section.name, section.title))
        drawn = draw(own[own["position"] == own["position"].min()])
        section.figures |= {section.name: drawn} if drawn else {}

    return fill


KINDS: dict[str, Callable[[Section, Any], None]] = {
    "compare": _compare,
    "classes": _single_class_streams,
    "geometry": _features(analysis_tables.geometry, figures.geometry),
    "prototypes": _features(analysis_tables.prototypes, figures.prototypes),
    "motivation": _features(analysis_tables.motivation, figures.motivation),
}
