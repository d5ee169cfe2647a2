"""The tables of a comparison. No time and no machine is in them, so that a rerun gives the same bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from sight.bench.aggregate import HARM, MethodSummary
from sight.bench.coverage import fewer
from sight.bench.stats import FEWEST
from sight.bench.table_format import DASH, Cell, Table, interval, marked, number, probability, several, spread

#: More columns than this do not fit a page, nor a mind.
MOST_PAIRS = 20
COMPLETED = "* completed by us: the authors' code is not public."
NEEDS = (
    "Needs: G back-propagates at test time, B answers depend on how the stream is cut into chunks, S uses statistics "
    "of the source (s if it has them), W keeps windows of the wearer."
)


def needs(declared: str) -> str:
    """Write what a method needs as letters.

    Examples
    --------
    >>> needs('{"gradient": true, "batch": false, "source_stats": "optional", "raw_windows": true}')
    'GsW'
    """
    own = json.loads(declared)
    stats = {"no": "", "optional": "s", "required": "S"}[own["source_stats"]]
    letters = (
        ("G" if own["gradient"] else "") + ("B" if own["batch"] else "") + stats + ("W" if own["raw_windows"] else "")
    )
    return letters or DASH


def short(sources: str) -> str:
    """Name a source of many people by its first and last.

    Examples
    --------
    >>> short("3"), short("1+2+3+4"), short("00EABED2-271D-49D8-B599-1D4A09240601+098A72A5")
    ('3', '1…4 (4 people)', '00EABED2+098A72A5')
    """
    people = [person.partition("-")[0] for person in sources.split("+")]
    return "+".join(people) if len(people) <= 2 else f"{people[0]}…{people[-1]} ({len(people)} people)"


def labelled(summary: MethodSummary) -> list[str]:
    """Labels with their marks."""
    return [f"{label}{'*' if done else ''}" for label, done in summary.table["completed"].items()]


def scores(summary: MethodSummary, name: str, title: str) -> Table:
    """Macro-F1 in three readings, difference to source-only with its interval, test, wins, rank, the paper's."""
    t, full = summary.table, _full(summary)
    heads = ["Method", "Needs", "Macro-F1", "Δ", "p", "Won/lev./lost", "Rank", "F1 truth", "F1 all", "Accuracy"]
    columns = [
        [Cell(label) for label in labelled(summary)],
        [Cell(needs(text)) for text in t["needs"]],
        marked([spread(m, s) for m, s in zip(t["mean"], t["sd"], strict=True)], t["mean"].where(full)),
        [
            Cell(number(d, sign=True), below=interval(*i))
            for d, *i in t[["delta", "low", "high"]].itertuples(index=False)
        ],
        [Cell(probability(p)) for p in t["p"]],
        [Cell(_record(*r)) for r in t[["wins", "ties", "losses"]].itertuples(index=False)],
        marked([number(r) for r in t["rank"]], -t["rank"]),
        *(marked([number(v) for v in t[key]], t[key].where(full)) for key in ("macro_f1_truth", "macro_f1_all")),
        marked([number(100 * v) for v in t["accuracy"]], t["accuracy"].where(full)),
    ]
    if t["paper"].notna().any():
        heads += ["Paper", "Paper Δ"]
        columns += [
            marked([number(v) for v in t["paper"]], t["paper"]),
            [Cell(number(v, sign=True)) for v in t["paper_delta"].where(t.index != summary.baseline)],
        ]
    return Table(name=name, title=title, heads=heads, rows=list(zip(*columns, strict=True)), note=_score_note(summary))


def _score_note(summary: MethodSummary) -> str:
    seeds = f"± is the standard deviation over {summary.seeds} seeds; " if summary.seeds > 1 else "one seed; "
    test = "; p of Wilcoxon's signed-rank test after Holm" if summary.people >= FEWEST else ""
    said = (
        f"Macro-F1 over classes in truth or answers, in points, mean over pairs; {seeds}Δ against source-only on the "
        f"same runs, {paired(summary.people)}{test}; rank 1 is best. F1 truth averages over classes in truth, F1 all "
        "over every class. "
    )
    return " ".join([said + NEEDS, *([COMPLETED] if summary.table["completed"].any() else []), *_uneven(summary)])


def paired(people: int) -> str:
    """Say how differences are paired; an interval is promised only where there are people enough.

    Examples
    --------
    >>> paired(6), paired(1)
    ('paired over 6 target subjects, with 95 % bootstrap interval', 'over 1 target subject, too few for an interval')
    """
    over = f"over {several(people, 'target subject')}"
    return f"paired {over}, with 95 % bootstrap interval" if people >= FEWEST else f"{over}, too few for an interval"


def _full(summary: MethodSummary) -> Any:
    """Tell which methods have every seed: a level over fewer is not to be held against the others'."""
    return summary.table["seeds"] == summary.seeds


def _uneven(summary: MethodSummary, *, paired: bool = True) -> Iterator[str]:
    if not _full(summary).all():
        names = dict(zip(summary.table.index, labelled(summary), strict=True))
        yield from fewer(summary.table[["seeds"]], names, paired=paired)
        yield "Levels of methods with fewer seeds are never marked best."


def segment_table(summary: MethodSummary, name: str, title: str) -> Table:
    """Errors as segments, delays, calibration, time use and state."""
    t = summary.table
    shares = {
        "Deleted": "frames_deletion",
        "Fragmented": "frames_fragmentation",
        "Under-filled": "frames_underfill",
        "Inserted": "frames_insertion",
        "Merged": "frames_merge",
        "Over-filled": "frames_overfill",
    }
    events = {"Events missed": "events_deleted", "Events inserted": "events_inserted"}
    full = _full(summary)

    def least(values: Any, digits: int = 1, factor: float = 1) -> list[Cell]:
        return marked([number(factor * v, digits) for v in values], -values.where(full))

    columns = [[Cell(label) for label in labelled(summary)]]
    columns += [least(t[key], factor=100) for key in shares.values()]
    columns += [least(t[key]) for key in (*events.values(), "delay_median_s")]
    columns += [least(t["missed"], factor=100), least(t["ece"], 3), least(t["time_use_mae_min"])]
    columns += [[Cell(number(v / 1024)) for v in t["state_bytes"]]]
    tail = ["Delay (s)", "Changes missed (%)", "Calibration error", "Time use (min/day)", "State (KiB)"]
    note = (
        "Wrong windows by kind, in percent of all windows: the first three sort them by the true event they lie in, "
        "the next three by the answered one. Events per stream. Delay until a true change is answered (median), and "
        "changes never answered. Time use: mean error a class and day."
    )
    note = " ".join([note, *_uneven(summary, paired=False)])
    heads, rows = ["Method", *shares, *events, *tail], list(zip(*columns, strict=True))
    heading = "Errors as segments, delay, calibration"
    return Table(name=name, title=title, heads=heads, rows=rows, note=note, heading=heading, folded=True)


def alone(summary: MethodSummary, name: str, title: str) -> Table:
    """Accuracy where each class of a person is a stream of its own, and its difference to source-only."""
    t = summary.table
    ends = t[["delta", "low", "high"]].itertuples(index=False)
    columns = [
        [Cell(label) for label in labelled(summary)],
        marked([spread(m, s) for m, s in zip(t["mean"], t["sd"], strict=True)], t["mean"].where(_full(summary))),
        [Cell(number(d, sign=True), below=interval(*i)) for d, *i in ends],
        [Cell(_record(*r)) for r in t[["wins", "ties", "losses"]].itertuples(index=False)],
        [Cell(number(100 * h / n if n else np.nan)) for h, n in t[["harmed", "runs"]].itertuples(index=False)],
        marked([number(100 * v) for v in t["balanced_accuracy"]], t["balanced_accuracy"]),
    ]
    heads = ["Method", "Accuracy", "Δ", "Won/lev./lost", "Harmed (%)", "Balanced accuracy"]
    note = (
        "Each class of a person as a stream of its own, in which nothing ever changes; accuracy in points over all "
        f"windows, Δ against source-only {paired(summary.people)}. "
        f"Harmed: share of runs that lose more than {HARM:g} points. Balanced accuracy averages over streams."
    )
    note = " ".join([note, *_uneven(summary)])
    return Table(name=name, title=title, heads=heads, rows=list(zip(*columns, strict=True)), note=note)


def pair_table(pairs: Any, name: str, title: str) -> Table:
    """Each method on each pair of people, the paper's figure below."""
    cases = list(dict.fromkeys(pairs.columns.get_level_values(0)))
    columns = []
    for case in cases:
        own = pairs[case]
        cells = marked([spread(m, s) for m, s in zip(own["mean"], own["sd"], strict=True)], own["mean"])
        columns.append(
            [
                c._replace(below=f"({number(v)})" if np.isfinite(v) else "")
                for c, v in zip(cells, own["paper"], strict=True)
            ]
        )
    rows = [[Cell(label), *cells] for label, *cells in zip(pairs.index, *columns, strict=True)]
    note = "Macro-F1 in points, by source → target" + (
        "; the paper's in brackets." if pairs.xs("paper", axis=1, level=1).notna().any(axis=None) else "."
    )
    return Table(
        name=name,
        title=title,
        heads=["Method", *map(_case, cases)],
        rows=rows,
        note=note,
        heading="By pair of people",
        folded=True,
    )


def _case(pair: str) -> str:
    source, _, target = pair.partition("→")
    return f"{short(source)} → {short(target)}"


def cross_table(summaries: dict[str, MethodSummary], name: str, title: str) -> Table:
    """Show methods under several conditions, such as networks or orders of the stream."""
    names = {label: name for s in summaries.values() for label, name in zip(s.table.index, labelled(s), strict=True)}
    columns, heads = [[Cell(name) for name in names.values()]], ["Method"]
    for case, summary in summaries.items():
        t = summary.table.reindex(list(names))
        cells = marked(
            [spread(m, s) for m, s in zip(t["mean"], t["sd"], strict=True)],
            t["mean"].where(t["seeds"] == summary.seeds),
        )
        heads += [case, "Δ"]
        columns += [
            cells,
            [
                Cell(number(d, sign=True), below=interval(*i))
                for d, *i in t[["delta", "low", "high"]].itertuples(index=False)
            ],
        ]
        if t["paper"].notna().any():
            heads.append("Paper")
            columns.append([Cell(number(v)) for v in t["paper"]])
    most = max(summary.people for summary in summaries.values())
    note = f"Macro-F1 in points, and its difference to source-only, {paired(most)}."
    told = (sentence for summary in summaries.values() for sentence in _uneven(summary))
    note = " ".join([note, *dict.fromkeys(told)])
    return Table(name=name, title=title, heads=heads, rows=list(zip(*columns, strict=True)), note=note)


def _record(wins: float, ties: float, losses: float) -> str:
    return DASH if not np.isfinite(wins) else f"{wins:.0f}/{ties:.0f}/{losses:.0f}"
