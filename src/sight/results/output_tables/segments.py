"""One row per run of one refined class."""

from typing import Any

import numpy as np

from sight.results.output_tables import Table
from sight.results.output_tables.cells import rounded, span
from sight.results.summary import ResultSummary


def segment_rows(summary: ResultSummary) -> list[dict[str, Any]]:
    found = summary.segments(summary.refined)
    first = np.cumsum(found.windows) - found.windows
    rows: list[dict[str, Any]] = []
    for i, (start, end, k, count) in enumerate(zip(*(column.tolist() for column in found), strict=True)):
        own = slice(first[i], first[i] + count)
        rows.append(
            {
                **span(summary, start, end),
                "duration_s": rounded(end - start),
                "class": summary.classes[k],
                "mean_confidence": rounded(summary.confidence[own].mean(), 4),
                "windows": count,
                "wear_share": rounded(summary.worn[own].mean(), 4),
                "gap_before_s": rounded(summary.result.windows.gap_before_s[first[i]]),
            }
        )
    return rows


TABLE = Table(
    name="segments",
    description="one row per run of one refined class; a gap ends a run",
    fixed=(
        *("start_s", "end_s", "start", "end", "duration_s", "class"),
        *("mean_confidence", "windows", "wear_share", "gap_before_s"),
    ),
    rows=segment_rows,
    kinds={"start": "time", "end": "time", "class": "text", "windows": "int"},
    in_cohort=False,  # as long as the windows, from which a query can compute them
)
