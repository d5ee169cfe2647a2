"""Chapters of the findings about SIGHT's claims: order, changes and prototypes, mechanisms, networks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from sight.bench.aggregate import CASES, grids
from sight.bench.analyses import EDGES
from sight.bench.coverage import listed
from sight.bench.evidence import (
    BASE,
    KEEL,
    OURS,
    STICKY,
    STRONG,
    Evidence,
    counted,
    lead,
    mean,
    outcome,
    persistence,
    printed,
)
from sight.bench.multi_setting import Across
from sight.bench.plan import ORDERS
from sight.bench.result_rows import details
from sight.bench.table_format import number, points


def order(evidence: Evidence) -> Iterator[str]:
    """Say what chronological order is worth."""
    found = {name: evidence.across("order", order=name) for name in ORDERS}
    straight, mixed = found["chronological"], found["shuffled"]
    if not any(own.summaries for own in found.values()):
        return
    worth = straight.difference(OURS, OURS, mixed)
    if not np.isfinite(worth.mean) or not found["blocks"].summaries:
        yield "SIGHT was not run in every order on the same settings: what order is worth is left open."
        return
    yield "![Gain over source-only as the order of time is destroyed](figures/findings-order.svg)"
    others = [
        f"{label} {points(straight.difference(label, label, mixed))}"
        for label in (STICKY, "OATTA", KEEL)
        if label in straight.whole
    ]
    yield (
        f"{_persistence(evidence)}To SIGHT, order is worth {points(worth)} points "
        f"against the same windows shuffled{evidence.scope('order', OURS, STICKY, 'OATTA', KEEL)}; to others, "
        f"{', '.join(others)}. {_at_best(found)} It also prints, for shuffled "
        f"streams, a gain over source-only of {printed('order', OURS, 'shuffled')}, which order cannot explain; "
        f"shuffled, SIGHT is at {points(mixed.gain(OURS))} here."
    )


def _at_best(found: Mapping[str, Across]) -> str:
    """Say on which settings intervals show SIGHT at its best in chronological order, of those run in every order."""
    straight, *others = (own.summaries for own in found.values())
    shared = [shown for shown in straight if all(shown in own.each(OURS) for own in found.values())]
    verdicts = {shown: lead(straight[shown], [other[shown] for other in others]) for shown in shared}
    words = {
        "better": "is at its best in chronological order",
        "worse": "is better in another order",
        "open": "shows no best order",
        "unknown": "cannot be judged",
    }
    grouped = {verdict: [shown for shown in shared if verdicts[shown] == verdict] for verdict in words}
    said = [f"{words[verdict]} on {listed(own)}" for verdict, own in grouped.items() if own]
    return (
        f"SIGHT {listed(said)}. The paper finds it best in chronological order, by "
        f"{printed('order', OURS, 'chronological', less=OURS, less_case='shuffled')}."
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
    strong = int((by["auc"] >= STRONG).sum())
    held = "not there" if not strong else f"there on {strong} of {len(by)} settings" if len(by) > 1 else "there"
    shut = "it is never shut" if inside > 0.1 else "it hardly opens" if change < 0.1 else "it opens there"
    yield (
        f"Surprise tells a change from a window inside a segment{evidence.scope('geometry')} with an AUC of "
        f"{by['auc'].mean():.2f}"
        f"{' on average' if len(by) > 1 else ''} ({spread}{by['auc_true'].mean():.2f} if the belief were always "
        f"right); the paper's strong separation, {STRONG} or more, is {held}. "
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
    there = set(rows["setting"])
    once = [shown for setting, shown in evidence.settings.items() if setting in there and shown not in moved]
    silent = f" On {listed(once)} no class comes back, and there is nothing to compare." if once else ""
    frozen = evidence.across("ablation")
    label = "w/o prototype update"
    worth = (
        f" Without the update SIGHT changes by {points(frozen.difference(label, OURS))} points"
        f"{evidence.scope('ablation', label, OURS)}."
    )
    yield (
        f"Prototypes go from a cosine of {rows['first'].mean():.2f} with the wearer's own centroid in the first "
        f"segment of a class to {rows['last'].mean():.2f} in the last{evidence.scope('prototypes')}: they "
        f"{outcome(moved, 'come nearer', 'move away', 'stay')}; the paper finds every class nearer.{silent}"
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
