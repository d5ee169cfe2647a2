"""Cohort runs: files, tables compared with pandas, resumed runs, unreadable recordings, pages and queries."""

from __future__ import annotations

import json
import os
import platform
import shutil
import time
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from sight.apps.cohort.results_folder import ResultsFolder
from sight.apps.cohort.run import _changes
from sight.apps.cohort.stored_windows import read_result
from sight.apps.cohort.summary_tables import table_names
from sight.datasets import windows_of
from sight.recordings.npz import write_npz
from sight.recordings.read import read
from tests.helpers.cohorts import (
    DATASET,
    READABLE,
    contents,
    write_recording,
)
from tests.helpers.commands import output_of, run_sight


def test_changes_between_two_runs_are_described():
    now = {"method": "sight", "params": {}, "model": {"content": "a"}, "reading": {}, "sight_version": "2"}
    before = now | {"method": "keel", "reading": {"tz": "UTC"}}
    assert _changes(before, now) == "method changed from keel to sight, reading options changed"
    assert _changes({}, now) == ""


@pytest.fixture
def copied(cohort, folder, tmp_path):
    """Copies of the recordings and of the results."""
    shutil.copytree(folder, tmp_path / "recordings")
    shutil.copytree(cohort, tmp_path / "out")
    return tmp_path / "recordings", tmp_path / "out"


@pytest.fixture(scope="module")
def windows(cohort):
    return pd.concat([pd.read_parquet(cohort / "windows" / f"{name}.parquet") for name in READABLE])


def run_cohort(target, model, out, *options, code=0):
    return output_of("cohort", "run", target, "-m", model, "-o", out, "--engine", "serial", *options, code=code)


def test_a_run_stores_every_recording_and_lists_unreadable_ones(cohort):
    assert sorted(path.stem for path in (cohort / "windows").iterdir()) == READABLE
    assert sorted(path.stem for path in (cohort / "facts").iterdir()) == READABLE
    failures = pd.read_csv(cohort / "failures.csv")
    assert failures["recording"].tolist() == ["empty", "torn"]
    assert failures["file"].tolist() == ["empty.csv", "torn.npz"]
    assert "complete" in failures["error"][1]
    assert not (cohort / ".drafts").exists()


def test_predictions_are_those_of_adapt(cohort, folder, tmp_path):
    run_sight("adapt", folder / "P1.csv", "-m", cohort / "model.onnx", "-o", tmp_path)
    alone, together = (pd.read_parquet(path) for path in (tmp_path / "windows.parquet", cohort / "windows/P1.parquet"))
    shared = [column for column in alone if column not in ("time", "label", "gap_before_s")]
    assert {"raw_class", "class", "wear", "surprise", "p_walking", "q_walking"} <= set(shared)
    pd.testing.assert_frame_equal(alone[shared], together[shared])
    assert (alone["time"].dt.tz_localize(None) == together["time"]).all()


def test_files_in_a_folder_of_their_own_are_joined_as_one_subject(cohort, folder, model):
    facts = json.loads((cohort / "facts" / "site-P4.json").read_text())
    assert facts["file"] == "a-later.csv, b-first.csv"
    assert facts["stream"]["facts"]["files"] == ["b-first.csv", "a-later.csv"]
    windows = pd.read_parquet(cohort / "windows" / "site-P4.parquet")
    joined = read([folder / "site" / "P4" / name for name in ("b-first.csv", "a-later.csv")], cohort / "model.onnx")
    assert windows["time_s"].tolist() == joined.time_s.tolist()
    assert windows["gap_before_s"].max() >= 60  # the 3,000 samples at 50 Hz that were left out


def test_only_the_log_depends_on_place_or_time(cohort, folder):
    year = time.strftime("%Y-%m-").encode()
    for name, data in contents(cohort).items():
        assert str(cohort.parent).encode() not in data, name
        assert str(folder).encode() not in data, name
        assert platform.node().encode() not in data or len(platform.node()) < 4, name
        assert year not in data, name
    entry = json.loads((cohort / "log.jsonl").read_text().splitlines()[0])
    assert entry["seconds"] > 0
    assert entry["peak_bytes"] > 10 << 20


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
    for name in ("daily", "bouts", "nonwear", "summary"):
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
    people = "code;age;model;sex\nP1;61;A;f\nP2;58;B;m\nP9;40;A;f\nsite-P3;;B;m\nP5;33;A;f\n"
    (tmp_path / "people.csv").write_text(people)
    printed = run_cohort(folder, model, out, "--participants", tmp_path / "people.csv", code=1)
    assert "'code'" in printed
    assert "1 recordings without a participant: site-P4" in printed
    assert "1 participants without a recording: P9" in printed
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


def finished(out):
    files = [*out.glob("windows/*"), *out.glob("facts/*")]
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in files}


def log(out):
    return [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]


def test_finished_recordings_are_not_run_again(copied, model, monkeypatch):
    folder, out = copied
    before, seen = finished(out), contents(out)
    old = time.time() - 60
    for path in folder.rglob("*.*"):
        os.utime(path, (old, old))
    monkeypatch.setattr("sight.apps.cohort.results_folder.SETTLED_NS", 0)
    printed = run_cohort(folder, model, out, code=1)
    assert "5 recordings" in printed
    assert "5 of them" in printed
    assert finished(out) == before
    assert contents(out) == seen
    hashed = len(log(out))
    run_cohort(folder, model, out, code=1)
    # The log has the stamps of readable files now, so only the unreadable ones are opened again.
    assert [entry["recording"] for entry in log(out)[hashed:]] == ["empty", "torn"]
    assert finished(out) == before


def test_only_changed_recordings_are_run_again(copied, model):
    folder, out = copied
    before = finished(out)
    write_recording(folder / "P1.csv", "W08")
    (folder / "torn.npz").unlink()
    (folder / "empty.csv").unlink()
    run_cohort(folder, model, out)
    changed = {name for name, state in finished(out).items() if state != before[name]}
    assert changed == {"P1.parquet", "P1.json"}
    assert not (out / "failures.csv").exists()


def test_other_hyper_parameters_run_everything_again(copied, model):
    folder, out = copied
    before = finished(out)
    printed = run_cohort(folder, model, out, "--method", "sticky", "--set", "s=0.5", code=1)
    assert "5 of them replaced (method changed from keel to sticky)" in printed
    assert "4 recordings with warnings, first: P1: Timestamps have no time zone" in printed
    assert all(state != before[name] for name, state in finished(out).items())
    assert pd.read_parquet(out / "windows" / "P1.parquet").shape[0] > 100


def test_changed_code_of_the_method_runs_everything_again(copied, model, edit):
    folder, out = copied
    before = finished(out)
    edit("methods/keel/compiled.py")
    run_cohort(folder, model, out, code=1)
    assert all(state != before[name] for name, state in finished(out).items())


def test_a_folder_without_readable_recordings(model, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "P1.csv").write_text("time,a,b,c\n0,1,2,3\n1,1,2,3\n")
    printed = run_cohort(tmp_path / "in", model, tmp_path / "out", code=1)
    assert "No recording could be read; see" in printed
    assert "--columns x=" in printed


def test_a_file_that_became_unreadable_loses_its_results(copied, model):
    folder, out = copied
    (folder / "P1.csv").write_text("nothing\n")
    run_cohort(folder, model, out, code=1)
    assert "P1.parquet" not in finished(out)
    assert "P1" not in pd.read_csv(out / "summary" / "recordings.csv")["recording"].tolist()


def test_results_inside_the_folder_are_not_recordings(cohort, tmp_path):
    inside = tmp_path / "all"
    write_recording(inside / "P1.csv", "W03")
    for _ in range(2):
        assert "1 recording in" in run_cohort(inside, cohort / "model.onnx", inside / "out")


def test_a_second_recording_of_the_same_name_is_a_failure(cohort, tmp_path):
    write_recording(tmp_path / "in" / "a" / "b.csv", "W03")
    write_recording(tmp_path / "in" / "a-b.csv", "W04")
    printed = run_cohort(tmp_path / "in", cohort / "model.onnx", tmp_path / "out", "--separate", code=1)
    assert "same name" in printed
    assert "1 recording in" in printed
    assert "1 recording could not be read" in printed


def test_a_folder_is_locked_during_a_run(copied, model):
    folder, out = copied
    with ResultsFolder(out).locked():
        assert "Another run" in run_cohort(folder, model, out, code=2)


def test_a_dataset_is_a_cohort_of_its_subjects(cohort, tmp_path):
    options = ["--option", "hours=0.05", "--option", "wearers=2"]
    run_cohort("synthetic", cohort / "model.onnx", tmp_path / "out", *options)
    before = finished(tmp_path / "out")
    assert sorted(before) == [f"synthetic-W0{n}.{end}" for n in (1, 2) for end in ("json", "parquet")]
    printed = run_cohort("synthetic", cohort / "model.onnx", tmp_path / "out", *options)
    assert "2 of them" in printed
    assert finished(tmp_path / "out") == before


def test_a_stored_result_is_read_back_unchanged(cohort, folder):
    from sight.models.load import load
    from sight.registry import RECOMMENDED, method
    from sight.results.prediction_loop import run

    source = load(cohort / "model.onnx")
    fresh = run(method(RECOMMENDED).bind(source), read(folder / "P5.npz", source))
    stored = read_result(cohort / "windows/P5.parquet", json.loads((cohort / "facts/P5.json").read_text()))
    for name in ("p", "q"):
        assert (getattr(stored, name) == getattr(fresh, name)).all()
    for name in ("time_s", "label", "wear"):
        assert (getattr(stored.windows, name) == getattr(fresh.windows, name)).all()
    assert stored.windows.start == fresh.windows.start
    assert stored.trace.keys() == fresh.trace.keys()


def test_the_page_of_a_recording_is_written_on_demand(copied):
    _, out = copied
    assert "P5.html" in output_of("cohort", "page", out, "P5")
    assert "Activities of P5" in (out / "pages" / "P5.html").read_text("utf-8")
    overview = (out / "overview.html").read_text("utf-8")
    assert '<a href="pages/P5.html">P5</a>' in overview
    assert 'href="pages/P1.html"' not in overview
    assert "torn.npz" in overview
    assert "no time zone" in overview  # the text of a warning, not only its flag
    assert "Did you mean 'P5'" in output_of("cohort", "page", out, "P55", code=2)
    assert "no cohort" in output_of("cohort", "page", out / "nowhere", "P5", code=2)


def test_queries_in_sql(copied, windows):
    _, out = copied
    printed = output_of("cohort", "query", out, "SELECT count(*) AS n, count(DISTINCT recording) FROM windows")
    assert f" {len(windows)} " in printed
    sql = "SELECT recording, sum(wear_h) AS h FROM daily GROUP BY ALL"
    run_sight("cohort", "query", out, sql, "--csv", out / "a.csv")
    found = pd.read_csv(out / "a.csv").set_index("recording")["h"]
    worn = windows[windows["wear"]].groupby("recording")["duration_s"].sum() / 3600
    assert found.sort_index().to_numpy() == pytest.approx(worn.to_numpy(), abs=2e-4)
    assert "nope" in output_of("cohort", "query", out, "SELECT nope FROM daily", code=2)
    assert "no summary" in output_of("cohort", "query", out / "nowhere", "SELECT 1", code=2)


# --- memory ----------------------------------------------------------------------------------------------------------
