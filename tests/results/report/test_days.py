"""Rows of days, the average day and hours a day, on recordings of which every number is known."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from sight.results.output_tables.rules import TableRules
from sight.results.report import write_report
from sight.results.report.axis import Axis
from sight.results.report.day_grid import day_grid
from sight.results.report.day_rows import days_note
from sight.results.report.fact_tables import recording_figures
from sight.results.report.figures import changes_text, time_use
from sight.results.summary import ResultSummary
from sight.types import Result, Windows

BERLIN = ZoneInfo("Europe/Berlin")
CLASSES = ("walking", "sitting", "lying")
HOUR = 3600


def result(start: datetime | None, *stretches: tuple[float, float], off: tuple[float, float] = (0, 0)) -> Result:
    """Return windows of one minute in stretches of hours since the start; `off` is not worn.

    The class changes every two hours of elapsed time: walking, sitting, lying, walking ...
    """
    time_s = np.concatenate([np.arange(a * HOUR, b * HOUR, 60.0) for a, b in stretches])
    gap = np.append(0.0, np.clip(np.diff(time_s) - 60, 0, None))
    q = np.eye(3)[(time_s // (2 * HOUR)).astype(int) % 3]
    windows = Windows(
        x=np.zeros((len(time_s), 1, 1), np.float32),
        time_s=time_s,
        label=np.full(len(time_s), -1),
        gap_before_s=gap,
        wear=(time_s < off[0] * HOUR) | (time_s >= off[1] * HOUR),
        window_s=60.0,
        stride_s=60.0,
        start=start,
    )
    return Result(method="none", params={}, classes=CLASSES, p=q, q=q, windows=windows)


def test_grid_agrees_with_the_daily_table():
    summary = ResultSummary(result(datetime(2025, 3, 3, 9, 2, 30, tzinfo=BERLIN), (0, 60), off=(20, 26)))
    grid = day_grid(summary)
    hours = grid.seconds.sum(axis=2) / HOUR
    for row, found in zip(summary.rows("daily"), hours, strict=True):
        expected = [row["walking_h"], row["sitting_h"], row["lying_h"], 0, row["non_wear_h"]]
        assert found.tolist() == pytest.approx(expected, abs=1e-3)
    assert grid.recorded.sum() == pytest.approx(60 * HOUR)
    assert grid.seconds[0, :, : 9 * 12].sum() == 0  # before the recording
    assert grid.seconds[0, :, 9 * 12].sum() == pytest.approx(150)  # from 9:02:30 to 9:05


@pytest.mark.parametrize(
    ("day", "hours", "in_third_hour"), [((2024, 3, 31), 23, 0), ((2024, 10, 27), 25, 2), ((2024, 6, 1), 24, 1)]
)
def test_days_of_a_clock_change_are_drawn_by_local_hours(day, hours, in_third_hour):
    grid = day_grid(ResultSummary(result(datetime(*day, tzinfo=BERLIN), (0, hours))))
    assert len(grid.valid) == 1
    assert grid.recorded.sum() == hours * HOUR
    assert grid.seconds[0, :, 24:36].sum() == in_third_hour * HOUR  # from 2:00 to 3:00
    assert grid.seconds[0, :, 36:].sum() == 21 * HOUR
    assert grid.shares(0).sum(axis=0).max() <= 1 + 1e-9


@pytest.mark.parametrize(("day", "skipped"), [((2024, 3, 31), 2), ((2024, 10, 27), None)])
def test_main_classes_follow_the_local_clock_when_it_changes(day, skipped):
    summary = ResultSummary(result(datetime(*day, tzinfo=BERLIN), (0, 23 if skipped else 25), off=(10, 11)))
    (hours,) = day_grid(summary, summary.raw, bin_s=HOUR).main_classes()
    assert np.flatnonzero(hours < 0).tolist() == ([skipped] if skipped else [])
    assert np.flatnonzero(hours == len(CLASSES) + 1).tolist() == [11 if skipped else 9]


def test_the_axis_follows_the_local_clock_through_a_change():
    axis = Axis.of(ResultSummary(result(datetime(2024, 3, 31, tzinfo=BERLIN), (0, 11))))
    labels = {label: share for share, label in axis.ticks(limit=14)}
    assert "02:00" not in labels
    assert labels["12:00"] == pytest.approx(1)
    assert labels["04:00"] == pytest.approx(3 / 11)


@pytest.mark.parametrize(("day", "hours", "explained"), [(3, 96, False), (3, 144, True), (8, 24, True)])
def test_bold_weekends_are_explained_if_there_are_any(day, hours, explained):
    summary = ResultSummary(result(datetime(2025, 3, day, tzinfo=BERLIN), (0, hours)))  # 3 March is a Monday
    assert ("Bold: weekend." in "".join(map(str, days_note(summary)))) == explained


def test_a_long_gap_is_one_line_and_does_not_hide_data(opened, tmp_path):
    gappy = result(datetime(2025, 3, 3, 8, tzinfo=BERLIN), (0, 10), (40 * 24, 40 * 24 + 10))
    axis = Axis.of(ResultSummary(gappy))
    places = axis.place(gappy.windows.time_s)
    assert len(np.unique(places)) / axis.span > 0.9
    page = opened(write_report(tmp_path / "r.html", ResultSummary(gappy)))
    assert page.locator(".day[data-name] svg").count() == 2  # no day is valid, so there is no average day
    assert page.locator(".skipped").all_inner_texts() == ["39 days without data"]
    assert "No valid day" in page.locator(".lead").inner_text()
    assert page.locator(".warnings").count() == 1
    assert page.messages == [f"request: {(tmp_path / 'r.html').as_uri()}"]


@pytest.mark.parametrize(
    ("valid_day_h", "expected"),
    [(16, "10 mg</dd>"), (16, "mean of 1 valid day<"), (25, "20 mg</dd>"), (25, "all worn")],
)
def test_mean_enmo_is_that_of_valid_days(valid_day_h, expected):
    whole = result(datetime(2025, 3, 3, tzinfo=BERLIN), (0, 36), off=(24, 25))
    hour = whole.windows.time_s / HOUR
    enmo = np.select([hour < 24, hour < 25], [10.0, 500.0], (20 * 35 - 10 * 24) / 11)
    windows = replace(whole.windows, intensity={"enmo_mg": enmo})
    summary = ResultSummary(replace(whole, windows=windows), rules=TableRules(valid_day_h=valid_day_h))
    assert expected in recording_figures(summary)


def test_the_share_of_changes_counts_worn_windows():
    whole = result(None, (0, 4), off=(2, 4))
    changed = replace(whole, p=np.where(whole.windows.time_s[:, None] >= HOUR, whole.q[:, [2, 0, 1]], whole.q))
    text = "".join(map(str, changes_text(ResultSummary(changed), [])))
    assert "(60 of 120)" in text


@pytest.mark.parametrize(("hours", "unit"), [(7.9, "min"), (8, "h")])
def test_time_use_of_less_than_eight_hours_is_in_minutes(hours, unit):
    assert f"({unit})" in time_use(ResultSummary(result(None, (0, hours))))


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    found = result(datetime(2025, 3, 7, tzinfo=BERLIN), (0, 84), off=(76, 80))  # Friday to Monday noon
    return write_report(tmp_path_factory.mktemp("days") / "r.html", ResultSummary(found))


@pytest.mark.parametrize("width", [390, 1280])
def test_rows_of_days(opened, report, width):
    page = opened(report, width)
    rows = page.locator(".day[data-name]:not(.average)")
    assert [rows.nth(i).get_attribute("data-name") for i in range(4)] == [
        "Fri 7 Mar",
        "Sat 8 Mar",
        "Sun 9 Mar",
        "Mon 10 Mar",
    ]
    assert page.locator(".day .worn b").all_inner_texts() == ["24.0\xa0h", "24.0\xa0h", "24.0\xa0h", "8.0\xa0h"]
    assert page.locator(".day.invalid").count() == 1
    assert "not valid" in rows.nth(3).locator("svg").get_attribute("aria-label")
    assert "8 h 00 min walking" in rows.nth(0).locator("svg").get_attribute("aria-label")
    assert page.locator(".lead").inner_text().startswith("3 valid days of 4: on average 8\xa0h\xa000\xa0min")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.messages == [f"request: {report.as_uri()}"]


def test_the_tooltip_of_a_row_shows_the_shares_at_the_pointer(opened, report):
    page = opened(report)
    row = page.locator(".day[data-name]").nth(3).locator("svg")
    row.scroll_into_view_if_needed()
    box = row.bounding_box()
    seen = []
    for hour in (1, 5, 20):
        page.mouse.move(box["x"] + box["width"] * (hour + 0.01) / 24, box["y"] + 5)
        seen.append(page.locator("#tip").inner_text())
    assert "Mon 10 Mar, 01:00" in seen[0]
    assert "walking" in seen[0]
    assert "not worn" in seen[1]
    assert "no data" in seen[2]


def test_hours_a_day_are_means_of_valid_days(opened, report):
    table = opened(report).locator(".perday")
    assert table.locator("tbody th").all_inner_texts() == [*CLASSES]
    assert table.locator("tbody td:nth-child(3)").all_inner_texts() == ["8\xa0h\xa000\xa0min"] * 3
    assert table.locator(".dot").count() == 12
    assert table.locator(".dot.open").count() == 3


@pytest.mark.parametrize(("width", "ticks"), [(390, 3), (1280, 5)])
def test_the_axis_of_hours_a_day_fits_and_its_range_is_explained_where_it_is_shown(opened, report, width, ticks):
    section = opened(report, width).locator("section:has(.perday)").last
    boxes = [tick.bounding_box() for tick in section.locator(".scale span:visible").all()]
    assert len(boxes) == ticks
    assert all(a["x"] + a["width"] + 4 < b["x"] for a, b in pairwise(boxes))
    assert section.locator(".note .range").is_visible() == section.locator("th.range").is_visible() == (width > 640)


def test_a_wide_matrix_scrolls_and_keeps_the_names_of_its_rows(opened, tmp_path):
    whole = result(None, (0, 26))
    classes = tuple(f"activity {k}" for k in range(12))
    p, q = (np.eye(12)[(np.arange(len(whole.p)) // step) % 12] for step in (1, 7))
    wide = replace(whole, classes=classes, p=p, q=q)
    page = opened(write_report(tmp_path / "r.html", ResultSummary(wide)), 390)
    region = page.locator(".scroll:has(.matrix)")
    assert region.evaluate("e => { e.scrollLeft = 9999; return e.scrollLeft }") > 0
    name, last = (region.locator(cell).last.bounding_box() for cell in ("tbody th", "tbody td"))
    assert name["x"] >= 0
    assert name["x"] + name["width"] < last["x"] < last["x"] + last["width"] <= 390


def test_the_average_day_has_the_shares_of_valid_days(opened, report):
    drawing = opened(report).locator(".average svg")
    blocks = {path.get_attribute("data-k"): path.get_attribute("d") for path in drawing.locator("path").all()}
    assert blocks["0"] == "".join(f"M{2 * hour} 0h4v100h-4z" for hour in range(0, 24, 6))  # walking from 0 to 2 ...


def test_without_a_clock_days_are_numbered(opened, tmp_path):
    page = opened(write_report(tmp_path / "r.html", ResultSummary(result(None, (0, 50)))), 390)
    assert page.locator(".day .name b").all_inner_texts() == ["Day 1", "Day 2", "Day 3"]
    assert page.locator(".hours span").first.inner_text() == "0\xa0h"


def test_less_than_a_day_is_one_axis(opened, tmp_path):
    evening = result(datetime(2025, 3, 3, 20, tzinfo=BERLIN), (0, 14))
    page = opened(write_report(tmp_path / "r.html", ResultSummary(evening)))
    assert page.locator(".days").count() == 0
    headings = page.locator("h2").all_inner_texts()
    assert headings.index("Activities over time") < headings.index("What adaptation changed")
