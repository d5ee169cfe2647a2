"""Texts of the report about its figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sight._util.durations import duration_text
from sight.results.report.axis import Axis
from sight.results.report.glossary import term
from sight.results.report.html import percent
from sight.results.report.lanes import column_width
from sight.results.report.score_table import Row
from sight.results.report.timeline import change_indices
from sight.results.summary import ResultSummary


def days_note(summary: ResultSummary) -> Iterator[object]:
    yield "Each column is five minutes; its colours are the shares of the classes, with rest below and movement above. "
    if not summary.worn.all():
        yield "Grey: not worn. "
    if len(summary.gaps):
        yield "Hatched: no data. "
    if any(day.is_weekend for day in summary.days):
        yield "Bold: weekend. "
    yield f"A day is valid if the sensor was worn for at least {summary.rules.valid_day_h:g} hours; the hours worn are "
    yield "on the right. Times in the legend are means of valid days."


def changes_text(summary: ResultSummary, scores: Sequence[Row]) -> Iterator[object]:
    yield f"Adaptation with {summary.result.method} changed the "
    yield term("raw")
    of_worn, worn = int(summary.changed[summary.worn].sum()), int(summary.worn.sum())
    yield f" class of {percent(of_worn / max(worn, 1))} of the worn windows ({of_worn:,} of {worn:,})."
    if not scores or summary.truth is None:
        return
    before, after = scores[0]["macro_f1_truth"], scores[-1]["macro_f1_truth"]
    yield " Compared with the labels, "
    yield term("macro-F1")
    if abs(after - before) > 5e-4:
        yield f" {'rose' if after > before else 'fell'} from {before:.3f} to {after:.3f}"
    else:
        yield f" stayed at {after:.3f}"
    changed = summary.changed & (summary.truth >= 0)
    corrected = int((changed & (summary.refined == summary.truth)).sum())
    damaged = int((changed & (summary.raw == summary.truth)).sum())
    if changed.any():
        yield f": {corrected:,} changes corrected an error, {damaged:,} introduced one, "
        yield f"{int(changed.sum()) - corrected - damaged:,} replaced one wrong class by another"
    yield "."


def timeline_note(summary: ResultSummary) -> Iterator[object]:
    if len(summary.gaps) or not summary.worn.all():
        yield "Hatching marks time without data, grey time in which the sensor was not worn. "
    axis = Axis.of(summary)
    if any(piece.slope > 1.5 * axis.unit_s for piece in axis.pieces):
        yield "Long gaps are shortened. "
    if summary.truth is not None and (summary.truth < 0).any():
        yield "In the row of the truth, hatching also marks time without a label. "
    surprise = summary.result.trace.get("surprise")
    changes = change_indices(summary)
    if surprise is None or not len(changes):
        return
    at_change = np.zeros(len(summary), dtype=bool)
    at_change[changes] = True
    inside, outside = (float(np.median(np.asarray(surprise)[where])) for where in (at_change, ~at_change))
    yield "Ticks above the "
    yield term("surprise")
    yield " mark changes of the refined class (zoom in if there are many): "
    yield f"its median is {inside:.2f} there and {outside:.2f} elsewhere. "
    if column_width(axis) > 1:
        width = duration_text(column_width(axis) * axis.unit_s)
        yield f"The line is its mean over {width}, the shaded area its minimum and maximum."


def time_use_note(summary: ResultSummary) -> Iterator[object]:
    yield "Worn time only; each window counts for the time until the next one."
    if summary.truth is not None:
        missing = float((summary.truth < 0)[summary.worn].mean()) if summary.worn.any() else 0.0
        if missing:
            yield f" {percent(missing)} of the worn windows have no label, so the truth adds up to less."
