"""Tables of days, bouts, non-wear and subjects against values computed by hand."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from sight.results.output_tables.daily import hour_columns
from sight.results.output_tables.headline import time_use
from sight.results.output_tables.rules import TableRules
from sight.results.summary import ResultSummary
from sight.types import Result, Windows

BERLIN = ZoneInfo("Europe/Berlin")
MONDAY = datetime(2025, 3, 3, tzinfo=BERLIN)


def summary_of(labels, *, stride_s=60.0, start=MONDAY, gaps=None, wear=None, rules=None, raw=None, **intensity):
    """Return the summary of windows without overlap whose refined classes are `labels`."""
    labels, n = np.asarray(labels), len(labels)
    gap_before_s = np.zeros(n) if gaps is None else np.asarray(gaps, float)
    windows = Windows(
        x=np.zeros((n, 1, 1), np.float32),
        time_s=stride_s * np.arange(n) + np.cumsum(gap_before_s),
        label=np.full(n, -1),
        gap_before_s=gap_before_s,
        wear=None if wear is None else np.asarray(wear, bool),
        window_s=stride_s,
        stride_s=stride_s,
        start=start,
        intensity={name: np.asarray(values, float) for name, values in intensity.items()},
    )
    q, p = (np.eye(3)[np.asarray(k)] * 0.8 + 0.1 for k in (labels, labels if raw is None else raw))
    result = Result(method="none", params={}, classes=("sit", "walk", "run"), p=p, q=q, windows=windows)
    return ResultSummary(result, rules)


def daily_rows(summary):
    return summary.rows("daily")


def bout_rows(summary):
    return summary.rows("bouts")


# --- days -------------------------------------------------------------------------------------------------------


def test_hours_of_a_day_are_those_of_worn_time():
    hour = np.arange(48) // 2
    wear = hour < 22
    (row,) = daily_rows(
        summary_of(np.where(hour < 7, 0, 1), stride_s=1800.0, wear=wear, raw=np.zeros(48, int), enmo_mg=10.0 * hour)
    )
    assert (row["complete"], row["valid"]) == (True, True)
    assert (row["wear_h"], row["non_wear_h"], row["gap_h"]) == (22, 2, 0)
    assert (row["sit_h"], row["walk_h"], row["run_h"], row["raw_sit_h"], row["raw_walk_h"]) == (7, 15, 0, 22, 0)
    assert row["enmo_mg"] == pytest.approx(105)


def test_days_are_split_at_midnight_also_inside_a_gap():
    start = datetime(2025, 3, 3, 23, 57, tzinfo=BERLIN)
    first, second = daily_rows(summary_of([0, 1, 1, 1], start=start, gaps=[0, 0, 600, 0]))
    assert [round(60 * first[key], 2) for key in ("wear_h", "gap_h", "sit_h", "walk_h")] == [2, 1, 1, 1]
    assert [round(60 * second[key], 2) for key in ("wear_h", "gap_h", "sit_h", "walk_h")] == [2, 9, 0, 2]
    assert (first["complete"], second["complete"], second["day"]) == (False, False, 2)


@pytest.mark.parametrize(("day", "hours"), [(datetime(2024, 3, 31), 23), (datetime(2024, 10, 27), 25)])
def test_a_day_on_which_the_clock_changes_is_complete_with_its_own_length(day, hours):
    start = day.replace(tzinfo=BERLIN)
    first, second = daily_rows(summary_of(np.zeros(hours + 2, int), stride_s=3600.0, start=start))
    assert (first["wear_h"], first["complete"], first["weekday"]) == (hours, True, "Sunday")
    assert (second["wear_h"], second["complete"]) == (2, False)
    (short,) = daily_rows(summary_of(np.zeros(4 * hours - 12, int), stride_s=900.0, start=start))
    assert not short["complete"]


def test_days_have_24_hours_if_the_start_time_is_unknown():
    rows = daily_rows(summary_of(np.zeros(30, int), stride_s=3600.0, start=None))
    assert [(row["day"], row["date"], row["weekday"], row["sit_h"]) for row in rows] == [
        *((1, None, None, 24), (2, None, None, 6)),
    ]


def test_days_without_data_are_listed_so_that_gaps_add_up():
    start = datetime(2025, 3, 3, 12, tzinfo=BERLIN)
    rows = daily_rows(summary_of([0, 0], stride_s=3600.0, start=start, gaps=[0, 72 * 3600]))
    assert [(row["day"], row["wear_h"], row["gap_h"], row["valid"]) for row in rows] == [
        *((1, 1, 11, False), (2, 0, 24, False), (3, 0, 24, False), (4, 1, 13, False)),
    ]
    assert time_use(rows, ("sit", "walk", "run")).startswith("No valid day of 4.")


@pytest.mark.parametrize("start", [None, datetime(1970, 1, 1, 23, 59, tzinfo=BERLIN)])
def test_a_jump_of_the_clock_by_decades_adds_only_the_days_with_windows(start):
    rows = daily_rows(summary_of(np.zeros(8, int), stride_s=30.0, start=start, gaps=[0, 0, 0, 0, 1.7e9 - 120, 0, 0, 0]))
    assert [row["day"] for row in rows] == ([1, 19676] if start is None else [1, 2, 19677])
    assert sum(row["sit_h"] for row in rows) == pytest.approx(4 / 60, abs=1e-3)


def test_a_day_is_valid_from_the_hours_of_the_rule():
    for text, valid in (("16h", False), ("10h", True)):
        (row,) = daily_rows(summary_of(np.zeros(10, int), stride_s=3600.0, rules=TableRules.parse(text)))
        assert row["valid"] == valid


def test_columns_of_classes_never_replace_columns_of_the_day():
    refined, raw = hour_columns(["gap", "low_confidence", "sit"])
    assert refined == ["class_gap_h", "class_low_confidence_h", "sit_h"]
    assert raw == ["raw_gap_h", "raw_low_confidence_h", "raw_sit_h"]


# --- bouts --------------------------------------------------------------------------------------------------------


def spans(summary):
    return [(row["start_s"], row["end_s"], row["class"]) for row in bout_rows(summary)]


def test_short_interruptions_are_bridged():
    labels = np.repeat([1, 0, 1, 2, 1], [60, 10, 60, 11, 60])  # seconds
    assert spans(summary_of(labels, stride_s=1.0)) == [(0, 130, "walk"), (141, 201, "walk")]


def test_an_interruption_is_shorter_than_the_runs_beside_it():
    labels = np.tile(np.repeat([0, 1], 5), 30)  # neither class prevails
    assert spans(summary_of(labels, stride_s=1.0)) == []


def test_gaps_and_non_wear_end_a_bout():
    labels, wear = np.ones(300, int), np.ones(300, bool)
    wear[200:203] = False
    gaps = np.where(np.arange(300) == 100, 5.0, 0.0)
    found = spans(summary_of(labels, stride_s=1.0, wear=wear, gaps=gaps))
    assert found == [(0, 100, "walk"), (105, 205, "walk"), (208, 305, "walk")]


def test_the_shortest_bout_can_differ_between_classes():
    labels = np.repeat([0, 1, 2], [50, 100, 150])
    rules = TableRules.parse("16h", ["30s", "walk=2min"])
    assert [row["class"] for row in bout_rows(summary_of(labels, stride_s=1.0, rules=rules))] == ["sit", "run"]


def test_mean_enmo_and_confidence_of_a_bout():
    (row,) = bout_rows(summary_of([1] * 4, enmo_mg=[10, 20, 30, np.nan]))
    assert (row["enmo_mg"], row["mean_confidence"], row["duration_min"]) == (20, 0.9, 4)
    assert "enmo_mg" not in bout_rows(summary_of([1] * 4))[0]


@pytest.mark.parametrize("text", ["10s", "walk=5s", "soon", "-60s"])
def test_wrong_lengths_of_bouts_raise(text):
    with pytest.raises(ValueError, match="Expected"):
        TableRules.parse("16h", [text])


def test_text_needs_a_unit_and_numbers_are_hours_and_seconds():
    rules = TableRules.parse(10, 90)
    assert (rules.valid_day_h, rules.min_bout_s) == (10, 90)
    for arguments, remedy in (
        (("10",), "write 10h"),
        (("10h", "90"), "write 90s"),
        (("10h", ["walk=90"]), "write 90s"),
    ):
        with pytest.raises(ValueError, match=remedy):
            TableRules.parse(*arguments)


def test_a_rule_for_an_unknown_class_raises():
    with pytest.raises(ValueError, match="'walk'"):
        TableRules.parse("16h", ["wlk=90s"]).require_classes(("sit", "walk"))


# --- non-wear and summary -------------------------------------------------------------------------------------------


def test_nonwear_lists_periods_and_gaps_in_time_order():
    wear = [True, False, False, True, True, False]
    rows = summary_of(np.zeros(6, int), wear=wear, gaps=[0, 0, 0, 0, 3600, 0]).rows("nonwear")
    assert [(row["start_s"], row["end_s"], row["kind"]) for row in rows] == [
        *((60, 180, "non-wear"), (240, 3840, "gap"), (3900, 3960, "non-wear")),
    ]
    assert rows[1]["duration_h"] == 1
    assert rows[0]["start"] == "2025-03-03T00:01:00.000+01:00"


def week_summary(rules=None):
    """Return a week from Monday noon: 12 h of walking each day from noon, on Sunday 10 h are not worn."""
    hour = np.arange(12, 12 + 7 * 24)
    wear = ~((hour // 24 == 6) & (hour % 24 < 10))
    return summary_of(
        (hour % 24 >= 12).astype(int), stride_s=3600.0, start=MONDAY.replace(hour=12), wear=wear, rules=rules
    )


def test_summary_has_means_over_valid_days_only():
    summary = week_summary()
    daily = daily_rows(summary)
    assert [row["valid"] for row in daily] == [False, True, True, True, True, True, False, False]
    (row,) = summary.rows("summary")
    assert (row["days"], row["complete_days"], row["valid_days"], row["valid_weekend_days"]) == (8, 6, 5, 1)
    assert (row["first_date"], row["last_date"]) == ("2025-03-03", "2025-03-10")
    assert (row["wear_h"], row["sit_h"], row["walk_h"], row["weekday_walk_h"], row["weekend_walk_h"]) == (24, *[12] * 4)
    assert (row["sit_bouts_per_day"], row["run_bouts_per_day"]) == (1, 0)
    assert time_use(daily, summary.classes).startswith("5 valid days of 8: on average 12 h 00 min sit")


def test_without_a_valid_day_means_are_missing_and_a_warning_says_so():
    summary = week_summary(TableRules(valid_day_h=24.5))
    daily = daily_rows(summary)
    (row,) = summary.rows("summary")
    assert row["valid_days"] == 0
    assert {row[name] for name in row if name.endswith(("_h", "_per_day"))} == {None}
    assert [warning.kind for warning in summary.warnings if "24.5 h" in str(warning)] == ["valid-days"]
    assert [warning.kind for warning in week_summary().warnings] == ["nights"]  # windows alone have no nights
    assert time_use(daily, summary.classes).startswith("No valid day of 8")


def test_a_short_recording_gives_no_warning_about_valid_days():
    assert summary_of(np.zeros(10, int)).warnings == ()
