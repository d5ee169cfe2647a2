"""Numbers of the report: key figures, methods side by side, facts and settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from sight.metrics import score
from sight.report.figures import scrolling
from sight.report.glossary import term
from sight.report.html import Html, duration, figure, join, percent, size, tag
from sight.report.result_summary import ResultSummary
from sight.segments import segments
from sight.types import Array

Row = Mapping[str, Any]


class Column(NamedTuple):
    """How a figure is shown: its heading, its digits, and whether more of it is better."""

    heading: str
    digits: int
    more_is_better: bool | None


COLUMNS = {
    "macro_f1_truth": Column("Macro-F1, truth", 3, True),
    "macro_f1_union": Column("Macro-F1, union", 3, True),
    "macro_f1_all": Column("Macro-F1, all", 3, True),
    "accuracy": Column("Accuracy", 3, True),
    "balanced_accuracy": Column("Balanced accuracy", 3, True),
    "ece": Column("Calibration error", 3, False),
    "nll": Column("Log loss", 3, False),
    "delay_median_s": Column("Delay (s)", 1, False),
    "changes_missed": Column("Changes missed", 0, False),
    "state_bytes": Column("State (bytes)", 0, None),
    "seconds": Column("Seconds", 2, None),
}

READINGS = (
    "Macro-F1 is read in three ways, which differ for wearers who never do some activity. Truth: mean over the "
    "classes that occur in the labels. Union: over classes in labels or answers, so that one spurious answer of an "
    "absent class adds a zero. All: over every class the model knows, absent ones counting as zero."
)
#: Said under a table where answers of a method have seen windows after their own.
WAITED = (
    "Answers with a lag see the future: each has waited for so many windows after its own, and its delay includes the "
    "wait; those of the whole recording come when it is over and have no delay."
)


def cards(summary: ResultSummary, scores: Sequence[Row]) -> Html:
    """Show the key figures of a stream."""
    w = summary.result.windows
    raw, refined = (
        segments(a, w.time_s, w.window_s, w.stride_s, w.gap_before_s) for a in (summary.raw, summary.refined)
    )
    gaps = summary.gaps
    missing = f"{len(gaps):,} gaps, {duration(float(np.diff(gaps).sum()))} missing" if len(gaps) else "no gaps"
    typical = " → ".join(duration(float(np.median(s.end_s - s.start_s))) for s in (raw, refined))
    before = float(summary.result.p.max(axis=1).mean())
    shown = [
        ("Recorded", duration(float(summary.seconds.sum())), missing),
        ("Worn", duration(float(summary.seconds[summary.worn].sum())), f"{len(summary):,} windows of {w.window_s:g} s"),
        ("Changed", percent(summary.share_changed), f"{int((summary.raw != summary.refined).sum()):,} windows"),
        ("Segments", _arrow(f"{len(raw.label):,}", f"{len(refined.label):,}"), f"median length {typical}"),
        (
            "Confidence",
            _arrow(f"{before:.2f}", f"{summary.confidence.mean():.2f}"),
            f"{percent(float(summary.unsure.mean()))} unsure",
        ),
    ]
    if scores:
        first, last = scores[0], scores[-1]
        f1 = _arrow(*(figure(row["macro_f1_truth"], 2) for row in (first, last)))
        right = " → ".join(percent(row["accuracy"]) for row in (first, last))
        shown.append(("Macro-F1", f1, f"accuracy {right}"))
    else:
        state = summary.result.facts.get("state_bytes", {})
        held = sum(state.values()) if isinstance(state, Mapping) else state
        shown.append(("State", size(held), "kept about the wearer"))
    return tag("dl", *(_card(*card) for card in shown), class_="cards")


def _arrow(before: str, after: str) -> Html:
    return join([tag("span", before, class_="before"), tag("span", "→", class_="to"), after])


def _card(name: str, value: str, note: str) -> Html:
    return tag("div", tag("dt", name), tag("dd", value), tag("dd", note, class_="note"))


def score_rows(summary: ResultSummary, truth: Array, others: Sequence[ResultSummary]) -> list[Row]:
    """Score the source alone, the other methods, and the method of the report, which comes last."""
    w = summary.result.windows
    answers = [("raw", summary.result.p, 0.0)]
    answers += [(one.label, one.q, one.lag) for one in (s.result for s in (*others, summary))]
    scored = partial(
        score, truth, classes=summary.classes, time_s=w.time_s, stride_s=w.stride_s, gap_before_s=w.gap_before_s
    )
    return [{"method": name} | scored(q, wait_s=lag * w.stride_s) for name, q, lag in answers]


def methods_table(rows: Sequence[Row]) -> Html:
    """Put methods side by side: every text they bring and every figure known here, the best of each in bold."""
    present = dict.fromkeys(key for row in rows for key in row)
    texts = [key for key in present if key not in COLUMNS and any(isinstance(row.get(key), str) for row in rows)]
    numbers = [key for key in COLUMNS if key in present]
    heads = [tag("th", key.replace("_", " ").capitalize(), scope="col") for key in texts]
    heads += [tag("th", COLUMNS[key].heading, scope="col", class_="number") for key in numbers]
    best = {key: _best([row.get(key) for row in rows], COLUMNS[key].more_is_better) for key in numbers}
    body = []
    for index, row in enumerate(rows):
        cells = [
            tag("th" if not at else "td", figure(row.get(key)), scope=None if at else "row")
            for at, key in enumerate(texts)
        ]
        for key in numbers:
            text = figure(_plain(row.get(key)), COLUMNS[key].digits)
            cells.append(tag("td", tag("strong", text) if index in best[key] else text, class_="number"))
        body.append(tag("tr", *cells))
    table = tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *body), class_="plain methods")
    return scrolling(table, "Methods side by side")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return sum(value.values())
    return value.item() if isinstance(value, np.generic) else value


def _best(values: Sequence[Any], more_is_better: bool | None) -> set[int]:
    numbers = {i: float(v) for i, v in enumerate(values) if isinstance(v, (int, float)) and np.isfinite(v)}
    if more_is_better is None or len(numbers) < 2:
        return set()
    target = (max if more_is_better else min)(numbers.values())
    return {i for i, number in numbers.items() if round(number, 9) == round(target, 9)}


def facts_table(groups: Mapping[str, Mapping[str, Any]]) -> Html:
    """List facts by group, nested ones under their path."""
    parts = []
    for name, facts in groups.items():
        rows = [tag("tr", tag("th", key, scope="row"), tag("td", value)) for key, value in _flat(facts)]
        if rows:
            parts.append(tag("section", tag("h3", name), scrolling(tag("table", *rows, class_="facts"), name)))
    return join(parts)


def _flat(facts: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    for key, value in facts.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{path}{key} · ")
        elif isinstance(value, (list, tuple)):
            yield f"{path}{key}", ", ".join(map(str, value))
        else:
            plain = _plain(value)
            yield f"{path}{key}", f"{plain:g}" if isinstance(plain, float) else figure(plain)


def reading_note(rows: Sequence[Row], *, waited: bool = False) -> Html:
    """Explain what stands in the table of methods."""
    starred = any(str(row["method"]).endswith("*") for row in rows)
    star = " * Completed by us: the authors' code is not public." if starred else ""
    wait = f" {WAITED}" if waited else ""
    return tag("p", term("macro-F1", "Macro-F1"), READINGS.removeprefix("Macro-F1") + star + wait, class_="note")
