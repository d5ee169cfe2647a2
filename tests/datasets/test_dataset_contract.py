"""Behaviour that all datasets share."""

from __future__ import annotations

import pickle
import zipfile

import numpy as np
import pytest

from sight import registry
from sight._util.folder_or_zip import FileStore
from sight.datasets import Dataset, info, load, windows_of
from sight.datasets.harth import HARTH
from sight.datasets.synthetic import Synthetic
from sight.datasets.ucihar import UCIHAR
from tests.helpers.layouts import harth_table, zipped

DATASETS = [name for name in registry.names("datasets") if name not in ("synthetic", "npz", "folder")]


@pytest.mark.parametrize("name", DATASETS)
def test_facts_of_every_dataset(name):
    cls = registry.get("datasets", name)
    assert issubclass(cls, Dataset)
    assert cls.name == name
    assert len(cls.channels) == len(cls.units) > 0
    assert len(set(cls.classes)) == len(cls.classes) > 1
    assert cls.rate_hz > 0
    assert 0 < cls.stride_s <= cls.window_s
    for fact in ("title", "licence", "citation", "homepage", "version"):
        assert isinstance(getattr(cls, fact), str)
        assert getattr(cls, fact)
    assert all(download.url.startswith("http") for download in cls.downloads)
    assert len(cls.downloads) > 0
    assert {label for label in cls.label_map.values() if label} <= set(cls.classes)


@pytest.mark.parametrize("name", DATASETS)
def test_missing_data_names_the_official_files(name, tmp_path, monkeypatch):
    monkeypatch.setenv("SIGHT_DATA", str(tmp_path))
    dataset = load(name)
    with pytest.raises(ValueError, match=r"put .* into the folder") as caught:
        dataset.subjects()
    assert dataset.official_files[0] in str(caught.value)
    assert str(tmp_path) in str(caught.value)
    (tmp_path / dataset.folder_names[0]).mkdir()
    with pytest.raises(ValueError, match="no subject in"):
        load(name).subjects()


def test_a_zip_inside_a_zip_is_named(tmp_path):
    with zipfile.ZipFile(tmp_path / "outer.zip", "w") as archive:
        archive.writestr("UCI HAR Dataset.zip", b"")
    with pytest.raises(ValueError, match=r"unpack UCI HAR Dataset.zip first"):
        UCIHAR(tmp_path / "outer.zip").subjects()
    (tmp_path / "broken.zip").write_bytes(b"PK\x03\x04")
    with pytest.raises(ValueError, match="is the file complete"):
        FileStore(tmp_path / "broken.zip")


def test_unknown_subject_and_unknown_parameter(harth):
    dataset = HARTH(harth[0])
    with pytest.raises(ValueError, match="Did you mean 'S006'"):
        dataset.windows("S066")
    with pytest.raises(TypeError, match="not by 'windows_s'"):
        dataset.windows("S006", windows_s=3)
    with pytest.raises(ValueError, match="'keep' or 'drop'"):
        dataset.windows("S006", unlabelled="maybe")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text.replace("thigh_y", "hip_y"), "thigh_y not found"),
        (lambda text: text.replace(",130", ",131"), "label 131"),
        (lambda text: text.split("\n")[0] + "\n", "has no samples"),
        (lambda _: "", "is empty"),
        (lambda text: "\n".join(text.split("\n")[:60]), "no window of 2 s"),
        (lambda text: text.replace("2019-01-12 00:00:01.000", "yesterday"), "expected times and numbers"),
    ],
)
def test_bad_files_raise_one_line_errors(harth, change, words):
    path = harth[0] / "S006.csv"
    path.write_text(change(path.read_text()))
    with pytest.raises(ValueError, match=words) as caught:
        HARTH(harth[0]).windows("S006")
    assert "\n" not in str(caught.value)


def test_cache_follows_the_file_and_the_options(harth):
    root, _ = harth
    before = HARTH(root).windows("S006")
    np.testing.assert_array_equal(HARTH(root).windows("S006").x, before.x)
    back = HARTH(root, sensor="back").windows("S006")
    assert not np.array_equal(back.x, before.x)
    assert len(HARTH(root).windows("S006", stride_s=2.0)) == 5
    harth_table(np.repeat([6, 7], 150)).to_csv(root / "S006.csv", index=False)
    assert len(HARTH(root).windows("S006")) == 5  # 6 s


def test_info_describes_each_subject(harth):
    progress = []
    rows = list(info(HARTH(harth[0]), on_subject=lambda done, subject: progress.append((done, subject))))
    assert progress == [(1, "S006"), (2, "S015"), (3, "S021")]
    assert rows[0]["windows"] == 9
    assert sum(rows[0]["labels"].values()) + rows[0]["unlabelled"] == 9
    assert rows[0]["seconds"] == 9.0
    assert rows[0]["gaps"] == 0
    assert rows[0]["facts"]["samples"] == 500


def test_windows_of_an_object_that_is_not_a_dataset():
    class Bare:
        """Only the attributes that `windows_of` requires."""

        def __init__(self):
            self._of = Synthetic(hours=0.05)
            for fact in ("name", "classes", "channels", "units", "rate_hz", "window_s", "stride_s", "max_gap_s"):
                setattr(self, fact, getattr(self._of, fact))

        def subjects(self):
            return ("W01",)

        def recordings(self, subject):
            return self._of.recordings(subject)

    windows = windows_of(Bare(), "W01", unlabelled="drop")
    assert windows.x.shape[1:] == (6, 100)
    assert next(info(Bare()))["windows"] == len(windows_of(Bare(), "W01"))


def test_datasets_can_be_pickled(harth):
    dataset = HARTH(zipped(harth[0]))
    expected = dataset.windows("S006", cache=False)
    again = pickle.loads(pickle.dumps(dataset))
    np.testing.assert_array_equal(again.windows("S006", cache=False).x, expected.x)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"protocol": "x"}, "protocol 'stream' or 'ucihar'"),
        ({"acc": "foo"}, "acc 'total_acc' or 'body_acc'"),
        ({"transitions": "false"}, "transitions yes or no"),
        ({"protokol": "ucihar"}, "Did you mean 'protocol'"),
    ],
)
def test_options_are_checked_in_python_as_on_the_command_line(options, words):
    with pytest.raises(ValueError, match=words):
        load("hapt", **options)


def test_a_subject_that_is_no_text_is_refused():
    with pytest.raises(ValueError, match="subjects are text; expected '1', got 1"):
        load("synthetic").windows(1)
