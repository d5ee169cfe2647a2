"""Thumbnail of a recording: its refined classes over time as SVG paths."""

from typing import Any

import numpy as np

from sight.results.report.lanes import runs, strokes
from sight.results.summary import ResultSummary
from sight.types import Array

#: Parts of a recording, of equal length; each has the colour of its most frequent class.
COLUMNS = 336


def thumbnail(summary: ResultSummary) -> dict[str, Any]:
    """Return the drawing of a recording, and its place on a time axis.

    "paths" holds the SVG path of each class that occurs, by CSS class ("k3"; "k3 off" while not worn, "bed" in bed);
    "span_s" is the length of the drawing, "offset_s" the time from local midnight to its start, None if the clock is
    unknown.
    """
    if not len(summary):
        return {"span_s": 0.0, "offset_s": None, "paths": {}}
    first, last = float(summary.start_s[0]), float(summary.end_s.max())
    keys = _most_frequent(summary, first, last)
    recorded = np.flatnonzero(keys >= 0)
    key, start, end = runs(keys[recorded], recorded, recorded + 1)
    at = summary.clock(first)
    return {
        "span_s": round(last - first, 1),
        "offset_s": None if at is None else 3600 * at.hour + 60 * at.minute + at.second,
        "paths": {_kind(summary, k): strokes(start[key == k], end[key == k]) for k in np.unique(key).tolist()},
    }


def _kind(summary: ResultSummary, key: int) -> str:
    return "bed" if key == 2 * len(summary.classes) else f"k{key // 2}{' off' if key % 2 else ''}"


def _most_frequent(summary: ResultSummary, first: float, last: float) -> Array:
    """Return the most frequent key of each column, -1 if it has no data.

    A key is twice the class, plus one if not worn; twice the number of classes is worn time in bed.
    """
    keys = np.where(summary.worn & summary.in_bed, 2 * len(summary.classes), 2 * summary.refined + ~summary.worn)
    count = 2 * len(summary.classes) + 1
    middle = (summary.start_s + summary.end_s) / 2
    column = np.clip(((middle - first) / (last - first) * COLUMNS).astype(np.int64), 0, COLUMNS - 1)
    table = np.bincount(column * count + keys, weights=summary.seconds, minlength=COLUMNS * count)
    table = table.reshape(COLUMNS, count)
    found = np.where(table.any(axis=1), table.argmax(axis=1), -1)
    # A window longer than a column also covers the columns up to its end.
    moment = first + (np.arange(COLUMNS) + 0.5) * (last - first) / COLUMNS
    window = np.clip(np.searchsorted(summary.start_s, moment, side="right") - 1, 0, None)
    covered = (found < 0) & (moment < summary.end_s[window])
    return np.where(covered, keys[window], found)
