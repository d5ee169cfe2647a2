"""Chapters of the findings about Keel, our own method: why, what it gains, what its parts earn, where it loses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sight.bench import leaderboard
from sight.bench.aggregate import HARM
from sight.bench.coverage import listed, uneven
from sight.bench.evidence import AUTHORS, BASE, KEEL, OURS, STICKY, Evidence, mean, of_average, on, outcome, share
from sight.bench.multi_setting import Across
from sight.bench.result_rows import details
from sight.bench.settings import suite
from sight.bench.table_format import DASH, Cell, Table, number, points

#: What the method set out to reach: mean gain, least gain on a setting, settings in which it is best, share harmed.
REACH = {"mean": 4.5, "least": 0.5, "first": 7, "harmed": 5.0}


def why(evidence: Evidence) -> Iterator[str]:
    """Say what the rows tell about the errors that SIGHT cannot mend."""
    rows = evidence.of("table-main", label=BASE)
    alone, pooled = (rows[rows["setting"].str.endswith(how)] for how in ("-single", "-pooled"))
    if len(alone) and len(pooled):
        yield (
            f"Errors of a source on a stranger are systematic. With one source person {_to_one_class(alone):.0f} % of "
            "a class's wrong windows go to one and the same wrong class (with several, "
            f"{_to_one_class(pooled):.0f} %), and {_never(alone):.0f} % of all wrong windows (with several, "
            f"{_never(pooled):.0f} %) lie in activities of which the source recognises none of the stranger's windows. "
            "A prior on persistence makes such answers firmer, not right."
        )
    without = "w/o habit prior"
    habit = evidence.across("ablation").difference(without, OURS)
    if np.isfinite(habit.mean):
        feeds = "feeds on the answers it should correct" if habit.verdict == "better" else "is no remedy"
        yield (
            f"SIGHT's surprise is not calibrated to the stream (above), and its habit prior {feeds}: without it SIGHT "
            f"changes by {points(habit)} points{evidence.scope('ablation', OURS, without)}. Keel turns each of these "
            "round: deviation is measured against the stream's own, the lasting part of it is removed as the wearer's "
            "shift, answers are divided by their running share instead of multiplied by it, and two guards hold back "
            "where a life is too narrow, or the source too sure, to tell a bias. [beyond.md](beyond.md) has the method."
        )


def _to_one_class(rows: Any) -> float:
    """Average over runs the percentage of wrong windows that get the most frequent wrong answer of their class."""
    shares = []
    for table in details(rows, "confusion"):
        wrong = np.array(table, dtype=float)
        np.fill_diagonal(wrong, 0)
        shares.append(share(wrong.max(axis=1).sum(), wrong.sum()))
    return mean(shares)


def _never(rows: Any) -> float:
    """Average over runs the percentage of wrong windows that lie in classes without a single right one."""
    shares = []
    for table in details(rows, "confusion"):
        right = np.diag(table)
        wrong = np.sum(table, axis=1) - right
        shares.append(share(wrong[right == 0].sum(), wrong.sum()))
    return mean(shares)


def results(evidence: Evidence) -> Iterator[str]:
    """Show the suite, what was to be reached, and Keel against every rival."""
    nine = evidence.across("table-main")
    yield overview(nine).markdown()
    yield reach(nine).markdown()
    yield "![Mean gain over source-only of every method](figures/findings-means.svg)"
    yield f"Against source-only Keel {outcome(nine.each(KEEL))}: {points(nine.gain(KEEL))}{of_average(nine)}."
    yield _rivals(nine).markdown()


def overview(nine: Across) -> Table:
    """Show settings by source-only, the best trivial filter, SIGHT, the best rival and Keel."""
    return leaderboard.overview(nine, ours=OURS, base=BASE, authors=AUTHORS, own=KEEL)


def reach(nine: Across) -> Table:
    """Show what Keel set out to reach, and whether it did; that is open until the whole suite is there."""
    gains = nine.figure("delta").loc[KEEL]
    least, first = gains.min(), int(nine.best_in[KEEL])
    ahead = [nine.difference(KEEL, label).mean for label in nine.whole if label not in (KEEL, BASE)]
    harmed, count = 100 * nine.harmed(KEEL), len(gains)
    lines = [
        ("mean gain, points", number(gains.mean(), sign=True), f"≥ +{REACH['mean']}", gains.mean() >= REACH["mean"]),
        (
            f"least gain{'' if nine.alone else f' ({gains.idxmin()})'}",
            number(least, sign=True),
            f"≥ +{REACH['least']}",
            least >= REACH["least"],
        ),
        ("lead over the best rival's mean", number(min(ahead), sign=True), "> 0", min(ahead) > 0),
        (
            "gains most of all methods, each on its own runs, on",
            f"{first} of {count}",
            f"≥ {REACH['first']} of 9",
            first >= REACH["first"],
        ),
        (f"runs losing over {HARM:g} points, %", number(harmed), f"≤ {REACH['harmed']:g}", harmed <= REACH["harmed"]),
    ]
    wanted = suite().values()
    there = sum(shown in nine.summaries for shown in wanted)
    open_ = "" if there == len(wanted) else f"open ({there} of {len(wanted)} settings)"
    rows = [
        [Cell(what), Cell(got), Cell(goal), Cell(open_ or ("met" if met else "**missed**"))]
        for what, got, goal, met in lines
    ]
    return Table(name="reach", title="What Keel set out to reach", heads=["", "found", "reach", ""], rows=rows)


def _rivals(nine: Across) -> Table:
    rows = []
    rivals = [label for label in nine.methods if label not in (KEEL, BASE)]
    for label in sorted(rivals, key=lambda label: (label not in nine.whole, nine.difference(KEEL, label).mean)):
        each = nine.each(KEEL, label)
        better = sum(apart.verdict == "better" for apart in each.values())
        rows.append(
            [
                Cell(nine.starred[label]),
                Cell(points(nine.difference(KEEL, label))),
                Cell(f"{better} of {len(each)}"),
                Cell(on(each, "worse").replace("no setting", DASH)),
                Cell(on(each, "open").replace("no setting", DASH)),
                Cell(number(100 * nine.harmed(label))),
            ]
        )
    heads = ["Keel against", "mean, points", "better on", "worse on", "no difference shown", "harmed by the rival, %"]
    note = (
        "Over the runs that both have. Better, worse: the interval leaves zero out. Harmed by the rival: share of its "
        f"runs that lose more than {HARM:g} points to source-only."
    )
    note = leaderboard.explained(nine, note, uneven(nine), [nine.starred[label] for label in rivals])
    return Table(name="rivals", title="Keel against every rival", heads=heads, rows=rows, note=note)


def parts(evidence: Evidence) -> Iterator[str]:
    """Say what each part of Keel earns."""
    found = evidence.across("beyond")
    labels = [label for label in found.whole if found.methods[label] == "keel" and label != KEEL]
    if not labels:
        return
    yield "![What Keel loses without each of its parts](figures/findings-parts.svg)"
    lost = {label: found.difference(KEEL, label) for label in labels}
    order = sorted(labels, key=lambda label: -lost[label].mean)
    taken = {label: label.removeprefix("w/o ") for label in order if label.startswith("w/o ")}
    verdicts = {"better": "These earn their place", "open": "These do not show it", "worse": "Keel is better without"}
    verdicts["unknown"] = "With so few people these cannot be judged"
    told = [
        f"{words}: {listed(own)}."
        for verdict, words in verdicts.items()
        if (own := [f"{name} {points(lost[k])}" for k, name in taken.items() if lost[k].verdict == verdict])
    ]
    others = [f"{label} {points(found.gain(label))}" for label in order if label not in taken]
    yield (
        f"What Keel loses{of_average(found)} without a part{evidence.scope('beyond', BASE, KEEL, *labels)}. "
        f"{' '.join(told)} The guards are for partial lives and sure sources, where [beyond.md](beyond.md) tests them. "
        f"Against source-only, on the same runs: {', '.join(others)}, whole Keel {points(found.gain(KEEL))}."
    )


def stress(evidence: Evidence) -> Iterator[str]:
    """Say whether Keel does harm where there is nothing to follow."""
    spoken = (OURS, STICKY, KEEL)
    mixed, alone = evidence.across("order", order="shuffled"), evidence.across("stress")
    for found, scope, what, metric in (
        (mixed, evidence.scope("order", *spoken, order="shuffled"), "On shuffled streams", "macro-F1"),
        (alone, evidence.scope("stress", *spoken), "With each class of a person as a stream of its own", "accuracy"),
    ):
        if KEEL not in found.whole:
            continue
        others = [f"{label} {points(found.gain(label))}" for label in (OURS, STICKY) if label in found.whole]
        yield (
            f"{what}{scope} Keel {outcome(found.each(KEEL))}: {points(found.gain(KEEL))} points of {metric}"
            f"{of_average(found)} ({', '.join(others)}); {number(100 * found.harmed(KEEL))} % of runs lose more than "
            f"{HARM:g} points."
        )


def losses(evidence: Evidence) -> Iterator[str]:
    """Say where Keel loses."""
    nine = evidence.across("table-main")
    beaten = []
    for label in (label for label in nine.methods if label not in (KEEL, BASE)):
        worse = {shown: apart for shown, apart in nine.each(KEEL, label).items() if apart.verdict == "worse"}
        beaten += [f"{label} on {shown} ({points(apart)})" for shown, apart in worse.items()]
    higher = []
    for shown, summary in nine.summaries.items():
        gains = summary.table["delta"]
        if gains.idxmax() != KEEL:
            rival, ahead = str(gains.idxmax()), gains.max() - gains[KEEL]
            shared = summary.difference(KEEL, rival)
            higher.append(
                f"{rival} on {shown} (by {number(ahead, 1 if ahead >= 0.05 else 2)}; on the runs both have, Keel is at "
                f"{points(shared)})"
            )
    yield (
        f"Rivals that these people show to be better than Keel: {listed(beaten)}. Rivals with a higher gain, each on "
        f"its own runs, shown or not: {listed(higher)}."
    )
    runs, harmed = (nine.figure(name).loc[KEEL] for name in ("runs", "harmed"))
    most = (harmed / runs).idxmax()
    lost = {shown: (int(summary.table.at[KEEL, "losses"]), summary.people) for shown, summary in nine.summaries.items()}
    worst = max(lost, key=lambda shown: lost[shown][0] / lost[shown][1])
    often, oftenest = "", ""
    if not nine.alone:
        often = f", most often on {most} ({number(share(harmed[most], runs[most]))} %)"
        oftenest = f", most often on {worst} ({lost[worst][0]} of {lost[worst][1]})"
    yield (
        f"Keel costs more than {HARM:g} points in {number(100 * nine.harmed(KEEL))} % of runs{often}. Averaged over "
        f"sources and seeds, {sum(own for own, _ in lost.values())} of {_people(nine)} lose{oftenest}."
    )


def _people(nine: Across) -> str:
    """Count people; over several settings also how often they are met, for many are in more than one."""
    met = sum(summary.people for summary in nine.summaries.values())
    known = {(nine.corpora[shown], who) for shown, own in nine.summaries.items() for who in own.runs.index.unique(1)}
    return f"{met} people" if nine.alone else f"{met} (a person on a setting; {len(known)} people in all)"
