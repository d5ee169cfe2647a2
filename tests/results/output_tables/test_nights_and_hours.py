"""Nights, hours, levels of intensity and statistics over days, on made days with values computed by hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import numpy as np
import pandas as pd
import pytest

from sight.results.adapted_recording import Adaptation
from sight.results.output_tables.headline import headline
from sight.results.output_tables.rules import TableRules
from sight.results.output_tables.windows import window_columns
from sight.results.summary import ResultSummary
from tests.helpers.made_nights import BERLIN, MONDAY, made_summary

#: Two days from Monday noon, with a night of 7 hours from 23:00.
NIGHT = {"start": MONDAY.replace(hour=12), "nights": [(11, 18), (35, 42)]}


def statistics(summary):
    return {row["measure"]: row for row in summary.rows("day_statistics")}


# --- nights -------------------------------------------------------------------------------------------------------


def test_a_row_for_each_night():
    first, second = made_summary(48, **NIGHT).rows("nights")
    assert (first["night"], first["date"], first["weekday"], first["valid"]) == (1, "2025-03-03", "Monday", True)
    assert (first["onset"], first["wake"]) == ("2025-03-03T23:00:00.000+01:00", "2025-03-04T06:00:00.000+01:00")
    assert (first["onset_s"], first["wake_s"], first["period_h"], first["worn_h"]) == (39600, 64800, 7, 24)
    assert first["efficiency"] == pytest.approx(first["sleep_h"] / 7, abs=1e-4)
    assert (second["date"], second["valid"]) == ("2025-03-04", True)


def test_a_night_without_the_sensor_is_listed_with_empty_cells():
    summary = made_summary(24, start=MONDAY.replace(hour=12), unworn=[(10, 18)])
    (row,) = summary.rows("nights")
    assert (row["valid"], row["worn_h"]) == (False, 16)
    assert {row[name] for name in ("onset_s", "period_h", "sleep_h", "efficiency", "wear_share")} == {None}
    assert (row["onset"], row["wake"]) == ("", "")
    (frame_row,) = Adaptation(summary).nights.itertuples()
    assert pd.isna(frame_row.onset)


def test_a_night_is_valid_by_the_rule_of_days():
    short = {"start": MONDAY.replace(hour=20), "nights": [(3, 10)]}
    for text, valid in (("16h", False), ("12h", True)):
        (row,) = made_summary(15, rules=TableRules.parse(text), **short).rows("nights")
        assert (row["valid"], row["period_h"]) == (valid, 7)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"placement": "waist"}, "worn at the waist"),
        ({"placement": None}, "--placement wrist"),
        ({"start": None}, "no start time"),
    ],
)
def test_nights_that_cannot_be_computed_are_stated(changes, reason):
    summary = made_summary(48, **(NIGHT | changes))
    assert summary.rows("nights") == []
    (note,) = (warning for warning in summary.warnings if warning.kind == "nights")
    assert (reason in note.text, note.severity) == (True, "note")
    assert "in_bed" not in window_columns(summary)
    assert "in_bed_h" not in summary.rows("daily")[0]
    assert summary.rows("summary")[0]["nights"] is None
    assert "nights" not in {warning.kind for warning in made_summary(20, **(NIGHT | changes)).warnings}  # short


# --- time in bed --------------------------------------------------------------------------------------------------


def test_time_in_bed_counts_for_no_class():
    summary = made_summary(48, **NIGHT)
    monday, tuesday, wednesday = summary.rows("daily")
    assert [row["in_bed_h"] for row in (monday, tuesday, wednesday)] == [1, 7, 6]
    assert (tuesday["wear_h"], tuesday["sit_h"], tuesday["walk_h"], tuesday["raw_sit_h"]) == (24, 8.5, 8.5, 8.5)
    in_bed = window_columns(summary)["in_bed"]
    assert in_bed.sum() == 2 * 7 * 60
    assert np.flatnonzero(in_bed)[[0, -1]].tolist() == [11 * 60, 42 * 60 - 1]
    assert headline(summary) == (
        "1 valid day of 3: on average 7 h 00 min in bed; awake 8 h 30 min sit, 8 h 30 min walk a day"
    )
    assert not any(bout["start_s"] < 64800 < bout["end_s"] for bout in summary.rows("bouts"))


def test_a_class_called_like_a_column_keeps_its_own():
    row = made_summary(48, classes=("in_bed", "light"), **NIGHT).rows("daily")[1]
    assert (row["in_bed_h"], row["class_in_bed_h"], row["light_h"]) == (7, 8.5, 8.5)
    hour = made_summary(48, classes=("in_bed", "light"), **NIGHT).rows("hourly")[36]
    assert (hour["in_bed_min"], hour["class_in_bed_min"], hour["light_min"], hour["class_light_min"]) == (0, 30, 60, 30)


# --- where days begin ---------------------------------------------------------------------------------------------


def test_days_from_the_start_follow_the_clock_of_the_wearer():
    start = datetime(2024, 3, 30, 9, 30, tzinfo=BERLIN)  # summer time begins on the next day
    summary = made_summary(60, start=start, rules=TableRules(days_from="start"))
    rows = summary.rows("daily")
    assert [(row["date"], row["wear_h"], row["complete"], row["valid"]) for row in rows] == [
        *(("2024-03-30", 23, True, True), ("2024-03-31", 24, True, True), ("2024-04-01", 13, False, False)),
    ]
    assert [day.start_s / 3600 for day in summary.days] == [0, 23, 47]


def test_days_from_waking_to_waking():
    summary = made_summary(48, rules=TableRules(days_from="waking"), **NIGHT)
    rows = summary.rows("daily")
    assert [(row["date"], row["wear_h"], row["complete"], row["in_bed_h"]) for row in rows] == [
        *(("2025-03-03", 18, False, 7), ("2025-03-04", 24, True, 7), ("2025-03-05", 6, False, 0)),
    ]
    assert summary.warnings == ()


def test_the_usual_time_of_waking_stands_for_a_night_that_was_not_found():
    unworn = {"nights": [(11, 18), (59, 66)], "unworn": [(34, 43)]}
    summary = made_summary(80, start=MONDAY.replace(hour=12), rules=TableRules(days_from="waking"), **unworn)
    assert [day.start_s / 3600 for day in summary.days] == [-6, 18, 42, 66]


def test_without_a_night_days_begin_at_midnight_and_a_warning_says_so():
    summary = made_summary(48, start=MONDAY.replace(hour=12), rules=TableRules(days_from="waking"))
    assert [row["wear_h"] for row in summary.rows("daily")] == [12, 24, 12]
    assert [(warning.kind, warning.severity) for warning in summary.warnings] == [("days", "warning")]


def test_an_unknown_beginning_of_days_raises():
    with pytest.raises(ValueError, match="Did you mean 'midnight'"):
        TableRules(days_from="midnights")


# --- intensity ----------------------------------------------------------------------------------------------------


def active(summary, *spans, enmo_mg):
    """Return the summary with this ENMO in the given hours."""
    epochs = summary.result.windows.epochs
    enmo = epochs.enmo_mg.copy()
    for low, high in spans:
        enmo[(epochs.time_s >= 3600 * low) & (epochs.time_s < 3600 * high)] = enmo_mg
    windows = replace(summary.result.windows, epochs=replace(epochs, enmo_mg=enmo, mad_mg=enmo))
    return ResultSummary(replace(summary.result, windows=windows), summary.rules)


def test_minutes_of_each_level_are_awake_and_worn():
    summary = made_summary(48, unworn=[(26, 27.5)], **NIGHT)
    summary = active(summary, (20, 20.5), (21, 21 + 9 / 60), enmo_mg=150.0)  # 30 and 9 minutes on Tuesday
    row = summary.rows("daily")[1]
    assert (row["sedentary_min"], row["mvpa_min"], row["mvpa_bout_min"]) == (0, 39, 30)
    assert row["light_min"] == 24 * 60 - 7 * 60 - 90 - 39  # 80 mg while awake
    expected = (39 * 150 + row["light_min"] * 80 + 7 * 60 * 2) / (24 * 60 - 90)
    assert row["enmo_mg"] == pytest.approx(expected, abs=0.01)
    assert row["mad_mg"] == row["enmo_mg"]
    assert (row["l5_mg"], row["l5_start_h"]) == (2, 0)  # until waking at 6:00; the night begins at 23:00
    assert row["m5_mg"] == pytest.approx((39 * 150 + (300 - 39) * 80) / 300, abs=0.01)
    assert row["m5_start_h"] == pytest.approx(6)
    assert summary.rows("summary")[0]["cut_points"] == "hildebrand-adults-wrist"


def test_limits_are_those_of_the_rules():
    summary = made_summary(24, rules=TableRules(cut_points="81,90"), start=MONDAY)
    row = summary.rows("daily")[0]
    assert (row["sedentary_min"], row["light_min"], row["mvpa_min"]) == (1440, 0, 0)
    row = made_summary(24, rules=TableRules(cut_points="50,80"), start=MONDAY).rows("daily")[0]
    assert (row["light_min"], row["mvpa_min"]) == (0, 1440)


def test_without_cut_points_there_are_no_levels_but_enmo():
    row = made_summary(24, placement="thigh", start=MONDAY).rows("daily")[0]
    assert (row["enmo_mg"], row["m5_mg"]) == (80, 80)
    assert "mvpa_min" not in row
    assert "mvpa_bout_min" not in row


# --- hours and statistics -----------------------------------------------------------------------------------------


def test_an_hour_of_the_clock():
    rows = made_summary(48, unworn=[(26, 27.5)], **NIGHT).rows("hourly")
    assert len(rows) == 3 * 24
    by_hour = {(row["date"], row["hour"]): row for row in rows}
    before, partly, in_bed = (by_hour[key] for key in (("2025-03-03", 11), ("2025-03-04", 15), ("2025-03-05", 5)))
    assert (before["wear_min"], before["hour_min"], before["enmo_mg"], before["sit_min"]) == (0, 60, None, 0)
    assert (partly["wear_min"], partly["sit_min"], partly["walk_min"], partly["light_min"]) == (30, 0, 30, 30)
    assert (in_bed["in_bed_min"], in_bed["sit_min"], in_bed["enmo_mg"], in_bed["light_min"]) == (60, 0, 2, 0)


@pytest.mark.parametrize(("day", "hour", "minutes"), [((2024, 3, 31), 2, None), ((2024, 10, 27), 2, 120)])
def test_hours_when_the_clock_changes(day, hour, minutes):
    summary = made_summary(25 if minutes else 23, start=datetime(*day, tzinfo=BERLIN))
    found = {row["hour"]: row["wear_min"] for row in summary.rows("hourly")}
    assert (found.get(hour), len(found), sum(found.values())) == (
        minutes,
        24 if minutes else 23,
        1500 if minutes else 1380,
    )


def test_an_hour_in_which_days_begin_is_one_row():
    summary = made_summary(48, start=MONDAY.replace(hour=9, minute=20), rules=TableRules(days_from="start"))
    rows = [row for row in summary.rows("hourly") if row["day"] == 1]
    assert len(rows) == 24
    assert {row["hour_min"] for row in rows} == {60}


def test_statistics_over_valid_days():
    # From Thursday: walking for 12, 12, 6 and 12 hours; the third day is a Saturday
    summary = made_summary(96, start=datetime(2025, 3, 6, tzinfo=BERLIN), unworn=[(60, 72)])
    summary = ResultSummary(summary.result, TableRules.parse("12h"))
    row = statistics(summary)["walk_h"]
    assert (row["days"], row["mean"], row["median"], row["min"], row["max"]) == (4, 10.5, 12, 6, 12)
    assert (row["weekday_mean"], row["weekend_mean"]) == (12, 9)
    assert row["weighted_mean"] == pytest.approx((5 * 12 + 2 * 9) / 7, abs=1e-4)


def test_missing_time_is_filled_with_the_same_hour_of_other_days_in_a_column_of_its_own():
    # On the second of three days, ten hours from 8:00 are missing; 9:00 to 10:00 is active on the third day only.
    summary = made_summary(72, start=MONDAY, unworn=[(32, 42)], rules=TableRules.parse("10h"))
    found = statistics(active(summary, (57, 58), enmo_mg=150.0))
    assert found["walk_h"]["mean"] == pytest.approx((12 + 7 + 12) / 3, abs=1e-4)
    assert found["walk_h"]["adjusted_mean"] == pytest.approx(12, abs=1e-4)
    assert found["mvpa_min"]["mean"] == 20
    assert found["mvpa_min"]["adjusted_mean"] == pytest.approx((0 + 30 + 60) / 3, abs=1e-4)
    assert found["enmo_mg"]["adjusted_mean"] == pytest.approx(80 + 70 * 1.5 / 72, abs=0.01)
    assert found["wear_h"]["adjusted_mean"] is None
    assert found["mvpa_bout_min"]["adjusted_mean"] is None


def test_an_hour_that_was_never_worn_cannot_be_filled():
    summary = made_summary(48, start=MONDAY, unworn=[(8, 10), (32, 34)])
    assert {row["adjusted_mean"] for row in summary.rows("day_statistics")} == {None}
    assert statistics(summary)["walk_h"]["mean"] == 11


def test_statistics_are_empty_without_a_valid_day():
    rows = made_summary(12, start=MONDAY).rows("day_statistics")
    assert {row["days"] for row in rows} == {0}
    assert {row[name] for row in rows for name in row if name not in ("measure", "days")} == {None}
