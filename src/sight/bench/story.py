"""The findings as a page: chapters whose numbers and verdicts come from the rows, and the figures beside them."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sight.bench import multi_setting_figures, story_claims, story_keel, story_sight
from sight.bench.aggregate import HARM
from sight.bench.coverage import left_out, listed, never, uneven
from sight.bench.evidence import AUTHORS, KEEL, OURS, PAPER, REPORTS, STICKY, Evidence, of_average, outcome
from sight.bench.multi_setting import Across
from sight.bench.plan import ORDERS
from sight.bench.result_rows import read
from sight.bench.settings import SUITE, settings
from sight.bench.table_format import number, points, several

Chapter = Callable[[Evidence], Iterator[str]]

CHAPTERS: dict[str, Chapter] = {
    "Where SIGHT gains, and where it does not": story_sight.gains,
    "Whether trivial filters match it": story_sight.trivial,
    "What the reading of macro-F1 changes": story_sight.readings,
    "What chronological order is worth": story_claims.order,
    "What features show at a change": story_claims.geometry,
    "Mechanisms, hyper-parameters, networks": story_claims.mechanisms,
    "Segments and delay": story_sight.segments,
    "Cost": story_sight.cost,
    "Keel: why another method": story_keel.why,
    "Keel on {where}": story_keel.results,
    "What each part of Keel earns": story_keel.parts,
    "Where there is nothing to follow": story_keel.stress,
    "Where Keel loses": story_keel.losses,
}


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page of Markdown, its figures by file name, and the table for the README."""

    text: str
    figures: dict[str, str]
    readme: str


def gather(results: Path) -> Evidence:
    """Read the results in a folder: those of each setting in one of its name, and the stopwatch's."""
    speed = results / "speed.json"
    told = json.loads(speed.read_text("utf-8")) if speed.is_file() else {}
    return Evidence(rows=read([results / name for name in settings() if (results / name).is_dir()]), speed=told)


def write(evidence: Evidence) -> Page:
    """Write page, figures and table; chapters without results are left out."""
    parts = ["# Findings", *_head(evidence), "## In short"]
    parts.append("\n".join(wrapped(f"- {line}") for line in short(evidence)))
    for title, chapter in CHAPTERS.items():
        blocks = [wrapped(block.strip()) for block in chapter(evidence)]
        parts += [f"## {title.format(where=where(evidence))}", *blocks] if blocks else []
    return Page(text="\n\n".join(parts) + "\n", figures=figures(evidence), readme=readme(evidence))


def where(evidence: Evidence) -> str:
    """Name what the main comparison was run on: the suite, some of it, or a setting beside it."""
    if not evidence.judged:
        return listed(evidence.across("table-main").summaries)
    part = "" if evidence.judged == len(evidence.nine) else f"{evidence.judged} of "
    return f"{part}the {SUITE} settings"


def _head(evidence: Evidence) -> Iterator[str]:
    rows, missing = evidence.rows, [name for name in evidence.nine if name not in evidence.settings]
    people, corpora = rows.drop_duplicates(["dataset", "target"]).shape[0], rows["dataset"].nunique()
    methods = len(evidence.across("table-main", everywhere=True).methods) - 1
    sources = rows[rows["experiment"] == "table-main"].groupby("setting")["sources"].nunique()
    yield wrapped(
        f"The paper of SIGHT, with whose claims and figures this page compares, is *{PAPER}*. "
        f"Written by `make docs` from `benchmarks/results`: {several(len(rows), 'row')}, {several(methods, 'method')} "
        f"beside source-only, {people} target people of {corpora} {'corpus' if corpora == 1 else 'corpora'}, "
        f"{several(rows['seed'].nunique(), 'seed')}. S is one source person, P "
        "several, pooled. Differences are points of macro-F1 over classes in truth or answers, on the same runs "
        "(source, target, seed), paired over target people, with 95 % bootstrap intervals over them. A method *gains* "
        "or *loses* where the interval leaves zero out, and is *level* where these people show no difference; that is "
        "decided before rounding, so that an end printed as 0.0 may lie on either side of zero. "
        f"{_fixed(sources.min(), sources.max())} Brackets name settings and seeds where they are fewer. Words are "
        "chosen by the numbers, and change with them. Names of settings lead to their reports."
    )
    if len(missing) < len(evidence.nine) - 1:
        yield f"[All methods on all of the {SUITE} settings, with intervals]({REPORTS}/{SUITE}/report.md)"
    if missing:
        yield wrapped(f"No results yet on {', '.join(evidence.nine[name] for name in missing)}.")
    nine = evidence.across("table-main")
    if said := [*never(nine, "table-main", where(evidence)), *uneven(nine), *left_out(rows)]:
        yield wrapped(" ".join(said))


def _fixed(least: int, most: int) -> str:
    many = f"{least}" if least == most else f"{least} to {most}"
    return f"Sources are fixed and few, {many} a setting: intervals tell of other people, not of other sources."


def wrapped(block: str) -> str:
    """Break lines of prose as the other pages do; tables, images and headings stay."""
    if block.startswith("**"):  # a table under its title, with a note or without
        table, gap, note = block.rpartition("\n\n")
        return f"{table}{gap}{wrapped(note)}" if table else block
    if block.startswith(("|", "!", "#")):
        return block
    indent = "  " if block.startswith("- ") else ""
    return textwrap.fill(block, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def short(evidence: Evidence) -> Iterator[str]:
    """Say the outcome in a few lines."""
    nine, every = evidence.across("table-main"), evidence.across("table-main", everywhere=True)
    count, average = len(nine.summaries), of_average(nine)
    printed = {shown: every.summaries[shown].table.at[OURS, "paper_delta"] for shown in every.each(OURS)}
    beside = "".join(
        f"{'' if every.alone else f'; on {shown} {points(every.each(OURS)[shown])}'}, where the paper prints "
        f"{number(value, sign=True)}"
        for shown, value in printed.items()
        if np.isfinite(value)
    )
    yield f"SIGHT {_tally(nine)}: {points(nine.gain(OURS))}{average}{beside}."
    sticky = nine.difference(STICKY, OURS)
    words = {"better": "does better", "worse": "does worse", "open": "matches it", "unknown": "is hard to tell from it"}
    yield f"A two-line sticky filter {words[sticky.verdict]}: {points(sticky)} against SIGHT{average}."
    straight, mixed = (evidence.across("order", order=name) for name in ("chronological", "shuffled"))
    worth = straight.difference(OURS, OURS, mixed)
    if np.isfinite(worth.mean):
        yield f"Chronological order is worth {points(worth)} points to SIGHT{evidence.scope('order', OURS)}."
    own, first = nine.gains.loc[KEEL], int(nine.best_in[KEEL])
    least = "" if nine.alone else f", at least {number(own.min(), sign=True)} ({own.idxmin()})"
    best = f"on {first} of {count} settings" if count > 1 else f"on {own.index[0]}" if first else "nowhere"
    yield (
        f"Keel, our own method, gains {points(nine.gain(KEEL))}{average}{least}, gains most of all methods {best}, "
        f"each on its own runs, and costs more than {HARM:g} points in {number(100 * nine.harmed(KEEL))} % of runs "
        f"(SIGHT {number(100 * nine.harmed(OURS))} %)."
    )


def _tally(nine: Across) -> str:
    """Count where SIGHT gains and loses, or say it where there is one setting."""
    each = nine.each(OURS)
    if nine.alone:
        return outcome(each)
    verdicts = [apart.verdict for apart in each.values()]
    return f"gains on {verdicts.count('better')} of {len(verdicts)} settings and loses on {verdicts.count('worse')}"


def readme(evidence: Evidence) -> str:
    """Write the table of the README with a sentence of reading."""
    nine = evidence.across("table-main")
    table = story_keel.overview(nine)
    *lines, note = table.markdown().strip().splitlines()[2:]
    open_ = evidence.judged < len(evidence.nine)
    said = (
        f"Macro-F1 in points. {note} S: one source person, P: several. SIGHT {_tally(nine)} "
        f"({points(nine.gain(OURS))}{of_average(nine)}); Keel is at {points(nine.gain(KEEL))}."
        f"{f' What Keel set out to reach is open until all of the {SUITE} settings are there.' if open_ else ''} Where "
        "each gains and loses, and against whom: [docs/findings.md](docs/findings.md)."
    )
    return "\n".join([*lines, wrapped(said)])


def figures(evidence: Evidence) -> dict[str, str]:
    """Draw what the chapters show."""
    nine = evidence.across("table-main")
    found = {"gains": multi_setting_figures.gains(nine, (OURS, AUTHORS, STICKY, KEEL))}
    found["means"] = multi_setting_figures.forest(nine.mean_gains, "Mean gain over source-only, points of macro-F1")
    orders = {name: evidence.across("order", order=name) for name in ORDERS}
    if all(own.summaries for own in orders.values()):
        found["order"] = multi_setting_figures.orders(orders, (OURS, STICKY, "OATTA", KEEL))
    if len(evidence.of("geometry")):
        found["geometry"] = multi_setting_figures.geometry(evidence.of("geometry"), evidence.settings)
    keel = evidence.across("beyond")
    parts = [label for label in keel.whole if keel.methods[label] == "keel" and label != KEEL]
    if parts:
        lost = {label: keel.difference(label, KEEL) for label in parts}
        found["parts"] = multi_setting_figures.forest(lost, "Macro-F1 against whole Keel, points, mean over settings")
    return {f"findings-{name}.svg": text for name, text in found.items()}
