"""SVG lanes of the timeline: bands of classes, marks and traces, of limited size for streams of any length."""

import numpy as np

from sight.results.report.axis import Axis
from sight.results.report.html import Html, svg, tag
from sight.results.summary import ResultSummary
from sight.types import Array

#: Lanes with more runs are drawn from every n-th window, to limit the size of the page.
MAX_RUNS = 25_000
#: Maximum number of points of a trace, three per column: minimum, maximum and mean.
MAX_POINTS = 2_000


def runs(keys: Array, start: Array, end: Array) -> tuple[Array, Array, Array]:
    """Join adjacent intervals with the same key; return key, start and end of each run."""
    if not len(keys):
        return keys, start, end
    first = np.append(True, (keys[1:] != keys[:-1]) | (start[1:] != end[:-1]))
    last = np.append(first[1:], True)
    return keys[first], start[first], end[last]


def limited_runs(keys: Array, start: Array, end: Array) -> tuple[Array, Array, Array, int]:
    """Return runs and n; above `MAX_RUNS` only every n-th window is used, and short gaps are closed."""
    n = 1
    joined = runs(keys, start, end)
    while len(joined[0]) > MAX_RUNS:
        n *= 2
        next_start = np.append(start[1:], end[-1])
        closed_end = np.where(next_start - end < n, next_start, end)
        joined = runs(np.repeat(keys[::n], n)[: len(keys)], start, closed_end)
    return *joined, n


def strokes(start: Array, end: Array) -> str:
    """Return runs as one SVG path of strokes along the middle of a lane of height 1, such as "M0 .5m0 0h5m7 0h3"."""
    skip = start - np.append(0, end[:-1])
    pieces = [f"m{gap} 0h{length}" for gap, length in zip(skip.tolist(), (end - start).tolist(), strict=True)]
    return "M0 .5" + "".join(pieces)


def band(axis: Axis, summary: ResultSummary, labels: Array, name: str) -> Html:
    """Draw a lane of class indices; windows of -1 stay empty, non-wear time is drawn grey."""
    labelled, classes = labels >= 0, len(summary.classes)
    keys = (2 * labels + summary.worn)[labelled]
    first, last = axis.place(summary.start_s[labelled]), axis.place(summary.end_s[labelled])
    key, start, end, n = limited_runs(keys, first, last)
    # Without an opaque cover, the hatching below would be visible where many short runs share a pixel.
    _, *cover, _ = limited_runs(np.zeros(len(first), int), first, last)
    paths = [tag("path", d=strokes(*cover), class_="cover")]
    for k in range(classes):
        for wear, kind in ((1, f"k{k}"), (0, f"k{k} off")):
            own = key == 2 * k + wear
            if own.any():
                paths.append(tag("path", d=strokes(start[own], end[own]), class_=kind, data_k=k))
    note = f", drawn from one of {n} windows" if n > 1 else ""
    return svg(paths, axis.span, 1, f"{name}: {len(key):,} runs of {classes} classes over time{note}")


def marks(axis: Axis, where: Array, start_s: Array, end_s: Array, *, name: str) -> Html:
    _, start, end, _ = limited_runs(np.zeros(where.sum(), int), axis.place(start_s[where]), axis.place(end_s[where]))
    paths = [tag("path", d=strokes(start, end), class_="mark")] if len(start) else []
    return svg(paths, axis.span, 1, f"{name}: {int(where.sum()):,} of {len(where):,} windows")


def envelope(axis: Axis, values: Array, start_s: Array) -> tuple[Array, Array]:
    """Reduce a trace to M columns of time; return their positions (M,) and minimum, maximum and mean (3, M)."""
    width = column_width(axis)
    column = axis.place(start_s) // width
    first = np.flatnonzero(np.append(True, column[1:] != column[:-1]))
    mean = np.add.reduceat(values, first) / np.diff(np.append(first, len(values)))
    levels = np.stack([np.minimum.reduceat(values, first), np.maximum.reduceat(values, first), mean])
    return column[first] * width, levels


def column_width(axis: Axis) -> int:
    """Return the units per column that keep a trace within `MAX_POINTS`."""
    return max(1, -(-axis.span // (MAX_POINTS // 3)))


def trace(axis: Axis, values: Array, start_s: Array, *, changes_s: Array, name: str) -> Html:
    """Draw a trace between 0 and 1 as envelope and mean, with a tick at each change of class."""
    width = column_width(axis)
    position, levels = envelope(axis, np.asarray(values, dtype=np.float64), start_s)
    height = 100 - 100 * np.clip(levels, 0, 1)
    areas, means = "", ""
    for columns in np.split(np.arange(len(position)), np.flatnonzero(np.diff(position) > 2 * width) + 1):
        x, y = position[columns], height[:, columns]
        if len(columns) == 1:  # a single column would have no width
            x, y = np.append(x, x + width), np.repeat(y, 2, axis=1)
        low, high, mean = y
        areas += f"M{_points(x, high)}L{_points(x[::-1], low[::-1])}z"
        means += f"M{_points(x, mean)}"
    ticks = axis.place(changes_s)
    if len(ticks) > MAX_POINTS:
        ticks = np.unique(ticks // width * width)
    paths = [
        tag("path", d=areas, class_="area"),
        tag("path", d=means, class_="mean"),
        tag("path", d="".join(f"M{x} 0v9" for x in ticks.tolist()), class_="change"),
    ]
    label = f"{name}: median {np.median(values):.2f}, from {np.min(values):.2f} to {np.max(values):.2f}"
    return svg(paths, axis.span, 100, f"{label}; {len(changes_s):,} changes of the refined class are marked")


def _points(x: Array, y: Array) -> str:
    return "L".join(f"{a} {b:.0f}" for a, b in zip(x.tolist(), y.tolist(), strict=True))
