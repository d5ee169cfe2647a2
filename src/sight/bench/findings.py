"""What the numbers say in words, and above all where a claim of the paper does not hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from sight.bench.coverage import fewer
from sight.bench.evidence import AUTHORS, CLAIM, KEEL, OURS, STICKY, persistence
from sight.bench.figures import _class_means
from sight.bench.forms import number, points
from sight.bench.rows import details
from sight.bench.stats import Apart
from sight.bench.summary import HARM, READINGS, Summary, grids

#: Whom SIGHT is held against besides source-only.
OTHERS = {STICKY: "a two-line sticky filter", AUTHORS: "its authors' public code"}
READING_NAMES = dict(zip(READINGS, ("union", "truth", "all classes"), strict=True))


def comparison(summary: Summary, where: str) -> Iterator[str]:
    """Say whether SIGHT gains, whether it is best, and what a two-line filter does."""
    table, base = summary.table, summary.baseline
    if OURS in table.index and base is not None:
        yield _gain(summary, where)
        yield _place(summary)
        for other, called in OTHERS.items():
            if other in table.index:
                yield f"Against {called} SIGHT is at {points(summary.difference(OURS, other), 'points')}."
    yield from _readings(summary)
    yield from _incomplete(summary)


def _gain(summary: Summary, where: str) -> str:
    row, base = summary.table.loc[OURS], summary.baseline
    gain = Apart(*row[["delta", "low", "high"]])
    said = f"On {where}, source-only reaches {number(summary.table.at[base, 'mean'])} points of macro-F1 and SIGHT "
    said += f"{number(row['mean'])}, over pairs; over people {points(gain, 'points')}"
    if np.isfinite(row["paper_delta"]):
        said += f"; the paper prints {number(row['paper_delta'], sign=True)} on these pairs"
    why = {"open": ": the interval includes zero", "unknown": " with so few people"}.get(gain.verdict, "")
    return f"{said}. The paper's claim of a gain {CLAIM[gain.verdict]} here{why}."


def _place(summary: Summary) -> str:
    order = summary.table["delta"].fillna(0.0).sort_values(ascending=False, kind="stable")
    place = list(order.index).index(OURS) + 1
    here = f"SIGHT is the best of {len(order)} here" if place == 1 else f"SIGHT is number {place} of {len(order)} here"
    if place > 1:
        here += f", behind {order.index[0]} with {number(order.iloc[0], sign=True)} points against source-only"
    printed = summary.table["paper"].dropna()
    if OURS not in printed.index:
        return f"{here}; the paper finds it best on its own main datasets."
    there = int((printed > printed[OURS]).sum()) + 1
    return f"{here}; on these pairs the paper prints it as number {there} of {len(printed)}."


def _readings(summary: Summary) -> Iterator[str]:
    best = {READING_NAMES[name]: summary.table[name.replace("macro_f1", "gain")].idxmax() for name in READINGS}
    if len(set(best.values())) > 1:
        listed = ", ".join(f"{label} over {name}" for name, label in best.items())
        yield f"Which method is best depends on the reading of macro-F1: {listed}."


def _incomplete(summary: Summary) -> Iterator[str]:
    there = summary.runs.notna()
    yield from fewer(summary.table[["seeds"]], {str(label): str(label) for label in summary.table.index})
    for label, own in there.items():
        of_its_seeds = there[there.index.get_level_values("seed").isin(own[own].index.get_level_values("seed"))]
        most, count = len(of_its_seeds), int(own.sum())
        if count < most:
            yield f"{label} has {count} of {most} trials; its figures are over those."


def variants(summary: Summary) -> Iterator[str]:
    """Say for which plainer variants it holds that the full method is better, as the paper finds."""
    if OURS not in summary.table.index:
        return
    others = [label for label in summary.table.index if label not in (OURS, summary.baseline)]
    apart = {label: summary.difference(label, OURS) for label in others}
    full = number(summary.table.at[OURS, "mean"])
    yield f"The paper finds every variant below the full method, which reaches {full} points here."
    words = {"worse": "That holds", "better": "It does not hold", "open": "It is not shown", "unknown": "It is open"}
    for verdict, told in words.items():
        own = [f"{label} ({points(found, 'points')})" for label, found in apart.items() if found.verdict == verdict]
        if own:
            yield f"{told} here for {len(own)} of {len(others)}: {'; '.join(own)}."


def parts(summary: Summary) -> Iterator[str]:
    """Say how far variants of our own method lie from the whole."""
    methods = summary.table["method"]
    others = [label for label in methods.index if label != KEEL and methods[label] == methods.get(KEEL)]
    if others:
        told = (f"{label} {points(summary.difference(label, KEEL))}" for label in others)
        yield f"Against whole Keel, in points: {'; '.join(told)}."


def sensitivity(summary: Summary) -> Iterator[str]:
    """Say how far each hyper-parameter moves the score."""
    found = grids(summary.table)
    told = []
    for name, labels in found.items():
        points = {value: summary.table.at[label, "mean"] for value, label in labels.items()}
        best = max(points, key=lambda value: points[value])
        told.append(f"{name} {number(max(points.values()) - min(points.values()))} (best at {best:g})")
    yield f"Over its grid each hyper-parameter moves the mean by, in points: {', '.join(told)}."
    gains = summary.table.loc[[label for labels in found.values() for label in labels.values()], "delta"]
    if gains.notna().all():
        best_gain, better = number(gains.max(), sign=True), int((gains > 0).sum())
        yield f"Of {len(gains)} values {better} lie above source-only; the best gives {best_gain} points."


def conditions(summaries: Mapping[str, Summary], *, ordered: bool) -> Iterator[str]:
    """Say what the order of time is worth, or on which networks SIGHT gains."""
    yield from _worth(summaries) if ordered else _networks(summaries)


def _worth(summaries: Mapping[str, Summary]) -> Iterator[str]:
    first, last = next(iter(summaries.values())), list(summaries.values())[-1]
    told = [
        f"{label} {number(first.apart(label, label, last).mean(), sign=True)}"
        for label in first.table.index
        if label != first.baseline and label in last.table.index
    ]
    if told:
        yield f"What the order of time is worth, in points against a shuffled stream: {', '.join(told)}."
    if OURS in first.table.index:
        means = {case: s.table.at[OURS, "mean"] for case, s in summaries.items() if OURS in s.table.index}
        best = max(means, key=lambda case: means[case])
        if best == next(iter(summaries)):
            yield "SIGHT is at its best in chronological order, as the paper finds."
        else:
            yield f"The paper finds SIGHT at its best in chronological order; that does not hold here: it is on {best}."


def _networks(summaries: Mapping[str, Summary]) -> Iterator[str]:
    gains = {
        case: s.difference(OURS, s.baseline) for case, s in summaries.items() if s.baseline and OURS in s.table.index
    }
    if gains:
        told = ", ".join(f"{case} {points(gain)}" for case, gain in gains.items())
        better = sum(gain.verdict == "better" for gain in gains.values())
        yield f"The paper finds SIGHT to gain on every network; here it does on {better} of {len(gains)}: {told}."


def alone(summary: Summary) -> Iterator[str]:
    """Say who does harm where each class is a stream of its own."""
    base, table = summary.baseline, summary.table
    if base is None:
        return
    yield f"With one class at a time source-only reaches {number(table.at[base, 'mean'])} points of accuracy."
    for label in (label for label in table.index if label != base):
        row = table.loc[label]
        lost = f"{row['harmed']:.0f} of {row['runs']:.0f} runs lose more than {HARM:g} points"
        yield f"{label}: {points(Apart(*row[['delta', 'low', 'high']]), 'points')}; {lost}."


def geometry(rows: Any) -> Iterator[str]:
    """Say how separable changes are, and whether the deviation points the right way."""
    auc, top, chance, raw = (rows[name].mean() for name in ("auc", "routing_top1", "chance", "raw_top1"))
    inside, change = (rows[f"similarity_{name}"].mean() for name in ("inside", "change"))
    yield (
        f"Features are {'nearer to' if inside > change else 'no nearer to'} the expected state inside segments than "
        f"right after a change: cosine {inside:.2f} against {change:.2f}, AUC {auc:.2f} "
        f"({rows['auc_true'].mean():.2f} if the belief were always right), over {int(rows['changes'].sum()):,} changes."
    )
    if auc >= 0.9:
        yield "Changes are strongly separable, as the paper finds."
    else:
        yield "The paper finds changes strongly separable; an AUC below 0.9 falls short of that."
    yield (
        f"The deviation points best at the new class in {100 * top:.0f} % of the changes (chance "
        f"{100 * chance:.0f} %); the classifier alone is right there in {100 * raw:.0f} %"
        + ("." if top > raw else ", so the direction tells less than the answer that is there already.")
    )


def prototypes(rows: Any) -> Iterator[str]:
    """Say for how many classes prototypes came nearer to the wearer."""
    first, last = (np.array(details(rows, name), dtype=float) for name in ("first", "last"))
    known = np.isfinite(first)
    if not known.any():
        yield "No class has two segments in any stream, so there is nothing to compare."
        return
    nearer = int((last > first)[known].sum())
    yield (
        f"Of {int(known.sum())} classes with several segments, over all streams, the prototype is nearer to the "
        f"wearer's centroid in the last segment than in the first for {nearer}; the mean cosine goes from "
        f"{first[known].mean():.3f} to {last[known].mean():.3f}."
    )
    means = [_class_means(details(rows, name)) for name in ("first", "last")]
    worse = np.flatnonzero(means[1] < means[0])
    if len(worse):
        names = ", ".join(str(rows["classes"].iloc[0][k]) for k in worse)
        yield f"The paper finds that every class improves; averaged over streams that does not hold here for {names}."
    else:
        yield "Averaged over streams every class improves, as in the paper."


def motivation(rows: Any) -> Iterator[str]:
    """Say how strongly activities persist, and what features do at a change."""
    for name, what in (("transitions_true", "true classes"), ("transitions_raw", "answers of the classifier")):
        stays = persistence(rows, name)
        yield f"A window of the {what} repeats the one before with probability {stays:.3f}, averaged over classes."
    new, old, other = (rows[name].mean() for name in ("towards_new", "towards_old", "towards_best_other"))
    yield (
        f"Right after a change the deviation has a cosine of {new:.2f} with the direction to the new class, {old:.2f} "
        f"to the old one, and {other:.2f} to the best of the others."
    )
