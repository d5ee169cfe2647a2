"""Tables of streams of days against sums by hand."""

from __future__ import annotations

import numpy as np

from sight.apps.bench.experiment_report import day_tables
from sight.apps.bench.experiment_report.table_format import DASH
from sight.apps.bench.experiment_report.write import compose
from sight.apps.bench.result_rows import frame
from tests.helpers.bench_rows import BASE, rows

MINUS = "\N{MINUS SIGN}"


def day_rows(setting: str, gains: dict[str, dict[str, tuple[float, ...]]], **changes):
    """Return rows of source-only and of methods with these gains on each stream and target."""
    made = []
    for order, methods in gains.items():
        points = {label: tuple(np.add(BASE, own)) for label, own in methods.items()}
        plan = {"experiment": "days", "setting": setting, "order": order, "seeds": (0,)}
        made += rows({"Source-only": BASE} | points, **plan, paper_dataset="", **changes)
    return made


#: Gains of two methods on six targets, by setting and stream.
FIRST = {
    "day-60 sit": {"Keel": (1, 1, 1, 1, 1, 1), "SIGHT": (0, 0, 0, 0, 0, -6)},
    "day-60 stand": {"Keel": (4, 4, 4, 4, 4, -8), "SIGHT": (0, 0, 0, 0, 0, 0)},
    "week": {"Keel": (2, 2, 2, 2, 2, 2), "SIGHT": (-3, -3, -3, -3, -3, -3)},
}
SECOND = {"day-60 sit": {"Keel": (5.5,) * 6}, "chronological": {"Keel": (-4, 0, 0, 0, 0, 0)}}


def tables_of(made) -> dict[str, dict[str, dict[str, tuple[str, str]]]]:
    """Return text and small print of each cell, by table, row and column."""
    found = {}
    for section in compose(frame(made)):
        for table in section.tables:
            own = {row[0].text: dict(zip(table.heads[1:], row[1:], strict=True)) for row in table.rows}
            found[table.name] = {m: {h: (c.text, c.below) for h, c in cells.items()} for m, cells in own.items()}
    return found


def test_one_setting_by_hand():
    found = tables_of(day_rows("hapt-body-single", FIRST))
    gains = {
        method: [text for text, _ in row.values()] for method, row in found["days_hapt-body-single_accuracy"].items()
    }
    # Columns: day-60 (both classes), week, all. Keel: (6 + 12) / 12, 2, (6 + 12 + 12) / 18.
    assert gains == {"Keel": ["+1.5", "+2.0", "+1.7"], "SIGHT": [f"{MINUS}0.5", f"{MINUS}3.0", f"{MINUS}1.3"]}
    harm = found["days_hapt-body-single_harm"]
    # One of 12 runs loses 8 points; losing 3 points is not harm. Worst 1 %: between the two lowest of 12.
    assert harm["Keel"]["60 % one class"] == ("8.3", f"({MINUS}7.0, {MINUS}8.0)")
    assert harm["Keel"]["week"] == ("0.0", "(+2.0, +2.0)")
    assert harm["SIGHT"]["week"][0] == "0.0"
    low = np.quantile([-6.0, *[-3.0] * 6, *[0.0] * 11], 0.01)
    assert harm["SIGHT"]["all streams"] == ("5.6", f"({low:.1f}, -6.0)".replace("-", MINUS))
    dominating = found["days_hapt-body-single_dominating"]["Keel"]
    assert [text for text, _ in dominating.values()] == ["+1.0", "+2.0", "+1.7"]
    scores = found["days_hapt-body-single"]
    assert scores["Keel"]["Accuracy"][0] == f"{np.mean(BASE) + 5 / 3:.1f}"
    assert scores["Keel"]["Δ Macro-F1"][0] == "+1.7"
    assert scores["Source-only"]["Δ Accuracy"][0] == DASH
    assert scores["Keel"]["Runs"][0] == "18"


def test_time_use_error_by_hand():
    # Half of the windows of each of two classes are exchanged evenly, so the predicted shares equal the true ones.
    found = tables_of(day_rows("hapt-body-single", FIRST))["days_hapt-body-single"]
    assert found["Keel"]["Time use (min/day)"][0] == "0.0"
    made = day_rows("hapt-body-single", {"week": {"Keel": (0,) * 6}})
    for row in made:
        if row["label"] == "Keel":
            row["scores"]["confusion"] = [[600, 400, 0], [0, 1000, 0], [0, 0, 0]]  # 20 % of the day in the wrong class
    cells = tables_of(made)["days_hapt-body-single_time_use_mae_min"]["Keel"]
    assert cells["week"][0] == f"+{2 * 0.2 * 1440 / 3:.1f}"


def test_several_settings_are_averaged_over_settings():
    made = day_rows("hapt-body-single", FIRST) + day_rows("extrasensory-pooled", SECOND, dataset="extrasensory")
    found = tables_of(made)
    keel = {head: text for head, (text, _) in found["main_days_accuracy"]["Keel"].items()}
    # day-60: mean of 18 / 12 and 5.5; all: mean of 30 / 18 and 29 / 12.
    assert keel == {"natural day": f"{MINUS}0.7", "60 % one class": "+3.5", "week": "+2.0", "all streams": "+2.0"}
    sight = found["main_days_accuracy"]["SIGHT"]
    assert (sight["week"][0], sight["60 % one class"][0], sight["all streams"][0]) == (f"{MINUS}3.0", DASH, DASH)
    settings = found["main_days_settings"]["Keel"]
    assert {head: text for head, (text, _) in settings.items()} == {
        "HAPT body S": "+1.7",
        "ExtraSensory P": "+2.4",
        "all streams": "+2.0",
    }
    # One of 18 runs is harmed by 8 points, one of 12 by 4: the mean of both shares.
    pooled = [*[1] * 6, *[4] * 5, -8, *[2] * 6, *[5.5] * 6, -4, *[0] * 5]
    share, below = found["main_days_harm"]["Keel"]["all streams"]
    assert share == f"{100 * (1 / 18 + 1 / 12) / 2:.1f}"
    assert below == f"({np.quantile(pooled, 0.01):.1f}, -8.0)".replace("-", MINUS)
    assert found["main_days_settings_harm"]["Keel"]["ExtraSensory P"][0] == "8.3"
    assert found["main_days_harm"]["SIGHT"]["all streams"] == (DASH, "")  # not run on one of the settings


def test_without_source_only_there_are_scores_and_no_differences():
    made = [row for row in day_rows("hapt-body-single", FIRST) if row["label"] != "Source-only"]
    found = tables_of(made)
    assert [name for name in found if name.startswith("days")] == ["days_hapt-body-single"]
    assert set(found["days_hapt-body-single"]["Keel"]) == {"Accuracy", "Macro-F1", "Time use (min/day)", "Runs"}


def test_methods_with_fewer_runs_are_never_best():
    gains = {"week": {"Keel": (1,) * 6, "SIGHT": (2,) * 6, "EMA": (9,) * 6}}
    made = [row for row in day_rows("hapt-body-single", gains) if row["label"] != "EMA" or row["target"] == "16"]
    (section,) = [part for part in compose(frame(made)) if part.name == "days_hapt-body-single"]
    best = {
        row[0].text: row[1].best for table in section.tables for row in table.rows if table.name.endswith("_accuracy")
    }
    assert best == {"Keel": False, "SIGHT": True, "EMA": False}


def test_few_subjects_have_no_best_method():
    gains = {"week": {"Keel": (1,) * 6, "SIGHT": (2,) * 6, "EMA": (0,) * 6}}
    made = [row for row in day_rows("hapt-body-single", gains) if row["target"] not in ("16", "26")]
    assert not any(
        cell.best for part in compose(frame(made)) for table in part.tables for row in table.rows for cell in row
    )


def test_networks_are_runs_of_their_own():
    made = day_rows("hapt-body-single", FIRST) + day_rows("hapt-body-single", FIRST, encoder="transformer")
    assert tables_of(made)["days_hapt-body-single"]["Keel"]["Runs"][0] == "36"


def test_overview_of_gains_and_losses_by_hand():
    table = day_tables.overview(frame(day_rows("hapt-body-single", FIRST)))
    found = {row[0].text: [cell.text for cell in row[1:]] for row in table.rows}
    assert table.heads[1:] == ["Accuracy", "Macro-F1", "Time use (min/day)", "Harmed (%)", "Worst 1 %", "Worst"]
    assert found["Keel"][0] == "+1.7"  # (6 + 12 + 12) / 18, as by kind
    assert found["Keel"][3] == "5.6"  # one of 18 runs loses 8 points
    assert found["Keel"][5] == f"{MINUS}8.0"
    assert found["SIGHT"][3] == "5.6"


def test_the_overview_has_no_losses_of_methods_that_lack_a_setting():
    made = day_rows("hapt-body-single", FIRST) + day_rows("extrasensory-pooled", SECOND, dataset="extrasensory")
    table = day_tables.overview(frame(made))
    found = {row[0].text: [cell.text for cell in row[1:]] for row in table.rows}
    assert found["Keel"][5] == f"{MINUS}8.0"
    assert found["SIGHT"][3:] == [DASH] * 3
