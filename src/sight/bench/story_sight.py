"""Chapters of the findings about SIGHT: where it gains, what matches it, its segments and its cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from sight.bench.aggregate import HARM, READINGS
from sight.bench.coverage import listed
from sight.bench.evidence import (
    AUTHORS,
    BASE,
    CLAIM,
    EMA,
    KEEL,
    OURS,
    PRINTED,
    REPORTS,
    STICKY,
    Evidence,
    of_average,
    outcome,
    printed,
    share,
)
from sight.bench.leaderboard import beside
from sight.bench.multi_setting import Across
from sight.bench.stats import TIE
from sight.bench.table_format import DASH, Cell, Table, interval, number, points


def gains(evidence: Evidence) -> Iterator[str]:
    """Say where SIGHT gains and where it does not, setting by setting, beside the paper's figures."""
    every, nine = evidence.across("table-main", everywhere=True), evidence.across("table-main")
    yield _by_setting(every, {shown: name for name, shown in evidence.settings.items()}).markdown()
    yield "![Gain of four methods over source-only on each setting](figures/findings-gains.svg)"
    yield (
        f"SIGHT {outcome(nine.each(OURS))}: {points(nine.gain(OURS))}{of_average(nine)}. "
        f"{number(100 * nine.harmed(OURS))} % of its runs lose more than {HARM:g} points to source-only."
    )
    yield _beside_paper(every)
    yield (
        f"The authors' public code differs from the paper's equations, and is another method in effect: it "
        f"{outcome(nine.each(AUTHORS))}, {points(nine.gain(AUTHORS))}{of_average(nine)}."
    )


def _by_setting(every: Across, names: Mapping[str, str]) -> Table:
    rows = []
    for shown in every.each(OURS):
        summary = every.summaries[shown]
        t = summary.table
        gained = {
            label: Cell(number(t.at[label, "delta"], sign=True), below=interval(*t.loc[label, ["low", "high"]]))
            for label in (OURS, AUTHORS, EMA, STICKY)
            if label in t.index
        }
        won, level, lost, harmed, runs = t.loc[OURS, ["wins", "ties", "losses", "harmed", "runs"]]
        counts = [Cell(f"{won:.0f}/{level:.0f}/{lost:.0f}"), Cell(number(share(harmed, runs)))]
        others = [gained.get(label, Cell(DASH)) for label in (AUTHORS, EMA, STICKY)]
        report = f"[{shown}]({REPORTS}/{names[shown]}/report.md)"
        first = [Cell(report), Cell(str(summary.people)), Cell(number(t.at[BASE, "person_mean"]))]
        rows.append([*first, gained[OURS], *counts, *others])
    heads = ["Setting", "People", BASE, OURS, "won/level/lost", "harmed, %", AUTHORS, EMA, STICKY]
    note = (
        "Means over people. Won/level/lost: people on whom SIGHT, averaged over sources and seeds, is better, within "
        f"{TIE:g} points, and worse than source-only. Harmed: share of runs that lose more than {HARM:g} points."
    )
    return Table(name="sight", title="Macro-F1 in points, and differences to it", heads=heads, rows=rows, note=note)


def _beside_paper(every: Across) -> str:
    said = []
    for shown, here in every.each(OURS).items():
        table = every.summaries[shown].table
        gain = table.at[OURS, "paper_delta"]
        if np.isfinite(gain):
            said.append(
                f"On {shown}, the paper prints {number(gain, sign=True)} for SIGHT (source-only at "
                f"{number(table.at[BASE, 'paper'])} over pairs) and we find {points(here)} (source-only at "
                f"{number(table.at[BASE, 'mean'])} over pairs, {number(table.at[BASE, 'person_mean'])} over people): "
                f"the claim of a gain {CLAIM[here.verdict]} on these pairs."
            )
    said.append(f"The paper's main table prints {printed('main', OURS)}; those corpora are not at hand.")
    return " ".join(said)


def trivial(evidence: Evidence) -> Iterator[str]:
    """Say whether filters of a line or two match SIGHT."""
    nine = evidence.across("table-main")
    for label, what in ((STICKY, "A two-line sticky filter"), (EMA, "A moving average of the answers")):
        if label in nine.methods:
            against = outcome(nine.each(label, OURS), "is better", "is worse", "shows no difference")
            yield f"{what}, against SIGHT, {against}: {points(nine.difference(label, OURS))}{of_average(nine)}."


def readings(evidence: Evidence) -> Iterator[str]:
    """Say what it changes whether macro-F1 averages over classes in truth or answers, in truth, or over all."""
    names = ("over classes in truth or answers", "over classes in truth", "over all classes")
    found = {
        name: evidence.across("table-main", metric=reading, only=(BASE, OURS, KEEL))
        for name, reading in zip(names, READINGS, strict=True)
    }
    gained = [f"{name} {points(own.gain(OURS))} and {points(own.gain(KEEL))}" for name, own in found.items()]
    yield f"{'Gains' if found[names[0]].alone else 'Mean gains'} of SIGHT and of Keel: {'; '.join(gained)}."
    first, *others = found.values()
    turned = [
        shown
        for shown, apart in first.each(OURS).items()
        if any(other.each(OURS)[shown].verdict != apart.verdict for other in others)
    ]
    best = {
        shown: [str(summary.table[reading.replace("macro_f1", "gain")].idxmax()) for reading in READINGS]
        for shown, summary in evidence.across("table-main").summaries.items()
    }
    moved = [f"{shown} ({', '.join(own)})" for shown, own in best.items() if len(set(own)) > 1]
    apart = {shown: float(np.ptp([own.each(OURS)[shown].mean for own in found.values()])) for shown in first.summaries}
    most = max(apart, key=lambda shown: apart[shown])
    where = "" if first.alone else f" ({most})"
    yield (
        f"The reading moves SIGHT's gain by at most {number(apart[most])} points{where}. Its verdict depends on the "
        f"reading on {listed(turned) if turned else 'no setting'}, and which method is best on "
        f"{listed(moved) if moved else 'no setting'}. Readings part where people never do some activity: one wrong "
        "answer of such a class adds a zero to the first, nothing to the second; the third counts a zero for it anyway."
    )


def segments(evidence: Evidence) -> Iterator[str]:
    """Show fragmentation, missed changes and delay."""
    shown = (BASE, EMA, STICKY, OURS, AUTHORS, KEEL)
    heads = ("Accuracy", "Fragmented (%)", "Events inserted", "Changes missed (%)", "Delay (windows)")
    nine = evidence.across("table-main")
    yield beside(nine, "segments", "Accuracy and errors as segments", labels=shown, heads=heads).markdown()


def cost(evidence: Evidence) -> Iterator[str]:
    """Say what a window costs, by the committed stopwatch."""
    for name, shape in evidence.speed.get("shapes", {}).items():
        by = {row["method"]: row for row in shape["methods"]}
        said = []
        for method in (method for method in ("none", "sticky", "sight", "keel", "tent", "rotta") if method in by):
            beside = by[method]["paper_ms_per_window"]
            said.append(f"{method} {by[method]['ms_per_window']:.2f}" + (f" (paper {beside:g})" if beside else ""))
        yield (
            f"At the shape of {PRINTED.get(name, name)} a window costs, in ms with the encoder: {', '.join(said)}. "
            f"SIGHT's update alone takes {shape['update_us']['replay']:.1f} µs.{_noise(shape['methods'])}"
        )
    yield "Figures of all methods are in [speed.md](speed.md) and [memory.md](memory.md)."


def _noise(methods: Sequence[Mapping[str, Any]]) -> str:
    """Say how far apart times of one and the same encoder lie, taken beside each method: less is no difference."""
    alone = [row["source_ms_per_window"] for row in methods if row["source"] == "onnx"]
    if len(alone) < 2:
        return ""
    return (
        f" The same encoder alone, timed again beside each method without a gradient, took {min(alone):.2f} to "
        f"{max(alone):.2f} ms: differences under {max(alone) - min(alone):.2f} ms are noise."
    )
