"""Tables of a cohort compared with pandas and with `sight adapt`, and participants."""

from __future__ import annotations

import html
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sight.apps.cohort.overview_page import write_overview
from sight.apps.cohort.results_folder import ResultsFolder
from sight.apps.cohort.summary_tables import table_names, write_summary
from sight.datasets import windows_of
from sight.recordings.npz_recordings import write_npz
from tests.apps.cohort.test_run import finished, run_cohort
from tests.helpers.cohorts import DATASET, READABLE, write_recording
from tests.helpers.commands import run_sight


def test_days_are_split_at_midnight(cohort, windows):
    daily = pd.read_parquet(cohort / "summary" / "daily.parquet")
    for name, own in windows.groupby("recording"):
        found = daily[daily["recording"] == name]
        worn, end = own[own["wear"]], own["time"] + pd.to_timedelta(own["duration_s"], unit="s")
        assert found["date"].tolist() == sorted({*own["time"].dt.date, *(end - pd.Timedelta("1us")).dt.date})
        assert found["wear_h"].sum() == pytest.approx(worn["duration_s"].sum() / 3600, abs=2e-4)
        assert found["non_wear_h"].sum() == pytest.approx(own[~own["wear"]]["duration_s"].sum() / 3600, abs=2e-4)
        assert found["gap_h"].sum() == pytest.approx(own["gap_before_s"].sum() / 3600, abs=2e-4)
        for label in DATASET.classes:
            hours = worn[worn["class"] == label]["duration_s"].sum() / 3600
            assert found[f"{label}_h"].sum() == pytest.approx(hours, abs=2e-4)
    assert daily["non_wear_h"].max() > 1 / 60
    assert daily["gap_h"].max() > 0.4 / 60
    assert (daily.groupby("recording").size() == 2).sum() == 4  # four cross midnight


def test_wear_time_is_not_rounded_before_a_day_is_valid(cohort, tmp_path):
    """A day of 15.99996 h, which a table prints as 16.0, is not valid for `sight adapt` and for a cohort."""
    windows, classes = recorded_day(15.99996), DATASET.classes
    (tmp_path / "in").mkdir()
    write_npz(windows, tmp_path / "in" / "P1.npz", classes)
    run_sight("adapt", tmp_path / "in" / "P1.npz", "-m", cohort / "model.onnx", "-o", tmp_path / "alone")
    run_cohort(tmp_path / "in", cohort / "model.onnx", tmp_path / "out", "--valid-day", "1h")
    for options, valid in (((), False), (("--valid-day", "15.9h"), True), ((), False)):
        run_cohort(tmp_path / "in", cohort / "model.onnx", tmp_path / "out", *options)
        (day,) = pd.read_csv(tmp_path / "out" / "summary" / "daily.csv").itertuples()
        assert (day.wear_h, day.valid) == (16.0, valid)
    (day,) = pd.read_csv(tmp_path / "alone" / "daily.csv").itertuples()
    assert (day.wear_h, day.valid) == (16.0, False)


def recorded_day(hours):
    """Return a day of windows of 2 s every 16 minutes, the last one shorter, that are worn for some hours."""
    few = replace(windows_of(DATASET, "W07", stride_s=2.0, cache=False), start=datetime(2025, 3, 3, tzinfo=UTC))
    step_s, own = 960.0, slice(60)
    time_s = step_s * np.arange(60)
    time_s[-1] = 3600 * hours - step_s
    return replace(
        few,
        x=few.x[own],
        time_s=time_s,
        label=few.label[own],
        gap_before_s=np.zeros(60),
        wear=np.ones(60, bool),
        stride_s=step_s,
        intensity={},
    )


def test_transitions_are_counted_within_worn_time_without_gaps(cohort, windows):
    expected: dict[tuple[str, str, str], int] = {}
    for name, own in windows.groupby("recording"):
        rows = list(zip(own["class"], own["wear"], own["gap_before_s"], strict=True))
        for (first, first_worn, _), (second, second_worn, gap) in pairwise(rows):
            if gap == 0 and first_worn and second_worn:
                expected[name, first, second] = expected.get((name, first, second), 0) + 1
    found = pd.read_parquet(cohort / "summary" / "transitions.parquet")
    assert {tuple(row[:3]): row[3] for row in found.itertuples(index=False)} == expected


def test_recordings_and_time_use(cohort, windows):
    found = pd.read_parquet(cohort / "summary" / "recordings.parquet").set_index("recording")
    own = windows.groupby("recording")
    assert found.index.tolist() == READABLE
    assert found["windows"].tolist() == own.size().tolist()
    assert found["recorded_hours"].to_numpy() == pytest.approx(own["duration_s"].sum().to_numpy() / 3600, abs=1e-4)
    changed = own[["class", "raw_class"]].apply(lambda w: (w["class"] != w["raw_class"]).mean())
    assert found["changed_share"].to_numpy() == pytest.approx(changed.to_numpy(), abs=1e-4)
    short = found["recorded_hours"] < found["recorded_hours"].median() / 2
    assert ["short" in flags.split() for flags in found["flags"]] == short.tolist()
    assert "gaps" in found.loc["P1", "flags"].split()
    assert "warnings" in found.loc["P1", "flags"].split()  # no time zone in the file
    assert found.loc["P1", "start"] == "2025-03-03T23:57:00+00:00"
    worn = windows[windows["wear"]]
    use = pd.read_csv(cohort / "summary" / "time_use.csv").set_index("class")
    hours = worn.groupby("class")["duration_s"].sum() / 3600
    assert use.index.tolist() == list(DATASET.classes)
    assert use["hours"].to_numpy() == pytest.approx(hours.reindex(use.index).fillna(0).to_numpy(), abs=2e-3)
    share = worn.groupby(["recording", "class"])["duration_s"].sum().unstack(fill_value=0)
    share = share.div(share.sum(axis=1), axis=0).reindex(columns=use.index, fill_value=0)
    assert use["share_median"].to_numpy() == pytest.approx(share.median().to_numpy(), abs=1e-3)


def test_errors_and_warnings_of_recordings_are_those_of_quality(cohort):
    found, quality = (pd.read_parquet(cohort / f"summary/{name}.parquet") for name in ("recordings", "quality"))
    counts = ["recording", "errors", "warnings"]
    pd.testing.assert_frame_equal(found[counts], quality[counts].sort_values("recording"), check_dtype=False)
    count = ((quality["errors"] > 0) | (quality["warnings"] > 0)).sum()
    assert f"<dt>With a warning</dt><dd>{count}</dd>" in (cohort / "overview.html").read_text("utf-8")


def test_a_saturated_recording_has_a_flag_and_a_note(cohort, tmp_path):
    samples = pd.read_csv(write_recording(tmp_path / "in" / "free.csv", "W03"))
    samples["acc_x"] = samples["acc_x"].clip(*samples["acc_x"].quantile([0.05, 0.95]))
    samples.to_csv(tmp_path / "in" / "clipped.csv", index=False)
    run_cohort(tmp_path / "in", cohort / "model.onnx", tmp_path / "out")
    tables = [pd.read_csv(tmp_path / f"out/summary/{name}.csv") for name in ("recordings", "quality")]
    found, quality = (table.set_index("recording").fillna("") for table in tables)
    assert {name: "saturated" in flags.split() for name, flags in found["flags"].items()} == {
        "clipped": True,
        "free": False,
    }
    assert quality["note_kinds"].to_dict() == {"clipped": "saturated", "free": ""}
    assert quality.loc["clipped", "warnings"] == quality.loc["free", "warnings"]
    assert "at the limit of the sensor's range" in html.unescape(
        (tmp_path / "out" / "overview.html").read_text("utf-8")
    )


def test_time_use_with_time_in_bed_adds_up_to_worn_time(copied):
    folder = ResultsFolder(copied[1])
    for name in READABLE[:2]:
        table = pq.read_table(folder.windows(name))
        in_bed = pa.array(np.arange(len(table)) < len(table) // 3)
        place = table.column_names.index("in_bed")
        pq.write_table(table.set_column(place, table.schema.field("in_bed"), in_bed), folder.windows(name))
    write_summary(folder, READABLE)
    write_overview(folder, READABLE, [])
    use = pd.read_parquet(folder.summary / "time_use.parquet").set_index("class")
    assert use.index.tolist() == [*DATASET.classes, "in bed"]
    assert use.loc["in bed", "recordings"] == 2
    assert use["share_of_wear"].sum() == pytest.approx(1, abs=5e-4)
    assert 'class="bar bed"' in (folder.root / "overview.html").read_text("utf-8")


@pytest.mark.parametrize("table", table_names())
def test_csv_and_parquet_agree(cohort, table):
    text, binary = pd.read_csv(cohort / f"summary/{table}.csv"), pd.read_parquet(cohort / f"summary/{table}.parquet")
    assert text.columns.tolist() == binary.columns.tolist()
    for column in text.select_dtypes("number"):
        assert text[column].to_numpy(float) == pytest.approx(binary[column].to_numpy(float), nan_ok=True)


def test_tables_are_those_of_adapt(cohort, folder, tmp_path):
    options = ("--valid-day", "0.02h", "--min-bout", "12s", "--min-bout", "walking=20s")
    run_sight("adapt", folder / "P1.csv", "-m", cohort / "model.onnx", "-o", tmp_path / "P1", *options)
    shutil.copytree(cohort, tmp_path / "out")
    inodes = finished(tmp_path / "out")
    run_cohort(folder, cohort / "model.onnx", tmp_path / "out", *options, code=1)
    assert finished(tmp_path / "out").keys() == inodes.keys()
    for name in ("daily", "hourly", "day_statistics", "bouts", "nonwear", "summary"):
        alone = pd.read_csv(tmp_path / "P1" / f"{name}.csv")
        together = pd.read_csv(tmp_path / "out" / "summary" / f"{name}.csv")
        own = together[together["recording"] == "P1"].drop(columns="recording").reset_index(drop=True)
        assert len(alone) > 0 or name == "nonwear"
        pd.testing.assert_frame_equal(alone, own[alone.columns], check_dtype=False)
        assert set(own.columns) - set(alone.columns) <= {"enmo_mg", "mad_mg"}
    assert pd.read_csv(tmp_path / "P1" / "daily.csv")["valid"].any()


def test_other_rules_run_no_recording_again(copied, model):
    folder, out = copied
    before = finished(out)
    run_cohort(folder, model, out, "--valid-day", "0.01h", code=1)
    assert finished(out) == before
    daily = pd.read_csv(out / "summary" / "daily.csv")
    assert (daily["valid"] == (daily["wear_h"] >= 0.01)).all()
    assert pd.read_csv(out / "summary" / "summary.csv")["valid_days"].sum() == daily["valid"].sum() > 0


def test_participants_are_joined_and_unmatched_ones_are_printed(copied, model, tmp_path):
    folder, out = copied
    people = "code;age;model;sex\nP1;61;A;f\nP2;58;B;m\nP9;40;A;f\nsite-P3;;B;m\nP5;33;A;f\ntorn;50;A;m\n"
    (tmp_path / "people.csv").write_text(people)
    printed = run_cohort(folder, model, out, "--participants", tmp_path / "people.csv", code=1)
    assert "'code'" in printed
    assert "2 recordings without a participant: empty, site-P4" in printed
    assert "1 participant without a recording: P9" in printed
    assert "1 participant whose recording could not be read: torn" in printed
    matches = pd.read_csv(out / "participants.csv").fillna("-").set_index("recording")["status"].to_dict()
    found = dict.fromkeys(("P1", "P2", "site-P3", "P5"), "matched") | {"torn": "unreadable"}
    assert matches == found | {"-": "no recording"} | dict.fromkeys(("empty", "site-P4"), "no participant")
    summary = pd.read_csv(out / "summary" / "summary.csv").set_index("recording")
    assert summary["age"].dropna().to_dict() == {"P1": 61, "P2": 58, "P5": 33}
    assert summary.loc["P2", ["participant_model", "sex"]].tolist() == ["B", "m"]
    assert pd.read_csv(out / "summary" / "daily.csv").groupby("recording")["sex"].first()["P1"] == "f"


@pytest.mark.parametrize(
    ("text", "message"),
    [("code,age\nX1,61\n", "No column"), ("code,age\nP1,61\nP1,62\n", "twice"), ("", "not a table")],
)
def test_wrong_participants_are_refused_before_anything_runs(folder, model, tmp_path, text, message):
    (tmp_path / "people.csv").write_text(text)
    printed = run_cohort(folder, model, tmp_path / "out", "--participants", tmp_path / "people.csv", code=2)
    assert message in " ".join(printed.split())
    assert not (tmp_path / "out").exists()
