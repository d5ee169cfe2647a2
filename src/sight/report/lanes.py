"""Lanes of the timeline: a class band as a few strokes, the surprise as an envelope; small at any length."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sight.report.axis import Axis
from sight.report.html import Html, tag
from sight.types import Array

#: More runs than this in one lane are drawn from every n-th window; the page must stay small.
MOST_RUNS = 25_000
#: Points of a trace, three a column: its lowest, its highest and its mean value.
MOST_POINTS = 2_000


def runs(keys: Array, start: Array, end: Array) -> tuple[Array, Array, Array]:
    """Join neighbours of one key that touch: key, start and end of each run.

    Examples
    --------
    >>> [a.tolist() for a in runs(np.array([3, 3, 3, 1]), np.array([0, 1, 5, 6]), np.array([1, 2, 6, 7]))]
    [[3, 3, 1], [0, 5, 6], [2, 6, 7]]
    """
    if not len(keys):
        return keys, start, end
    first = np.append(True, (keys[1:] != keys[:-1]) | (start[1:] != end[:-1]))
    last = np.append(first[1:], True)
    return keys[first], start[first], end[last]


def thinned(keys: Array, start: Array, end: Array) -> tuple[Array, Array, Array, int]:
    """Give runs; where there are too many, let every n-th window speak for n, and close gaps below n units.

    Examples
    --------
    >>> alternating = np.arange(100_000)
    >>> key, _, end, every = thinned(alternating % 3, alternating, alternating + 1)
    >>> len(key), int(end[-1]), every
    (25000, 100000, 4)
    """
    every = 1
    found = runs(keys, start, end)
    while len(found[0]) > MOST_RUNS:
        every *= 2
        following = np.append(start[1:], end[-1])
        closed = np.where(following - end < every, following, end)
        found = runs(np.repeat(keys[::every], every)[: len(keys)], start, closed)
    return *found, every


def strokes(start: Array, end: Array) -> str:
    """Write runs as one path of relative strokes along the middle of a lane of height 1.

    Examples
    --------
    >>> strokes(np.array([0, 12]), np.array([5, 15]))
    'M0 .5m0 0h5m7 0h3'
    """
    skip = start - np.append(0, end[:-1])
    pieces = [f"m{gap} 0h{length}" for gap, length in zip(skip.tolist(), (end - start).tolist(), strict=True)]
    return "M0 .5" + "".join(pieces)


def band(axis: Axis, answers: Array, start_s: Array, end_s: Array, *, worn: Array, name: str, classes: int) -> Html:
    """Draw a lane of classes; -1 leaves the lane empty, time not worn is drawn pale."""
    known = answers >= 0
    keys = (2 * answers + worn)[known]
    first, last = axis.place(start_s[known]), axis.place(end_s[known])
    key, start, end, every = thinned(keys, first, last)
    # Without a cover, hatching would shine through where many short runs share a pixel.
    _, *whole, _ = thinned(np.zeros(int(worn[known].sum()), int), *(edge[worn[known]] for edge in (first, last)))
    paths = [tag("path", d=strokes(*whole), class_="cover")]
    for k in range(classes):
        for is_worn in (1, 0):
            here = key == 2 * k + is_worn
            if here.any():
                kind = f"k{k}" if is_worn else f"k{k} off"
                paths.append(tag("path", d=strokes(start[here], end[here]), class_=kind, data_k=k))
    note = f", drawn from every {every}. window" if every > 1 else ""
    return _svg(axis, 1, paths, label=f"{name}: {len(key):,} runs of {classes} classes over time{note}")


def marks(axis: Axis, here: Array, start_s: Array, end_s: Array, *, name: str) -> Html:
    """Draw a lane that is marked where a condition holds."""
    _, start, end, _ = thinned(np.zeros(here.sum(), int), axis.place(start_s[here]), axis.place(end_s[here]))
    paths = [tag("path", d=strokes(start, end), class_="mark")] if len(start) else []
    return _svg(axis, 1, paths, label=f"{name}: {int(here.sum()):,} of {len(here):,} windows")


def envelope(axis: Axis, values: Array, start_s: Array) -> tuple[Array, Array]:
    """Reduce a trace to columns of time: places (M,) and (3, M) lowest, highest and mean value.

    Examples
    --------
    >>> axis = Axis(0.0, 1.0, 100_000, None)
    >>> place, levels = envelope(axis, np.arange(1e5) % 2, np.arange(1e5))
    >>> levels.size <= MOST_POINTS, levels[:, 0].round(1).tolist()
    (True, [0.0, 1.0, 0.5])
    """
    width = column_width(axis)
    column = axis.place(start_s) // width
    first = np.flatnonzero(np.append(True, column[1:] != column[:-1]))
    total = np.add.reduceat(values, first) / np.diff(np.append(first, len(values)))
    levels = np.stack([np.minimum.reduceat(values, first), np.maximum.reduceat(values, first), total])
    return column[first] * width, levels


def column_width(axis: Axis) -> int:
    """Units of one column, so that a trace keeps within `MOST_POINTS`."""
    return max(1, -(-axis.span // (MOST_POINTS // 3)))


def trace(axis: Axis, values: Array, start_s: Array, *, changes_s: Array, name: str) -> Html:
    """Draw a trace between 0 and 1 as envelope and mean, and a tick wherever the answer changes."""
    width = column_width(axis)
    place, levels = envelope(axis, np.asarray(values, dtype=np.float64), start_s)
    height = 100 - 100 * np.clip(levels, 0, 1)
    areas, means = "", ""
    for piece in np.split(np.arange(len(place)), np.flatnonzero(np.diff(place) > 2 * width) + 1):
        x, levels = place[piece], height[:, piece]
        if len(piece) == 1:  # one column alone would have no width
            x, levels = np.append(x, x + width), np.repeat(levels, 2, axis=1)
        low, high, mean = levels
        areas += f"M{_points(x, high)}L{_points(x[::-1], low[::-1])}z"
        means += f"M{_points(x, mean)}"
    ticks = axis.place(changes_s)
    if len(ticks) > MOST_POINTS:
        ticks = np.unique(ticks // width * width)
    paths = [
        tag("path", d=areas, class_="area"),
        tag("path", d=means, class_="mean"),
        tag("path", d="".join(f"M{x} 0v9" for x in ticks.tolist()), class_="change"),
    ]
    label = f"{name}: median {np.median(values):.2f}, from {np.min(values):.2f} to {np.max(values):.2f}"
    return _svg(axis, 100, paths, label=f"{label}; {len(changes_s):,} changes of the refined class are marked")


def _points(x: Array, y: Array) -> str:
    return "L".join(f"{a} {b:.0f}" for a, b in zip(x.tolist(), y.tolist(), strict=True))


def _svg(axis: Axis, height: int, paths: Sequence[Html], *, label: str) -> Html:
    view = f"0 0 {axis.span} {height}"
    return tag("svg", *paths, viewBox=view, preserveAspectRatio="none", role="img", aria_label=label)
