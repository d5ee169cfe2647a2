"""Columns of `windows.parquet`: one row per window."""

from typing import Any

import numpy as np

from sight.results.summary import ResultSummary


def window_columns(summary: ResultSummary) -> dict[str, Any]:
    """Return the columns, name to (N,); "time", "in_bed" and "label" only if they are known."""
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
    if not summary.no_nights:
        columns["in_bed"] = summary.in_bed
    if summary.truth is not None:
        columns["label"] = np.array([*summary.classes, None], dtype=object)[summary.truth]
    return columns
