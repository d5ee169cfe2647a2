"""Cohort runs: stored files, resumed runs, unreadable recordings, pages and queries."""

from __future__ import annotations

import json
import os
import platform
import shutil
import time

import pandas as pd
import pytest

from sight.apps.cohort.results_folder import ResultsFolder
from sight.apps.cohort.run import _changes
from sight.recordings.read import read
from tests.helpers.cohorts import READABLE, contents, write_recording
from tests.helpers.commands import output_of, run_sight


def run_cohort(target, model, out, *options, code=0):
    return output_of("cohort", "run", target, "-m", model, "-o", out, "--engine", "serial", *options, code=code)


def finished(out):
    files = [*out.glob("windows/*"), *out.glob("facts/*")]
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in files}


def log(out):
    return [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]


def test_changes_between_two_runs_are_described():
    now = {
        "method": "sight",
        "params": {},
        "model": {"content": "a"},
        "reading": {},
        "rule": "window",
        "sight_version": "2",
    }
    before = now | {"method": "keel", "reading": {"tz": "UTC"}}
    assert _changes(before, now) == "method changed from keel to sight, reading options changed"
    assert _changes({}, now) == ""


def test_a_run_stores_every_recording_and_lists_unreadable_ones(cohort):
    assert sorted(path.stem for path in (cohort / "windows").iterdir()) == READABLE
    assert sorted(path.stem for path in (cohort / "facts").iterdir()) == READABLE
    failures = pd.read_csv(cohort / "failures.csv")
    assert failures["recording"].tolist() == ["empty", "torn"]
    assert failures["file"].tolist() == ["empty.csv", "torn.npz"]
    assert "complete" in failures["error"][1]
    assert not (cohort / ".drafts").exists()


def test_a_name_that_is_not_utf8_stops_no_other_recording(cohort, tmp_path):
    write_recording(tmp_path / "in" / "P1.csv", "W03", slice(400))
    for name in (b"\xff.csv", b"\xfe/P2.csv"):
        path = tmp_path / "in" / os.fsdecode(name)
        path.parent.mkdir(exist_ok=True)
        shutil.copyfile(tmp_path / "in" / "P1.csv", path)
    run_cohort(tmp_path / "in", cohort / "model.onnx", tmp_path / "out", code=1)
    failures = pd.read_csv(tmp_path / "out" / "failures.csv")
    assert sorted(failures["file"]) == ["P2.csv", r"\udcff.csv"]
    assert failures["error"].str.contains("not UTF-8").all()
    assert [path.stem for path in (tmp_path / "out" / "windows").iterdir()] == ["P1"]


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
    assert (
        "5 of them replaced (method changed from keel to sticky, streaming rule changed from whole recording to window)"
        in printed
    )
    assert "4 recordings with warnings, first: P1: warning: Timestamps have no time zone" in printed
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


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT * FROM read_text('{tmp}/secret.txt')", "disabled by configuration"),
        ("SELECT * FROM glob('{tmp}/*')", "disabled by configuration"),
        ("SELECT * FROM '{tmp}/secret.csv'", "disabled by configuration"),
        ("COPY (SELECT 1) TO '{tmp}/new.csv'", "one query that returns rows"),
        ("COPY (SELECT 1) TO '{out}/summary/daily.parquet'", "one query that returns rows"),
        ("ATTACH '{tmp}/new.db'", "one query that returns rows"),
        ("INSTALL httpfs", "one query that returns rows"),
        ("SET enable_external_access = true", "one query that returns rows"),
        ("DROP VIEW daily; SELECT 1", "one query that returns rows"),
        ("SELECT 1; COPY (SELECT 1) TO '{tmp}/new.csv'", "one query that returns rows"),
        ("", "one query that returns rows"),
    ],
)
def test_a_query_reads_results_only_and_writes_nothing(cohort, tmp_path, sql, words):
    for name in ("secret.txt", "secret.csv"):
        (tmp_path / name).write_text("secret\n1\n")
    before = contents(cohort)
    printed = output_of("cohort", "query", cohort, sql.format(tmp=tmp_path, out=cohort), code=2)
    assert words in " ".join(printed.split())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["secret.csv", "secret.txt"]
    assert contents(cohort) == before


def test_a_query_reads_a_folder_of_any_name(cohort, tmp_path, monkeypatch):
    shutil.copytree(cohort, tmp_path / "it's [new]")
    monkeypatch.chdir(tmp_path)
    output_of("cohort", "query", "it's [new]", "SELECT count(*) FROM windows, daily", "--csv", "it's.csv")
    assert len(pd.read_csv("it's.csv")) == 1
