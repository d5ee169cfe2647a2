"""Key figures of a stream, and tables of facts."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from sight._util.durations import duration_text
from sight.results.output_tables import Row
from sight.results.output_tables.cells import mean
from sight.results.report.html import Html, figure, join, percent, scrolling, tag
from sight.results.summary import ResultSummary

#: Ends of the names of facts that are units, and how these are written.
UNITS = {"s": "s", "ms": "ms", "hz": "Hz", "g": "g", "mg": "mg", "h": "h", "bytes": "bytes"}


def recording_figures(summary: ResultSummary) -> Html:
    w, gaps, daily = summary.result.windows, summary.gaps, summary.rows("daily")
    recorded_s, worn_s = float(summary.seconds.sum()), float(summary.seconds[summary.worn].sum())
    missing = f"{len(gaps):,} gap{'s' * (len(gaps) > 1)}, {duration_text(float(np.diff(gaps).sum()))} missing"
    cards: list[tuple[str, str, str]] = [
        ("Recorded", duration_text(recorded_s), missing if len(gaps) else "no gaps"),
        ("Worn", duration_text(worn_s), f"{percent(worn_s / recorded_s)} of the recorded time"),
    ]
    if len(daily) > 1:
        valid, complete = (sum(bool(row[key]) for row in daily) for key in ("valid", "complete"))
        spanned = f"the recording spans {complete} whole day{'s' * (complete != 1)}, gaps included"
        note = f"worn for {summary.rules.valid_day_h:g} h or more; {spanned}"
        cards.append(("Valid days", f"{valid} of {len(daily)}", note))
    cards += _mean_enmo(summary)
    uncertain = float(summary.uncertain.mean())
    cards.append(("Low confidence", percent(uncertain), f"of {len(summary):,} windows of {w.window_s:g} s"))
    return _cards(cards)


def _mean_enmo(summary: ResultSummary) -> Iterator[tuple[str, str, str]]:
    """Yield the card of the mean ENMO, if known: that of valid days as in `summary.csv`, else of all worn time."""
    if "enmo_mg" not in summary.intensity:
        return
    valid = [row for row in summary.rows("daily") if row["valid"]]
    enmo = summary.intensity["enmo_mg"][summary.worn]
    known = enmo[np.isfinite(enmo)]
    value = mean(valid, "enmo_mg") if valid else float(known.mean()) if len(known) else None
    where = f"mean of {len(valid)} valid day{'s' * (len(valid) > 1)}" if valid else "all worn time"
    if value is not None:
        yield "Mean ENMO", f"{value:.0f} mg", f"intensity of movement, {where}"


def method_figures(summary: ResultSummary, scores: Sequence[Row]) -> Html:
    result = summary.result
    raw, refined = summary.segments(summary.raw), summary.segments(summary.refined)
    median = " → ".join(duration_text(float(np.median(s.end_s - s.start_s))) for s in (raw, refined))
    confidence = [f"{p.max(axis=1).mean():.2f}" for p in (result.p, result.q)]
    cards: list[tuple[str, str, str]] = [
        ("Segments", _arrow(f"{len(raw.label):,}", f"{len(refined.label):,}"), f"median length {median}"),
        ("Mean confidence", _arrow(*confidence), "raw and refined"),
    ]
    if scores:
        f1, accuracy = ([row[key] for row in (scores[0], scores[-1])] for key in ("macro_f1_union", "accuracy"))
        note = f"accuracy {' → '.join(map(percent, accuracy))}"
        cards.append(("Macro-F1", _arrow(*(figure(value, 2) for value in f1)), note))
    return _cards(cards)


def _cards(cards: Sequence[tuple[str, str, str]]) -> Html:
    items = [(tag("dt", name), tag("dd", value), tag("dd", note, class_="note")) for name, value, note in cards]
    return tag("dl", *(tag("div", *item) for item in items), class_="cards")


def _arrow(before: str, after: str) -> Html:
    return join([tag("span", before, class_="before"), tag("span", "→", class_="to"), after])


def facts_table(groups: Mapping[str, Mapping[str, Any]]) -> Html:
    """Return a table for each group of facts; nested facts are named by their path, and empty ones are left out."""
    parts = []
    for name, facts in groups.items():
        rows = [
            tag("tr", tag("th", " · ".join(map(fact_label, path)), scope="row", title=".".join(path)), tag("td", text))
            for path, text in _flatten(facts)
            if text
        ]
        if rows:
            parts.append(tag("section", tag("h3", name), scrolling(tag("table", *rows, class_="facts"), name)))
    return join(parts)


def fact_label(key: str) -> str:
    """Return the name of a fact in words, with its unit in brackets: "rate measured (Hz)"."""
    words, _, unit = key.rpartition("_")
    text = f"{words} ({UNITS[unit]})" if words and unit in UNITS else key
    return text.replace("_", " ")


def _flatten(facts: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    for key, value in facts.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, (*path, key))
        elif isinstance(value, (list, tuple)):
            yield (*path, key), ", ".join(map(_fact_text, value))
        else:
            yield (*path, key), _fact_text(value)


def _fact_text(value: Any) -> str:
    plain = value.item() if isinstance(value, np.generic) else value
    return f"{plain:g}" if isinstance(plain, float) else figure(plain)
