"""Contents of `info.json`: method, model, stream and versions of a run."""

import math
import platform
import sys
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

import numpy as np

from sight import __version__
from sight.results.method_name import method_name
from sight.results.output_tables import all_tables
from sight.results.summary import LOW_CONFIDENCE, ResultSummary

WINDOWS = "windows.parquet"


def files() -> dict[str, str]:
    """Return the output files with a description, in the order in which they are moved into place."""
    return {
        WINDOWS: "one row per window: raw and refined predictions, confidence, wear, gaps",
        **{table.file: table.description for table in all_tables()},
        "report.html": "figures and tables of the results",
        "info.json": "method, hyper-parameters, model, input, versions",
    }


def info_facts(summary: ResultSummary) -> dict[str, Any]:
    """Return the contents of `info.json`: the entries of `summary.info`, then those derived from the result."""
    result, w = summary.result, summary.result.windows
    limits = summary.movement.cut_points if summary.movement else None
    facts: dict[str, Any] = {
        "method": result.method,
        "method_name": method_name(result),
        "params": result.params,
        "lag": None if math.isinf(result.lag) else result.lag,  # None: the whole recording
        "classes": result.classes,
        "rules": asdict(summary.rules),
        "nights": _nights(summary),
        "cut_points": limits._asdict() if limits else None,
        "facts": {name: getattr(result, name) for name in ("sight_version", "rule", "notes", "parts_are_ours")},
        "state_bytes": result.state_bytes,
        "stream": {
            "windows": len(w),
            "window_s": w.window_s,
            "stride_s": w.stride_s,
            "start": w.start,
            "recorded_s": float(summary.seconds.sum()),
            "wear_s": float(summary.seconds[summary.worn].sum()),
            "gaps": len(summary.gaps),
            "gap_s": float(np.diff(summary.gaps).sum()),
            "low_confidence_below": LOW_CONFIDENCE,
            "low_confidence_windows": int(summary.uncertain.sum()),
            "changed_windows": int(summary.changed.sum()),
            "facts": w.facts.as_dict(),
        },
        "warnings": [asdict(warning) for warning in w.warnings],
        "versions": {
            "sight": __version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
            **{name: version(name) for name in ("numpy", "pyarrow", "torch", "onnxruntime") if name in sys.modules},
        },
        "files": files(),
    }
    return summary.info | facts


def _nights(summary: ResultSummary) -> dict[str, Any]:
    """Return how nights were computed, or why they were not."""
    if summary.no_nights:
        return {"computed": False, "reason": summary.no_nights}
    return {
        "computed": True,
        "found": sum(night.is_found for night in summary.nights),
        "period": "HDCZA, van Hees et al. 2018, doi:10.1038/s41598-018-31266-z",
        "sleep": "van Hees et al. 2015, doi:10.1371/journal.pone.0142533",
    }
