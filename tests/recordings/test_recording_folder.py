"""A folder of own recordings with its MAP.toml."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest

from sight.recordings.reading_options import MAP_KEYS, ReadOptions
from sight.recordings.recording_folder import Folder
from sight.recordings.recording_references import open_dataset
from tests.helpers.device_files import wrist, write_gt3x

MAP = """
unit = "m/s^2"
tz = "Europe/Berlin"
window_s = 1.0
stride_s = 0.5
[columns]
time = "when"
label = "what"
x = "ax"
y = "ay"
z = "az"
[labels]
1 = "walk"
2 = "rest"
3 = "walk"
9 = ""
"""


def own_file(path, labels, start):
    n = len(labels)
    times = pd.date_range(start, periods=n, freq="20ms").strftime("%Y-%m-%d %H:%M:%S.%f")
    table = pd.DataFrame({"when": times, "ax": np.arange(n) / 100, "ay": 0.0, "az": 9.81, "what": labels})
    path.parent.mkdir(exist_ok=True, parents=True)
    table.to_csv(path, index=False)


@pytest.fixture
def own(tmp_path):
    own_file(tmp_path / "own" / "anna.csv", np.repeat([1, 2, 3, 9], 100), "2024-07-01 10:00:00")
    own_file(tmp_path / "own" / "bert" / "b-first.csv.gz", np.repeat([2], 100), "2024-07-01 12:00:00")
    own_file(tmp_path / "own" / "bert" / "a-later.csv", np.repeat([1], 100), "2024-07-01 12:00:12")
    (tmp_path / "MAP.toml").write_text(MAP)
    return tmp_path / "own", tmp_path / "MAP.toml"


def test_files_and_subfolders(own):
    root, labels = own
    dataset = Folder(root, labels=labels)
    assert dataset.subjects() == ("anna", "bert")
    assert dataset.classes == ("walk", "rest")
    assert dataset.channels == ("x", "y", "z")
    assert (dataset.units, dataset.rate_hz, dataset.window_s) == (("m/s^2",) * 3, 50.0, 1.0)
    (recording,) = dataset.recordings("anna")
    assert recording.labels[[0, 100, 200, 300]].tolist() == [0, 1, 0, -1]
    assert recording.start == datetime(2024, 7, 1, 8, tzinfo=UTC)
    windows = dataset.windows("bert")
    assert windows.x.shape == (6, 3, 50)
    assert windows.label.tolist() == [1, 1, 1, 0, 0, 0]  # by start time, not by name
    assert windows.gap_before_s[3] == pytest.approx(10.0)
    (root / "MAP.toml").write_text(MAP)
    np.testing.assert_array_equal(Folder(root).windows("bert").x, windows.x)


def test_the_cache_depends_on_the_map(own):
    root, labels = own
    assert (Folder(root, labels=labels).windows("bert").label == 1).sum() == 3
    labels.write_text(MAP.replace('2 = "rest"', '2 = ""') + '7 = "rest"\n')
    assert (Folder(root, labels=labels).windows("bert").label == -1).sum() == 3


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text.replace("window_s", "windows_s"), "Did you mean 'window_s'"),
        (lambda text: text.split("[labels]")[0], "at least two classes"),
        (lambda text: text.replace('"walk"', "walk"), "is not TOML"),
        (lambda text: text.replace('3 = "walk"\n', ""), r"'3' \(100 samples\)"),
        (lambda text: text.replace('"ay"', '"ayy"'), "ayy"),
        (lambda text: text.replace('"what"', '"whit"'), r"whit.*label = \"NAME\" under \[columns\]"),
    ],
)
def test_bad_maps(own, change, words):
    root, labels = own
    labels.write_text(change(MAP))
    with pytest.raises(ValueError, match=words) as caught:
        Folder(root, labels=labels)
    assert "\n" not in str(caught.value)


def test_a_folder_without_subjects_or_map(own, tmp_path):
    with pytest.raises(ValueError, match=r"no map at .*MAP.toml"):
        Folder(own[0])
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="no subject in"):
        Folder(tmp_path / "empty", labels=own[1])


def test_whole_numbers_with_and_without_decimals_are_the_same_label(own):
    root, labels = own
    own_file(root / "cleo.csv", np.repeat(["1.0", "2.0", ""], 100), "2024-07-02 10:00:00")
    written = MAP.replace("1 =", "1.0 =").replace("9 =", '"9.0" =')
    labels.write_text(written)
    dataset = Folder(root, labels=labels)
    (recording,) = dataset.recordings("cleo")
    assert recording.labels[[0, 100, 200]].tolist() == [0, 1, -1]
    assert next(dataset.recordings("anna")).labels[[0, 300]].tolist() == [0, -1]


def test_a_folder_is_opened_with_its_own_map(own):
    root, labels = own
    (root / "MAP.toml").write_text(MAP)
    assert open_dataset(str(root), {}).subjects() == ("anna", "bert")
    assert open_dataset(str(root), {"labels": str(labels)}).subjects() == ("anna", "bert")


def test_units_of_rotation_and_time_are_set_in_the_map(tmp_path):
    rows = "".join(f"{20 * i},0,0,1,1,2,3,{i // 50}\n" for i in range(100))
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "anna.csv").write_text("time_s,ax,ay,az,gx,gy,gz,label\n" + rows)
    (tmp_path / "MAP.toml").write_text('gyro_unit = "rad/s"\ntime_unit = "ms"\n[labels]\n0 = "walk"\n1 = "rest"\n')
    dataset = Folder(root=tmp_path / "own", labels=tmp_path / "MAP.toml")
    assert dataset.units == ("g",) * 3 + ("rad/s",) * 3
    assert dataset.rate_hz == 50


def test_the_map_takes_every_reading_option_and_options_override_it(own):
    root, labels = own
    names = {field.name for field in fields(ReadOptions)} - {"columns", "names", "dataset_options"}
    assert set(MAP_KEYS) == names  # the table [columns] and the table [labels] are the other two
    labels.write_text('rate = 50\nmax_gap = 20\ncalibrate = true\nlabel_column = "none"\n' + MAP)
    reading = {"label_column": "what", "unit": "m/s2", "names": {"1": "Walk", "2": "sit", "3": "walk", "9": ""}}
    dataset = Folder(root, labels=labels, reading=reading)
    assert (dataset.classes, dataset.max_gap_s, dataset.rate_hz) == (("Walk", "sit"), 20, 50)
    assert next(dataset.recordings("anna")).labels[[0, 100, 200, 300]].tolist() == [0, 1, 0, -1]


@pytest.fixture
def diaries(own):
    """The folder of `own` without labels, with diaries in local time and one for each subject."""
    root, labels = own
    for path in root.rglob("*.csv*"):
        pd.read_csv(path).drop(columns="what").to_csv(path, index=False)
    (root / "diaries").mkdir()
    (root / "diaries" / "anna.csv").write_text(
        "start,end,label\n2024-07-01 10:00:00,2024-07-01 10:00:02,Walk\n2024-07-01 10:00:04,2024-07-01 10:00:08,REST\n"
    )
    (root / "diaries" / "bert.csv").write_text("time,label\n2024-07-01 12:00:00,rest\n2024-07-01 12:00:12,walk\n")
    text = 'diary = "diaries/{subject}.csv"\n' + MAP.split("[labels]", maxsplit=1)[0].replace('label = "what"\n', "")
    labels.write_text(text)
    return root, labels


def test_labels_come_from_diaries(diaries):
    dataset = Folder(diaries[0], labels=diaries[1])
    assert dataset.subjects() == ("anna", "bert")  # diaries are no recordings
    assert [name.casefold() for name in dataset.classes] == ["rest", "walk"]
    (recording,) = dataset.recordings("anna")
    assert recording.labels[[0, 99, 100, 199, 200, 399]].tolist() == [1, 1, -1, -1, 0, 0]
    assert dataset.windows("bert").label.tolist() == [0, 0, 0, 1, 1, 1]
    diaries[1].write_text(diaries[1].read_text() + '[labels]\nwalk = "move"\nrest = ""\nother = "still"\n')
    assert Folder(diaries[0], labels=diaries[1]).windows("bert").label.tolist() == [-1] * 3 + [0] * 3


def test_the_cache_depends_on_the_diary_of_the_subject(diaries):
    dataset = Folder(diaries[0], labels=diaries[1])
    dataset.windows("bert")
    (diaries[0] / "diaries" / "bert.csv").write_text("time,label\n2024-07-01 12:00:00,walk\n")
    assert Folder(diaries[0], labels=diaries[1]).windows("bert").label.tolist() == [1] * 6


def test_one_diary_of_all_subjects(diaries):
    root, labels = diaries
    labels.write_text(labels.read_text().replace("diaries/{subject}", "diary"))
    rows = "2024-07-01 10:00:00,2024-07-01 10:00:04,walk\nbert,2024-07-01 12:00:00,2024-07-01 13:00:00,rest\n"
    (root / "diary.csv").write_text("subject,start,end,label\nAnna," + rows + "dora,2024-07-01,2024-07-02,swim\n")
    for path in (root / "diaries").iterdir():
        path.unlink()
    dataset = Folder(root, labels=labels)
    assert (dataset.subjects(), dataset.classes) == (("anna", "bert"), ("rest", "walk"))
    assert set(dataset.windows("bert").label) == {0}
    (root / "diary.csv").write_text("start,end,label\n2024-07-01 10:00:00,2024-07-01 10:00:04,walk\n")
    with pytest.raises(ValueError, match="add a column subject"):
        Folder(root, labels=labels)


def test_bad_diaries_are_reported_before_any_recording_is_read(diaries, monkeypatch):
    root, labels = diaries
    monkeypatch.setattr("sight.recordings.recording_folder.read", lambda *_, **__: pytest.fail("a recording was read"))
    labels.write_text(labels.read_text() + '[labels]\nwalk = "walk"\nlie = "still"\n')
    with pytest.raises(ValueError, match=r"'rest' \(1 row\), 'REST' \(1 row\)|'REST' \(1 row\), 'rest' \(1 row\)"):
        Folder(root, labels=labels)
    (root / "diaries" / "bert.csv").unlink()
    with pytest.raises(ValueError, match=r"There is no diary diaries/bert\.csv"):
        Folder(root, labels=labels)
    labels.write_text(MAP.replace("[columns]", 'diary = "diaries/{subject}.csv"\n[columns]'))
    with pytest.raises(ValueError, match="from a diary or from a column"):
        Folder(root, labels=labels)


def test_a_device_file_with_a_diary(tmp_path):
    write_gt3x(tmp_path / "anna.gt3x", wrist(30, 12_000), 30)
    (tmp_path / "MAP.toml").write_text('[labels]\nsitting = "sitting"\nwalking = "walking"\n')
    with pytest.raises(ValueError, match="a device file contains no labels"):
        Folder(tmp_path)
    (tmp_path / "MAP.toml").write_text('diary = "{recording}.csv"\n')
    (tmp_path / "anna.csv").write_text("time,label\n2024-03-05 09:31:00,sitting\n2024-03-05 09:36:00,walking\n")
    dataset = Folder(tmp_path)
    (recording,) = dataset.recordings("anna")
    assert (dataset.rate_hz, dataset.channels) == (30, ("x", "y", "z"))
    assert recording.labels[[0, 60 * 30, 6 * 60 * 30 + 1]].tolist() == [-1, 0, 1]
