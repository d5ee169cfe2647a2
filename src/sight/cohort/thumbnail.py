"""A recording as a drawing the size of a line of text: its refined classes over time."""

from __future__ import annotations

import numpy as np

from sight.report import ResultSummary
from sight.report.lanes import runs, strokes

#: Moments that are drawn, evenly over a recording.
COLUMNS = 240


def thumbnail(summary: ResultSummary) -> dict[str, str]:
    """Give the strokes of each class that is seen: its CSS class ("k3", "k3 off" where not worn) to an SVG path.

    Examples
    --------
    >>> from sight.evaluate import run
    >>> from sight.registry import method
    >>> from sight.testing import ToySource, toy_stream
    >>> sorted(thumbnail(ResultSummary(run(method("none").bind(ToySource()), toy_stream(n=300)))))
    ['k0', 'k1', 'k2', 'k3', 'k4']
    """
    if not len(summary):
        return {}
    first, last = summary.start_s[0], summary.end_s[-1]
    moment = first + (np.arange(COLUMNS) + 0.5) * (last - first) / COLUMNS
    window = np.searchsorted(summary.start_s, moment, side="right") - 1
    seen = np.flatnonzero(moment < summary.end_s[window])
    keys = (2 * summary.refined + ~summary.worn)[window[seen]]
    key, start, end = runs(keys, seen, seen + 1)
    return {
        f"k{k // 2}{' off' if k % 2 else ''}": strokes(start[key == k], end[key == k]) for k in np.unique(key).tolist()
    }
