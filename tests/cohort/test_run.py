"""Cohorts as analysts meet them: tables against pandas, what is finished stays, what is broken is named."""

from __future__ import annotations

import json
import os
import platform
import shutil
import time
from itertools import pairwise

import pandas as pd
import pytest

from sight.cohort.memory_budget import BASE, available, needed, parse
from sight.cohort.results_folder import Store
from sight.cohort.window_table import read_result
from sight.parallel import map_unordered
from tests.helpers.cohorts import (
    GOOD,
    PEOPLE,
    contents,
    sight,
    write_cohort,
    write_folder,
    write_model,
    write_recording,
)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model") / "model.safetensors")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("folder") / "recordings")


@pytest.fixture(scope="module")
def cohort(folder, model, tmp_path_factory):
    """The cohort after one run; tests that change it take a copy."""
    return write_cohort(tmp_path_factory.mktemp("cohort") / "out", folder, model)


@pytest.fixture
def copied(cohort, folder, tmp_path):
    """Copies of folder and results, as one would move them to another disk."""
    shutil.copytree(folder, tmp_path / "recordings")
    shutil.copytree(cohort, tmp_path / "out")
    return tmp_path / "recordings", tmp_path / "out"


@pytest.fixture(scope="module")
def windows(cohort):
    return pd.concat([pd.read_parquet(cohort / "windows" / f"{name}.parquet") for name in GOOD])


# --- what a run leaves -----------------------------------------------------------------------------------------------


def test_a_run_answers_every_recording_and_names_the_bad_ones(cohort):
    assert sorted(path.stem for path in (cohort / "windows").iterdir()) == GOOD
    assert sorted(path.stem for path in (cohort / "facts").iterdir()) == GOOD
    failures = pd.read_csv(cohort / "failures.csv")
    assert failures["recording"].tolist() == ["empty", "torn"]
    assert failures["file"].tolist() == ["empty.csv", "torn.npz"]
    assert "complete" in failures["error"][1]
    assert not (cohort / ".drafts").exists()


def test_the_answers_are_those_of_adapt(cohort, folder, tmp_path):
    sight("adapt", folder / "P1.csv", "-m", cohort / "model.onnx", "-o", tmp_path)
    alone, together = (pd.read_parquet(path) for path in (tmp_path / "windows.parquet", cohort / "windows/P1.parquet"))
    shared = [column for column in alone if column not in ("time", "label", "gap_before_s")]
    assert {"raw_class", "class", "wear", "surprise", "p_walking", "q_walking"} <= set(shared)
    pd.testing.assert_frame_equal(alone[shared], together[shared])
    assert (alone["time"].dt.tz_localize(None) == together["time"]).all()


def test_no_file_but_the_log_tells_of_place_or_time(cohort, folder):
    year = time.strftime("%Y-%m-").encode()
    for name, data in contents(cohort).items():
        assert str(cohort.parent).encode() not in data, name
        assert str(folder).encode() not in data, name
        assert platform.node().encode() not in data or len(platform.node()) < 4, name
        assert year not in data, name
    entry = json.loads((cohort / "log.jsonl").read_text().splitlines()[0])
    assert entry["seconds"] > 0
    assert entry["peak_bytes"] > 10 << 20


# --- tables against pandas -------------------------------------------------------------------------------------------


def test_days_add_up_as_pandas_adds_them(cohort, windows):
    days = pd.read_parquet(cohort / "summary" / "days.parquet")
    worn = windows[windows["wear"]].assign(date=lambda w: w["time"].dt.date)
    expected = worn.groupby(["recording", "date", "class"])["duration_s"].sum() / 60
    raw = worn.groupby(["recording", "date", "raw_class"])["duration_s"].sum() / 60
    assert len(days) == windows.groupby(["recording", "date"]).ngroups * len(PEOPLE.classes)
    for row in days.itertuples():
        at = (row.recording, row.date, row[4])
        assert row.minutes == pytest.approx(expected.get(at, 0), abs=1e-3)
        assert row.raw_minutes == pytest.approx(raw.get(at, 0), abs=1e-3)
    whole = windows.assign(date=lambda w: w["time"].dt.date).groupby(["recording", "date"])
    found = days.drop_duplicates(["recording", "date"]).set_index(["recording", "date"])
    off = whole[["duration_s", "wear"]].apply(lambda w: w["duration_s"][~w["wear"]].sum() / 60)
    assert found["day_non_wear_minutes"].to_numpy() == pytest.approx(off.to_numpy(), abs=1e-3)
    assert found["day_gap_minutes"].to_numpy() == pytest.approx(whole["gap_before_s"].sum().to_numpy() / 60, abs=1e-3)
    assert found["day_non_wear_minutes"].max() > 1
    assert found["day_gap_minutes"].max() > 0.4
    assert (days.groupby("recording")["day"].nunique() == 2).sum() == 4  # four cross midnight


def test_transitions_are_counted_within_worn_stretches(cohort, windows):
    expected: dict[tuple[str, str, str], int] = {}
    for name, own in windows.groupby("recording"):
        rows = list(zip(own["class"], own["wear"], own["gap_before_s"], strict=True))
        for (before, wore, _), (now, wears, gap) in pairwise(rows):
            if gap == 0 and wore and wears:
                expected[name, before, now] = expected.get((name, before, now), 0) + 1
    found = pd.read_parquet(cohort / "summary" / "transitions.parquet")
    assert {tuple(row[:3]): row[3] for row in found.itertuples(index=False)} == expected


def test_recordings_and_time_use_follow_from_the_windows(cohort, windows):
    found = pd.read_parquet(cohort / "summary" / "recordings.parquet").set_index("recording")
    own = windows.groupby("recording")
    assert found.index.tolist() == GOOD
    assert found["windows"].tolist() == own.size().tolist()
    assert found["recorded_hours"].to_numpy() == pytest.approx(own["duration_s"].sum().to_numpy() / 3600, abs=1e-4)
    changed = own[["class", "raw_class"]].apply(lambda w: (w["class"] != w["raw_class"]).mean())
    assert found["changed_share"].to_numpy() == pytest.approx(changed.to_numpy(), abs=1e-4)
    assert all("short" in flags.split() for flags in found["flags"])
    assert "gaps" in found.loc["P1", "flags"].split()
    assert "warnings" in found.loc["P1", "flags"].split()  # its clock tells no zone
    assert found.loc["P1", "start"] == "2025-03-03T23:57:00+00:00"
    worn = windows[windows["wear"]]
    use = pd.read_csv(cohort / "summary" / "time_use.csv").set_index("class")
    hours = worn.groupby("class")["duration_s"].sum() / 3600
    assert use.index.tolist() == list(PEOPLE.classes)
    assert use["hours"].to_numpy() == pytest.approx(hours.reindex(use.index).fillna(0).to_numpy(), abs=2e-3)
    share = worn.groupby(["recording", "class"])["duration_s"].sum().unstack(fill_value=0)
    share = share.div(share.sum(axis=1), axis=0).reindex(columns=use.index, fill_value=0)
    assert use["share_median"].to_numpy() == pytest.approx(share.median().to_numpy(), abs=1e-3)


@pytest.mark.parametrize("table", ["days", "recordings", "time_use", "transitions"])
def test_csv_and_parquet_hold_the_same(cohort, table):
    text, binary = pd.read_csv(cohort / f"summary/{table}.csv"), pd.read_parquet(cohort / f"summary/{table}.parquet")
    assert text.columns.tolist() == binary.columns.tolist()
    for column in text.select_dtypes("number"):
        assert text[column].to_numpy() == pytest.approx(binary[column].to_numpy())


# --- what is finished stays ------------------------------------------------------------------------------------------


def finished(out):
    files = [*out.glob("windows/*"), *out.glob("facts/*")]
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in files}


def log(out):
    return [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]


def test_nothing_finished_is_done_again(copied, model, monkeypatch):
    folder, out = copied
    before, seen = finished(out), contents(out)
    old = time.time() - 60
    for path in folder.rglob("*.*"):
        os.utime(path, (old, old))
    monkeypatch.setattr("sight.cohort.results_folder.SETTLED_NS", 0)
    told = sight("cohort", "run", folder, "-m", model, "-o", out, "--engine", "serial", code=1)
    assert "5 recordings" in told
    assert "5 of them from before" in told
    assert finished(out) == before
    assert contents(out) == seen
    hashed = len(log(out))
    sight("cohort", "run", folder, "-m", model, "-o", out, "--engine", "serial", code=1)
    # Now the log knows how the good files look, so only the bad ones are opened once more.
    assert [entry["recording"] for entry in log(out)[hashed:]] == ["empty", "torn"]
    assert finished(out) == before


def test_changed_content_is_run_again_alone(copied, model):
    folder, out = copied
    before = finished(out)
    write_recording(folder / "P1.csv", "W08")
    (folder / "torn.npz").unlink()
    (folder / "empty.csv").unlink()
    sight("cohort", "run", folder, "-m", model, "-o", out, "--engine", "serial")
    changed = {name for name, state in finished(out).items() if state != before[name]}
    assert changed == {"P1.parquet", "P1.json"}
    assert not (out / "failures.csv").exists()


def test_other_settings_run_everything_again(copied, model):
    folder, out = copied
    before = finished(out)
    where = ["cohort", "run", folder, "-m", model, "-o", out, "--engine", "serial"]
    sight(*where, "--method", "sticky", "--set", "s=0.5", code=1)
    assert all(state != before[name] for name, state in finished(out).items())
    assert pd.read_parquet(out / "windows" / "P1.parquet").shape[0] > 100


def test_other_kernels_run_everything_again(copied, model, edit):
    folder, out = copied
    before = finished(out)
    edit("methods/keel/compiled.py")
    sight("cohort", "run", folder, "-m", model, "-o", out, "--engine", "serial", code=1)
    assert all(state != before[name] for name, state in finished(out).items())


def test_a_file_that_became_bad_loses_its_results(copied, model):
    folder, out = copied
    (folder / "P1.csv").write_text("nothing\n")
    sight("cohort", "run", folder, "-m", model, "-o", out, "--engine", "serial", code=1)
    assert "P1.parquet" not in finished(out)
    assert "P1" not in pd.read_csv(out / "summary" / "recordings.csv")["recording"].tolist()


def test_results_within_the_folder_are_no_recordings(cohort, tmp_path):
    inside = tmp_path / "all"
    write_recording(inside / "P1.csv", "W03")
    where = ["cohort", "run", inside, "-m", cohort / "model.onnx", "-o", inside / "out", "--engine", "serial"]
    assert "1 recordings" in sight(*where)
    assert "1 recordings" in sight(*where)


def test_two_recordings_of_one_name_are_told_apart(cohort, tmp_path):
    write_recording(tmp_path / "in" / "a" / "b.csv", "W03")
    write_recording(tmp_path / "in" / "a-b.csv", "W04")
    told = sight(
        "cohort",
        "run",
        tmp_path / "in",
        "-m",
        cohort / "model.onnx",
        "-o",
        tmp_path / "out",
        "--engine",
        "serial",
        code=1,
    )
    assert "Another recording has this name too" in told
    assert "1 recordings" in told


def test_one_run_at_a_time(copied, model):
    folder, out = copied
    with Store(out).opened():
        told = sight("cohort", "run", folder, "-m", model, "-o", out, "--engine", "serial", code=2)
    assert "Another run works in" in told


def test_people_of_a_dataset_are_a_cohort_too(cohort, tmp_path):
    options = ["--option", "hours=0.05", "--option", "wearers=2"]
    where = [
        "cohort",
        "run",
        "synthetic",
        "-m",
        cohort / "model.onnx",
        "-o",
        tmp_path / "out",
        "--engine",
        "serial",
        *options,
    ]
    sight(*where)
    before = finished(tmp_path / "out")
    assert sorted(before) == [f"synthetic-W0{n}.{end}" for n in (1, 2) for end in ("json", "parquet")]
    assert "2 of them from before" in sight(*where)
    assert finished(tmp_path / "out") == before


# --- one recording, any question -------------------------------------------------------------------------------------


def test_a_stored_recording_is_read_back_as_it_was(cohort, folder):
    from sight.cli._inputs import Input, read
    from sight.cli._reading import Reading
    from sight.evaluate import run
    from sight.registry import RECOMMENDED, method
    from sight.sources import load

    source = load(cohort / "model.onnx")
    fresh = run(method(RECOMMENDED).bind(source), read(Input(name="P5", path=folder / "P5.npz"), source, Reading()))
    stored = read_result(cohort / "windows/P5.parquet", json.loads((cohort / "facts/P5.json").read_text()))
    for name in ("p", "q"):
        assert (getattr(stored, name) == getattr(fresh, name)).all()
    for name in ("time_s", "label", "wear"):
        assert (getattr(stored.windows, name) == getattr(fresh.windows, name)).all()
    assert stored.windows.start == fresh.windows.start
    assert stored.trace.keys() == fresh.trace.keys()


def test_the_page_of_a_person_is_written_on_demand(copied):
    _, out = copied
    told = sight("cohort", "page", out, "P5")
    assert "P5.html" in told
    assert "Activities of P5" in (out / "pages" / "P5.html").read_text("utf-8")
    overview = (out / "overview.html").read_text("utf-8")
    assert '<a href="pages/P5.html">P5</a>' in overview
    assert 'href="pages/P1.html"' not in overview
    assert "torn.npz" in overview
    assert "Times tell no zone" in overview  # the words of a warning, not its flag alone
    assert "Did you mean 'P5'" in sight("cohort", "page", out, "P55", code=2)
    assert "There is no cohort" in sight("cohort", "page", out / "nowhere", "P5", code=2)


def test_analysts_ask_in_sql(copied, windows):
    _, out = copied
    told = sight("cohort", "query", out, "SELECT count(*) AS n, count(DISTINCT recording) FROM windows")
    assert f" {len(windows)} " in told
    sight("cohort", "query", out, "SELECT recording, sum(minutes) AS m FROM days GROUP BY ALL", "--csv", out / "a.csv")
    found = pd.read_csv(out / "a.csv").set_index("recording")["m"]
    worn = windows[windows["wear"]].groupby("recording")["duration_s"].sum() / 60
    assert found.sort_index().to_numpy() == pytest.approx(worn.to_numpy(), abs=0.02)
    assert "nope" in sight("cohort", "query", out, "SELECT nope FROM days", code=2)
    assert "There is no summary" in sight("cohort", "query", out / "nowhere", "SELECT 1", code=2)


# --- memory ----------------------------------------------------------------------------------------------------------


def hold(folder, name):
    """Leave a mark while running; tells how many marks there were at most."""
    mark = folder / f"{name}.mark"
    mark.touch()
    most = 0
    for _ in range(10):
        most = max(most, len(list(folder.glob("*.mark"))))
        time.sleep(0.02)
    mark.unlink()
    return most


@pytest.mark.parametrize(("budget", "at_once"), [(150, 1), (1000, 2)])
def test_no_more_runs_at_once_than_fits(tmp_path, budget, at_once):
    work = [(tmp_path, name) for name in "abcdef"]
    sizes = [100, 140, 90, 100, 120, 80]
    found = dict(map_unordered(hold, work, "loky", 2, memory=sizes, budget=budget))
    assert sorted(found) == list(range(6))
    assert max(found.values()) == at_once


def test_what_is_larger_than_the_budget_runs_alone(tmp_path):
    found = dict(
        map_unordered(hold, [(tmp_path, name) for name in "abcd"], "loky", 2, memory=[500, 40, 40, 600], budget=100)
    )
    assert (found[0], found[3]) == (1, 1)
    assert len(found) == 4


def test_the_largest_come_first():
    order = [at for at, _ in map_unordered(divmod, [(7, 2)] * 4, "serial", memory=[3, 9, 9, 5])]
    assert order == [1, 2, 3, 0]


def test_memory_is_estimated_from_the_file(folder, tmp_path):
    assert needed(folder / "torn.npz") == BASE
    assert needed(tmp_path / "gone.csv") == BASE
    assert needed(folder / "P2.parquet", overlap=3) > needed(folder / "P2.parquet") > BASE
    week = tmp_path / "week.cwa"
    week.touch()
    os.truncate(week, 244_000_000)
    assert 2.3e9 < needed(week) < 5e9  # what one such week really takes, and not much more
    assert 0 < available() < 1 << 45


@pytest.mark.parametrize(("text", "bytes_"), [("2GB", 2e9), ("1.5 GiB", 1.5 * 2**30), ("300M", 3e8), ("17", 17)])
def test_memory_is_said_as_people_say_it(text, bytes_):
    assert parse(text) == bytes_


@pytest.mark.parametrize("text", ["much", "0", "-3GB", "3 apples"])
def test_memory_that_is_no_amount_is_told(text):
    with pytest.raises(ValueError, match="such as 8GB"):
        parse(text)
