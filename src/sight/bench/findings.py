"""What the numbers say in words, and above all where a claim of the paper does not hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from sight.bench.aggregate import HARM, READINGS, MethodSummary, grids
from sight.bench.coverage import fewer, listed
from sight.bench.evidence import AUTHORS, CLAIM, FEW, KEEL, OURS, STICKY, lead
from sight.bench.stats import Apart
from sight.bench.table_format import number, points

#: Whom SIGHT is held against besides source-only.
OTHERS = {STICKY: "a two-line sticky filter", AUTHORS: "its authors' public code"}
#: Orders of a stream as tables call them.
ORDER_NAMES = {"chronological": "chronological", "blocks": "blocks of 32", "shuffled": "shuffled"}
READING_NAMES = dict(zip(READINGS, ("union", "truth", "all classes"), strict=True))


def comparison(summary: MethodSummary, where: str) -> Iterator[str]:
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


def _gain(summary: MethodSummary, where: str) -> str:
    row, base = summary.table.loc[OURS], summary.baseline
    gain = Apart(*row[["delta", "low", "high"]])
    said = f"On {where}, source-only reaches {number(summary.table.at[base, 'mean'])} points of macro-F1 and SIGHT "
    said += f"{number(row['mean'])}, over pairs; over people {points(gain, 'points')}"
    if np.isfinite(row["paper_delta"]):
        said += f"; the paper prints {number(row['paper_delta'], sign=True)} on these pairs"
    why = {"open": ": the interval includes zero", "unknown": " with so few people"}.get(gain.verdict, "")
    return f"{said}. The paper's claim of a gain {CLAIM[gain.verdict]} here{why}."


def _place(summary: MethodSummary) -> str:
    order = summary.table["delta"].fillna(0.0).sort_values(ascending=False, kind="stable")
    place = list(order.index).index(OURS) + 1
    here = f"SIGHT is the best of {len(order)} here" if place == 1 else f"SIGHT is number {place} of {len(order)} here"
    if place > 1 and order.index[0] == summary.baseline:
        here += ", behind source-only itself: no method gains"
    elif place > 1:
        here += f", behind {order.index[0]} with {number(order.iloc[0], sign=True)} points against source-only"
    printed = summary.table["paper"].dropna()
    if OURS not in printed.index:
        return f"{here}; the paper finds it best on its own main datasets."
    there = int((printed > printed[OURS]).sum()) + 1
    return f"{here}; on these pairs the paper prints it as number {there} of {len(printed)}."


def _readings(summary: MethodSummary) -> Iterator[str]:
    best = {READING_NAMES[name]: summary.table[name.replace("macro_f1", "gain")].idxmax() for name in READINGS}
    if len(set(best.values())) > 1:
        listed = ", ".join(f"{label} over {name}" for name, label in best.items())
        yield f"Which method is best depends on the reading of macro-F1: {listed}."


def _incomplete(summary: MethodSummary) -> Iterator[str]:
    there = summary.runs.notna()
    yield from fewer(summary.table[["seeds"]], {str(label): str(label) for label in summary.table.index})
    for label, own in there.items():
        of_its_seeds = there[there.index.get_level_values("seed").isin(own[own].index.get_level_values("seed"))]
        most, count = len(of_its_seeds), int(own.sum())
        if count < most:
            yield f"{label} has {count} of {most} trials; its figures are over those."


def variants(summary: MethodSummary) -> Iterator[str]:
    """Say for which plainer variants it holds that the full method is better, as the paper finds."""
    if OURS not in summary.table.index:
        return
    others = [label for label in summary.table.index if label not in (OURS, summary.baseline)]
    apart = {label: summary.difference(label, OURS) for label in others}
    full = number(summary.table.at[OURS, "mean"])
    yield f"The paper finds every variant below the full method, which reaches {full} points here."
    words = {"worse": "That holds here", "better": "It does not hold here", "open": "It is not shown here"}
    for verdict, told in (words | {"unknown": f"It {FEW}"}).items():
        own = [f"{label} ({points(found, 'points')})" for label, found in apart.items() if found.verdict == verdict]
        if own:
            yield f"{told} for {len(own)} of {len(others)}: {'; '.join(own)}."


def parts(summary: MethodSummary) -> Iterator[str]:
    """Say how far variants of our own method lie from the whole."""
    methods = summary.table["method"]
    others = [label for label in methods.index if label != KEEL and methods[label] == methods.get(KEEL)]
    if others:
        told = (f"{label} {points(summary.difference(label, KEEL))}" for label in others)
        yield f"Against whole Keel, in points: {'; '.join(told)}."


def sensitivity(summary: MethodSummary) -> Iterator[str]:
    """Say how far each hyper-parameter moves the score."""
    found = grids(summary.table)
    told = []
    for name, labels in found.items():
        means = {value: summary.table.at[label, "mean"] for value, label in labels.items()}
        best = max(means, key=lambda value: means[value])
        told.append(f"{name} {number(max(means.values()) - min(means.values()))} (best at {best:g})")
    yield f"Over its grid each hyper-parameter moves the mean by, in points: {', '.join(told)}."
    if summary.baseline is not None:
        yield _above(summary, [label for labels in found.values() for label in labels.values()])


def _above(summary: MethodSummary, labels: Sequence[str]) -> str:
    gains = [Apart(*summary.table.loc[label, ["delta", "low", "high"]]) for label in labels]
    best = points(max(gains, key=lambda gain: gain.mean), "points")
    verdicts = [gain.verdict for gain in gains]
    better = f"Of {len(gains)} values {verdicts.count('better')} gain over source-only, the interval above zero"
    return f"{f'Whether a value gains {FEW}' if 'unknown' in verdicts else better}; the best gives {best}."


def conditions(summaries: Mapping[str, MethodSummary], *, ordered: bool) -> Iterator[str]:
    """Say what the order of time is worth, or on which networks SIGHT gains."""
    yield from _worth(summaries) if ordered else _networks(summaries)


def _worth(summaries: Mapping[str, MethodSummary]) -> Iterator[str]:
    straight, mixed = (summaries.get(case) for case in ("chronological", "shuffled"))
    if straight is not None and mixed is not None:
        told = [
            f"{label} {points(straight.difference(label, label, mixed))}"
            for label in straight.table.index
            if label != straight.baseline and label in mixed.table.index
        ]
        yield f"What the order of time is worth, in points against a shuffled stream: {', '.join(told) or 'unknown'}."
    ours = {case: summary for case, summary in summaries.items() if OURS in summary.table.index}
    if ours:
        yield _at_best(ours)
    most = max(len(summary.runs) for summary in summaries.values())
    for case, summary in summaries.items():
        if len(summary.runs) < most:
            yield f"{case.capitalize()} has {len(summary.runs)} of {most} trials; its figures are over those."


def _at_best(ours: Mapping[str, MethodSummary]) -> str:
    """Say whether SIGHT is at its best in chronological order, by intervals over people, or what is missing."""
    claim = "The paper finds SIGHT at its best in chronological order"
    lacking = [case for case in ORDER_NAMES.values() if case not in ours]
    if lacking:
        return f"{claim}; that cannot be judged here: there is no row of SIGHT for {listed(lacking)}."
    first, *others = (ours[case] for case in ORDER_NAMES.values())
    verdict = lead(first, others)
    if verdict == "better":
        return "SIGHT is at its best in chronological order, as the paper finds."
    told = listed(
        f"{points(first.difference(OURS, OURS, other))} against {case}"
        for case, other in zip(list(ORDER_NAMES.values())[1:], others, strict=True)
    )
    words = {"worse": "does not hold here", "open": "is not shown here", "unknown": FEW}
    return f"{claim}; that {words[verdict]}: it is at {told}."


def _networks(summaries: Mapping[str, MethodSummary]) -> Iterator[str]:
    gains = {
        case: s.difference(OURS, s.baseline) for case, s in summaries.items() if s.baseline and OURS in s.table.index
    }
    if gains:
        told = ", ".join(f"{case} {points(gain)}" for case, gain in gains.items())
        verdicts = [gain.verdict for gain in gains.values()]
        held = f"here it does on {verdicts.count('better')} of {len(gains)}"
        said = f"that {FEW}" if "unknown" in verdicts else held
        yield f"The paper finds SIGHT to gain on every network; {said}: {told}."


def alone(summary: MethodSummary) -> Iterator[str]:
    """Say who does harm where each class is a stream of its own."""
    base, table = summary.baseline, summary.table
    if base is None:
        return
    yield f"With one class at a time source-only reaches {number(table.at[base, 'mean'])} points of accuracy."
    for label in (label for label in table.index if label != base):
        row = table.loc[label]
        lost = f"{row['harmed']:.0f} of {row['runs']:.0f} runs lose more than {HARM:g} points"
        yield f"{label}: {points(Apart(*row[['delta', 'low', 'high']]), 'points')}; {lost}."
