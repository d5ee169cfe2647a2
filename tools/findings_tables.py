"""Tables of docs/findings.md about SIGHT and the benchmark, computed from the committed benchmark rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from sight.apps.bench import paper_values
from sight.apps.bench.analyses import EDGES
from sight.apps.bench.experiment_report import multi_setting_tables
from sight.apps.bench.experiment_report.analysis_tables import persistence
from sight.apps.bench.experiment_report.summary import MACRO_F1, grids
from sight.apps.bench.experiment_report.table_format import DASH, Cell, Table, delta_cells, number, points
from sight.apps.bench.experiment_report.write import ORDER_NAMES
from sight.apps.bench.result_rows import arrays
from sight.apps.bench.settings import setting_group
from sight.apps.bench.trials import ORDERS
from sight.results.score_statistics import Difference
from tools.findings_data import (
    AUTHORS,
    EMA,
    FILTERS,
    KEEL,
    KEEL_NORM,
    SIGHT,
    SOURCE_ONLY,
    STICKY,
    all_rows,
    by_subject,
    names,
    paper_pairs,
    rows_of,
    speed,
    summary,
)

#: Datasets of the paper's smaller tables.
PAPER_DATASETS = {"harth": "HARTH", "capture24": "CAPTURE-24"}


def markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table of texts."""
    cells = [[Cell(text) for text in row] for row in rows]
    return Table(name="", title="", heads=heads, rows=cells).markdown_body()


def percent(share: float, digits: int = 1) -> str:
    """Format a share in percent."""
    return number(100 * share, digits)


def lists(differences: Mapping[str, Difference]) -> list[str]:
    """Return the settings on which a difference is better, worse and open, as three texts."""
    found = []
    for verdict in ("better", "worse", "open"):
        own = [setting for setting, difference in differences.items() if difference.verdict == verdict]
        found.append(f"all {len(own)}" if len(own) == len(differences) else ", ".join(own) or DASH)
    return found


def counts(differences: Mapping[str, Difference]) -> str:
    """Return on how many settings a difference is better, open and worse."""
    verdicts = [difference.verdict for difference in differences.values()]
    return "/".join(str(verdicts.count(verdict)) for verdict in ("better", "open", "worse"))


# --- what was run --------------------------------------------------------------------------------------------------


def runs() -> str:
    """Return the size of each setting."""
    rows = all_rows()
    lines = []
    for setting, short in names().items():
        own = rows[rows["setting"] == setting]
        main = own[own["experiment"] == "table-main"]
        link = f"[{short}](../benchmarks/results/{setting}/report.md)"
        sizes = (main["target"].nunique(), main["sources"].nunique(), main["seed"].nunique(), len(own))
        lines.append([link, own["dataset"].iloc[0], *(f"{size:,}" for size in sizes)])
    subjects = len(rows.drop_duplicates(["dataset", "target"]))
    datasets, seeds = rows["dataset"].nunique(), rows["seed"].nunique()
    lines.append(["**all**", f"{datasets} datasets", f"{subjects} different", "", str(seeds), f"{len(rows):,}"])
    return markdown(["Setting", "Dataset", "Target subjects", "Sources", "Seeds", "Rows"], lines)


def seeds() -> str:
    """Return the range of means over the seeds of source training, by setting."""
    lines = []
    for found in (paper_pairs(), summary("table-main")):
        for short, own in found.summaries.items():
            values = {SOURCE_ONLY: own.runs[SOURCE_ONLY]}
            values |= {label: own.runs[label] - own.runs[SOURCE_ONLY] for label in (SIGHT, KEEL)}
            cells = []
            for label, scores in values.items():
                means = scores.groupby(["seed", "target"]).mean().groupby("seed").mean()
                cells.append(" to ".join(number(end, sign=label != SOURCE_ONLY) for end in (means.min(), means.max())))
            lines.append([short, *cells])
    return markdown(["Setting", "Source-only, points", "gain of SIGHT", "gain of Keel"], lines)


# --- SIGHT ---------------------------------------------------------------------------------------------------------


def sight() -> str:
    """Return the gains of SIGHT and of simple filters on each setting."""
    lines = []
    for found in (paper_pairs(), summary("table-main")):
        for short, own in found.summaries.items():
            table = own.table
            gains = dict(zip(table.index, delta_cells(table), strict=True))
            wins, ties, losses, harmed, runs_ = table.loc[SIGHT, ["wins", "ties", "losses", "harmed", "runs"]]
            cells = [f"{gains[label].text} {gains[label].below}" for label in (SIGHT, AUTHORS, EMA, STICKY)]
            level = number(table.at[SOURCE_ONLY, "subject_mean"])
            record = f"{wins:.0f}/{ties:.0f}/{losses:.0f}"
            lines.append([short, level, cells[0], record, percent(harmed / runs_), *cells[1:]])
    nine = summary("table-main")
    means = [points(nine.gain(label)) for label in (SIGHT, AUTHORS, EMA, STICKY)]
    level = number(nine.column("subject_mean").loc[SOURCE_ONLY].mean())
    lines.append(["**Mean of the nine**", level, means[0], "", percent(nine.harmed(SIGHT)), *means[1:]])
    heads = ["Setting", SOURCE_ONLY, SIGHT, "won/tied/lost", "harmed, %", AUTHORS, EMA, STICKY]
    return markdown(heads, lines)


def paper() -> str:
    """Return the paper's values for SIGHT beside ours, on the pairs of the paper."""
    lines = []
    for short, own in paper_pairs().summaries.items():
        table = own.table
        gain = points(own.difference(SIGHT, SOURCE_ONLY))
        levels = [number(table.at[SOURCE_ONLY, column]) for column in ("paper", "mean")]
        lines.append([short, *levels, number(table.at[SIGHT, "paper_delta"], sign=True), gain])
    for dataset, name in PAPER_DATASETS.items():
        level = paper_values.values()["main", dataset, "average", SOURCE_ONLY]
        gains = dict(zip(PAPER_DATASETS, _paper("main", SIGHT, base=SOURCE_ONLY), strict=True))
        lines.append([name, number(level), "not run", gains[dataset], "not run"])
    return markdown(["Pairs", "Source-only, paper", "Source-only, here", "SIGHT, paper", "SIGHT, here"], lines)


def filters() -> str:
    """Return simple filters against SIGHT."""
    nine = summary("table-main")
    lines = [
        [label, points(nine.difference(label, SIGHT)), *lists(nine.by_setting(label, SIGHT))]
        for label in FILTERS
        if label in nine.methods
    ]
    return markdown(["Filter against SIGHT", "mean", "better on", "worse on", "no difference shown on"], lines)


def macro_f1() -> str:
    """Return the gains of SIGHT and Keel under three definitions of macro-F1, and the best method but `keel-norm`."""
    labels = (SOURCE_ONLY, SIGHT, KEEL)
    found = [summary("table-main", metric=metric, labels=labels) for metric in MACRO_F1]
    gains = [own.by_setting(label) | {"**Mean**": own.gain(label)} for label in (SIGHT, KEEL) for own in found]
    columns = [metric.replace("macro_f1", "gain") for metric in MACRO_F1]
    lines = []
    for short, own in summary("table-main").summaries.items():
        best = dict.fromkeys(str(own.table[column].drop(KEEL_NORM).idxmax()) for column in columns)
        lines.append([short, *(points(gain[short]) for gain in gains), ", ".join(best)])
    lines.append(["**Mean**", *(points(gain["**Mean**"]) for gain in gains), ""])
    kinds = ("union", "truth", "all")
    return markdown(["Setting", *(f"{label}, {kind}" for label in (SIGHT, KEEL) for kind in kinds), "best"], lines)


def order() -> str:
    """Return the gains over source-only by stream order, and the differences that order makes."""
    found = {name: summary("order", order=name) for name in ORDERS}
    first, *others = found.values()
    lines = []
    for label in (SIGHT, STICKY, "OATTA", KEEL):
        gains = [points(own.gain(label)) for own in found.values()]
        lines.append(
            [first.cells[label].text, *gains, *(points(first.difference(label, label, own)) for own in others)]
        )
    for short, own in first.summaries.items():
        gains = [points(each.summaries[short].difference(SIGHT, SOURCE_ONLY)) for each in found.values()]
        against = [points(own.difference(SIGHT, SIGHT, other.summaries[short])) for other in others]
        lines.append([f"SIGHT on {short}", *gains, *against])
    heads = ["Method", *ORDER_NAMES.values(), "chronological less blocks", "chronological less shuffled"]
    return markdown(heads, lines)


def geometry() -> str:
    """Return the separability of changes and the accuracy of routing, by setting."""
    rows = rows_of("geometry")
    columns = ["auc", "auc_true", "routing_top1", "chance", "raw_top1"]
    means = rows.groupby("setting")[columns].mean()
    gates = {kind: _gates(rows, kind) for kind in ("inside", "change")}
    against = by_subject(rows, 100 * (rows["routing_top1"] - rows["raw_top1"]))
    lines = []
    for setting, short in setting_group().items():
        if setting in means.index:
            own = means.loc[setting]
            gate = [number(gates[kind][setting], 2) for kind in gates]
            shares = [percent(own[name], 0) for name in ("routing_top1", "chance", "raw_top1")]
            aucs = [number(own[name], 2) for name in ("auc", "auc_true")]
            lines.append([short, *aucs, *gate, *shares, points(against[short])])
    overall = means.mean()
    gate = [number(float(np.mean(list(own.values()))), 2) for own in gates.values()]
    shares = [percent(overall[name], 0) for name in ("routing_top1", "chance", "raw_top1")]
    lines.append(["**Mean**", *(number(overall[name], 2) for name in ("auc", "auc_true")), *gate, *shares, ""])
    heads = ["Setting", "AUC", "AUC, true class", "gate inside", "gate at a change", "routing, %", "chance, %"]
    return markdown([*heads, "source-only, %", "routing less source-only"], lines)


def _gates(rows: Any, kind: str) -> dict[str, float]:
    """Return SIGHT's mean gate at beta = 1 from the histograms of similarity, by setting."""
    middle = (EDGES[1:] + EDGES[:-1]) / 2
    surprise, found = 1 - np.exp(-((1 - middle) ** 2)), {}
    for setting, own in rows.groupby("setting"):
        histogram = arrays(own, f"histogram_{kind}").sum(axis=0)
        found[str(setting)] = float((histogram * surprise).sum() / max(histogram.sum(), 1))
    return found


def prototypes() -> str:
    """Return persistence, and the cosine of prototypes and class centroids, by setting."""
    rows, repeats = rows_of("prototypes"), rows_of("motivation")
    ends = {name: rows[f"prototype_{name}"].map(_finite_mean) for name in ("first", "last")}
    moved = by_subject(rows, ends["last"] - ends["first"])
    lines = []
    for setting, short in setting_group().items():
        own = repeats[repeats["setting"] == setting]
        if len(own):
            stays = [number(persistence(own, f"transitions_{kind}"), 2) for kind in ("true", "raw")]
            here = rows["setting"] == setting
            cosines = [number(ends[name][here].mean(), 2) for name in ends]
            change = moved.get(short)
            text = DASH if change is None else f"{change.mean:+.2f} [{change.low:+.2f}, {change.high:+.2f}]"
            lines.append([short, *stays, *cosines, text])
    heads = ["Setting", "persistence, truth", "persistence, source-only", "cosine, first segment", "last segment"]
    return markdown([*heads, "change"], lines)


def _finite_mean(values: Any) -> float:
    return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")


def ablation() -> str:
    """Return SIGHT without each mechanism."""
    return _variants("ablation")


def design() -> str:
    """Return SIGHT with simpler design choices."""
    return _variants("design")


def _variants(experiment: str) -> str:
    found = summary(experiment)
    lines = [
        [
            label,
            points(found.difference(label, SIGHT)),
            *lists(found.by_setting(label, SIGHT)),
            *_paper(experiment, label),
        ]
        for label in found.complete
        if label not in (SOURCE_ONLY, SIGHT)
    ]
    heads = ["Variant against SIGHT", "mean", "better on", "worse on", "no difference shown on"]
    return markdown([*heads, *(f"paper, {name}" for name in PAPER_DATASETS.values())], lines)


def _paper(table: str, label: str, condition: str = "average", base: str = SIGHT) -> list[str]:
    """Return the differences to another method that the paper prints on its datasets."""
    found = []
    for dataset in PAPER_DATASETS:
        values = [paper_values.values().get((table, dataset, condition, method)) for method in (label, base)]
        known = [value for value in values if value is not None]
        found.append(number(known[0] - known[1], sign=True) if len(known) == 2 else DASH)
    return found


def sensitivity() -> str:
    """Return how far each hyper-parameter of SIGHT moves the mean over its grid."""
    found = summary("sensitivity")
    means = found.column("subject_mean").mean(axis=1)
    lines = []
    for name, labels in grids(next(iter(found.summaries.values())).table["params"]).items():
        best = max(labels.values(), key=lambda label: means[label])
        spread = float(np.ptp(means[list(labels.values())]))
        values = ", ".join(f"{value:g}" for value in labels)
        lines.append([f"`{name}`", values, number(spread), best, points(found.difference(best, SIGHT))])
    heads = ["Hyper-parameter", "grid", "range of the mean", "best value", "best value against SIGHT"]
    return markdown(heads, lines)


def networks() -> str:
    """Return the gains of SIGHT and the sticky filter by network."""
    lines = []
    for encoder in ("cnn", "resnet", "transformer"):
        found, name = summary("backbones", encoder=encoder), paper_values.CONDITIONS[encoder]
        gains = [points(found.gain(label)) for label in (SIGHT, STICKY)]
        lines.append([name, *gains, *_paper("backbone", SIGHT, name, SOURCE_ONLY)])
    return markdown(
        ["Network", "SIGHT", "Sticky", *(f"SIGHT, paper, {name}" for name in PAPER_DATASETS.values())], lines
    )


def segments() -> str:
    """Return accuracy and segment errors, averaged over settings."""
    labels = (SOURCE_ONLY, EMA, STICKY, SIGHT, AUTHORS, KEEL)
    heads = ("Accuracy", "Fragmented (%)", "Events inserted", "Changes missed (%)", "Delay (windows)")
    return multi_setting_tables.mean_scores(summary("table-main"), "", "", labels=labels, heads=heads).markdown_body()


def cost() -> str:
    """Return the time per window of some methods, and the range of the encoder's own time."""
    lines = []
    for name, shape in speed()["shapes"].items():
        methods = {row["method"]: row for row in shape["methods"]}
        alone = [row["source_ms_per_window"] for row in shape["methods"] if row["source"] == "onnx"]
        cells = []
        for method in ("none", "sticky", "sight", "keel", "tent", "rotta"):
            printed = methods[method]["paper_ms_per_window"]
            measured = methods[method]["ms_per_window"]  # None if the method did not update
            cells.append((DASH if measured is None else f"{measured:.2f}") + (f" ({printed:g})" if printed else ""))
        update, span = f"{shape['update_us']['replay']:.1f}", f"{min(alone):.2f} to {max(alone):.2f}"
        lines.append([PAPER_DATASETS[name], *cells, update, span])
    heads = ["Shape", "none", "sticky", "sight", "keel", "tent", "rotta", "SIGHT's update, µs", "encoder alone"]
    return markdown(heads, lines)


BLOCKS: dict[str, Callable[[], str]] = {
    "findings-runs": runs,
    "findings-seeds": seeds,
    "findings-sight": sight,
    "findings-paper": paper,
    "findings-filters": filters,
    "findings-macro-f1": macro_f1,
    "findings-order": order,
    "findings-geometry": geometry,
    "findings-prototypes": prototypes,
    "findings-ablation": ablation,
    "findings-design": design,
    "findings-sensitivity": sensitivity,
    "findings-networks": networks,
    "findings-segments": segments,
    "findings-cost": cost,
}
