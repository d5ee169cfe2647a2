"""Reading of recordings as windows for a model, with warnings as data."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

import sight
from sight.reading import ReadOptions, find_recordings, find_subject, on_one_clock, read_samples
from sight.testing import ToySource
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
    assert windows.facts["warnings"] == []


def test_a_subject_of_a_dataset_is_read_with_the_rate_and_window_of_the_model():
    card = toy_source(25.0, channels=CHANNELS).card
    options = {"dataset_options": {"hours": 0.02, "gaps_per_hour": 0}}
    with pytest.raises(ValueError, match="the 3 channels"):
        sight.read("synthetic:W01", card, **options)


def test_warnings_are_facts_and_never_printed(tmp_path, capsys):
    rows = "".join(f"2024-05-01 08:00:{t / 10:06.3f},0,0,9.81\n" for t in range(100))
    file = write_csv(tmp_path / "walk.csv", "time,a,b,c", rows)
    columns = {"time": "time", "a": "a", "b": "b", "c": "c"}
    warnings = sight.read(file, toy_source(), columns=columns, calibrate=True).facts["warnings"]
    for keyword in ("in this order", "m/s^2", "Calibration", "time zone"):
        assert any(keyword in warning for warning in warnings), keyword
    assert capsys.readouterr() == ("", "")


def test_columns_units_and_labels_are_read_as_asked(tmp_path):
    rows = "".join(f"{t / 10},0,0,1000,{'activity 1' if t < 50 else ''}\n" for t in range(100))
    file = write_csv(tmp_path / "walk.csv", "when,east,north,up,what", rows)
    columns = {"time": "when", "x": "east", "y": "north", "z": "up"}
    windows = sight.read(file, toy_source(), columns=columns, unit="mg", tz="Europe/Vienna", label_column="what")
    np.testing.assert_allclose(windows.x[0, :, 0], [0, 0, 1])
    assert windows.label.tolist() == [1] * 5 + [-1] * 4


def test_a_folder_lists_its_recordings_by_relative_path_and_suffix_if_needed(tmp_path):
    for name in ("b.csv", "P01.monday.csv", "same.csv", "site/a.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    with gzip.open(tmp_path / "same.csv.gz", "wt") as file:
        file.write("x")
    (tmp_path / "readme.txt").touch()
    names = [ref.name for ref in find_recordings(tmp_path)]
    assert names == ["P01.monday", "b", "same.csv", "same.csv.gz", "site-a"]
    with pytest.raises(ValueError, match="got 5"):
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
    assert "in this order" in recording.facts["warnings"][0]


def part(start, first_s=0.0):
    values, time_s = np.zeros((5, 3), np.float32), first_s + np.arange(5.0)
    return Recording(values=values, time_s=time_s, channels=CHANNELS, unit="g", rate_hz=1.0, start=start)


def test_recordings_of_a_subject_follow_each_other():
    morning = datetime(2024, 5, 1, 8, tzinfo=UTC)
    shifted = on_one_clock([part(morning), part(morning + timedelta(seconds=60))])
    assert [each.time_s[0] for each in shifted] == [0, 60]
    assert [each.time_s[0] for each in on_one_clock([part(None), part(None, 7.0)])] == [0, 4 + 3600]
    assert [each.time_s[0] for each in on_one_clock([part(None), part(None, 7.0)], shared=True)] == [0, 7]


def test_a_path_of_a_model_file_is_accepted(tmp_path):
    from sight.testing import toy_network

    model = toy_network("resnet").save(tmp_path / "model.safetensors")
    windows = sight.read(str(write_csv(tmp_path / "walk.csv")), Path(model), tz="UTC")
    assert windows.x.shape == (9, 3, 20)
