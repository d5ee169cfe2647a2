"""Thumbnail of a recording: its refined classes over time as SVG paths."""

from __future__ import annotations

import numpy as np

from sight.report.lanes import runs, strokes
from sight.tables import ResultSummary

#: Moments drawn, evenly spaced over a recording.
COLUMNS = 240


def thumbnail(summary: ResultSummary) -> dict[str, str]:
    """Return the SVG path of each class that occurs, by CSS class ("k3"; "k3 off" while not worn).

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
    recorded = np.flatnonzero(moment < summary.end_s[window])
    keys = (2 * summary.refined + ~summary.worn)[window[recorded]]
    key, start, end = runs(keys, recorded, recorded + 1)
    return {
        f"k{k // 2}{' off' if k % 2 else ''}": strokes(start[key == k], end[key == k]) for k in np.unique(key).tolist()
    }
