"""One row per period of non-wear or gap."""

from typing import Any

import numpy as np

from sight.results.output_tables import Table
from sight.results.output_tables.cells import rounded, span
from sight.results.summary import ResultSummary


def nonwear_rows(summary: ResultSummary) -> list[dict[str, Any]]:
    found = summary.segments(summary.worn.astype(np.int64))
    off = found.label == 0
    periods = [(start, end, "non-wear") for start, end in zip(found.start_s[off], found.end_s[off], strict=True)]
    periods += [(start, end, "gap") for start, end in summary.gaps.tolist()]
    return [
        {
            **span(summary, start, end),
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
