"""Tables of the README and of the section about Keel in docs/findings.md, from the committed benchmark rows."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from sight.apps.bench.experiment_report import day_tables
from sight.apps.bench.experiment_report.multi_setting_summary import MultiSettingSummary
from sight.apps.bench.experiment_report.multi_setting_tables import counts
from sight.apps.bench.experiment_report.table_format import DASH, number, points
from sight.apps.bench.result_rows import matrices
from tools.findings_data import (
    AUTHORS,
    FILTERS,
    KEEL,
    KEEL_NORM,
    LEARNED,
    SIGHT,
    SOURCE_ONLY,
    STICKY,
    names,
    rows_of,
    speed,
    summary,
)
from tools.findings_tables import MEANS, both_means, lists, markdown, percent, tested, tested_gains

#: Methods of the table of the README; the last one is in the experiment about Keel's parts.
SHORT = (STICKY, LEARNED, "T3A", "RoTTA", SIGHT, KEEL, KEEL_NORM)
WHOLE = "Keel, whole recording"


def errors() -> str:
    """Return how concentrated the errors of source-only are, by setting."""
    rows = rows_of("table-main", label=SOURCE_ONLY)
    shares = {
        setting: [_mean(matrices(rows[rows["setting"] == setting], "confusion"), share) for share in ERRORS]
        for setting in names("main")
        if (rows["setting"] == setting).any()
    }
    lines = [[names("main")[setting], *own] for setting, own in shares.items()]
    for kind, name in (("-single", "**Single sources**"), ("-pooled", "**Pooled sources**")):
        lines.append([name, *np.mean([own for setting, own in shares.items() if setting.endswith(kind)], axis=0)])
    heads = ["Setting", "errors in one wrong class, %", "errors in classes never recognised, %"]
    return markdown(heads, [[name, *(number(value, 0) for value in own)] for name, *own in lines])


def _mean(confusions: Any, share: Callable[[Any], tuple[float, float]]) -> float:
    return float(np.nanmean([_share(one, share) for one in confusions]))


def _share(confusion: Any, share: Callable[[Any], tuple[float, float]]) -> float:
    part, total = share(confusion)
    return 100 * part / total if total else float("nan")


def _to_one_class(confusion: Any) -> tuple[float, float]:
    """Return the wrong windows with the most frequent wrong class of their class, and all wrong windows."""
    wrong = confusion * (1 - np.eye(len(confusion)))
    return wrong.max(axis=1).sum(), wrong.sum()


def _in_missed_classes(confusion: Any) -> tuple[float, float]:
    """Return the wrong windows in classes without a single right window, and all wrong windows."""
    right = np.diag(confusion)
    wrong = confusion.sum(axis=1) - right
    return wrong[right == 0].sum(), wrong.sum()


ERRORS = (_to_one_class, _in_missed_classes)


def short() -> str:
    """Return the table of the README: mean gain, settings, harm and cost of some methods."""
    main, parts = summary("table-main"), summary("keel-parts")
    times = {row["method"]: row["overhead"] for row in speed()["shapes"]["harth"]["methods"]}
    lines = []
    for found, label in (*((main, label) for label in SHORT), (parts, WHOLE)):
        time = times.get(found.methods[label]) if found is main else None
        cost = DASH if time is None else f"{100 * time:.0f} %"
        cells = [points(found.gain(label)), counts(found.verdicts(label)), percent(found.harmed(label)), cost]
        lines.append([found.cells[label].text, *cells])
    return markdown(["Method", "gain, points", "better/open/worse", "harmed, %", "extra time"], lines)


def results() -> str:
    """Return levels and gains on each setting: source-only, best filter, SIGHT, best baseline and Keel."""
    return overview(summary("table-main"))


def overview(found: MultiSettingSummary) -> str:
    """Return levels and gains of the methods that a reader asks for first; the best of a group by hindsight."""
    levels, gains = found.column("subject_mean").loc[SOURCE_ONLY], found.column("delta")
    baselines = [label for label in found.methods if label not in (SOURCE_ONLY, KEEL, KEEL_NORM)]
    groups = {
        "Best filter": [label for label in FILTERS if label in found.methods],
        SIGHT: [SIGHT],
        AUTHORS: [AUTHORS],
        "Best baseline": baselines,
        KEEL: [KEEL],
        KEEL_NORM: [KEEL_NORM],
    }
    lines, kept = [], []
    for short, level in levels.items():
        best = {head: gains[short].reindex(labels).dropna() for head, labels in groups.items()}
        kept.append([own.max() for own in best.values()])
        cells = [
            _level(level, own.max(), found.cells[own.idxmax()].text if "Best" in head else "")
            for head, own in best.items()
        ]
        lines.append([str(short), number(level), *cells])
    for name, by_dataset in MEANS.items():
        weights = list(found.weights(by_dataset=by_dataset).values())
        mean, gained = np.average(levels, weights=weights), np.average(kept, axis=0, weights=weights)
        lines.append([name, number(mean), *(_level(mean, gain) for gain in gained)])
    return markdown(["Setting", SOURCE_ONLY, *groups], lines)


def _level(level: float, gain: float, name: str = "") -> str:
    return f"{number(level + gain)} ({number(gain, sign=True)}) {name}".strip()


def baselines() -> str:
    """Return Keel against every other method."""
    found = summary("table-main")
    others = [label for label in found.methods if label not in (KEEL, SOURCE_ONLY)]
    lines = []
    for label in (SOURCE_ONLY, *sorted(others, key=lambda label: found.difference(KEEL, label).mean)):
        verdicts = found.verdicts(KEEL, label)
        better = list(verdicts.values()).count("better")
        where = [f"{better} of {len(verdicts)}", *lists(verdicts)[1:]]
        lines.append([found.cells[label].text, *both_means(found, KEEL, label), *where, percent(found.harmed(label))])
    heads = ["Keel against", "mean", "mean by dataset", "better on", "worse on", "no difference shown on"]
    return markdown([*heads, "harmed by that method, %"], lines)


def keel_parts() -> str:
    """Return what Keel loses without each part, and the gains of its variants."""
    found = summary("keel-parts")
    labels = [label for label in found.complete if found.methods[label] == "keel"]
    lines = []
    for label in sorted(labels, key=lambda label: found.difference(label, KEEL).mean):
        apart = [*both_means(found, label, KEEL), counts(found.verdicts(label, KEEL))] if label != KEEL else [""] * 3
        lines.append([label, *apart, points(found.gain(label)), percent(found.harmed(label))])
    heads = ["Variant", "against Keel", "by dataset", "better/open/worse", "against source-only", "harmed, %"]
    return markdown(heads, lines)


def stress() -> str:
    """Return the gains on shuffled streams and on streams of one class."""
    lines, labels = [], (SIGHT, STICKY, KEEL)
    for name, found in (("shuffled", summary("order", "all", order="shuffled")), ("one class", summary("stress"))):
        gains = [tested_gains(found, label) for label in labels]
        for short, own in found.summaries.items():
            harmed, total = own.table.loc[KEEL, ["harmed", "runs"]]
            lines.append([f"{name}, {short}", *(gain[short] for gain in gains), percent(harmed / total)])
        for mean, by_dataset in {"mean": False, "mean by dataset": True}.items():
            if found.repeats_datasets or not by_dataset:
                means = [points(found.gain(label, by_dataset=by_dataset)) for label in labels]
                lines.append([f"**{name}, {mean}**", *means, percent(found.harmed(KEEL, by_dataset=by_dataset))])
    return markdown(["Stream", *labels, "harmed by Keel, %"], lines)


def days(pooled_only: bool = False) -> str:
    """Return gains and losses of all methods on streams of days, over all settings or over those of pooled sources."""
    rows = rows_of("days")
    if pooled_only:
        rows = rows[rows["setting"].str.endswith("-pooled")]
    return day_tables.overview(rows).markdown_body()


def losses() -> str:
    """Return where Keel loses: harmed runs, subjects with a loss, and a better baseline, by setting."""
    found = summary("table-main")
    lines = []
    for short, own in found.summaries.items():
        table = own.table
        harmed = [percent(table.at[label, "harmed"] / table.at[label, "runs"]) for label in (KEEL, SIGHT)]
        lost = f"{table.at[KEEL, 'losses']:.0f} of {own.subjects}"
        best = str(table["delta"].drop(KEEL_NORM).idxmax())
        shown = "" if best == KEEL else tested(own.difference(KEEL, best), found.verdicts(KEEL, best)[short])
        lines.append([short, *harmed, lost, shown and f"{best}: {shown}"])
    count = sum(own.table.at[KEEL, "losses"] for own in found.summaries.values())
    total = sum(own.subjects for own in found.summaries.values())
    for name, by_dataset in MEANS.items():
        harmed = [percent(found.harmed(label, by_dataset=by_dataset)) for label in (KEEL, SIGHT)]
        lines.append([name, *harmed, "" if by_dataset else f"{count:.0f} of {total} in all", ""])
    heads = [
        "Setting",
        "harmed by Keel, %",
        "harmed by SIGHT, %",
        "subjects with a loss",
        "Keel against a better baseline",
    ]
    return markdown(heads, lines)


BLOCKS: dict[str, Callable[[], str]] = {
    "results-short": short,
    "findings-results": results,
    "findings-errors": errors,
    "findings-baselines": baselines,
    "findings-keel-parts": keel_parts,
    "findings-stress": stress,
    "findings-days": days,
    "findings-days-pooled": functools.partial(days, pooled_only=True),
    "findings-losses": losses,
}
