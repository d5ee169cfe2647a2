"""Periods without usable data: the rows of `nonwear.csv`."""

from __future__ import annotations

from typing import Any

import numpy as np

from sight.results.segments import find_segments
from sight.results.tables.cells import iso, rounded
from sight.results.tables.result_summary import ResultSummary

NONWEAR_COLUMNS = ("start_s", "end_s", "start", "end", "duration_h", "kind")


def nonwear_rows(summary: ResultSummary) -> list[dict[str, Any]]:
    """Return the rows of `nonwear.csv` in time order: periods of non-wear, and gaps without data."""
    w = summary.result.windows
    table = find_segments(summary.worn.astype(np.int64), w.time_s, w.window_s, w.stride_s, w.gap_before_s)
    off = table.label == 0
    periods = [(start, end, "non-wear") for start, end in zip(table.start_s[off], table.end_s[off], strict=True)]
    periods += [(start, end, "gap") for start, end in summary.gaps.tolist()]
    return [
        {
            "start_s": rounded(start),
            "end_s": rounded(end),
            "start": iso(summary.clock(start)),
            "end": iso(summary.clock(end)),
            "duration_h": rounded((end - start) / 3600, 4),
            "kind": kind,
        }
        for start, end, kind in sorted(periods)
    ]
