"""Tables of docs/findings.md about SIGHT and the benchmark, computed from the committed benchmark rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from sight.apps.bench import paper_values
from sight.apps.bench.experiment_report import multi_setting_tables
from sight.apps.bench.experiment_report.multi_setting_summary import MultiSettingSummary
from sight.apps.bench.experiment_report.summary import MACRO_F1, grids
from sight.apps.bench.experiment_report.table_format import DASH, Cell, Table, number, points
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
    names,
    speed,
    summary,
)

#: Stream orders of the table.
ORDERS = {"chronological": "chronological", "blocks": "blocks of 32", "shuffled": "shuffled"}
#: Signs of differences that the test shows.
ARROWS = {"better": "↑", "worse": "↓"}
#: Names of the rows with means, and whether each is the mean by dataset.
MEANS = {"**Mean**": False, "**Mean by dataset**": True}
#: Datasets of the paper's smaller tables.
PAPER_DATASETS = {"harth": "HARTH", "capture24": "CAPTURE-24"}


def markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table of texts."""
    cells = [[Cell(text) for text in row] for row in rows]
    return Table(name="", title="", heads=heads, rows=cells).markdown_body()


def percent(share: float, digits: int = 1) -> str:
    """Format a share in percent."""
    return number(100 * share, digits)


def lists(verdicts: Mapping[str, str]) -> list[str]:
    """Return the settings on which a method is better, worse and open, as three texts."""
    found = []
    for verdict in ("better", "worse", "open"):
        own = [setting for setting, given in verdicts.items() if given == verdict]
        found.append(f"all {len(own)}" if len(own) == len(verdicts) else "; ".join(own) or DASH)
    return found


def tested(difference: Difference, verdict: str) -> str:
    """Format a difference with its interval, and an arrow if the test shows that it is better or worse."""
    return f"{points(difference)} {ARROWS.get(verdict, '')}".strip()


def tested_gains(found: MultiSettingSummary, label: str) -> dict[str, str]:
    """Return the gain of a method on each setting, with its interval and the result of the test."""
    verdicts = found.verdicts(label)
    return {setting: tested(own, verdicts[setting]) for setting, own in found.by_setting(label).items()}


def both_means(found: MultiSettingSummary, label: str, other: str) -> list[str]:
    """Return the difference of two methods as the mean over settings and as the mean by dataset."""
    return [points(found.difference(label, other, by_dataset=by_dataset)) for by_dataset in (False, True)]


# --- what was run --------------------------------------------------------------------------------------------------


def runs() -> str:
    """Return the size of each setting."""
    rows, lines = all_rows(), []
    rows = rows[rows["setting"].isin(list(names()))]
    for setting, short in names().items():
        own = rows[rows["setting"] == setting]
        main = own[own["experiment"] == "table-main"]
        link = f"[{short}](../benchmarks/results/{setting}/report.md)"
        sizes = (main["target"].nunique(), main["sources"].nunique(), main["seed"].nunique(), len(own))
        versions = ", ".join(sorted(own["sight"].unique()))
        lines.append([link, own["dataset"].iloc[0], *(f"{size:,}" for size in sizes), versions])
    subjects = len(rows.drop_duplicates(["dataset", "target"]))
    datasets, seeds = rows["dataset"].nunique(), rows["seed"].nunique()
    lines.append(["**all**", f"{datasets} datasets", f"{subjects} different", "", str(seeds), f"{len(rows):,}", ""])
    return markdown(["Setting", "Dataset", "Target subjects", "Sources", "Seeds", "Rows", "sight"], lines)


def seeds() -> str:
    """Return the range of means over the seeds of source training, for each setting with several."""
    lines = []
    for short, own in summary("table-main", "all").summaries.items():
        if own.runs.index.get_level_values("seed").nunique() == 1:
            continue
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
    found, main, labels = summary("table-main", "all"), summary("table-main"), (SIGHT, AUTHORS, EMA, STICKY)
    gains = [tested_gains(found, label) for label in labels]
    lines = []
    for short, own in found.summaries.items():
        wins, ties, losses, harmed, runs_ = own.table.loc[SIGHT, ["wins", "ties", "losses", "harmed", "runs"]]
        cells = [own_gains[short] for own_gains in gains]
        level = number(own.table.at[SOURCE_ONLY, "subject_mean"])
        record = f"{wins:.0f}/{ties:.0f}/{losses:.0f}"
        lines.append([short, level, cells[0], record, percent(harmed / runs_), *cells[1:]])
    levels = main.column("subject_mean").loc[SOURCE_ONLY].to_dict()
    for name, by_dataset in {"**Mean of the main settings**": False, "**Mean of these by dataset**": True}.items():
        means = [points(main.gain(label, by_dataset=by_dataset)) for label in labels]
        level, harmed = main.mean(levels, by_dataset=by_dataset), main.harmed(SIGHT, by_dataset=by_dataset)
        lines.append([name, number(level), means[0], "", percent(harmed), *means[1:]])
    heads = ["Setting", SOURCE_ONLY, SIGHT, "won/tied/lost", "harmed, %", AUTHORS, EMA, STICKY]
    return markdown(heads, lines)


def paper() -> str:
    """Return the paper's values for SIGHT beside ours, on the pairs of the paper."""
    lines = []
    for short, own in summary("table-main", "paper").summaries.items():
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
    main = summary("table-main")
    lines = [
        [label, *both_means(main, label, SIGHT), *lists(main.verdicts(label, SIGHT))]
        for label in FILTERS
        if label in main.methods
    ]
    heads = ["Filter against SIGHT", "mean", "mean by dataset", "better on", "worse on", "no difference shown on"]
    return markdown(heads, lines)


def macro_f1() -> str:
    """Return the gains of SIGHT and Keel under three definitions of macro-F1, and the best method but `keel-norm`."""
    labels = (SOURCE_ONLY, SIGHT, KEEL)
    found = [summary("table-main", metric=metric, labels=labels) for metric in MACRO_F1]
    columns = [(own, label) for label in (SIGHT, KEEL) for own in found]
    gains = [tested_gains(*column) for column in columns]
    names_ = [metric.replace("macro_f1", "gain") for metric in MACRO_F1]
    lines = []
    for short, own in summary("table-main").summaries.items():
        best = dict.fromkeys(str(own.table[name].drop(KEEL_NORM).idxmax()) for name in names_)
        lines.append([short, *(gain[short] for gain in gains), ", ".join(best)])
    for name, by_dataset in MEANS.items():
        lines.append([name, *(points(own.gain(label, by_dataset=by_dataset)) for own, label in columns), ""])
    kinds = ("union", "truth", "all")
    return markdown(["Setting", *(f"{label}, {kind}" for label in (SIGHT, KEEL) for kind in kinds), "best"], lines)


def order() -> str:
    """Return the gains over source-only by stream order, and the differences that order makes."""
    found = {name: summary("order", "all", order=name) for name in ORDERS}
    first, *others = found.values()
    lines = []
    for label in (label for label in first.complete if label != SOURCE_ONLY):
        gains = [points(own.gain(label)) for own in found.values()]
        against = [points(first.difference(label, label, own)) for own in others]
        lines.append([first.cells[label].text, *gains, *against])
    by_order = [tested_gains(own, SIGHT) for own in found.values()]
    verdicts = [first.verdicts(SIGHT, SIGHT, own) for own in others]
    for short, own in first.summaries.items():
        against = [
            tested(own.difference(SIGHT, SIGHT, other.summaries[short]), shown[short])
            for other, shown in zip(others, verdicts, strict=True)
        ]
        lines.append([f"SIGHT on {short}", *(gains[short] for gains in by_order), *against])
    heads = ["Method", *ORDERS.values(), "chronological less blocks", "chronological less shuffled"]
    return markdown(heads, lines)


def ablation() -> str:
    """Return SIGHT without each mechanism."""
    return _variants("ablation")


def design() -> str:
    """Return SIGHT with simpler design choices."""
    return _variants("design")


def _variants(experiment: str) -> str:
    found = summary(experiment, "all")
    lines = [
        [
            label,
            *both_means(found, label, SIGHT),
            *lists(found.verdicts(label, SIGHT)),
            *_paper(experiment, label),
        ]
        for label in found.complete
        if label not in (SOURCE_ONLY, SIGHT)
    ]
    heads = ["Variant against SIGHT", "mean", "mean by dataset", "better on", "worse on", "no difference shown on"]
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
    found = summary("sensitivity", "all")
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
    """Return the gains of SIGHT, the sticky filter and Keel by network."""
    lines = []
    for encoder in ("cnn", "resnet", "transformer"):
        found, name = summary("backbones", "all", encoder=encoder), paper_values.CONDITIONS[encoder]
        gains = [points(found.gain(label)) for label in (SIGHT, STICKY, KEEL)]
        lines.append([name, *gains, *_paper("backbone", SIGHT, name, SOURCE_ONLY)])
    paper_heads = [f"SIGHT, paper, {name}" for name in PAPER_DATASETS.values()]
    return markdown(["Network", SIGHT, STICKY, KEEL, *paper_heads], lines)


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
    "findings-ablation": ablation,
    "findings-design": design,
    "findings-sensitivity": sensitivity,
    "findings-networks": networks,
    "findings-segments": segments,
    "findings-cost": cost,
}
