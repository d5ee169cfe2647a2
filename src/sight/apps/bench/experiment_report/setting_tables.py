"""Tables of one experiment on one setting.

They contain neither times nor machine names, so a rerun writes the same bytes.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from sight.apps.bench.experiment_report.summary import HARM, MethodSummary
from sight.apps.bench.experiment_report.table_format import (
    DASH,
    Cell,
    Table,
    delta_cells,
    mark_best,
    number,
    probability,
    spread,
)
from sight.results.score_statistics import MIN_SUBJECTS

#: Largest number of pairs of subjects for which a table by pair is written.
MAX_PAIRS = 20
COMPLETED = "* completed by us: the authors' code is not public."
INTERVALS = (
    "in brackets its 95 % bootstrap interval over target subjects (five or more) and source models (source subjects "
    "and seed), which does not cover other processors or datasets"
)
RUNS = (
    "A column of runs is added where methods have different numbers of runs; only methods with all of them are marked."
)
SOURCE_ONLY = "Source-only: raw predictions, without adaptation."
FEW = "With fewer than five target subjects, no value is marked and no rank is given."
SCORES_NOTE = (
    "Macro-F1 over classes in truth or predictions, in points, mean over pairs; ± standard deviation over seeds. "
    f"{SOURCE_ONLY} Δ: difference to source-only on the same runs, averaged by target subject, {INTERVALS}. p: "
    "Wilcoxon test over target subjects with Holm correction over methods. Won/tied/lost: subjects. Rank: mean over "
    "subjects, 1 is best. F1 truth averages over classes in truth, F1 all over every class. Needs: G back-propagation "
    "at test time, B predictions depend on how the stream is divided into chunks, S statistics of the source (s if "
    "available), W "
    "windows of the wearer kept. Paper: the paper's mean over the same pairs if it prints all of them, else the "
    "average of its table. "
    f"{COMPLETED} {RUNS} {FEW}"
)
SEGMENTS_NOTE = (
    "Wrong windows by kind, in percent of all windows: the first three kinds by the true event they are in, the next "
    "three by the predicted event. Events per stream. Delay: median time until a true change is predicted; changes "
    f"missed: never predicted. Time use: mean error per class and day. {RUNS}"
)
CLASSES_NOTE = (
    "Each class of a subject as a separate stream without changes; accuracy in points over all windows. "
    f"{SOURCE_ONLY} Δ: difference to source-only, {INTERVALS}. Harmed: share of runs that lose more than {HARM:g} "
    "points. Balanced accuracy "
    f"averages over streams. {RUNS}"
)
CONDITIONS_NOTE = (
    f"Macro-F1 in points, mean over pairs, ± standard deviation over seeds. {SOURCE_ONLY} Δ: difference to "
    f"source-only, {INTERVALS}."
)


def needs(declared: str) -> str:
    own = json.loads(declared)
    statistics = {"no": "", "optional": "s", "required": "S"}[own["source_stats"]]
    letters = "G" * own["gradient"] + "B" * own["batch"] + statistics + "W" * own["raw_windows"]
    return letters or DASH


def short_sources(sources: str) -> str:
    """Return the name of a source of many subjects by its first and last."""
    subjects = [subject.partition("-")[0] for subject in sources.split("+")]
    return "+".join(subjects) if len(subjects) <= 2 else f"{subjects[0]}…{subjects[-1]} ({len(subjects)} subjects)"


def _all_runs(summary: MethodSummary) -> Any:
    """Means over fewer runs are not comparable."""
    return summary.table["runs"] == summary.table["runs"].max()


def _method_table(summary: MethodSummary, name: str, title: str, columns: dict[str, list[Cell]], note: str) -> Table:
    """Return a table of methods, with a column of runs if their numbers differ; few subjects have no best method."""
    if summary.subjects < MIN_SUBJECTS:
        columns = without_ranking(columns)
    methods = {"Method": list(summary.cells.values())}
    runs = {} if _all_runs(summary).all() else {"Runs": [Cell(str(count)) for count in summary.table["runs"]]}
    return Table.of_columns(name, title, methods | columns | runs, note)


def without_ranking(columns: Mapping[str, list[Cell]]) -> dict[str, list[Cell]]:
    """Return columns without ranks and without marks of the best value, for comparisons of few subjects."""
    return {head: _unmarked(cells) for head, cells in columns.items() if head not in ("Rank", "Best in")}


def _unmarked(cells: list[Cell]) -> list[Cell]:
    return [cell._replace(best=False) for cell in cells]


class ScoreColumn(NamedTuple):
    """A score in a table: its column, the factor and digits to print, and whether higher is better (None: neither)."""

    column: str
    factor: float = 1
    higher: bool | None = False
    digits: int = 1


LEVEL_COLUMNS = {
    "F1 truth": ScoreColumn("macro_f1_truth", higher=True),
    "F1 all": ScoreColumn("macro_f1_all", higher=True),
    "Accuracy": ScoreColumn("accuracy", 100, higher=True),
}


def score_cells(scores: Any, columns: Mapping[str, ScoreColumn], full: Any) -> dict[str, list[Cell]]:
    """Return the cells of each column; the best values of methods with all runs (`full`) are marked."""
    found = {}
    for head, (name, factor, higher, digits) in columns.items():
        texts = [number(factor * value, digits) for value in scores[name]]
        ranked = scores[name] * {True: 1, False: -1, None: np.nan}[higher]
        found[head] = mark_best(texts, ranked.where(full))
    return found


def scores(summary: MethodSummary, name: str, title: str) -> Table:
    t, full = summary.table, _all_runs(summary)
    columns = {
        "Needs": [Cell(needs(text)) for text in t["needs"]],
        "Macro-F1": _means(t, full),
        "Δ": delta_cells(t),
        "p": [Cell(probability(p)) for p in t["p"]],
        "Won/tied/lost": _records(t),
        "Rank": mark_best([number(r) for r in t["rank"]], -t["rank"]),
        **score_cells(t, LEVEL_COLUMNS, full),
    }
    if t["paper"].notna().any():
        deltas = t["paper_delta"].where(t.index != summary.source_only)
        columns["Paper"] = mark_best([number(v) for v in t["paper"]], t["paper"])
        columns["Paper Δ"] = [Cell(number(v, sign=True)) for v in deltas]
    return _method_table(summary, name, title, columns, SCORES_NOTE)


def _means(table: Any, full: Any) -> list[Cell]:
    texts = [spread(mean, sd) for mean, sd in zip(table["mean"], table["sd"], strict=True)]
    return mark_best(texts, table["mean"].where(full))


def _records(table: Any) -> list[Cell]:
    rows = table[["wins", "ties", "losses"]].itertuples(index=False)
    return [Cell(DASH if not np.isfinite(row[0]) else "/".join(f"{count:.0f}" for count in row)) for row in rows]


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


def segments(summary: MethodSummary, name: str, title: str) -> Table:
    columns = score_cells(summary.table, SEGMENT_COLUMNS, _all_runs(summary))
    return _method_table(summary, name, title, columns, SEGMENTS_NOTE)


def single_class_streams(summary: MethodSummary, name: str, title: str) -> Table:
    t, full = summary.table, _all_runs(summary)
    harmed = 100 * t["harmed"] / t["runs"].where(t["runs"] > 0)
    columns = {
        "Accuracy": _means(t, full),
        "Δ": delta_cells(t),
        "Won/tied/lost": _records(t),
        "Harmed (%)": [Cell(number(share)) for share in harmed],
        **score_cells(t, {"Balanced accuracy": ScoreColumn("balanced_accuracy", 100, higher=True)}, full),
    }
    return _method_table(summary, name, title, columns, CLASSES_NOTE)


def pair_table(summary: MethodSummary, pairs: Any, name: str, title: str) -> Table:
    names = list(dict.fromkeys(pairs.columns.get_level_values(0)))
    columns = []
    for pair in names:
        own = pairs[pair]
        cells = mark_best([spread(m, s) for m, s in zip(own["mean"], own["sd"], strict=True)], own["mean"])
        cells = cells if summary.subjects >= MIN_SUBJECTS else _unmarked(cells)
        paper = [f"({number(value)})" if np.isfinite(value) else "" for value in own["paper"]]
        columns.append([cell._replace(below=text) for cell, text in zip(cells, paper, strict=True)])
    heads = [" → ".join(map(short_sources, pair.split("→"))) for pair in names]
    rows = [[summary.cells[label], *cells] for label, *cells in zip(pairs.index, *columns, strict=True)]
    note = "Macro-F1 in points, by source → target; in brackets the paper's value, if printed."
    return Table(name=name, title=title, heads=["Method", *heads], rows=rows, note=note)


def conditions(summaries: Mapping[str, MethodSummary], name: str, title: str) -> Table:
    labels = {label: cell for summary in summaries.values() for label, cell in summary.cells.items()}
    columns, heads = [list(labels.values())], ["Method"]
    for condition, summary in summaries.items():
        t = summary.table.reindex(list(labels))
        heads += [condition, "Δ"]
        means = _means(t, t["seeds"] == summary.seeds)
        columns += [means if summary.subjects >= MIN_SUBJECTS else _unmarked(means), delta_cells(t)]
        if t["paper"].notna().any():
            heads.append("Paper")
            columns.append([Cell(number(v)) for v in t["paper"]])
    return Table(name=name, title=title, heads=heads, rows=list(zip(*columns, strict=True)), note=CONDITIONS_NOTE)
