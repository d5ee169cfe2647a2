"""Tables over several settings: the leaderboard, a suite such as the nine settings, and what stands in the README."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from sight.bench.aggregate import HARM
from sight.bench.coverage import fewer, never, uneven
from sight.bench.multi_setting import TRIVIAL, Across
from sight.bench.settings import SUITE
from sight.bench.stats import FEWEST
from sight.bench.table_format import Cell, Table, interval, marked, number
from sight.bench.tables import COMPLETED


def gains(across: Across, name: str, title: str, *, metric: str = "macro-F1", folded: bool = False) -> Table:
    """Rank methods: difference to source-only in each setting with its interval, mean, harm, firsts and rank."""
    deltas = across.gains
    whole, ranks = across.figure("rank").notna().all(axis=1), across.figure("rank").mean(axis=1)
    mean = deltas.mean(axis=1).where(whole.reindex(deltas.index))
    by = mean.to_frame("mean").assign(settings=deltas.notna().sum(axis=1), own=deltas.mean(axis=1))
    order = by.sort_values(["settings", "own"], ascending=False, kind="stable").index
    columns = [[Cell(across.starred[label]) for label in order]]
    for summary in across.summaries.values():
        table = summary.table.reindex(order)
        cells = marked([number(v, sign=True) for v in table["delta"]], table["delta"])
        ends = table[["low", "high"]].itertuples(index=False)
        columns.append([cell._replace(below=interval(*pair)) for cell, pair in zip(cells, ends, strict=True)])
    if not across.alone:
        columns.append(_overall(across, mean[order]))
    harmed = np.array([100 * across.harmed(label) for label in order])
    columns.append(marked([number(v) for v in harmed], np.where(whole[order], -harmed, np.nan)))
    rank = marked([number(ranks[label]) for label in order], -ranks.where(whole)[order])
    if across.alone:
        heads, columns = ["Method", *across.summaries, "Harmed (%)", "Rank"], [*columns, rank]
    else:
        best = [Cell(str(int(across.best_in[label]))) for label in order]
        heads = ["Method", *across.summaries, "Mean", "Harmed (%)", "Best in", "Rank", "Settings"]
        columns += [best, rank, [Cell(str(int(n))) for n in by["settings"][order]]]
    rows, heading = list(zip(*columns, strict=True)), metric.capitalize() if folded else ""
    note = _note(across, metric)
    return Table(name=name, title=title, heads=heads, rows=rows, note=note, heading=heading, folded=folded)


def _overall(across: Across, mean: Any) -> list[Cell]:
    cells = marked([number(value, sign=True) for value in mean], mean)
    return [cell._replace(below=interval(*across.gain(k)[1:])) for cell, k in zip(cells, mean.index, strict=True)]


def _note(across: Across, metric: str) -> str:
    several = (
        " Best in: settings in which its difference, on its own runs, is highest. Rank is averaged over people, then "
        "settings, among the methods run there. Methods run on more settings come first."
    )
    said = (
        f"Difference of {metric} to source-only on the same runs in points, paired over target subjects, "
        f"{_intervals(across)}. Harmed: share of runs (source, target, seed) that lose more than {HARM:g} points."
        f"{' Rank is averaged over people.' if across.alone else several} Seeds: {_seeds(across)}."
    )
    return explained(across, said, uneven(across), across.starred.values())


def _intervals(across: Across) -> str:
    """Promise intervals only where there are people enough, and one of the mean only where there is a mean."""
    enough = [summary.people >= FEWEST for summary in across.summaries.values()]
    if not any(enough):
        return "who are too few for intervals"
    drawn = (
        "" if across.alone or not all(enough) else "; in the mean a person drawn counts in every setting that has them"
    )
    return f"with 95 % bootstrap interval{'' if all(enough) else f' where there are {FEWEST} or more'}{drawn}"


def _seeds(across: Across) -> str:
    counts = [summary.seeds for summary in across.summaries.values()]
    return f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}, by setting"


def explained(across: Across, said: str, more: Sequence[str], shown: Iterable[str]) -> str:
    """Write a note: what is said, the star where a name that is shown or told has one, and what more is to know."""
    names, text = {name for label, name in across.starred.items() if name != label}, " ".join(more)
    star = bool(names & set(shown)) or any(name in text for name in names)
    return " ".join([said, *([COMPLETED] if star else []), *more])


def absent(across: Across, wanted: Iterable[str]) -> Iterator[str]:
    """Say which settings of a suite are not there, and which methods are missing where or have fewer runs."""
    without = [shown for shown in wanted if shown not in across.summaries]
    if without:
        yield f"No results yet on {', '.join(without)}; means are over the other {len(across.summaries)} settings."
    yield from never(across, "table-main", f"the {SUITE} settings")
    yield from uneven(across)


class Beside(NamedTuple):
    """A figure besides the gain: column of a summary, factor, and whether more is better."""

    column: str
    factor: float = 1
    more: bool = False
    digits: int = 1


BESIDE = {
    "Macro-F1": Beside("person_mean", more=True),
    "F1 truth": Beside("macro_f1_truth", more=True),
    "F1 all": Beside("macro_f1_all", more=True),
    "Accuracy": Beside("accuracy", 100, more=True),
    "Fragmented (%)": Beside("frames_fragmentation", 100),
    "Deleted (%)": Beside("frames_deletion", 100),
    "Inserted (%)": Beside("frames_insertion", 100),
    "Events inserted": Beside("events_inserted"),
    "Changes missed (%)": Beside("missed", 100),
    "Delay (windows)": Beside("delay", digits=2),
    "Calibration error": Beside("ece", digits=3),
}


def beside(
    across: Across, name: str, title: str, *, labels: Sequence[str] | None = None, heads: Sequence[str] = tuple(BESIDE)
) -> Table:
    """Show accuracy, the readings of macro-F1 and errors as segments, averaged over settings.

    Parameters
    ----------
    across, name, title
        What is shown, and how it is called.
    labels, heads
        Only these methods, and only these figures of `BESIDE`.
    """
    order = [label for label in across.whole if labels is None or label in labels]
    columns = [[Cell(across.starred[label]) for label in order]]
    seeds = across.figure("seeds").loc[order]
    full = seeds.eq(seeds.max()).all(axis=1)  # a level over fewer runs is not to be held against the others'
    for column, factor, more, digits in (BESIDE[head] for head in heads):
        values = factor * average(across, column).loc[order]
        columns.append(marked([number(v, digits) for v in values], (values if more else -values).where(full)))
    note = (
        f"{'' if across.alone else 'Mean over settings, for methods run on all of them. '}Wrong windows by kind are in "
        "percent of all windows; delay: windows until a change is answered (median of a stream), of those "
        "answered at all."
    )
    if not full.all():
        note += " Each line is over the runs of its method; those with fewer seeds are never marked best."
    note = explained(
        across, note, [*fewer(seeds, across.starred, paired=False)], [across.starred[label] for label in order]
    )
    rows, heading = list(zip(*columns, strict=True)), "Accuracy, readings, errors as segments"
    return Table(name=name, title=title, heads=["Method", *heads], rows=rows, note=note, heading=heading, folded=True)


def average(across: Across, column: str) -> Any:
    """Average a figure of each method over settings: a column of the summaries, or "delay" in windows."""
    if column == "delay":
        strides = np.array([summary.stride_s for summary in across.summaries.values()])
        return (across.figure("delay_median_s") / strides).mean(axis=1)
    return across.figure(column).mean(axis=1)


def overview(across: Across, *, ours: str, base: str, authors: str, own: str) -> Table:
    """Show settings by what a reader asks first: source-only, trivial filters, SIGHT, the best rival, our method."""
    levels, deltas = across.figure("person_mean").loc[base], across.figure("delta")
    trivial = [label for label, method in across.methods.items() if method in TRIVIAL]
    rivals = [label for label in across.methods if label not in (base, own)]
    picks = {"Best trivial": trivial, ours: [ours], authors: [authors], "Best rival": rivals, own: [own]}
    rows, kept = [], []
    for shown, level in levels.items():
        best = [_best(deltas[shown], labels) for labels in picks.values()]
        kept.append([gain for _, gain in best])
        cells = [
            _level(level, gain, across.starred.get(label, "") if head.startswith("Best") else "")
            for head, (label, gain) in zip(picks, best, strict=True)
        ]
        rows.append([Cell(str(shown)), Cell(number(level)), *cells])
    if not across.alone:
        level = float(levels.mean())
        means = [_level(level, gain) for gain in np.mean(kept, axis=0)]
        rows.append([Cell("**Mean**"), Cell(number(level)), *means])
    note = (
        "Means over people, difference to source-only on the method's own runs in brackets; the best trivial filter "
        "and the best rival are chosen on each setting by that difference, with hindsight."
    )
    named = [cell.below for row in rows for cell in row]
    note = explained(across, note, uneven(across), named)
    return Table(name="overview", title="Macro-F1", heads=["Setting", base, *picks], rows=rows, note=note)


def _best(gains: Any, labels: Sequence[str]) -> tuple[str, float]:
    """Return who of some methods gains most, and how much."""
    known = gains.reindex(labels).dropna()
    return (str(known.idxmax()), float(known.max())) if len(known) else ("", float("nan"))


def _level(base: float, gain: float, name: str = "") -> Cell:
    return Cell(f"{number(base + gain)} ({number(gain, sign=True)})", below=name)
