"""Chapters of the findings about SIGHT: where it gains, what matches it, and which of its claims the rows bear out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from sight.bench.across import Across
from sight.bench.analyses import EDGES
from sight.bench.boards import beside
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
    counted,
    mean,
    of_average,
    outcome,
    persistence,
    printed,
    share,
)
from sight.bench.forms import DASH, Cell, Table, interval, number, points
from sight.bench.plan import ORDERS
from sight.bench.rows import details
from sight.bench.stats import TIE
from sight.bench.summary import CASES, HARM, READINGS, grids


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


def order(evidence: Evidence) -> Iterator[str]:
    """Say what chronological order is worth."""
    found = {name: evidence.across("order", order=name) for name in ORDERS}
    straight, mixed = found["chronological"], found["shuffled"]
    if not straight.summaries or not mixed.summaries:
        return
    yield "![Gain over source-only as the order of time is destroyed](figures/findings-order.svg)"
    shared = [shown for shown in straight.summaries if all(shown in own.each(OURS) for own in found.values())]
    levels = {name: own.figure("mean").loc[OURS] for name, own in found.items()}
    best = [shown for shown in shared if all(levels["chronological"][shown] >= own[shown] for own in levels.values())]
    at_best = f"{len(best)} of {len(shared)} settings" if len(best) > 2 else listed(best or ["no setting"])
    others = [
        f"{label} {points(straight.difference(label, label, mixed))}"
        for label in (STICKY, "OATTA", KEEL)
        if label in straight.whole
    ]
    yield (
        f"{_persistence(evidence)}To SIGHT, order is worth {points(straight.difference(OURS, OURS, mixed))} points "
        f"against the same windows shuffled{evidence.scope('order', OURS, STICKY, 'OATTA', KEEL)}; to others, "
        f"{', '.join(others)}. SIGHT is at its best in chronological order on "
        f"{at_best}. The paper finds it best there, by "
        f"{printed('order', OURS, 'chronological', less=OURS, less_case='shuffled')}. It also prints, for shuffled "
        f"streams, a gain over source-only of {printed('order', OURS, 'shuffled')}, which order cannot explain; "
        f"shuffled, SIGHT is at {points(mixed.gain(OURS))} here."
    )


def _persistence(evidence: Evidence) -> str:
    rows = evidence.of("motivation")
    if not len(rows):
        return ""
    truth, raw = (
        mean(persistence(own, name) for _, own in rows.groupby("setting"))
        for name in ("transitions_true", "transitions_raw")
    )
    return (
        f"A window repeats the class before it with probability {truth:.2f} in truth and {raw:.2f} in the answers of "
        f"the source{evidence.scope('motivation')}. "
    )


def geometry(evidence: Evidence) -> Iterator[str]:
    """Say what the feature space shows where activities change, and whether prototypes come nearer."""
    rows = evidence.of("geometry")
    if not len(rows):
        return
    yield "![Separability of changes, and whether deviations point at the new activity](figures/findings-geometry.svg)"
    by = rows.groupby("setting")[["auc", "auc_true", "routing_top1", "chance", "raw_top1"]].mean()
    chance = evidence.by_person(rows, 100 * (rows["routing_top1"] - rows["chance"]))
    alone = evidence.by_person(rows, 100 * (rows["routing_top1"] - rows["raw_top1"]))
    inside, change = (_gate(rows, name) for name in ("inside", "change"))
    spread = "" if len(by) == 1 else f"{by['auc'].min():.2f} to {by['auc'].max():.2f}; "
    strong = int((by["auc"] >= 0.9).sum())
    held = "not there" if not strong else f"there on {strong} of {len(by)} settings" if len(by) > 1 else "there"
    shut = "it is never shut" if inside > 0.1 else "it hardly opens" if change < 0.1 else "it opens there"
    yield (
        f"Surprise tells a change from a window inside a segment{evidence.scope('geometry')} with an AUC of "
        f"{by['auc'].mean():.2f}"
        f"{' on average' if len(by) > 1 else ''} ({spread}{by['auc_true'].mean():.2f} if the belief were always "
        f"right); the paper's strong separation, 0.9 or more, is {held}. "
        f"At the paper's beta of 1 the gate stands at {inside:.2f} inside a segment and at {change:.2f} "
        f"right after a change: {shut}. The deviation points best at the new class in "
        f"{100 * by['routing_top1'].mean():.0f} % of the changes, where chance is {100 * by['chance'].mean():.0f} % "
        f"({counted(chance)}) and the classifier alone is right in {100 * by['raw_top1'].mean():.0f} % (the direction "
        f"is {counted(alone)})."
    )
    yield from _prototypes(evidence)


def _gate(rows: Any, name: str) -> float:
    """Mean surprise at the paper's beta, from the histograms of similarity, each setting counting once."""
    middle = (EDGES[1:] + EDGES[:-1]) / 2
    surprise, found = 1 - np.exp(-((1 - middle) ** 2)), []
    for _, own in rows.groupby("setting"):
        counts = np.sum(details(own, f"histogram_{name}"), axis=0)
        found.append(float((counts * surprise).sum() / max(counts.sum(), 1)))
    return mean(found)


def _prototypes(evidence: Evidence) -> Iterator[str]:
    rows = evidence.of("prototypes")
    if not len(rows):
        return
    near = {name: [mean(np.array(own, dtype=float)) for own in details(rows, name)] for name in ("first", "last")}
    rows = rows.assign(**near)
    moved = evidence.by_person(rows, rows["last"] - rows["first"])
    frozen = evidence.across("ablation")
    label = "w/o prototype update"
    worth = (
        f" Without the update SIGHT changes by {points(frozen.difference(label, OURS))} points"
        f"{evidence.scope('ablation', label, OURS)}."
    )
    yield (
        f"Prototypes go from a cosine of {rows['first'].mean():.2f} with the wearer's own centroid in the first "
        f"segment of a class to {rows['last'].mean():.2f} in the last{evidence.scope('prototypes')}: they "
        f"{outcome(moved, 'come nearer', 'move away', 'stay')}; the paper finds every class nearer."
        f"{worth if label in frozen.whole else ''}"
    )


def mechanisms(evidence: Evidence) -> Iterator[str]:
    """Say what mechanisms, design choices, hyper-parameters and networks change."""
    for name, what in (("ablation", "Taken away one at a time, the mechanisms"), ("design", "Plainer choices")):
        found = evidence.across(name)
        said = [
            f"{label.removeprefix('w/o ') if name == 'ablation' else label} {points(found.difference(label, OURS))} "
            f"({counted(found.each(label, OURS))}; paper {printed(name, label, less=OURS)})"
            for label in found.whole
            if label not in (BASE, OURS)
        ]
        if said:
            yield f"{what} change SIGHT by, in points{evidence.scope(name, *found.whole)}: {'; '.join(said)}."
    yield from _sensitivity(evidence)
    yield from _networks(evidence)


def _sensitivity(evidence: Evidence) -> Iterator[str]:
    found = evidence.across("sensitivity")
    if OURS not in found.whole:
        return
    means, moves = found.figure("person_mean").mean(axis=1), {}
    for name, labels in grids(means.to_frame()).items():
        moves[name] = float(np.ptp(means[list(labels.values())]))
    said = [f"{name} {number(value)}" for name, value in moves.items()]
    best = str(means.drop(index=BASE).idxmax())
    flat, scope = [name for name, value in moves.items() if value < 1], evidence.scope("sensitivity", *found.whole)
    yield (
        f"Over its grid each hyper-parameter moves the mean by, in points{scope}: {', '.join(said)}; flat, under one "
        f"point, {'is' if len(flat) == 1 else 'are'} {listed(flat)}. The best single change, {best}, brings "
        f"{points(found.difference(best, OURS))} over the paper's values, and {points(found.gain(best))} over "
        "source-only."
    )


def _networks(evidence: Evidence) -> Iterator[str]:
    said = []
    for encoder in ("cnn", "resnet", "transformer"):
        found = evidence.across("backbones", encoder=encoder)
        if OURS in found.whole:
            sticky, case = points(found.gain(STICKY)), CASES[encoder]
            scope = evidence.scope("backbones", OURS, STICKY, encoder=encoder)
            beside = printed("backbone", OURS, case)
            said.append(f"{case}{scope} {points(found.gain(OURS))}, sticky {sticky} (paper {beside})")
    if said:
        yield f"Gain of SIGHT by network: {'; '.join(said)}."


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
