"""Reading of recordings as windows for a model, with warnings as data."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest

import sight
from sight.recordings.read import on_one_clock, read_samples
from sight.recordings.reading_options import ReadOptions
from sight.recordings.recording_references import find_recording, find_recordings, find_subject
from sight.testing import ToySource, toy_card
from sight.types import Recording
from tests.helpers.streams import CHANNELS, toy_source

ROWS = "".join(f"{t / 10},0,0,1\n" for t in range(100))


def write_csv(path, header="time,x,y,z", rows=ROWS):
    path.write_text(f"{header}\n{rows}")
    return path


@pytest.mark.parametrize("kind", ["source", "card"])
def test_a_model_may_be_a_source_or_a_card(tmp_path, kind):
    source = toy_source()
    windows = sight.read(write_csv(tmp_path / "walk.csv"), source if kind == "source" else source.card, tz="UTC")
    assert windows.x.shape == (9, 3, 20)
    np.testing.assert_array_equal(windows.x[0, :, 0], [0, 0, 1])
    assert windows.warnings == ()


def test_a_dataset_with_other_channels_than_the_model_is_refused():
    card = toy_source(25.0, channels=CHANNELS).card
    options = {"dataset_options": {"hours": 0.02, "gaps_per_hour": 0}}
    with pytest.raises(ValueError, match="the 3 channels"):
        sight.read("synthetic:W01", card, **options)


def test_warnings_are_data_and_never_printed(tmp_path, capsys):
    rows = "".join(f"2024-05-01 08:00:{t / 10:06.3f},0,0,9.81\n" for t in range(100))
    file = write_csv(tmp_path / "walk.csv", "time,a,b,c", rows)
    columns = {"time": "time", "a": "a", "b": "b", "c": "c"}
    warnings = sight.read(file, toy_source(), columns=columns, calibrate=True).warnings
    for keyword in ("in this order", "m/s^2", "Calibration", "time zone"):
        assert any(keyword in str(warning) for warning in warnings), keyword
    assert {warning.kind: warning.severity for warning in warnings} == {
        "channels": "warning",
        "unit": "error",
        "calibration": "note",
        "time-zone": "warning",
    }
    assert capsys.readouterr() == ("", "")


SIX = ("acc_x", "acc_y", "acc_z", "gyr_x", "gyr_y", "gyr_z")


def six_channel_card(rotation):
    units = ("g",) * 3 + (rotation,) * 3
    std = (1.0,) * 3 + ((1.0,) if rotation == "rad/s" else (57.3,)) * 3
    return toy_card(channels=SIX, units=units, std=std)


@pytest.mark.parametrize(("rotation", "other"), [("rad/s", "deg/s"), ("deg/s", "rad/s")])
def test_rotation_without_a_unit_is_taken_in_the_unit_of_the_model(tmp_path, rotation, other):
    card = six_channel_card(rotation)
    values = card.std[3] * np.random.default_rng(0).normal(size=(100, 3))
    rows = "".join(f"{t / 10},0,0,1,{a:.5f},{b:.5f},{c:.5f}\n" for t, (a, b, c) in enumerate(values))
    file = write_csv(tmp_path / "walk.csv", "time,ax,ay,az,gx,gy,gz", rows)
    windows = sight.read(file, card)
    np.testing.assert_allclose(windows.x[0, 3:], values[:20].T, atol=1e-4)
    assert windows.warnings == ()
    wrong = sight.read(file, card, gyro_unit=other)
    assert any(f"--gyro-unit {rotation}" in str(warning) for warning in wrong.warnings)


def test_milliseconds_since_the_start_are_recognised_by_the_rate_of_the_model(tmp_path):
    rows = "".join(f"{t * 100},0,0,1\n" for t in range(100))
    windows = sight.read(write_csv(tmp_path / "walk.csv", rows=rows), toy_source())
    assert (len(windows), windows.facts.rate_measured_hz) == (9, pytest.approx(10))
    with pytest.raises(ValueError, match="--time-unit"):
        sight.read(tmp_path / "walk.csv", toy_source(), time_unit="s")


@pytest.mark.parametrize("kind", ["epoch", "UTC", "local", "offset"])
def test_a_wearer_without_a_time_zone_is_warned_about(tmp_path, kind):
    moments = [datetime(2024, 5, 1, 8, tzinfo=UTC) + timedelta(seconds=t / 10) for t in range(100)]
    text = {
        "epoch": lambda m: f"{m.timestamp():.1f}",
        "UTC": lambda m: m.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "local": lambda m: m.strftime("%Y-%m-%dT%H:%M:%S.%f"),
        "offset": lambda m: m.strftime("%Y-%m-%dT%H:%M:%S.%f+02:00"),
    }[kind]
    file = write_csv(tmp_path / "walk.csv", rows="".join(f"{text(m)},0,0,1\n" for m in moments))
    warned = any("--tz" in str(warning) for warning in sight.read(file, toy_source()).warnings)
    assert warned == (kind != "offset")
    assert sight.read(file, toy_source(), tz="Europe/Vienna").warnings == ()


def test_columns_units_and_labels_are_read_as_asked(tmp_path):
    rows = "".join(f"{t / 10},0,0,1000,{'activity 1' if t < 50 else ''}\n" for t in range(100))
    file = write_csv(tmp_path / "walk.csv", "when,east,north,up,what", rows)
    columns = {"time": "when", "x": "east", "y": "north", "z": "up"}
    windows = sight.read(file, toy_source(), columns=columns, unit="mg", tz="Europe/Vienna", label_column="what")
    np.testing.assert_allclose(windows.x[0, :, 0], [0, 0, 1])
    assert windows.label.tolist() == [1] * 5 + [-1] * 4


def test_a_folder_lists_its_recordings_by_relative_path_and_suffix_if_needed(tmp_path):
    for name in ("b.csv", "P01.monday.csv", "same.csv", "S01/a.parquet", "S01/b.csv", "S01/c.npz", "site/S02/a.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).touch()
    with gzip.open(tmp_path / "same.csv.gz", "wt") as file:
        file.write("x")
    (tmp_path / "readme.txt").touch()
    found = {ref.name: ref.file_names for ref in find_recordings(tmp_path)}
    assert list(found) == ["P01.monday", "S01", "S01-c", "b", "same.csv", "same.csv.gz", "site-S02"]
    assert (found["S01"], found["S01-c"]) == ("a.parquet, b.csv", "c.npz")
    assert "S01-a" in {ref.name for ref in find_recordings(tmp_path, separate=True)}
    with pytest.raises(ValueError, match="got 7"):
        sight.read(tmp_path, toy_source())


def test_what_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no file or folder"):
        sight.read(tmp_path / "none.csv", toy_source())
    with pytest.raises(TypeError, match="unknown_option"):
        sight.read(write_csv(tmp_path / "walk.csv"), toy_source(), unknown_option={})
    with pytest.raises(ValueError, match="no card"):
        sight.read(tmp_path / "walk.csv", ToySource())


def test_a_subject_is_found_by_a_unique_beginning_of_its_name():
    class Dataset:
        name = "demo"

        def subjects(self):
            return ("S01", "S02", "T1")

    assert find_subject(Dataset(), "s01") == "S01"
    assert find_subject(Dataset(), "t") == "T1"
    with pytest.raises(ValueError, match="could be S01, S02"):
        find_subject(Dataset(), "S")


def test_samples_for_replay_carry_their_warnings(tmp_path):
    file = write_csv(tmp_path / "walk.csv", "time,a,b,c")
    options = ReadOptions(columns={"time": "time", "a": "a", "b": "b", "c": "c"}, unit="mg")
    [recording] = read_samples(find_recordings(file)[0], toy_source().card, options)
    assert recording.channels == CHANNELS
    assert recording.values[0].tolist() == pytest.approx([0, 0, 0.001])
    assert "in this order" in recording.warnings[0].text


def part(start, first_s=0.0):
    values, time_s = np.zeros((5, 3), np.float32), first_s + np.arange(5.0)
    return Recording(values=values, time_s=time_s, channels=CHANNELS, unit="g", rate_hz=1.0, start=start)


def test_recordings_of_a_subject_follow_each_other():
    morning = datetime(2024, 5, 1, 8, tzinfo=UTC)
    shifted = on_one_clock([part(morning), part(morning + timedelta(seconds=60))])
    assert [each.time_s[0] for each in shifted] == [0, 60]
    assert [each.time_s[0] for each in on_one_clock([part(None), part(None, 7.0)])] == [0, 4 + 3600]
    assert [each.time_s[0] for each in on_one_clock([part(None), part(None, 7.0)], shared=True)] == [0, 7]


def test_recordings_with_and_without_a_date_follow_each_other():
    morning = datetime(2024, 5, 1, 8, tzinfo=UTC)
    mixed = on_one_clock([part(morning), part(None), part(morning + timedelta(hours=5))])
    assert [each.time_s[0] for each in mixed] == [0, 4 + 3600, 5 * 3600]
    undated_first = on_one_clock([part(None), part(morning), part(None, 7.0)])
    assert [each.time_s[0] for each in undated_first] == [0, 4 + 3600, 8 + 2 * 3600]


def test_a_path_of_a_model_file_is_accepted(tmp_path):
    from sight.testing import toy_network

    model = toy_network("resnet").save(tmp_path / "model.safetensors")
    windows = sight.read(str(write_csv(tmp_path / "walk.csv")), Path(model), tz="UTC")
    assert windows.x.shape == (9, 3, 20)


# --- several files of one subject -------------------------------------------------------------------------------------


def dated(path, start, seconds=10):
    moments = (start + timedelta(seconds=t / 10) for t in range(10 * seconds))
    return write_csv(path, rows="".join(f"{moment.isoformat()},0,0,1\n" for moment in moments))


MORNING = datetime(2024, 5, 1, 8, tzinfo=timezone(timedelta(hours=2)))


def test_files_of_a_subject_are_joined_by_time_with_a_gap_between(tmp_path):
    later = dated(tmp_path / "a.csv", MORNING + timedelta(hours=1))
    first = dated(tmp_path / "b.csv", MORNING)
    windows = sight.read([later, first], toy_source())
    assert windows.start == MORNING
    assert windows.time_s.tolist() == [*range(9), *range(3600, 3609)]
    assert np.flatnonzero(windows.gap_before_s).tolist() == [9]
    assert windows.gap_before_s[9] == pytest.approx(3590)
    assert (windows.facts.files, windows.warnings) == (["b.csv", "a.csv"], ())
    parts = list(read_samples(find_recording([later, first]), toy_source().card, ReadOptions()))
    assert [part.time_s[0] for part in parts] == [0, 3600]


def test_files_of_a_subject_that_overlap_are_refused(tmp_path):
    files = [dated(tmp_path / "a.csv", MORNING), dated(tmp_path / "b.csv", MORNING + timedelta(seconds=7))]
    with pytest.raises(ValueError, match=r"b\.csv begins 3\.0 s before a\.csv ends.*--separate"):
        sight.read(files, toy_source())


def test_files_without_dates_are_joined_in_order_with_a_warning(tmp_path):
    files = [write_csv(tmp_path / "b.csv"), write_csv(tmp_path / "a.csv", rows=ROWS.replace(",1\n", ",3\n"))]
    windows = sight.read(files, toy_source())
    assert windows.x[:, 2, 0].tolist() == [1] * 9 + [3] * 9
    assert any("b.csv, a.csv are joined in this order" in str(warning) for warning in windows.warnings)
    assert any(warning.text.startswith("a.csv: ") for warning in windows.warnings)  # of one file only


def test_a_subject_joins_all_files_and_equal_names_are_refused(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        dated(tmp_path / name / "day.csv", MORNING)
    targets = [tmp_path / "a" / "day.csv", tmp_path / "b" / "day.csv"]
    [ref] = find_recordings(targets, subject="S01")
    assert (ref.name, ref.subject, len(ref.files)) == ("S01", "S01", 2)
    with pytest.raises(ValueError, match="--subject"):
        find_recordings(targets)
    with pytest.raises(ValueError, match="subjects of datasets"):
        find_recordings("synthetic:W01", subject="S01")


# --- labels -----------------------------------------------------------------------------------------------------------


def labelled(path, labels):
    rows = "".join(f"{t / 10},0,0,1,{labels[t // 50]}\n" for t in range(50 * len(labels)))
    return write_csv(path, "time,x,y,z,what", rows)


def test_labels_are_compared_without_case_and_mapped_by_names(tmp_path):
    source = toy_source()
    file = labelled(tmp_path / "day.csv", ["Activity 1", "Strolling", "rest", "ACTIVITY 0"])
    names = {"strolling": "ACTIVITY 2", "Rest": ""}
    windows = sight.read(file, source, label_column="what", names=names)
    assert windows.label[[0, 5, 10, 15]].tolist() == [1, 2, -1, 0]
    (tmp_path / "names.toml").write_text('strolling = "activity 2"\nrest = ""\n')
    again = sight.read(file, source, label_column="what", names=tmp_path / "names.toml")
    np.testing.assert_array_equal(again.label, windows.label)
    swapped = sight.read(file, source, label_column="what", names={**names, "activity 1": "activity 0"})
    assert swapped.label[[0, 15]].tolist() == [0, 0]
    with pytest.raises(ValueError, match=r"'Strolling' \(50 samples\), 'rest' .*--names"):
        sight.read(file, source, label_column="what")
    with pytest.raises(ValueError, match=r"'flying', which is not a class; .*--names"):
        sight.read(file, source, label_column="what", names={"strolling": "flying"})
