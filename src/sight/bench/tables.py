"""Tables of one experiment on one setting.

They contain neither times nor machine names, so a rerun writes the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from sight.bench.aggregate import HARM, MethodSummary
from sight.bench.table_format import DASH, Cell, Table, delta_cells, mark_best, number, probability, spread

#: Largest number of pairs of subjects for which a table by pair is written.
MAX_PAIRS = 20
COMPLETED = "* completed by us: the authors' code is not public."
INTERVALS = "in brackets its 95 % bootstrap interval over target subjects (five or more)"
RUNS = (
    "A column of runs is added where methods have different numbers of runs; only methods with all of them are marked."
)
SCORES_NOTE = (
    "Macro-F1 over classes in truth or predictions, in points, mean over pairs; ± standard deviation over seeds. Δ: "
    f"difference to source-only on the same runs, averaged by target subject, {INTERVALS}. p: Wilcoxon's signed-rank "
    "test over subjects, after Holm. Won/tied/lost: subjects. Rank: mean over subjects, 1 is best. F1 truth averages "
    "over classes in truth, F1 all over every class. Needs: G back-propagation at test time, B predictions depend on "
    "how the stream is divided into chunks, S statistics of the source (s if available), W windows of the wearer kept. "
    f"{COMPLETED} {RUNS}"
)
SEGMENTS_NOTE = (
    "Wrong windows by kind, in percent of all windows: the first three kinds by the true event they are in, the next "
    "three by the predicted event. Events per stream. Delay: median time until a true change is predicted; changes "
    f"missed: never predicted. Time use: mean error per class and day. {RUNS}"
)
CLASSES_NOTE = (
    "Each class of a subject as a separate stream without changes; accuracy in points over all windows. Δ: difference "
    f"to source-only, {INTERVALS}. Harmed: share of runs that lose more than {HARM:g} points. Balanced accuracy "
    f"averages over streams. {RUNS}"
)
CONDITIONS_NOTE = (
    f"Macro-F1 in points, mean over pairs, ± standard deviation over seeds; Δ: difference to source-only, {INTERVALS}."
)


def needs(declared: str) -> str:
    """Return what a method needs as letters.

    Examples
    --------
    >>> needs('{"gradient": true, "batch": false, "source_stats": "optional", "raw_windows": true}')
    'GsW'
    """
    own = json.loads(declared)
    statistics = {"no": "", "optional": "s", "required": "S"}[own["source_stats"]]
    letters = "G" * own["gradient"] + "B" * own["batch"] + statistics + "W" * own["raw_windows"]
    return letters or DASH


def short_sources(sources: str) -> str:
    """Return the name of a source of many subjects by its first and last.

    Examples
    --------
    >>> short_sources("3"), short_sources("1+2+3+4"), short_sources("00EABED2-271D-49D8-B599-1D4A09240601+098A72A5")
    ('3', '1…4 (4 subjects)', '00EABED2+098A72A5')
    """
    subjects = [subject.partition("-")[0] for subject in sources.split("+")]
    return "+".join(subjects) if len(subjects) <= 2 else f"{subjects[0]}…{subjects[-1]} ({len(subjects)} subjects)"


def marked_labels(summary: MethodSummary) -> list[str]:
    """Return labels with their marks."""
    return [f"{label}{'*' if done else ''}" for label, done in summary.table["completed"].items()]


def _all_runs(summary: MethodSummary) -> Any:
    """Return which methods have every run; means over fewer are not comparable."""
    return summary.table["runs"] == summary.table["runs"].max()


def _add_runs(summary: MethodSummary, heads: list[str], columns: list[list[Cell]]) -> None:
    if not _all_runs(summary).all():
        heads.append("Runs")
        columns.append([Cell(str(runs)) for runs in summary.table["runs"]])


def scores(summary: MethodSummary, name: str, title: str) -> Table:
    """Return three variants of macro-F1, the difference to source-only, its test, ranks, and the paper's values."""
    t, full = summary.table, _all_runs(summary)
    heads = ["Method", "Needs", "Macro-F1", "Δ", "p", "Won/tied/lost", "Rank", "F1 truth", "F1 all", "Accuracy"]
    columns = [
        [Cell(label) for label in marked_labels(summary)],
        [Cell(needs(text)) for text in t["needs"]],
        _means(t, full),
        delta_cells(t),
        [Cell(probability(p)) for p in t["p"]],
        _records(t),
        mark_best([number(r) for r in t["rank"]], -t["rank"]),
        *(mark_best([number(v) for v in t[key]], t[key].where(full)) for key in ("macro_f1_truth", "macro_f1_all")),
        mark_best([number(100 * v) for v in t["accuracy"]], t["accuracy"].where(full)),
    ]
    if t["paper"].notna().any():
        heads += ["Paper", "Paper Δ"]
        columns += [
            mark_best([number(v) for v in t["paper"]], t["paper"]),
            [Cell(number(v, sign=True)) for v in t["paper_delta"].where(t.index != summary.source_only)],
        ]
    _add_runs(summary, heads, columns)
    return Table(name=name, title=title, heads=heads, rows=list(zip(*columns, strict=True)), note=SCORES_NOTE)


def _means(table: Any, full: Any) -> list[Cell]:
    texts = [spread(mean, sd) for mean, sd in zip(table["mean"], table["sd"], strict=True)]
    return mark_best(texts, table["mean"].where(full))


def _records(table: Any) -> list[Cell]:
    rows = table[["wins", "ties", "losses"]].itertuples(index=False)
    return [Cell(DASH if not np.isfinite(row[0]) else "/".join(f"{count:.0f}" for count in row)) for row in rows]


class ScoreColumn(NamedTuple):
    """A score in a table: its column, the factor and digits to print, and whether higher is better (None: neither)."""

    column: str
    factor: float = 1
    higher: bool | None = False
    digits: int = 1


SEGMENT_COLUMNS = {
    "Deleted": ScoreColumn("frames_deletion", 100),
    "Fragmented": ScoreColumn("frames_fragmentation", 100),
    "Under-filled": ScoreColumn("frames_underfill", 100),
    "Inserted": ScoreColumn("frames_insertion", 100),
    "Merged": ScoreColumn("frames_merge", 100),
    "Over-filled": ScoreColumn("frames_overfill", 100),
    "Events missed": ScoreColumn("events_deleted"),
    "Events inserted": ScoreColumn("events_inserted"),
    "Delay (s)": ScoreColumn("delay_median_s"),
    "Changes missed (%)": ScoreColumn("missed", 100),
    "Calibration error": ScoreColumn("ece", digits=3),
    "Time use (min/day)": ScoreColumn("time_use_mae_min"),
    "State (KiB)": ScoreColumn("state_bytes", 1 / 1024, higher=None),
}


def score_cells(scores: Any, columns: Mapping[str, ScoreColumn], full: Any) -> Iterator[list[Cell]]:
    """Yield the cells of each column; the best values of methods with all runs (`full`) are marked."""
    for name, factor, higher, digits in columns.values():
        texts = [number(factor * value, digits) for value in scores[name]]
        if higher is None:
            yield [Cell(text) for text in texts]
        else:
            yield mark_best(texts, (scores[name] if higher else -scores[name]).where(full))


def segments(summary: MethodSummary, name: str, title: str) -> Table:
    """Return segment errors, delays, calibration, time use and state."""
    heads = ["Method", *SEGMENT_COLUMNS]
    columns = [[Cell(label) for label in marked_labels(summary)]]
    columns += score_cells(summary.table, SEGMENT_COLUMNS, _all_runs(summary))
    _add_runs(summary, heads, columns)
    return Table(name=name, title=title, heads=heads, rows=list(zip(*columns, strict=True)), note=SEGMENTS_NOTE)


def single_class_streams(summary: MethodSummary, name: str, title: str) -> Table:
    """Return the accuracy where each class of a subject is a separate stream."""
    t, full = summary.table, _all_runs(summary)
    heads = ["Method", "Accuracy", "Δ", "Won/tied/lost", "Harmed (%)", "Balanced accuracy"]
    columns = [
        [Cell(label) for label in marked_labels(summary)],
        _means(t, full),
        delta_cells(t),
        _records(t),
        [Cell(number(100 * h / n if n else np.nan)) for h, n in t[["harmed", "runs"]].itertuples(index=False)],
        mark_best([number(100 * v) for v in t["balanced_accuracy"]], t["balanced_accuracy"].where(full)),
    ]
    _add_runs(summary, heads, columns)
    return Table(name=name, title=title, heads=heads, rows=list(zip(*columns, strict=True)), note=CLASSES_NOTE)


def pair_table(pairs: Any, name: str, title: str) -> Table:
    """Return each method on each pair of subjects, the paper's value below."""
    names = list(dict.fromkeys(pairs.columns.get_level_values(0)))
    columns = []
    for pair in names:
        own = pairs[pair]
        cells = mark_best([spread(m, s) for m, s in zip(own["mean"], own["sd"], strict=True)], own["mean"])
        paper = [f"({number(value)})" if np.isfinite(value) else "" for value in own["paper"]]
        columns.append([cell._replace(below=text) for cell, text in zip(cells, paper, strict=True)])
    heads = [" → ".join(map(short_sources, pair.split("→"))) for pair in names]
    rows = [[Cell(label), *cells] for label, *cells in zip(pairs.index, *columns, strict=True)]
    note = "Macro-F1 in points, by source → target; in brackets the paper's value, if printed."
    return Table(name=name, title=title, heads=["Method", *heads], rows=rows, note=note)


def conditions(summaries: Mapping[str, MethodSummary], name: str, title: str) -> Table:
    """Return methods under several conditions, such as networks or stream orders."""
    labels = {own: text for s in summaries.values() for own, text in zip(s.table.index, marked_labels(s), strict=True)}
    columns, heads = [[Cell(label) for label in labels.values()]], ["Method"]
    for condition, summary in summaries.items():
        t = summary.table.reindex(list(labels))
        heads += [condition, "Δ"]
        columns += [_means(t, t["seeds"] == summary.seeds), delta_cells(t)]
        if t["paper"].notna().any():
            heads.append("Paper")
            columns.append([Cell(number(v)) for v in t["paper"]])
    return Table(name=name, title=title, heads=heads, rows=list(zip(*columns, strict=True)), note=CONDITIONS_NOTE)
