"""Lanes of the timeline: a class band as a few strokes, the surprise as an envelope; small at any length."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sight.report.axis import Axis
from sight.report.html import Html, tag
from sight.types import Array

#: More runs than this in one lane are drawn from every n-th window; the page must stay small.
MOST_RUNS = 25_000
#: Points of a trace, two a column: its lowest and its highest value.
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
    key, start, end, every = thinned(keys, axis.place(start_s[known]), axis.place(end_s[known]))
    paths = []
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


def envelope(axis: Axis, values: Array, start_s: Array) -> tuple[Array, Array, Array]:
    """Reduce a trace to (place, lowest, highest) of at most half of `MOST_POINTS` columns."""
    place = axis.place(start_s)
    width = max(1, int(np.ceil(axis.span / (MOST_POINTS // 2))))
    column = place // width
    first = np.flatnonzero(np.append(True, column[1:] != column[:-1]))
    return column[first] * width, np.minimum.reduceat(values, first), np.maximum.reduceat(values, first)


def trace(axis: Axis, values: Array, start_s: Array, *, changes_s: Array, name: str) -> Html:
    """Draw a trace between 0 and its ceiling, and a tick wherever the answer changes."""
    top = max(1.0, float(values.max()))
    place, low, high = envelope(axis, values, start_s)
    width = max(1, int(np.ceil(axis.span / (MOST_POINTS // 2))))
    areas = []
    for piece in np.split(np.arange(len(place)), np.flatnonzero(np.diff(place) > 2 * width) + 1):
        x = np.append(place[piece], place[piece[-1]] + width)
        up, down = np.append(high[piece], high[piece[-1]]), np.append(low[piece], low[piece[-1]])
        areas.append(_polygon(x, 100 - 100 * up / top, 100 - 100 * down / top))
    ticks = np.unique(axis.place(changes_s) // width * width)
    paths = [
        tag("path", d="".join(areas), class_="area", data_top=f"{top:g}"),
        tag("path", d="".join(f"M{x} 0v9" for x in ticks.tolist()), class_="change"),
    ]
    label = f"{name}: median {np.median(values):.2f}, from {values.min():.2f} to {values.max():.2f}"
    return _svg(axis, 100, paths, label=f"{label}; {len(changes_s):,} changes of the refined class are marked")


def _polygon(x: Array, up: Array, down: Array) -> str:
    there = [f"{a} {b:.0f}" for a, b in zip(x.tolist(), up.tolist(), strict=True)]
    back = [f"{a} {b:.0f}" for a, b in zip(x[::-1].tolist(), down[::-1].tolist(), strict=True)]
    return f"M{'L'.join(there + back)}z"


def _svg(axis: Axis, height: int, paths: Sequence[Html], *, label: str) -> Html:
    view = f"0 0 {axis.span} {height}"
    return tag("svg", *paths, viewBox=view, preserveAspectRatio="none", role="img", aria_label=label)
