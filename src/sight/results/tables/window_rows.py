"""Columns of `windows.parquet` and rows of `segments.csv`."""

from __future__ import annotations

from typing import Any

import numpy as np

from sight.results.segments import find_segments
from sight.results.tables.cells import iso, rounded
from sight.results.tables.result_summary import ResultSummary

SEGMENT_COLUMNS = (
    *("start_s", "end_s", "start", "end", "duration_s", "class"),
    *("mean_confidence", "windows", "wear_share", "gap_before_s"),
)


def window_columns(summary: ResultSummary) -> dict[str, Any]:
    """Return the columns of `windows.parquet`, name to (N,)."""
    result, w = summary.result, summary.result.windows
    names = np.array(summary.classes, dtype=object)
    columns: dict[str, Any] = {"time_s": w.time_s}
    if w.start is not None:
        columns["time"] = [summary.clock(second) for second in w.time_s.tolist()]
    columns |= {
        "window_s": np.full(len(w), w.window_s),
        "raw_class": names[summary.raw],
        "class": names[summary.refined],
        "confidence": summary.confidence,
    }
    columns |= {f"p_{name}": result.p[:, k] for k, name in enumerate(names)}
    columns |= {f"q_{name}": result.q[:, k] for k, name in enumerate(names)}
    columns |= {key: np.asarray(values) for key, values in result.trace.items()}
    columns |= summary.intensity
    columns |= {"gap_before_s": w.gap_before_s, "wear": summary.worn, "low_confidence": summary.uncertain}
    if summary.truth is not None:
        columns["label"] = np.array([*summary.classes, None], dtype=object)[summary.truth]
    return columns


def segment_rows(summary: ResultSummary) -> list[dict[str, Any]]:
    """Return the rows of `segments.csv`."""
    w = summary.result.windows
    table = find_segments(summary.refined, w.time_s, w.window_s, w.stride_s, w.gap_before_s)
    first = np.cumsum(table.windows) - table.windows
    rows: list[dict[str, Any]] = []
    for i, (start, end, k, count) in enumerate(zip(*(column.tolist() for column in table), strict=True)):
        own = slice(first[i], first[i] + count)
        rows.append(
            {
                "start_s": rounded(start),
                "end_s": rounded(end),
                "start": iso(summary.clock(start)),
                "end": iso(summary.clock(end)),
                "duration_s": rounded(end - start),
                "class": summary.classes[k],
                "mean_confidence": rounded(summary.confidence[own].mean(), 4),
                "windows": count,
                "wear_share": rounded(summary.worn[own].mean(), 4),
                "gap_before_s": rounded(w.gap_before_s[first[i]]),
            }
        )
    return rows
