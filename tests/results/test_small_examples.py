"""Helpers of results on examples that can be checked by hand."""

from __future__ import annotations

import math
from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from sight.results.days import clock
from sight.results.metrics import ece, time_use_error, transition_delays
from sight.results.output_files.csv import from_cell, to_cell
from sight.results.output_files.info import files
from sight.results.output_tables.bouts import join_runs
from sight.results.output_tables.daily import hour_columns
from sight.results.output_tables.headline import time_use
from sight.results.output_tables.rules import TableRules
from sight.results.paired_tests import holm, signed_rank
from sight.results.prediction_loop import split_at_gaps
from sight.results.score_statistics import (
    Difference,
    SettingRuns,
    average_ranks,
    bootstrap_interval,
    record,
    two_way_interval,
)
from sight.results.segments import Segments, run_starts
from sight.results.smoothing import backward, rule_of


def test_clock_crosses_the_change_to_summer_time():
    start = datetime(2024, 3, 31, 1, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    assert clock(start, 3600).isoformat() == "2024-03-31T03:30:00+02:00"


def test_headline_is_about_valid_days_or_all_worn_time():
    day = {"valid": True, "wear_h": 20.0, "sitting_h": 9.17, "walking_h": 0.87}
    used = "9 h 10 min sitting, 52 min walking"
    classes = ["sitting", "walking"]
    assert time_use([day, day | {"valid": False}], classes) == f"1 valid day of 2: on average {used} a day"
    assert time_use([day | {"valid": False}], classes) == f"In 20 h 00 min of worn time: {used}"


def test_metrics():
    assert time_use_error(np.array([[3, 1], [0, 4]])).tolist() == [-180.0, 180.0]
    assert ece(np.array([0, 1]), np.array([[0.9, 0.1], [0.9, 0.1]])) == pytest.approx(0.4)
    truth, predicted = np.array([0, 0, 1, 1, 0, 2, 2]), np.array([0, 0, 0, 1, 1, 2, 2])
    delays = transition_delays(truth, predicted, np.arange(7.0))
    np.testing.assert_array_equal(delays, [1.0, np.nan, 0.0])


def test_statistics():
    one = np.array([1.0, 2.0, 3.0, 2.0, 2.0])
    runs = SettingRuns(one[:, None], "abcde", ["model"])
    assert bootstrap_interval(one) == two_way_interval([runs, runs]) == (1.4, 2.6)
    assert signed_rank(np.ones(5)) == 0.0625
    assert holm([0.01, 0.04, 0.03]).round(2).tolist() == [0.03, 0.06, 0.06]
    assert record(np.array([1.0, -0.5, 0.001, 2.0])) == (2, 1, 1)
    assert average_ranks(np.array([[0.9, 0.5, 0.5], [0.2, 0.4, 0.6]])).tolist() == [2.0, 2.25, 1.75]


@pytest.mark.parametrize(
    ("found", "verdict"),
    [((0.6, 0.2, 1.0), "better"), ((-1.0, -2.0, -0.1), "worse"), ((0.0, -1.0, 1.0), "open")],
)
def test_verdict_depends_on_whether_the_interval_excludes_zero(found, verdict):
    assert Difference(*found).verdict == verdict


def test_smoothing():
    found = backward(np.array([[0.5, 0.5], [0.9, 0.1]]), np.array([0.1, 0.1]))
    assert found.round(2).tolist() == [[0.86, 0.14], [0.9, 0.1]]
    assert (rule_of(5), rule_of(math.inf)) == ("lag 5", "whole recording")


def test_streams_are_cut_at_gaps_and_runs_at_changes():
    pieces = split_at_gaps(np.array([0, 0, 9, 0, 0]), 2)
    assert [(s.start, s.stop) for s in pieces] == [(0, 2), (2, 4), (4, 5)]
    assert run_starts(np.array([1, 1, 1, 0]), np.array([0, 0, 1, 1])).tolist() == [0, 2, 3]


def test_bouts_join_runs_over_short_pauses():
    start, end = np.array([0.0, 60, 65, 90, 100]), np.array([60.0, 65, 90, 100, 120])
    assert join_runs(Segments(start, end, np.array([0, 1, 0, 1, 1]), np.ones(5, int)))[:2] == [(0, 2), (1, 1)]


def test_names_of_files_and_columns():
    assert list(files())[:3] == ["windows.parquet", "segments.csv", "daily.csv"]
    assert list(files())[-1] == "info.json"
    assert hour_columns(["walking", "wear"]) == (["walking_h", "class_wear_h"], ["raw_walking_h", "raw_wear_h"])


def test_cells_that_look_like_formulas_get_an_apostrophe():
    cells = {"=1+1": "'=1+1", "walking": "walking", -1.5: -1.5, True: "TRUE", math.nan: ""}
    assert [to_cell(value) for value in cells] == list(cells.values())
    assert from_cell("'=1+1") == "=1+1"


def test_rules_are_parsed_from_texts():
    rules = TableRules.parse("10h", ["90s", "walking=2min"])
    assert rules == TableRules(valid_day_h=10.0, min_bout_s=90.0, min_bout_of_class_s={"walking": 120.0})
