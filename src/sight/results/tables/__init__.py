"""Tables of a result as rows: windows, segments, days, bouts, non-wear, and one row per subject.

They are computed with numpy alone. `sight.results.files` writes them; reports and cohorts show them.
"""

from __future__ import annotations

from sight.results.tables.bouts import BOUT_COLUMNS, bout_columns, bout_rows
from sight.results.tables.days import DAILY_COLUMNS, Day, daily_columns, daily_rows, days, hour_columns
from sight.results.tables.headline import headline, hours_text
from sight.results.tables.nonwear import NONWEAR_COLUMNS, nonwear_rows
from sight.results.tables.result_summary import LOW_CONFIDENCE, ResultSummary, clock
from sight.results.tables.rules import TableRules
from sight.results.tables.subject import SUMMARY_COLUMNS, count_bouts, subject_row, warnings_of
from sight.results.tables.window_rows import SEGMENT_COLUMNS, segment_rows, window_columns

__all__ = [
    "BOUT_COLUMNS",
    "DAILY_COLUMNS",
    "LOW_CONFIDENCE",
    "NONWEAR_COLUMNS",
    "SEGMENT_COLUMNS",
    "SUMMARY_COLUMNS",
    "Day",
    "ResultSummary",
    "TableRules",
    "bout_columns",
    "bout_rows",
    "clock",
    "count_bouts",
    "daily_columns",
    "daily_rows",
    "days",
    "headline",
    "hour_columns",
    "hours_text",
    "nonwear_rows",
    "segment_rows",
    "subject_row",
    "warnings_of",
    "window_columns",
]
