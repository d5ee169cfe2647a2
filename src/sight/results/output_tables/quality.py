"""One row for the recording: device, rate, damage, calibration, gaps, comparison with training, warnings."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from sight.results.method_name import method_name
from sight.results.output_tables import Kind, Table
from sight.results.output_tables.cells import rounded
from sight.results.summary import ResultSummary
from sight.types import Severity, Warning

#: Columns that are facts of the recording as it was read, and the fact of each.
FACTS = {
    "device": "device",
    "serial": "serial",
    "firmware": "firmware",
    "rate_stated_hz": "rate_nominal_hz",
    "rate_found_hz": "rate_measured_hz",
    "read_errors": "read_errors",
    "clipped_share": "saturated_share",
    "calibrated": "calibrated",
    "calibration_error_before_mg": "calibration_error_before_mg",
    "calibration_error_after_mg": "calibration_error_after_mg",
    "temperature_c": "temperature_c",
}
COLUMNS = (
    *("subject", "file", *FACTS),
    *("gaps", "gap_h", "non_wear_h", "low_confidence_share", "unfamiliar_share", "in_domain"),
    *("errors", "warnings", "notes", "error_kinds", "warning_kinds", "note_kinds", "method", "model", "sight_version"),
)
KINDS: dict[str, Kind] = {
    **dict.fromkeys(("subject", "file", "device", "serial", "firmware"), "text"),
    **dict.fromkeys(("error_kinds", "warning_kinds", "note_kinds", "method", "model", "sight_version"), "text"),
    **dict.fromkeys(("read_errors", "gaps", "errors", "warnings", "notes"), "int"),
    **dict.fromkeys(("calibrated", "in_domain"), "bool"),
}


def quality_row(summary: ResultSummary) -> dict[str, Any]:
    facts, warnings = summary.result.windows.facts, summary.warnings
    own = {name: getattr(facts, fact) for name, fact in FACTS.items()}
    unfamiliar = any(warning.kind == "domain" for warning in warnings)
    return {
        "subject": summary.info.get("subject", ""),
        "file": ", ".join(facts.files) if facts.files else facts.file,
        **{name: rounded(value, 4) if isinstance(value, float) else value for name, value in own.items()},
        "gaps": len(summary.gaps),
        "gap_h": rounded(np.diff(summary.gaps).sum() / 3600, 4),
        "non_wear_h": rounded(summary.seconds[~summary.worn].sum() / 3600, 4),
        "low_confidence_share": rounded(summary.uncertain.mean(), 4) if len(summary) else None,
        "unfamiliar_share": facts.unfamiliar_share,
        "in_domain": None if facts.unfamiliar_share is None else summary.usable and not unfamiliar,
        **{f"{severity}s": count for severity, count in summary.severities.items()},
        **{f"{severity}_kinds": _kinds(warnings, severity) for severity in summary.severities},
        "method": method_name(summary.result),
        "model": summary.info.get("model", {}).get("file", ""),
        "sight_version": summary.result.sight_version,
    }


def _kinds(warnings: Iterable[Warning], severity: Severity) -> str | None:
    return " ".join(sorted({warning.kind for warning in warnings if warning.severity == severity})) or None


TABLE = Table(
    name="quality",
    description="one row: device, rate, damage, calibration, gaps, comparison with training, warnings by severity",
    fixed=COLUMNS,
    rows=lambda summary: [quality_row(summary)],
    kinds=KINDS,
)
