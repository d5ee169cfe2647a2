"""One row per period of non-wear or gap."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sight.results.segments import find_segments
from sight.results.tables import Table
from sight.results.tables.cells import iso, rounded

if TYPE_CHECKING:
    from sight.results.summary import ResultSummary


def nonwear_rows(summary: ResultSummary) -> list[dict[str, Any]]:
    w = summary.result.windows
    found = find_segments(summary.worn.astype(np.int64), w.time_s, w.window_s, w.stride_s, w.gap_before_s)
    off = found.label == 0
    periods = [(start, end, "non-wear") for start, end in zip(found.start_s[off], found.end_s[off], strict=True)]
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


TABLE = Table(
    name="nonwear",
    description="one row per period of non-wear or gap",
    fixed=("start_s", "end_s", "start", "end", "duration_h", "kind"),
    rows=nonwear_rows,
    kinds={"start": "time", "end": "time", "kind": "text"},
)
