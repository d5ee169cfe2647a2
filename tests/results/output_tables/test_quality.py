"""The table of quality against values computed by hand."""

from __future__ import annotations

from dataclasses import replace

from sight.results.summary import ResultSummary
from sight.types import RecordingFacts, Warning
from tests.results.output_tables.test_tables import summary_of

UNIT = Warning(kind="unit", severity="error", text="At rest acceleration is 9.81 g instead of 1 g.")
ZONE = Warning(kind="time-zone", severity="warning", text="Timestamps have no time zone.")
DAMAGED = Warning(kind="damaged", severity="note", text="1 damaged block was left out.")
UNKNOWN = RecordingFacts()
FACTS = RecordingFacts(
    file="p.cwa",
    device="Axivity AX3",
    serial="51888",
    firmware="45",
    rate_nominal_hz=100.0,
    rate_measured_hz=99.123456,
    read_errors=3,
    saturated_share=0.001,
    calibrated=True,
    calibration_error_before_mg=23.45678,
    calibration_error_after_mg=2.0,
    temperature_c=28.2,
    unfamiliar_share=0.05,
)


def quality(facts=UNKNOWN, warnings=(), **fields):
    """Return the row of a day of half-hours, of which four are not worn and two are after a gap of 30 minutes.

    It has no samples, so there is a note that nights are not computed.
    """
    plain = summary_of([0] * 46, stride_s=1800.0, gaps=[0] * 10 + [1800] + [0] * 20 + [1800] + [0] * 14,
                       wear=[False] * 4 + [True] * 42)  # fmt: skip
    windows = replace(plain.result.windows, facts=facts, warnings=warnings)
    result = replace(plain.result, windows=windows, sight_version="1.0", **fields)
    summary = ResultSummary(result, info={"subject": "P1", "model": {"file": "wrist.onnx"}})
    (row,) = summary.rows("quality")
    return summary, row


def test_a_row_holds_the_facts_of_the_recording():
    summary, row = quality(FACTS)
    assert row == {
        "subject": "P1",
        "file": "p.cwa",
        "device": "Axivity AX3",
        "serial": "51888",
        "firmware": "45",
        "rate_stated_hz": 100.0,
        "rate_found_hz": 99.1235,
        "read_errors": 3,
        "clipped_share": 0.001,
        "calibrated": True,
        "calibration_error_before_mg": 23.4568,
        "calibration_error_after_mg": 2.0,
        "temperature_c": 28.2,
        "gaps": 2,
        "gap_h": 1.0,
        "non_wear_h": 2.0,
        "low_confidence_share": 0.0,
        "unfamiliar_share": 0.05,
        "in_domain": True,
        "errors": 0,
        "warnings": 0,
        "notes": 1,
        "error_kinds": None,
        "warning_kinds": None,
        "note_kinds": "nights",
        "method": "none",
        "model": "wrist.onnx",
        "sight_version": "1.0",
    }
    assert summary.usable


def test_warnings_are_counted_by_severity():
    summary, row = quality(FACTS, (ZONE, UNIT, DAMAGED, ZONE))
    assert (row["errors"], row["warnings"], row["notes"]) == (1, 2, 2)
    assert (row["error_kinds"], row["warning_kinds"], row["note_kinds"]) == ("unit", "time-zone", "damaged nights")
    assert not summary.usable
    (subject,) = summary.rows("summary")
    assert (subject["errors"], subject["warnings"]) == (1, 2)


def test_unknown_facts_are_empty():
    _, row = quality(replace(UNKNOWN, files=["a.csv", "b.csv"]))
    assert row["file"] == "a.csv, b.csv"
    assert [row[name] for name in ("device", "rate_found_hz", "read_errors", "calibrated", "in_domain")] == [None] * 5


def test_a_recording_unlike_training_is_not_in_domain():
    unlike = Warning(kind="domain", severity="warning", text="90% of the windows look like none of the training.")
    assert quality(replace(FACTS, unfamiliar_share=0.9), (unlike,))[1]["in_domain"] is False


def test_the_method_is_named_with_what_changes_its_predictions():
    from sight import registry

    params = registry.method("keel").params()
    assert quality(method="keel", params=params)[1]["method"] == "keel"
    changed = params | {"align": 0.0, "debias": 0.0}
    row = quality(method="keel", params=changed, lag=float("inf"), rule="whole recording")[1]
    assert row["method"] == "keel(align=0, debias=0), whole recording"
    assert quality(method="third-party", params={"k": 2})[1]["method"] == "third-party(k=2)"
